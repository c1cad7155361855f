// Tables of a conversion (math/conversion.h), and its sums of products, in each field.
#pragma once

#include "backend/cuda/ring/field.cuh"

namespace heliograph::backend::cuda {

inline constexpr u32 kTargetTile = 4;  // targets that a thread sums at once

template <class F>
struct ConversionSource {
  typename F::Prime p;
  typename F::Constant inverse;
  u64 fraction;  // if the shift is 52, the fraction times 2^12, so that the product's high half is the shifted value
};
template <class F>
struct ConversionTarget {
  typename F::Prime p;
};
template <>
struct ConversionTarget<Field50> {
  Field50::Prime p;
  Field50::Constant own;
};
/// In integer fields the matrix has a row for each source, then a row of `wrap`, then a row of `own`. Rows are padded to
/// whole tiles.
__host__ __device__ inline u32 padded_targets(u32 targets) {
  return (targets + kTargetTile - 1) / kTargetTile * kTargetTile;
}

/// Field50 has a matrix of real numbers, for FP64 matrix units (conversion50.cu). With B = 2^25, y = y1 B + y0, m = h B + l,
/// and m B mod p = h' B + l':
///   sum of y m = (sum of y1 h' + y0 h) B + (sum of y1 l' + y0 l)  mod p
/// All of y1, y0, h, l, h', l' are integers of magnitude at most 2^24. A source has two columns, for y1 and y0; `wrap` has
/// one column. Four columns form a step, eight targets a tile. For each step, thread i of a warp holds the pair (h, l) of
/// target i / 4 and column i % 4.
inline constexpr double kPiece = 33554432.0;  // the B of the formula, 2^25
inline constexpr u32 kMatrixTile = 8, kMatrixStep = 4;
__host__ __device__ constexpr u32 matrix_steps(u32 sources) { return (2 * sources + 1 + kMatrixStep - 1) / kMatrixStep; }
__host__ __device__ constexpr u32 matrix_tiles(u32 targets) { return (targets + kMatrixTile - 1) / kMatrixTile; }

/// A sum of products that is reduced once. At most kSteps calls of Sum<F>::add(value, factor) may follow each other without
/// a fold.
template <class F>
struct Sum;

template <>
struct Sum<Field32> {
  static constexpr int kSteps = 8;
  u64 sum;  // a residue below 2^63 after a fold
  __device__ __forceinline__ void start() { sum = 0; }
  __device__ __forceinline__ void add(u32 y, u32 m) { sum += u64{y} * m; }
  __device__ __forceinline__ void fold(const Field32::Prime& p) { sum = least(sum, sum - p.fold); }
  __device__ __forceinline__ u32 finish(const Field32::Prime& p) {
    const u64 quotient = __umul64hi(sum, p.mu64);
    return Field32::canonical(static_cast<u32>(sum - quotient * p.q), p);
  }
};

template <>
struct Sum<Field60> {
  static constexpr int kSteps = 1 << 7;  // number of products, each at most 2^120
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
