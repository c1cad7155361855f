// Operands as kernels see them: passed by value, batch axes collapsed where their strides allow it.
#pragma once

#include "backend/cuda/field.cuh"
#include "device/device.h"

namespace heliograph::backend::cuda {

using device::PrimeList;
using device::Queue;
using device::View;

/// Where a polynomial lies: an item of a batch, a component.
struct Strided {
  std::byte* data;
  u32 axes, word_bytes;
  u32 shape[device::kMaxAxes];
  u64 stride[device::kMaxAxes];  // words
  u64 component, limb;           // words
};

Strided strided(const device::View& v);

template <class T>
__device__ __forceinline__ T* limb_of(const Strided& v, u32 item, u32 component, u32 limb) {
  u64 offset = component * v.component + limb * v.limb;
#pragma unroll 1
  for (u32 i = v.axes; i-- > 1;) {
    offset += item % v.shape[i] * v.stride[i];
    item /= v.shape[i];
  }
  if (v.axes) offset += item * v.stride[0];
  return reinterpret_cast<T*>(v.data) + offset;
}

/// A list of primes, by value.
struct Primes {
  math::PrimeIndex index[device::kMaxLimbs];
};
Primes primes_of(const device::PrimeList& list);

/// Items times components times limbs of a call, counted by one block index: component fastest, then item, then limb, so
/// that blocks of one prime share its tables in the caches.
struct Grid {
  u32 parts, components, items, limbs;

  Grid(u32 parts_a_limb, const device::View& v)
      : parts(parts_a_limb),
        components(static_cast<u32>(v.components)),
        items(static_cast<u32>(v.items())),
        limbs(static_cast<u32>(v.limbs)) {}
  u64 blocks() const { return u64{parts} * components * items * limbs; }
};
struct At {
  u32 part, component, item, limb;
};
/// `part` slowest but for the limb: polynomials that share a stretch of twiddles are neighbours.
__device__ __forceinline__ At locate(const Grid& g, u32 block) {
  At at;
  at.component = block % g.components, block /= g.components;
  at.item = block % g.items, block /= g.items;
  at.part = block % g.parts;
  at.limb = block / g.parts;
  return at;
}
/// `part` fastest: neighbours in memory.
__device__ __forceinline__ At locate_in_order(const Grid& g, u32 block) {
  At at;
  at.part = block % g.parts, block /= g.parts;
  at.limb = block % g.limbs, block /= g.limbs;
  at.component = block % g.components;
  at.item = block / g.components;
  return at;
}

}  // namespace heliograph::backend::cuda
