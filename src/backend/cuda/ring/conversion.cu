// math/conversion.h's formula. A block takes 64 coefficients, two a lane; its warps share out first the sources, whose y
// and turns meet in shared memory, then the targets, four at a time. With `lower` a second conversion follows on what the
// first one made, without storing it.
#include "backend/cuda/ring/conversion.cuh"

#include <algorithm>

#include "backend/cuda/ring/convert.h"
#include "backend/cuda/ring/kernels.h"
#include "backend/cuda/ring/launch.cuh"

namespace heliograph::backend::cuda {

namespace {

constexpr u32 kEach = 2;            // coefficients of a lane
constexpr u32 kBlock = 32 * kEach;  // coefficients of a block
constexpr u32 kMostThreads = 128;
constexpr u64 kManyBlocks = 8192;  // they fill the largest GPU with one warp each

template <class F>
struct Step {
  const ConversionSource<F>* sources;
  const ConversionTarget<F>* targets;
  const typename F::Value* matrix;
  u32 n_sources, n_targets, shift, bits, rounded, first, skip_at, skip;
};

template <class F>
struct Arguments {
  Source x;
  Strided own, out, added;
  Grid grid;  // parts: of kBlock coefficients
  u32 n, by_component, has_own, has_place, added_components, wide_in, wide_out;
  u32 most_sources;  // of the first conversions
  Primes place;
  Step<F> lower;
  Step<F> steps[kMostSteps];
};

template <class Value>
struct alignas(2 * sizeof(Value)) Two {
  Value at[kEach];
};

struct Words {
  u64 at[kEach];
};

__device__ __forceinline__ Words load_words(const void* row, u32 i, bool wide) {
  if (wide) {
    const ulonglong2 w = *reinterpret_cast<const ulonglong2*>(static_cast<const u64*>(row) + i);
    return {{w.x, w.y}};
  }
  const uint2 w = *reinterpret_cast<const uint2*>(static_cast<const u32*>(row) + i);
  return {{w.x, w.y}};
}
__device__ __forceinline__ void store_words(void* row, u32 i, bool wide, const Words& w) {
  if (wide) {
    *reinterpret_cast<ulonglong2*>(static_cast<u64*>(row) + i) = make_ulonglong2(w.at[0], w.at[1]);
  } else {
    *reinterpret_cast<uint2*>(static_cast<u32*>(row) + i) = make_uint2(static_cast<u32>(w.at[0]), static_cast<u32>(w.at[1]));
  }
}

// From what mul leaves to a canonical Value, and between canonical Values and words.
__device__ __forceinline__ u32 settle(u32 a, const Field32::Prime& p) { return least(a, a - p.q); }
__device__ __forceinline__ double settle(double a, const Field50::Prime& p) { return Field50::positive(a, p); }
__device__ __forceinline__ u64 settle(u64 a, const Field60::Prime& p) { return least(a, a - p.q); }
__device__ __forceinline__ u64 to_word(Field32, u32 a) { return a; }
__device__ __forceinline__ u64 to_word(Field50, double a) { return Field50::word(a); }
__device__ __forceinline__ u64 to_word(Field60, u64 a) { return a; }
__device__ __forceinline__ u32 to_value(Field32, u64 w) { return static_cast<u32>(w); }
__device__ __forceinline__ double to_value(Field50, u64 w) { return Field50::load(w); }
__device__ __forceinline__ u64 to_value(Field60, u64 w) { return w; }
__device__ __forceinline__ u32 add_canonical(u32 a, u32 b, const Field32::Prime& p) { return Field32::add_reduced(a, b, p); }
__device__ __forceinline__ double add_canonical(double a, double b, const Field50::Prime& p) {
  const double s = __dadd_rn(a, b);
  return s >= p.q ? __dadd_rn(s, -p.q) : s;
}
__device__ __forceinline__ u64 add_canonical(u64 a, u64 b, const Field60::Prime& p) { return Field60::add_reduced(a, b, p); }

/// The factor for a sum: Field50's is centred, which takes one from v (f_i * matrix_ji = -wrap_j).
__device__ __forceinline__ u32 centre(u32 y, u64&, const Field32::Prime&) { return y; }
__device__ __forceinline__ u64 centre(u64 y, u64&, const Field60::Prime&) { return y; }
__device__ __forceinline__ double centre(double y, u64& v, const Field50::Prime& p) {
  if (y <= 0.5 * p.q) return y;
  v -= 1;
  return __dadd_rn(y, -p.q);
}
/// v is small, and below 0 only where centre took from it.
__device__ __forceinline__ u32 turns_value(Field32, u64 v) { return static_cast<u32>(v); }
__device__ __forceinline__ u64 turns_value(Field60, u64 v) { return v; }
__device__ __forceinline__ double turns_value(Field50, u64 v) { return static_cast<double>(static_cast<int>(v)); }

/// The two halves of v: the fixed-point sum, and what centring took.
struct Turns {
  u64 sum[kEach] = {0, 0}, taken[kEach] = {0, 0};
};

template <class F>
__device__ __forceinline__ Two<typename F::Value> take_source(const Step<F>& s, const ConversionSource<F>& source,
                                                              const typename F::Value (&x)[kEach], Turns& turns) {
  Two<typename F::Value> y;
#pragma unroll
  for (u32 k = 0; k < kEach; ++k) {
    const auto canonical = settle(F::mul(x[k], source.inverse, source.p), source.p);
    // No branch, so that sources interleave: the sum is dropped where the quotient is not rounded.
    const u64 w = to_word(F{}, canonical) << (s.shift == 52 ? 12 : 0);
    const u64 low = w * source.fraction, high = __umul64hi(w, source.fraction), mask = s.shift == 0 ? 0 : ~u64{0};
    turns.sum[k] += low ^ ((low ^ high) & mask);
    y.at[k] = centre(canonical, turns.taken[k], source.p);
  }
  return y;
}

/// What the warps gather about the sources: y[i][lane], and each warp's part of the turns.
template <class F>
struct Shared {
  Two<typename F::Value>* y;
  Turns* turns;  // [warp][lane]

  static constexpr std::size_t bytes(u32 sources, u32 warps) {
    return 32 * (sources * sizeof(Two<typename F::Value>) + warps * sizeof(Turns));
  }
  __device__ __forceinline__ Shared(unsigned char* at, u32 sources)
      : y(reinterpret_cast<Two<typename F::Value>*>(at)), turns(reinterpret_cast<Turns*>(y + 32 * sources)) {}

  __device__ __forceinline__ Two<typename F::Value> whole_turns(const Step<F>& s, u32 lane, u32 warps) const {
    Turns all;
    for (u32 w = 0; w < warps; ++w) {
      const Turns& part = turns[w * 32 + lane];
#pragma unroll
      for (u32 k = 0; k < kEach; ++k) all.sum[k] += part.sum[k], all.taken[k] += part.taken[k];
    }
    Two<typename F::Value> v;
#pragma unroll
    for (u32 k = 0; k < kEach; ++k) {
      const u64 rounded = s.rounded ? (all.sum[k] + (u64{1} << (s.bits - 1))) >> s.bits : 0;
      v.at[k] = turns_value(F{}, rounded + all.taken[k]);
    }
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

/// Targets j .. j + TILE - 1: body(j, canonical value pair, p). `ahead(j)` starts what the target needs from global
/// memory, `own(ahead's, p)` makes the factor of the own constant of it. TOGETHER: all sums end before the first body, as
/// each end is one long chain of operations; it takes registers.
template <u32 TILE, bool TOGETHER, class F, class Ahead, class Own, class Body>
__device__ __forceinline__ void one_tile(u32 j, const Step<F>& s, const Two<typename F::Value>* y,
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
    // What is left to add: v, far smaller than a source, and the own operand.
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
      const Pair value = own(ahead(j + m), targets[m].p);
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

/// The targets of one warp.
template <bool TOGETHER, class F, class... More>
__device__ __forceinline__ void each_target(const Step<F>& s, u32 warp, u32 warps, More... more) {
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

/// A component of one item: where its limbs lie.
struct Limbs {
  std::byte* first;
  u64 step;  // bytes

  __device__ __forceinline__ Limbs(const Strided& v, u32 item, u32 component)
      : first(v.word_bytes == 8 ? reinterpret_cast<std::byte*>(limb_of<u64>(v, item, component, 0))
                                : reinterpret_cast<std::byte*>(limb_of<u32>(v, item, component, 0))),
        step(v.limb * v.word_bytes) {}
  __device__ __forceinline__ std::byte* operator[](u32 limb) const { return first + limb * step; }
};

enum class Kind {
  any,    // whatever the arguments say
  plain,  // nothing beside x, whole blocks of the field's own words: what raises digits and ends divisions
  lower,  // two conversions
};

template <class F, Kind KIND>
__global__ void __launch_bounds__(kMostThreads, 5) convert_kernel(const __grid_constant__ Arguments<F> a) {
  take_turn();
  using Pair = Two<typename F::Value>;
  constexpr bool LOWER = KIND == Kind::lower, PLAIN = KIND == Kind::plain, kWide = sizeof(typename F::Word) == 8;
  const bool has_own = !PLAIN && a.has_own, wide_in = PLAIN ? kWide : a.wide_in, wide_out = PLAIN ? kWide : a.wide_out;
  extern __shared__ __align__(16) unsigned char raw[];
  const At at = locate_in_order(a.grid, blockIdx.x);
  const Step<F>& s = a.steps[a.by_component ? at.component : 0];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const Shared<F> shared(raw, a.most_sources);
  Pair* const y = shared.y + lane;
  const u32 i = at.part * kBlock + lane * kEach;
  const bool inside = PLAIN || i < a.n;

  // Sources: this warp's share, four loads in flight.
  const bool second = a.x.kind == Source::product && at.component >= a.x.split;
  const Limbs x = second ? Limbs(a.x.b, at.item, at.component - a.x.split)
                         : Limbs(a.x.a, at.item, a.x.kind == Source::digits ? 0 : at.component);
  Turns turns;
  constexpr u32 kAhead = 4;
  for (u32 k = warp; k < s.n_sources && inside; k += kAhead * warps) {
    Words w[kAhead];
#pragma unroll
    for (u32 m = 0; m < kAhead; ++m) w[m] = load_words(x[s.first + least(k + m * warps, s.n_sources - 1)], i, wide_in);
#pragma unroll
    for (u32 m = 0; m < kAhead; ++m) {  // beyond the last source: the last once more, not counted
      const u32 source = k + m * warps;
      const typename F::Value value[kEach] = {to_value(F{}, w[m].at[0]), to_value(F{}, w[m].at[1])};
      Turns with = turns;
      const Pair taken = take_source(s, s.sources[least(source, s.n_sources - 1)], value, with);
      if (source < s.n_sources) y[source * 32] = taken, turns = with;
    }
  }
  shared.turns[threadIdx.x] = turns;
  __syncthreads();

  const Limbs out(a.out, at.item, at.component);
  const Limbs beside_own = has_own ? Limbs(a.own, at.item, at.component) : out;
  const bool adds = KIND == Kind::any && at.component < a.added_components;
  const Limbs added = adds ? Limbs(a.added, at.item, at.component) : out;
  const auto place = [&](u32 j) {
    if (!PLAIN && a.has_place) return static_cast<u32>(a.place.index[j]);
    return j < s.skip_at ? j : j + s.skip;
  };
  const auto ahead = [&](u32 j) { return has_own && inside ? load_words(beside_own[place(j)], i, wide_out) : Words{}; };
  const auto own = [&](const Words& beside, const typename F::Prime& p) {
    Pair r;
    u64 ignored = 0;  // a residue of the target's own modulus: centring changes nothing
#pragma unroll
    for (u32 k = 0; k < kEach; ++k) r.at[k] = centre(to_value(F{}, beside.at[k]), ignored, p);
    return r;
  };
  const auto store = [&](u32 j, const Pair& value, const typename F::Prime& p) {
    if (!inside) return;
    Words more{}, w;
    if (adds) more = load_words(added[place(j)], i, wide_out);
#pragma unroll
    for (u32 k = 0; k < kEach; ++k)
      w.at[k] = to_word(F{}, adds ? add_canonical(value.at[k], to_value(F{}, more.at[k]), p) : value.at[k]);
    store_words(out[place(j)], i, wide_out, w);
  };
  const Pair v = shared.whole_turns(s, lane, warps);
  if constexpr (LOWER) {
    const Shared<F> between(raw + Shared<F>::bytes(a.most_sources, warps), a.lower.n_sources);
    Turns again;
    each_target<KIND != Kind::lower>(s, warp, warps, y, v, has_own, ahead, own, [&](u32 j, const Pair& value, const auto&) {
      between.y[j * 32 + lane] = take_source(a.lower, a.lower.sources[j], value.at, again);
    });
    between.turns[threadIdx.x] = again;
    __syncthreads();
    each_target<true>(
        a.lower, warp, warps, between.y + lane, between.whole_turns(a.lower, lane, warps), false,
        [](u32) { return Words{}; }, own, store);
  } else {
    each_target<KIND != Kind::lower>(s, warp, warps, y, v, has_own, ahead, own, store);
  }
}

template <class F>
Step<F> step_of(const CudaConversion& c, u32 first, u32 skip_at, u32 skip) {
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
  Arguments<F> a{.x = pass.x,
                 .out = strided(out),
                 .grid = Grid(static_cast<u32>((out.n + kBlock - 1) / kBlock), out),
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
  u32 most_targets = 0;
  for (std::size_t i = 0; i < pass.steps.size(); ++i) {
    const ConvertPass::Step& given = pass.steps[i];
    a.steps[i] = step_of<F>(*given.conversion, given.first, given.skip_at, given.skip);
    a.most_sources = std::max(a.most_sources, a.steps[i].n_sources);
    most_targets = std::max(most_targets, a.steps[i].n_targets);
  }
  if (pass.lower) a.lower = step_of<F>(*pass.lower, 0, ~0u, 0);
  // A small call shares a block's targets out among warps; a large one has warps enough.
  const u32 tiles = (most_targets + kTargetTile - 1) / kTargetTile;
  const u32 warps = a.grid.blocks() < kManyBlocks ? std::clamp<u32>(tiles, 1, kMostThreads / 32) : 1;
  const std::size_t shared =
      Shared<F>::bytes(a.most_sources, warps) + (pass.lower ? Shared<F>::bytes(a.lower.n_sources, warps) : 0);
  constexpr u32 kWide = sizeof(typename F::Word) == 8;
  const bool plain =
      !pass.own && !pass.add && !pass.place && a.wide_in == kWide && a.wide_out == kWide && out.n % kBlock == 0;
  const auto kernel = pass.lower ? &convert_kernel<F, Kind::lower>
                      : plain    ? &convert_kernel<F, Kind::plain>
                                 : &convert_kernel<F, Kind::any>;
  launch(queue, pass.name, kernel, a.grid.blocks(), 32 * warps, shared, a);
}

}  // namespace

void run_pass(Queue& queue, const ConvertPass& pass, math::Word from, const View& out) {
  if (out.items() == 0) return;
  require<InternalError>(!pass.steps.empty() && pass.steps.size() <= kMostSteps, "a conversion pass of too many digits");
  FieldKind kind = pass.steps.front().conversion->kind();
  for (const auto& step : pass.steps) require<InternalError>(step.conversion->kind() == kind, "conversions of mixed fields");
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
