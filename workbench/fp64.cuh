// FP64 arithmetic for 32-bit words, as in Kim's thesis (2025): residues are stored as 32-bit words and are doubles within a kernel.
// A build with -DHELIOGRAPH_WORKBENCH_FP64 uses it for the product's transforms and sums of limbs (src/backend/cuda/ring). Base
// conversions and composite kernels use integers. Tables and results equal Field32's, bit for bit.
#pragma once

#include "backend/cuda/ring/field.cuh"

namespace heliograph::backend::cuda {

/// Values are integers in doubles, as in Field50. For |a| <= 4q and 0 <= w < q < 2^30, round(a w / q) is below 2^32, so a product
/// is at most q/2 + 2^-19 q in magnitude. A forward round of four stages maps inputs below 4q to outputs below 3.9q.
struct FieldFp64 {
  using Word = u32;
  using Value = double;
  using Stored = u32;
  using Constant = Field32::Constant;
  using Prime = Field32::Prime;

  /// Converts without a cast: the bits of 2^52 + w, minus 2^52.
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
  /// Maps |a| up to 4q to the canonical residue.
  static __device__ __forceinline__ Word canonical(Value a, const Prime& p) {
    const double r = reduce(a, p);
    return word(r < 0 ? __dadd_rn(r, load(p.q)) : r);
  }
  // Between two passes: reduced to a signed 32-bit integer, stored with bias 2^31.
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
  double sum;  // magnitude at most q/2 after a fold; each product adds at most q/2
  __device__ __forceinline__ void start() { sum = 0; }
  __device__ __forceinline__ void add(double x, double k, const FieldFp64::Prime& p) {
    sum = __dadd_rn(sum, FieldFp64::mul_reduced(x, k, p));
  }
  __device__ __forceinline__ void fold(const FieldFp64::Prime& p) { sum = FieldFp64::reduce(sum, p); }
  __device__ __forceinline__ double finish(const FieldFp64::Prime&) { return sum; }
};

/// The arithmetic of a field's kernels.
template <class F>
struct ArithmeticOf {
  using Type = F;
};
template <>
struct ArithmeticOf<Field32> {
  using Type = FieldFp64;
};

}  // namespace heliograph::backend::cuda
