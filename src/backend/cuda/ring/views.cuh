// Operands of kernels, passed by value. Batch axes are merged if their strides allow it.
#pragma once

#include "backend/cuda/ring/field.cuh"
#include "device/device.h"

namespace heliograph::backend::cuda {

using device::PrimeList;
using device::Queue;
using device::View;

/// A divisor that is known at launch. A multiplication and a shift replace the division (Granlund, Montgomery 1994), for
/// dividends below 2^31.
struct Divisor {
  u32 value = 1, magic = 1, shift = 0;

  Divisor() = default;
  explicit Divisor(u32 divisor) : value(divisor) {
    while (shift < 31 && (u32{1} << shift) < divisor) ++shift;
    magic = static_cast<u32>((((u64{1} << shift) - divisor) << 32) / (divisor ? divisor : 1) + 1);
  }
  __device__ __forceinline__ u32 divide(u32& dividend) const {
    const u32 quotient = (__umulhi(dividend, magic) + dividend) >> shift;
    dividend -= quotient * value;
    return quotient;
  }
};

/// Addresses of the polynomials of a view, by batch item and component.
struct Strided {
  std::byte* data;
  u32 axes, word_bytes;
  Divisor shape[device::kMaxAxes];
  math::i64 stride[device::kMaxAxes];  // strides in words; negative if the axis is reversed
  u64 component, limb;                 // strides in words
};

Strided strided(const device::View& v);
/// Returns log2 of the number of words that one word of `v` serves, in a limb of n words.
u32 run_shift(const device::View& v, std::size_t n);

template <class T>
__device__ __forceinline__ T* limb_of(const Strided& v, u32 item, u32 component, u32 limb) {
  auto offset = static_cast<math::i64>(component * v.component + limb * v.limb);
#pragma unroll 1
  for (u32 i = v.axes; i-- > 1;) {
    u32 at = item;
    item = v.shape[i].divide(at);
    offset += at * v.stride[i];
  }
  if (v.axes) offset += item * v.stride[0];
  return reinterpret_cast<T*>(v.data) + offset;
}

struct Primes {
  math::PrimeIndex index[device::kMaxLimbs];
};
Primes primes_of(const device::PrimeList& list);

/// Maps a block index to a call's item, component, limb, and part of a limb.
struct Grid {
  Divisor parts, components, items, limbs;

  Grid(u32 parts_a_limb, const device::View& v)
      : parts(parts_a_limb),
        components(static_cast<u32>(v.components)),
        items(static_cast<u32>(v.items())),
        limbs(static_cast<u32>(v.limbs)) {}
  u64 blocks() const { return u64{parts.value} * components.value * items.value * limbs.value; }
};
struct At {
  u32 part, component, item, limb;
};
/// Components vary fastest, then items, then parts, so that blocks with the same twiddles are neighbours.
__device__ __forceinline__ At locate(const Grid& g, u32 block) {
  At at;
  at.component = block, block = g.components.divide(at.component);
  at.item = block, block = g.items.divide(at.item);
  at.part = block, at.limb = g.parts.divide(at.part);
  return at;
}
/// Parts vary fastest, then limbs, then components, in the order of memory.
__device__ __forceinline__ At locate_in_order(const Grid& g, u32 block) {
  At at;
  at.part = block, block = g.parts.divide(at.part);
  at.limb = block, block = g.limbs.divide(at.limb);
  at.component = block, at.item = g.components.divide(at.component);
  return at;
}

}  // namespace heliograph::backend::cuda
