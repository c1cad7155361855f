// Shared parts of element-wise kernels: block positions, packs of words, and several accesses of a thread in flight.
#pragma once

#include "backend/cuda/ring/launch.cuh"

namespace heliograph::backend::cuda {

/// Words that a thread loads at once.
template <class Word, u32 COUNT>
struct alignas(COUNT * sizeof(Word)) Packed {
  Word at[COUNT];
};

/// Position of a block in its call, with the prime of its limb.
template <class Prime>
struct Place {
  At at;
  Prime prime;
};
template <class Arguments>
__device__ __forceinline__ auto place_of(const Arguments& g) {
  const At at = locate_in_order(g.grid, blockIdx.x);
  return Place<std::remove_cvref_t<decltype(*g.table)>>{at, g.table[g.primes.index[at.limb]]};
}

/// Calls body(k, i) for this thread's COUNT positions i < `end` of a part of a limb; k counts them. A part has THREADS *
/// COUNT positions; adjacent threads have adjacent positions.
template <u32 COUNT, u32 THREADS, class Body>
__device__ __forceinline__ void each_position(u32 part, u32 end, Body body) {
  const u32 first = part * THREADS * COUNT + threadIdx.x;
#pragma unroll
  for (u32 k = 0; k < COUNT; ++k) {
    const u32 i = first + k * THREADS;
    if (i < end) body(k, i);
  }
}

}  // namespace heliograph::backend::cuda
