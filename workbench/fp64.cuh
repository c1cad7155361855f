// FP64 arithmetic for the 32-bit edition, as Kim's thesis (2025) tried it: residues are 32-bit words at rest and doubles within a kernel.
// A build with -DHELIOGRAPH_WORKBENCH_FP64 takes it for the transforms and the sums of limbs of the product (src/backend/cuda/ring);
// conversions between bases and the composites stay in integers. The tables are Field32's, and so are the results, to the bit.
#pragma once

#include "backend/cuda/ring/field.cuh"

namespace heliograph::backend::cuda {

/// Values are doubles that hold integers, as Field50's. With |a| <= 4q and 0 <= w < q < 2^30, b = a w / q rounded is below 2^32, so
/// that a product is at most q/2 and 2^-19 q in magnitude. A forward round of four stages ends below 3.9q from any input below 4q.
struct FieldFp64 {
  using Word = u32;
  using Value = double;
  using Stored = u32;
  using Constant = Field32::Constant;
  using Prime = Field32::Prime;

  /// No casts: the bits of 2^52 + w, less 2^52.
  static __device__ __forceinline__ Value load(Word w) {
    return __dadd_rn(__hiloint2double(0x43300000, static_cast<int>(w)), -Field50::kWhole);
  }
  static __device__ __forceinline__ Word word(Value a) {  // 0 <= a < 2^32
    return static_cast<Word>(__double2loint(__dadd_rn(a, Field50::kWhole)));
  }
  static __device__ __forceinline__ double quotient(double h, const Prime& p) {
    return __dadd_rn(__fma_rn(h, p.inverse, Field50::kRound), -Field50::kRound);
  }
  static __device__ __forceinline__ Value reduce(Value a, const Prime& p) { return __fma_rn(-quotient(a, p), load(p.q), a); }
  static __device__ __forceinline__ Value mul(Value a, Value w, const Prime& p) {
    const double h = __dmul_rn(a, w), l = __fma_rn(a, w, -h);
    return __dadd_rn(__fma_rn(-quotient(h, p), load(p.q), h), l);
  }
  static __device__ __forceinline__ Value mul(Value a, Constant c, const Prime& p) { return mul(a, load(c.w), p); }
  static __device__ __forceinline__ Value mul_reduced(Value a, Value b, const Prime& p) { return mul(a, b, p); }
  /// |a| up to 4q to canonical.
  static __device__ __forceinline__ Word canonical(Value a, const Prime& p) {
    const double r = reduce(a, p);
    return word(r < 0 ? __dadd_rn(r, load(p.q)) : r);
  }
  // Between two passes: reduced, so that the sign has a bit, and as far above zero as negative words are below.
  static __device__ __forceinline__ Stored store(Value a, const Prime& p) {
    return static_cast<Stored>(__double2loint(__dadd_rn(reduce(a, p), Field50::kRound))) ^ 0x80000000U;
  }
  static __device__ __forceinline__ Value restore(Stored s) { return __dadd_rn(load(s), -2147483648.0); }

  static __device__ __forceinline__ void forward(Value& u, Value& v, Constant w, const Prime& p, bool reduce_u) {
    const double x = reduce_u ? reduce(u, p) : u, y = mul(v, w, p);
    u = __dadd_rn(x, y);
    v = __dadd_rn(x, -y);
  }
  static __device__ __forceinline__ void inverse(Value& u, Value& v, Constant w, const Prime& p, bool reduce_sum) {
    const double s = __dadd_rn(u, v), d = __dadd_rn(u, -v);
    u = reduce_sum ? reduce(s, p) : s;
    v = mul(d, w, p);
  }
  static __device__ __forceinline__ void inverse_last(Value& u, Value& v, const Prime& p) {
    const double s = __dadd_rn(u, v), d = __dadd_rn(u, -v);
    u = mul(s, p.n_inverse, p);
    v = mul(d, p.last, p);
  }
};

template <class F>
struct KeySum;
template <>
struct KeySum<FieldFp64> {
  double sum;  // q/2 after a fold, and as much for each product
  __device__ __forceinline__ void start() { sum = 0; }
  __device__ __forceinline__ void add(double x, double k, const FieldFp64::Prime& p) {
    sum = __dadd_rn(sum, FieldFp64::mul_reduced(x, k, p));
  }
  __device__ __forceinline__ void fold(const FieldFp64::Prime& p) { sum = FieldFp64::reduce(sum, p); }
  __device__ __forceinline__ double finish(const FieldFp64::Prime&) { return sum; }
};

/// What computes for a field.
template <class F>
struct ArithmeticOf {
  using Type = F;
};
template <>
struct ArithmeticOf<Field32> {
  using Type = FieldFp64;
};

}  // namespace heliograph::backend::cuda
