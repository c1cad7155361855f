// The function that every kernel calls first.
#pragma once

#include "math/modulus.h"

namespace heliograph::backend::cuda {

using math::u32;
using math::u64;

/// Waits until earlier work in the queue is complete and visible. Every kernel must call this function first, because
/// programmatic dependent launch may start a kernel before earlier ones end.
__device__ __forceinline__ void take_turn() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace heliograph::backend::cuda
