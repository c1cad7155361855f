// The formula of math/conversion.h in Field50, on FP64 matrix units. The sums of products are one product of real matrices
// (conversion.cuh), which is exact because each sum stays below 2^53. Each warp has its own coefficients, one for each lane
// while it reads sources, and its own shared memory for a factor of the products.
#include <algorithm>

#include "backend/cuda/ring/conversion_pass.cuh"

namespace heliograph::backend::cuda {

namespace {

using F = Field50;
using Step = ConversionStep<F>;

constexpr u32 kWarps = kConversionThreads / 32;
constexpr u32 kStride = 32 + 4;  // row length in words: the four rows that a lane reads are in different banks
constexpr u32 kGroups = 32 / 8;  // groups of eight coefficients
/// Steps between two folds: 14 sources with two products of 2^48 each, added to a residue of 2^49.
constexpr u32 kSteps = 7;
constexpr u32 kAhead = 5;        // sources whose loads are in flight
constexpr u32 kFewWarps = 2048;  // with fewer warps, several warps read the same sources and divide the tiles of targets

constexpr u32 rows_of(u32 sources) { return matrix_steps(sources) * kMatrixStep; }

/// Reads the sources in order, writes the pieces y1 and y0 of each to `rows`, and v at the end.
template <bool SHIFTED>
class Taking {
 public:
  __device__ __forceinline__ Taking(const Step& s, double* rows)
      : s_(s), at_(rows + threadIdx.x % 32), all_(s.rounded ? u64{1} << (s.bits - 1) : 0) {}

  /// Processes all sources; `load(k)` returns x of source k. Centring y subtracts one from v, because f_i * matrix_ji =
  /// -wrap_j.
  template <class Load>
  __device__ __forceinline__ void take(Load load) {
    const u64 one = u64{1} << s_.bits, mask = s_.rounded ? ~u64{0} : 0;
    for (u32 k = 0; k < s_.n_sources; k += kAhead) {
      double x[kAhead];
#pragma unroll
      for (u32 m = 0; m < kAhead; ++m) x[m] = load(least(k + m, s_.n_sources - 1));
        // The loop has no branch, so that sources interleave: beyond the end, it loads the last source again and ignores it.
#pragma unroll
      for (u32 m = 0; m < kAhead; ++m) {
        const u32 i = least(k + m, s_.n_sources - 1);
        const ConversionSource<F>& source = s_.sources[i];
        const double y = F::mul(x[m], source.inverse, source.p);
        const u64 turn = turn_of<SHIFTED>(s_, source, F::word(F::positive(y, source.p)));
        all_ += k + m > i ? 0 : (turn & mask) - (y < 0 ? one : 0);
        const double high = __dadd_rn(__fma_rn(y, 1 / kPiece, F::kRound), -F::kRound);
        at_[2 * i * kStride] = high;
        at_[(2 * i + 1) * kStride] = __fma_rn(-kPiece, high, y);
      }
    }
  }
  /// Writes v, and zeros to the other columns of the last step.
  __device__ __forceinline__ void finish() {
    const u32 columns = 2 * s_.n_sources;
    at_[columns * kStride] = static_cast<double>(static_cast<int>(static_cast<long long>(all_) >> s_.bits));
#pragma unroll 1
    for (u32 c = columns + 1; c < rows_of(s_.n_sources); ++c) at_[c * kStride] = 0;
    __syncwarp();
  }

 private:
  const Step& s_;
  double* const at_;
  u64 all_;
};

/// high += h times a column, and low += l times the column, for eight targets and eight coefficients. This thread has the
/// sums of target lane / 4 at coefficient 2 * (lane % 4) and the next. This thread's factor belongs to column lane % 4 and
/// coefficient lane / 4.
__device__ __forceinline__ void multiply_add(double (&high)[kEach], double (&low)[kEach], double2 factor, double piece) {
#if __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+d"(high[0]), "+d"(high[1]), "+d"(low[0]), "+d"(low[1])
      : "d"(factor.x), "d"(factor.y), "d"(piece));
#else
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(high[0]), "+d"(high[1])
      : "d"(factor.x), "d"(piece));
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(low[0]), "+d"(low[1])
      : "d"(factor.y), "d"(piece));
#endif
}

/// Reduces high B + low to about q/2 in magnitude. The result is exact: the quotient is below 2^29, and the difference of h
/// B and the nearest multiple of q is about -low.
__device__ __forceinline__ double residue(double high, double low, const F::Prime& p) {
  const double quotient = F::quotient(__fma_rn(high, kPiece, low), p);
  return __dadd_rn(__fma_rn(-quotient, p.q, __dmul_rn(high, kPiece)), low);
}

struct Sums {
  double high[kGroups][kEach] = {}, low[kGroups][kEach] = {};

  __device__ __forceinline__ void fold(const F::Prime& p) {
#pragma unroll
    for (u32 g = 0; g < kGroups; ++g) {
#pragma unroll
      for (u32 e = 0; e < kEach; ++e) low[g][e] = residue(high[g][e], low[g][e], p), high[g][e] = 0;
    }
  }
  __device__ __forceinline__ void add(double2 factor, const double* piece) {
#pragma unroll
    for (u32 g = 0; g < kGroups; ++g) multiply_add(high[g], low[g], factor, piece[g * 8]);
  }
  __device__ __forceinline__ void add_all(const double2* factors, const double* piece, u32 steps, const F::Prime& p) {
    for (u32 done = 0; done < steps; done += kSteps) {
      if (done > 0) fold(p);
#pragma unroll 2
      for (u32 k = least(kSteps, steps - done); k > 0; --k) {
        add(__ldg(factors), piece);
        factors += 32, piece += kMatrixStep * kStride;
      }
    }
  }
};

/// Calls body(target, number of the pair, residues, prime) for the tiles first, first + step, ...
template <class Begin, class Body>
__device__ __forceinline__ void each_target(const Step& s, const double* rows, u32 first, u32 step, Begin begin, Body body) {
  const u32 lane = threadIdx.x % 32, target = lane / 4, column = lane % 4;
  const u32 steps = matrix_steps(s.n_sources);
  for (u32 tile = first; tile < matrix_tiles(s.n_targets); tile += step) {
    __syncwarp();  // lanes without a target did not finish the previous tile's body
    const u32 j = tile * kMatrixTile + target;
    const F::Prime p = s.targets[j].p;
    Sums sums;
    sums.add_all(reinterpret_cast<const double2*>(s.matrix) + tile * steps * 32 + lane, rows + column * kStride + target,
                 steps, p);
    if (j >= s.n_targets) continue;
    const auto at = begin(j);
#pragma unroll
    for (u32 g = 0; g < kGroups; ++g) {
      Two<double> r;
#pragma unroll
      for (u32 e = 0; e < kEach; ++e) r.at[e] = residue(sums.high[g][e], sums.low[g][e], p);
      body(at, g * 8 + column * kEach, r, p);
    }
  }
}

template <ConversionKind KIND>
__global__ void __launch_bounds__(kConversionThreads, 6) convert50_kernel(const __grid_constant__ ConversionArguments<F> a) {
  take_turn();
  extern __shared__ __align__(16) unsigned char raw[];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 share = blockIdx.x * kWarps + warp;
  const u32 number = a.shares.divide(share);
  if (number >= a.parts) return;
  auto* const rows = reinterpret_cast<double*>(raw) + warp * a.warp_words;
  const ConversionPart<F, KIND> part(a, number);
  const Step& s = part.step;
  Taking<KIND == ConversionKind::plain> sources(s, rows);
  const bool inside = part.inside(lane);
  sources.take([&](u32 k) { return F::load(inside ? part.word(k, lane) : 0); });
  sources.finish();

  const auto begin = [&](u32 j) { return part.target(j); };
  const auto canonical = [&](const auto& target, u32 i, Two<double> r, const F::Prime& p, bool beside) {
    if (beside && part.has_own && part.inside(i)) {
      const Words words = target.beside(i);
      const double factor = s.targets[target.j].own;
#pragma unroll
      for (u32 e = 0; e < kEach; ++e) r.at[e] = F::reduce(__dadd_rn(r.at[e], F::mul(F::load(words.at[e]), factor, p)), p);
    }
#pragma unroll
    for (u32 e = 0; e < kEach; ++e) r.at[e] = F::positive(r.at[e], p);
    return r;
  };
  const auto store = [&](const auto& target, u32 i, const Two<double>& r, const F::Prime& p) {
    target.store(i, canonical(target, i, r, p, KIND == ConversionKind::any), p);
  };
  if constexpr (KIND == ConversionKind::lower) {
    double* const between = rows + a.rows * kStride;  // results between two layouts: [target][kStride]
    each_target(s, rows, 0, 1, begin, [&](const auto& target, u32 i, const Two<double>& r, const F::Prime& p) {
      *reinterpret_cast<Two<double>*>(between + target.j * kStride + i) = canonical(target, i, r, p, true);
    });
    __syncwarp();
    Taking<false> again(a.lower, rows);
    again.take([&](u32 k) { return between[k * kStride + lane]; });
    again.finish();
    each_target(a.lower, rows, share, a.shares.value, begin, store);
  } else {
    each_target(s, rows, share, a.shares.value, begin, store);
  }
}

}  // namespace

void launch_conversion(Queue& queue, const char* name, ConversionKind kind, ConversionArguments<F> a) {
  const bool lower = kind == ConversionKind::lower;
  const u32 rows = rows_of(lower ? std::max(a.most_sources, a.lower.n_sources) : a.most_sources);
  const u32 tiles = matrix_tiles(lower ? a.lower.n_targets : a.most_targets);
  a.rows = rows, a.warp_words = (rows + (lower ? a.most_targets : 0)) * kStride;
  a.parts = static_cast<u32>(a.grid.blocks());
  a.shares = Divisor(std::clamp<u32>(kFewWarps / std::max<u32>(a.parts, 1), 1, tiles));
  const auto kernel = lower                           ? &convert50_kernel<ConversionKind::lower>
                      : kind == ConversionKind::plain ? &convert50_kernel<ConversionKind::plain>
                                                      : &convert50_kernel<ConversionKind::any>;
  launch(queue, name, kernel, (u64{a.parts} * a.shares.value + kWarps - 1) / kWarps, kConversionThreads,
         kWarps * a.warp_words * sizeof(double), a);
}

}  // namespace heliograph::backend::cuda
