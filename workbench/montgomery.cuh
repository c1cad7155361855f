// Field32's rival: 30-bit primes with Montgomery products. A twiddle is one word, w 2^32 mod q; values stay plain residues,
// so that a product by a twiddle is one reduction. Of the same static face as the backend's fields.
#pragma once

#include "backend/cuda/transform.cuh"

namespace workbench {

using heliograph::math::u32;
using heliograph::math::u64;

struct FieldMontgomery {
  using Word = u32;
  using Value = u32;
  struct Constant {
    u32 w;  // w 2^32 mod q
  };
  struct Prime {
    u32 q, minus_inverse;  // -1/q mod 2^32
    Constant square;       // 2^32, so that a product by it undoes a reduction
    Constant n_inverse, last;
  };

  static __device__ __forceinline__ u32 least(u32 a, u32 b) { return a < b ? a : b; }
  static __device__ __forceinline__ Value load(Word w) { return w; }
  /// t / 2^32 for t below 2^32 q; below 2q.
  static __device__ __forceinline__ Value reduce_wide(u64 t, const Prime& p) {
    const u32 m = static_cast<u32>(t) * p.minus_inverse;
    return static_cast<u32>((t + u64{m} * p.q) >> 32);
  }
  static __device__ __forceinline__ Value mul(Value a, Constant c, const Prime& p) {  // any a; below 2q
    return reduce_wide(u64{a} * c.w, p);
  }
  static __device__ __forceinline__ Word canonical(Value a, const Prime& p) {
    a = least(a, a - 2 * p.q);
    return least(a, a - p.q);
  }
  static __device__ __forceinline__ void forward(Value& u, Value& v, Constant w, const Prime& p, bool) {
    const Value x = least(u, u - 2 * p.q), y = mul(v, w, p);
    u = x + y;
    v = x - y + 2 * p.q;
  }
  static __device__ __forceinline__ void inverse(Value& u, Value& v, Constant w, const Prime& p, bool) {
    const Value s = u + v;
    v = mul(u - v + 2 * p.q, w, p);
    u = least(s, s - 2 * p.q);
  }
  static __device__ __forceinline__ void inverse_last(Value& u, Value& v, const Prime& p) {
    const Value s = u + v;
    v = mul(u - v + 2 * p.q, p.last, p);
    u = mul(s, p.n_inverse, p);
  }
  static __device__ __forceinline__ Value reduce(Value a, const Prime& p) { return canonical(a, p); }
  /// Plain canonical factors, plain canonical result: two reductions. A key kept in Montgomery form would need one.
  static __device__ __forceinline__ Value mul_reduced(Value a, Value b, const Prime& p) {
    return canonical(mul(reduce_wide(u64{a} * b, p), p.square, p), p);
  }
  static __device__ __forceinline__ Value add_reduced(Value a, Value b, const Prime& p) { return least(a + b, a + b - p.q); }
};

}  // namespace workbench

namespace heliograph::backend::cuda {

/// One or two constants of four bytes: the backend's own have eight at least.
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
