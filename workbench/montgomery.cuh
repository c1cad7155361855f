// Montgomery arithmetic for 30-bit primes, the alternative to Field32. A twiddle is one word, w 2^32 mod q. Values are plain residues, so
// a product by a twiddle needs one reduction. Same static interface as the backend's fields.
#pragma once

#include "backend/cuda/ring/transform.cuh"

namespace workbench {

using heliograph::math::u32;
using heliograph::math::u64;

struct FieldMontgomery : heliograph::backend::cuda::LazyField<FieldMontgomery, u32> {
  struct Constant {
    u32 w;  // w 2^32 mod q
  };
  struct Prime {
    u32 q, minus_inverse;  // -1/q mod 2^32
    Constant square;       // 2^32 mod q as a constant; a product by it cancels a reduction's factor
    Constant n_inverse, last;
  };

  /// Returns t / 2^32 mod q, below 2q, for t below 2^32 q.
  static __device__ __forceinline__ Value reduce_wide(u64 t, const Prime& p) {
    const u32 m = static_cast<u32>(t) * p.minus_inverse;
    return static_cast<u32>((t + u64{m} * p.q) >> 32);
  }
  static __device__ __forceinline__ Value mul(Value a, Constant c, const Prime& p) {  // any a; result below 2q
    return reduce_wide(u64{a} * c.w, p);
  }
  /// Plain canonical factors and result, two reductions. A key in Montgomery form would need one.
  static __device__ __forceinline__ Value mul_reduced(Value a, Value b, const Prime& p) {
    return canonical(mul(reduce_wide(u64{a} * b, p), p.square, p), p);
  }
};

}  // namespace workbench

namespace heliograph::backend::cuda {

/// Loads one or two four-byte constants; the backend's own loads take at least eight bytes.
template <>
__device__ __forceinline__ void load_constants<workbench::FieldMontgomery, 1>(
    const workbench::FieldMontgomery::Constant* from, workbench::FieldMontgomery::Constant (&to)[1]) {
  to[0].w = __ldg(&from->w);
}
template <>
__device__ __forceinline__ void load_constants<workbench::FieldMontgomery, 2>(
    const workbench::FieldMontgomery::Constant* from, workbench::FieldMontgomery::Constant (&to)[2]) {
  const uint2 pair = __ldg(reinterpret_cast<const uint2*>(from));
  to[0].w = pair.x;
  to[1].w = pair.y;
}

}  // namespace heliograph::backend::cuda
