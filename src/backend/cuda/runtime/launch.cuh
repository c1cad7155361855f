// Typed launches of kernels through the driver.
#pragma once

#include "backend/cuda/runtime/device.h"
#include "backend/cuda/runtime/turn.cuh"

namespace heliograph::backend::cuda {

/// `name` is the call's name in device/call.h, for errors.
template <class... A>
void launch(device::Queue& queue, const char* name, void (*kernel)(A...), u64 blocks, unsigned threads, std::size_t shared,
            const std::type_identity_t<A>&... arguments) {
  require<ShapeError>(blocks < u64{1} << 31, "a call is too large for a GPU launch; split the batch");
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  own(queue).launch({.kernel = name,
                     .function = reinterpret_cast<const void*>(kernel),
                     .blocks = static_cast<unsigned>(blocks),
                     .threads = threads,
                     .shared_bytes = shared,
                     .arguments = pointers});
}

}  // namespace heliograph::backend::cuda
