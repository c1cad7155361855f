// Tables of a conversion (math/conversion.h) and the sums of products it makes, in each field.
#pragma once

#include "backend/cuda/ring/field.cuh"

namespace heliograph::backend::cuda {

inline constexpr u32 kTargetTile = 4;  // targets a thread sums at once

template <class F>
struct ConversionSource {
  typename F::Prime p;
  typename F::Constant inverse;
  u64 fraction;
};
template <class F>
struct ConversionTarget {
  typename F::Prime p;
};
/// The matrix has a row for each source, then one of `wrap`, then one of `own`; rows are padded to whole tiles.
__host__ __device__ inline u32 padded_targets(u32 targets) {
  return (targets + kTargetTile - 1) / kTargetTile * kTargetTile;
}

/// A sum of products reduced once: Sum<F>::add(value, factor), at most kSteps of them between two folds.
template <class F>
struct Sum;

template <>
struct Sum<Field32> {
  static constexpr int kSteps = 8;
  u64 sum;  // below 2^63 after a fold
  __device__ __forceinline__ void start() { sum = 0; }
  __device__ __forceinline__ void add(u32 y, u32 m) { sum += u64{y} * m; }
  __device__ __forceinline__ void fold(const Field32::Prime& p) { sum = least(sum, sum - p.fold); }
  __device__ __forceinline__ u32 finish(const Field32::Prime& p) {
    const u64 quotient = __umul64hi(sum, p.mu64);
    return Field32::canonical(static_cast<u32>(sum - quotient * p.q), p);
  }
};

/// |y|, |m| <= 2^49: the rounded high parts gather in `high` above an offset whose last place is 2^50, what each rounding
/// left, exact, in `low`.
template <>
struct Sum<Field50> {
  static constexpr int kSteps = 8;
  static constexpr double kOffset = 7605903601369376408980219232256.0;  // 1.5 2^102
  double high, low;
  __device__ __forceinline__ void start() { high = kOffset, low = 0; }
  __device__ __forceinline__ void add(double y, double m) {
    const double next = __fma_rn(y, m, high);
    low = __dadd_rn(low, __fma_rn(y, m, -__dadd_rn(next, -high)));
    high = next;
  }
  __device__ __forceinline__ void fold(const Field50::Prime& p) {
    low = Field50::reduce(__dadd_rn(Field50::reduce(__dadd_rn(high, -kOffset), p), low), p);
    high = kOffset;
  }
  __device__ __forceinline__ double finish(const Field50::Prime& p) {  // canonical
    fold(p);
    return Field50::positive(low, p);
  }
};

template <>
struct Sum<Field60> {
  static constexpr int kSteps = 1 << 7;  // 2^120 each
  u64 high, low;
  __device__ __forceinline__ void start() { high = low = 0; }
  __device__ __forceinline__ void add(u64 y, u64 m) {
    const u64 l = y * m;
    low += l;
    high += __umul64hi(y, m) + (low < l);
  }
  __device__ __forceinline__ void fold(const Field60::Prime&) {}
  __device__ __forceinline__ u64 finish(const Field60::Prime& p) { return Field60::reduce128(high, low, p); }
};

}  // namespace heliograph::backend::cuda
