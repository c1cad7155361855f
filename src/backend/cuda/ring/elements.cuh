// What element-wise kernels share: where a block works, packs of words, and several accesses of a thread in flight.
#pragma once

#include "backend/cuda/ring/launch.cuh"

namespace heliograph::backend::cuda {

/// What a thread loads at once.
template <class Word, u32 COUNT>
struct alignas(COUNT * sizeof(Word)) Packed {
  Word at[COUNT];
};

/// A block's place in its call, and its prime.
template <class Prime>
struct Place {
  At at;
  Prime prime;
};
/// `g` has a grid, primes and their table.
template <class Arguments>
__device__ __forceinline__ auto place_of(const Arguments& g) {
  const At at = locate_in_order(g.grid, blockIdx.x);
  return Place<std::remove_cvref_t<decltype(*g.table)>>{at, g.table[g.primes.index[at.limb]]};
}

/// body(k, i) for the k-th of a thread's COUNT positions i in that part of a limb, as far as they lie below `end`. A part has
/// COUNT positions of each of a block's THREADS; neighbours are neighbours.
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
