// A conversion between two column passes, in one kernel: the inverse column pass of the sources, the formula of
// math/conversion.h, and the forward column pass of the targets. The coefficients stay in registers and shared memory. A
// block has a few columns of all sources, so each source is read once and each target is written once.
#pragma once

#include "backend/cuda/ring/conversion_pass.cuh"
#include "backend/cuda/ring/ntt.cuh"

namespace heliograph::backend::cuda {

inline constexpr u32 kFusedColumns = 8;   // columns of a block
inline constexpr u32 kFusedSources = 6;   // maximum sources, because shared memory holds them
inline constexpr u32 kFusedTargets = 16;  // maximum targets; with more, the products of a scalar sum take longer than memory
/// Least blocks of a launch. A block computes all targets, so small calls would not fill a GPU.
inline constexpr u64 kFusedBlocks = 512;

/// Columns in shared memory with padding after each 16 points, so that strides of 16 points use every bank.
struct FusedLayout {
  static constexpr int kTogether = 1;
  int column;
  static constexpr std::size_t words(int points) { return static_cast<std::size_t>(points + points / 16) * kFusedColumns; }
  __device__ __forceinline__ int at(int point) const {
    return (point + (point >> 4)) * static_cast<int>(kFusedColumns) + column;
  }
  static __device__ __forceinline__ void sync() { __syncthreads(); }
};

struct ColumnConversion {
  Strided in, out;  // rows of the sources, rows of the targets
  Grid grid;        // a part has kFusedColumns columns; a block has all limbs
  Primes from, to;
  const Field50::Prime* table;
  const double *inverse, *forward;  // twiddles
  ConversionStep<Field50> step;
  u32 n;
};

template <int L>
struct FusedShape {
  using T = Transform<Field50, L>;
  static constexpr u32 kThreads = T::kThreads * kFusedColumns;
  static constexpr std::size_t bytes(u32 sources) {
    return (FusedLayout::words(1 << L) + std::size_t{sources} * T::kEach * kThreads) * sizeof(double);
  }
};

/// Returns the constant of a column of the matrix (conversion.cuh) for one target: h B + l.
__device__ __forceinline__ double matrix_entry(const ConversionStep<Field50>& s, u32 target, u32 column) {
  const u32 steps = matrix_steps(s.n_sources), thread = target % kMatrixTile * kMatrixStep + column % kMatrixStep;
  const u32 at = (target / kMatrixTile * steps + column / kMatrixStep) * 32 + thread;
  const double2 pair = __ldg(reinterpret_cast<const double2*>(s.matrix) + at);
  return __fma_rn(pair.x, kPiece, pair.y);
}

template <int L>
__global__ void __launch_bounds__(FusedShape<L>::kThreads, 2)
    convert_columns_kernel(const __grid_constant__ ColumnConversion a) {
  take_turn();
  using F = Field50;
  using T = Transform<F, L>;
  constexpr int kEachThread = T::kEach;
  extern __shared__ __align__(16) unsigned char raw[];
  auto* const exchange = reinterpret_cast<double*>(raw);
  // The products y of this thread's points: [source][point][thread].
  double* const kept = exchange + FusedLayout::words(1 << L) + threadIdx.x;
  const ConversionStep<F>& s = a.step;
  const At at = locate_in_order(a.grid, blockIdx.x);
  const FusedLayout layout{static_cast<int>(threadIdx.x % kFusedColumns)};
  const int t = static_cast<int>(threadIdx.x / kFusedColumns);
  const u32 column = at.part * kFusedColumns + static_cast<u32>(layout.column);
  const auto keep = [&](u32 source, int r) -> double& {
    return kept[(source * kEachThread + static_cast<u32>(r)) * FusedShape<L>::kThreads];
  };
  typename T::Values v;
  u64 turns[kEachThread];
  const u64 one = u64{1} << s.bits, mask = s.rounded ? ~u64{0} : 0;
#pragma unroll
  for (int r = 0; r < kEachThread; ++r) turns[r] = s.rounded ? one / 2 : 0;
#pragma unroll 1
  for (u32 k = 0; k < s.n_sources; ++k) {
    const u32 prime = a.from.index[k];
    const F::Prime p = a.table[prime];
    const double* const in = limb_of<double>(a.in, at.item, at.component, k) + column;
    T::each_last(t, [&](int r, int point) { v[0][r] = in[static_cast<u32>(point) * kRow]; });
    if (k > 0) FusedLayout::sync();  // other threads may still read the exchanged points of the previous source
    T::template inverse<true>(v, t, 1, a.inverse + u64{prime} * a.n, p, exchange, layout);
    const ConversionSource<F>& source = s.sources[k];
    const double factor = source.inverse;
#pragma unroll
    for (int r = 0; r < kEachThread; ++r) {
      const double x = F::positive(F::reduce(v[0][r], p), p), y = F::mul(x, factor, p);
      const u64 turn = turn_of<false>(s, source, F::word(F::positive(y, p)));
      turns[r] += (turn & mask) - (y < 0 ? one : 0);
      keep(k, r) = y;
    }
  }
  // The number of whole turns, as in Taking (conversion50.cu): centring y subtracts one.
#pragma unroll 1
  for (u32 j = 0; j < s.n_targets; ++j) {
    const u32 prime = a.to.index[j];
    const F::Prime p = a.table[prime];
    const double wrap = matrix_entry(s, j, 2 * s.n_sources);
#pragma unroll
    for (int r = 0; r < kEachThread; ++r) {
      const double whole = static_cast<double>(static_cast<int>(static_cast<math::i64>(turns[r]) >> s.bits));
      v[0][r] = F::mul(whole, wrap, p);
    }
#pragma unroll 1
    for (u32 k = 0; k < s.n_sources; ++k) {
      const double m = matrix_entry(s, j, 2 * k + 1);
#pragma unroll
      for (int r = 0; r < kEachThread; ++r) v[0][r] = __dadd_rn(v[0][r], F::mul(keep(k, r), m, p));
    }
#pragma unroll
    for (int r = 0; r < kEachThread; ++r) v[0][r] = F::reduce(v[0][r], p);
    FusedLayout::sync();  // other threads may still read the exchanged points of the previous limb
    T::forward(v, t, 1, a.forward + u64{prime} * a.n, p, exchange, layout);
    double* const out = limb_of<double>(a.out, at.item, at.component, j) + column;
    T::each_last(t, [&](int r, int point) { out[static_cast<u32>(point) * kRow] = v[0][r]; });
  }
}

}  // namespace heliograph::backend::cuda
