// The formula of math/conversion.h in integer fields (conversion50.cu has Field50). The warps of a block first divide the
// sources among themselves; each source's y and its contribution to v go to shared memory. Then the warps divide the
// targets, four at a time. A thread has two adjacent coefficients.
#include <algorithm>

#include "backend/cuda/ring/conversion_pass.cuh"

namespace heliograph::backend::cuda {

namespace {

constexpr u64 kManyBlocks = 8192;  // number of blocks that fills the largest GPU with one warp each

struct Turns {
  u64 sum[kEach] = {0, 0};
};

template <class F>
__device__ __forceinline__ Two<typename F::Value> take_source(const ConversionStep<F>& s, const ConversionSource<F>& source,
                                                              const typename F::Value (&x)[kEach], Turns& turns) {
  Two<typename F::Value> y;
#pragma unroll
  for (u32 k = 0; k < kEach; ++k) {
    const auto product = F::mul(x[k], source.inverse, source.p);
    y.at[k] = least(product, product - source.p.q);
    turns.sum[k] += turn_of<false>(s, source, to_word(F{}, y.at[k]));
  }
  return y;
}

/// Intermediate results in shared memory: y[i][lane] of source i, and each warp's contribution to v.
template <class F>
struct Shared {
  Two<typename F::Value>* y;
  Turns* turns;  // contributions to v: [warp][lane]

  static constexpr std::size_t bytes(u32 sources, u32 warps) {
    return 32 * (sources * sizeof(Two<typename F::Value>) + warps * sizeof(Turns));
  }
  __device__ __forceinline__ Shared(unsigned char* at, u32 sources)
      : y(reinterpret_cast<Two<typename F::Value>*>(at)), turns(reinterpret_cast<Turns*>(y + 32 * sources)) {}

  __device__ __forceinline__ Two<typename F::Value> whole_turns(const ConversionStep<F>& s, u32 lane, u32 warps) const {
    Turns all;
    for (u32 w = 0; w < warps; ++w) {
#pragma unroll
      for (u32 k = 0; k < kEach; ++k) all.sum[k] += turns[w * 32 + lane].sum[k];
    }
    Two<typename F::Value> v;
#pragma unroll
    for (u32 k = 0; k < kEach; ++k)
      v.at[k] = s.rounded ? static_cast<typename F::Value>((all.sum[k] + (u64{1} << (s.bits - 1))) >> s.bits) : 0;
    return v;
  }
};

template <u32 TILE, class Value>
__device__ __forceinline__ void load_row(const Value* row, Value (&to)[TILE]) {
  // Rows are padded to whole tiles of four.
  static_assert(kTargetTile == 4);
  union {
    uint4 raw[sizeof(Value) / 4];
    Value typed[4];
  } u;
#pragma unroll
  for (u32 i = 0; i < sizeof(Value) / 4; ++i) {
    if (i * 16 < TILE * sizeof(Value)) u.raw[i] = __ldg(reinterpret_cast<const uint4*>(row) + i);
  }
#pragma unroll
  for (u32 m = 0; m < TILE; ++m) to[m] = u.typed[m];
}

/// Computes the targets from j to j + TILE - 1, and calls body(j, pair of canonical values, p) for each target. `ahead(j)`
/// starts the target's loads from global memory; `own` turns the result of `ahead` into the factor of the own constant.
/// TOGETHER: reduces all sums before the first body, because each reduction is a long chain of dependent instructions; this
/// takes more registers.
template <u32 TILE, bool TOGETHER, class F, class Ahead, class Own, class Body>
__device__ __forceinline__ void one_tile(u32 j, const ConversionStep<F>& s, const Two<typename F::Value>* y,
                                         const Two<typename F::Value>& v, bool has_own, Ahead ahead, Own own, Body body) {
  using Pair = Two<typename F::Value>;
  const u32 width = padded_targets(s.n_targets);
  const ConversionTarget<F>* const targets = s.targets + j;
  Sum<F> sums[TILE][kEach];
#pragma unroll
  for (u32 m = 0; m < TILE; ++m) {
#pragma unroll
    for (u32 k = 0; k < kEach; ++k) sums[m][k].start();
  }
  const typename F::Value* row = s.matrix + j;
  const auto add_row = [&](const Pair& value) {
    typename F::Value factor[TILE];
    load_row(row, factor);
    row += width;
#pragma unroll
    for (u32 m = 0; m < TILE; ++m) {
#pragma unroll
      for (u32 k = 0; k < kEach; ++k) sums[m][k].add(value.at[k], factor[m]);
    }
  };
  for (u32 i = 0; i < s.n_sources; i += Sum<F>::kSteps) {
    const u32 end = least<u32>(i + Sum<F>::kSteps, s.n_sources);
#pragma unroll 2
    for (u32 k = i; k < end; ++k) add_row(y[k * 32]);
    // The remaining terms are the own operand and v, which is much smaller than a source's term.
    if (end == s.n_sources && end - i + (has_own ? 1 : 0) < Sum<F>::kSteps) break;
#pragma unroll
    for (u32 m = 0; m < TILE; ++m) {
#pragma unroll
      for (u32 k = 0; k < kEach; ++k) sums[m][k].fold(targets[m].p);
    }
  }
  add_row(v);
  if (has_own) {
    typename F::Value factor[TILE];
    load_row(row, factor);
#pragma unroll
    for (u32 m = 0; m < TILE; ++m) {
      const Pair value = own(ahead(j + m));
#pragma unroll
      for (u32 k = 0; k < kEach; ++k) sums[m][k].add(value.at[k], factor[m]);
    }
  }
  Pair results[TILE];
  const auto finish = [&](u32 m) {
#pragma unroll
    for (u32 k = 0; k < kEach; ++k) results[m].at[k] = sums[m][k].finish(targets[m].p);
  };
#pragma unroll
  for (u32 m = 0; TOGETHER && m < TILE; ++m) finish(m);
#pragma unroll
  for (u32 m = 0; m < TILE; ++m) {
    if (!TOGETHER) finish(m);
    body(j + m, results[m], targets[m].p);
  }
}

template <bool TOGETHER, class F, class... More>
__device__ __forceinline__ void each_target(const ConversionStep<F>& s, u32 warp, u32 warps, More... more) {
  for (u32 j = 4 * warp; j < s.n_targets; j += 4 * warps) {
    const u32 left = s.n_targets - j;
    if (left >= 4) {
      one_tile<4, TOGETHER>(j, s, more...);
    } else if (left == 3) {
      one_tile<3, TOGETHER>(j, s, more...);
    } else if (left == 2) {
      one_tile<2, TOGETHER>(j, s, more...);
    } else {
      one_tile<1, TOGETHER>(j, s, more...);
    }
  }
}

template <class F, ConversionKind KIND>
__global__ void __launch_bounds__(kConversionThreads, 5) convert_kernel(const __grid_constant__ ConversionArguments<F> a) {
  take_turn();
  using Pair = Two<typename F::Value>;
  constexpr bool LOWER = KIND == ConversionKind::lower;
  extern __shared__ __align__(16) unsigned char raw[];
  const ConversionPart<F, KIND> part(a, blockIdx.x);
  const ConversionStep<F>& s = part.step;
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, i = lane * kEach;
  const Shared<F> shared(raw, a.most_sources);
  Pair* const y = shared.y + lane;
  const bool inside = part.inside(i);

  // This warp's sources, with four loads in flight.
  Turns turns;
  constexpr u32 kAhead = 4;
  for (u32 k = warp; k < s.n_sources && inside; k += kAhead * warps) {
    Words w[kAhead];
#pragma unroll
    for (u32 m = 0; m < kAhead; ++m) w[m] = part.words(least(k + m * warps, s.n_sources - 1), i);
#pragma unroll
    for (u32 m = 0; m < kAhead; ++m) {  // beyond the end, load the last source again and ignore it
      const u32 source = k + m * warps;
      const typename F::Value value[kEach] = {to_value(F{}, w[m].at[0]), to_value(F{}, w[m].at[1])};
      Turns with = turns;
      const Pair taken = take_source(s, s.sources[least(source, s.n_sources - 1)], value, with);
      if (source < s.n_sources) y[source * 32] = taken, turns = with;
    }
  }
  shared.turns[threadIdx.x] = turns;
  __syncthreads();

  const auto ahead = [&](u32 j) { return part.has_own && inside ? part.target(j).beside(i) : Words{}; };
  const auto own = [&](const Words& beside) {
    Pair r;
#pragma unroll
    for (u32 k = 0; k < kEach; ++k) r.at[k] = to_value(F{}, beside.at[k]);
    return r;
  };
  const auto store = [&](u32 j, const Pair& value, const typename F::Prime& p) { part.target(j).store(i, value, p); };
  const Pair v = shared.whole_turns(s, lane, warps);
  if constexpr (LOWER) {
    const Shared<F> between(raw + Shared<F>::bytes(a.most_sources, warps), a.lower.n_sources);
    Turns again;
    each_target<false>(s, warp, warps, y, v, part.has_own, ahead, own, [&](u32 j, const Pair& value, const auto&) {
      between.y[j * 32 + lane] = take_source(a.lower, a.lower.sources[j], value.at, again);
    });
    between.turns[threadIdx.x] = again;
    __syncthreads();
    each_target<true>(
        a.lower, warp, warps, between.y + lane, between.whole_turns(a.lower, lane, warps), false,
        [](u32) { return Words{}; }, own, store);
  } else {
    each_target<true>(s, warp, warps, y, v, part.has_own, ahead, own, store);
  }
}

template <class F>
void launch_integers(Queue& queue, const char* name, ConversionKind kind, const ConversionArguments<F>& a) {
  // Small calls divide a block's targets among warps; large calls have enough warps.
  const u32 tiles = (a.most_targets + kTargetTile - 1) / kTargetTile;
  const u32 warps = a.grid.blocks() < kManyBlocks ? std::clamp<u32>(tiles, 1, kConversionThreads / 32) : 1;
  const bool lower = kind == ConversionKind::lower;
  const std::size_t shared =
      Shared<F>::bytes(a.most_sources, warps) + (lower ? Shared<F>::bytes(a.lower.n_sources, warps) : 0);
  const auto kernel = lower                           ? &convert_kernel<F, ConversionKind::lower>
                      : kind == ConversionKind::plain ? &convert_kernel<F, ConversionKind::plain>
                                                      : &convert_kernel<F, ConversionKind::any>;
  launch(queue, name, kernel, a.grid.blocks(), 32 * warps, shared, a);
}

}  // namespace

void launch_conversion(Queue& queue, const char* name, ConversionKind kind, const ConversionArguments<Field32>& a) {
  launch_integers(queue, name, kind, a);
}
void launch_conversion(Queue& queue, const char* name, ConversionKind kind, const ConversionArguments<Field60>& a) {
  launch_integers(queue, name, kind, a);
}

namespace {

template <class F>
ConversionStep<F> step_of(const CudaConversion& c, u32 first, u32 skip_at, u32 skip) {
  const math::Conversion& k = c.conversion();
  return {.sources = c.sources().as<ConversionSource<F>>(),
          .targets = c.targets().as<ConversionTarget<F>>(),
          .matrix = c.matrix().as<typename F::Value>(),
          .n_sources = static_cast<u32>(k.sources()),
          .n_targets = static_cast<u32>(k.targets()),
          .shift = static_cast<u32>(k.fixed.shift),
          .bits = static_cast<u32>(k.fixed.bits),
          .rounded = k.rounded,
          .first = first,
          .skip_at = skip_at,
          .skip = skip};
}

template <class F>
void run_in(Queue& queue, const ConvertPass& pass, math::Word from, const View& out) {
  ConversionArguments<F> a{.x = pass.x,
                           .out = strided(out),
                           .grid = Grid(static_cast<u32>((out.n + kPart<F> - 1) / kPart<F>), out),
                           .n = static_cast<u32>(out.n),
                           .by_component = pass.steps.size() > 1,
                           .has_own = pass.own != nullptr,
                           .has_place = pass.place != nullptr,
                           .added_components = pass.add ? static_cast<u32>(pass.add->components) : 0,
                           .wide_in = from == math::Word::w64,
                           .wide_out = out.word == math::Word::w64};
  a.grid.limbs = Divisor(1);
  if (pass.own) a.own = strided(*pass.own);
  if (pass.add) a.added = strided(*pass.add);
  if (pass.place) a.place = primes_of(*pass.place);
  for (std::size_t i = 0; i < pass.steps.size(); ++i) {
    const ConvertPass::Step& given = pass.steps[i];
    a.steps[i] = step_of<F>(*given.conversion, given.first, given.skip_at, given.skip);
    a.most_sources = std::max(a.most_sources, a.steps[i].n_sources);
    a.most_targets = std::max(a.most_targets, a.steps[i].n_targets);
  }
  if (pass.lower) a.lower = step_of<F>(*pass.lower, 0, ~0u, 0);
  const bool wide = sizeof(typename F::Word) == 8;
  const bool plain = !pass.own && !pass.add && !pass.place && a.wide_in == wide && a.wide_out == wide &&
                     out.n % kPart<F> == 0 && std::all_of(a.steps, a.steps + pass.steps.size(), [](const auto& s) {
                       return s.shift != 0 || std::is_same_v<F, Field32>;
                     });
  const ConversionKind kind = pass.lower ? ConversionKind::lower : plain ? ConversionKind::plain : ConversionKind::any;
  launch_conversion(queue, pass.name, kind, a);
}

}  // namespace

void run_pass(Queue& queue, const ConvertPass& pass, math::Word from, const View& out) {
  if (out.items() == 0) return;
  require<InternalError>(!pass.steps.empty() && pass.steps.size() <= kMostSteps,
                         "a conversion pass must have 1 to 16 digits");
  FieldKind kind = pass.steps.front().conversion->kind();
  for (const auto& step : pass.steps)
    require<InternalError>(step.conversion->kind() == kind, "conversions of one pass must have one field");
  with_field(kind, [&](auto f) { run_in<decltype(f)>(queue, pass, from, out); });
}

void CudaKernels::run(Queue& q, const Convert& call) {
  const auto& c = own_as<CudaConversion>(q, *call.conversion);
  ConvertPass pass{.name = "convert",
                   .x = {},
                   .steps = {{.conversion = &c}},
                   .own = call.own ? &*call.own : nullptr,
                   .place = call.place ? &*call.place : nullptr};
  pass.x.kind = Source::plain;
  pass.x.a = strided(call.x);
  run_pass(q, pass, call.x.word, call.out);
}

}  // namespace heliograph::backend::cuda
