// What every kernel begins with.
#pragma once

#include "math/modulus.h"

namespace heliograph::backend::cuda {

using math::u32;
using math::u64;

/// The first statement of every kernel: what went before it in its queue is done and visible. The kernel may have been set
/// up before that (programmatic dependent launch).
__device__ __forceinline__ void take_turn() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace heliograph::backend::cuda
