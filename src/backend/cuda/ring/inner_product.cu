// The inner product of digits with a key, and of permuted digits with a key.
#include <algorithm>
#include <array>

#include "backend/cuda/ring/elementwise.cuh"
#include "backend/cuda/ring/kernels.h"

namespace heliograph::backend::cuda {

namespace {

template <class F>
struct InnerArguments {
  Arguments<F> common;  // operand a: digits; operand b: key
  Primes key_limbs;
  u32 count, outputs;
};

template <class F>
__global__ void __launch_bounds__(kThreads) inner_product_kernel(const __grid_constant__ InnerArguments<F> c) {
  take_turn();
  using Word = typename F::Word;
  const Arguments<F>& g = c.common;
  const auto [at, p] = place_of(g);
  const u32 key_limb = c.key_limbs.index[at.limb];
  const u32 i = at.part * kThreads + threadIdx.x;
  if (i >= g.n) return;
  KeySum<F> sum;
  sum.start();
  for (u32 d = 0; d < c.count; ++d) {
    const Word x = limb_of<Word>(g.a, at.item, d, at.limb)[i];
    const Word k = __ldg(limb_of<Word>(g.b, 0, d * c.outputs + at.component, key_limb) + i);
    sum.add(F::load(x), F::load(k), p);
    if (d % 4 == 3) sum.fold(p);
  }
  sum.fold(p);
  limb_of<Word>(g.out, at.item, at.component, at.limb)[i] = F::canonical(sum.finish(p), p);
}

constexpr u32 kTurns = 128;      // maximum number of automorphisms in the sums of one launch
constexpr u32 kTurnedLimbs = 4;  // limbs that a thread computes, for one item
constexpr u32 kTurnedItems = 4;  // items that a thread computes, for one limb

template <class F>
struct TurnedArguments {
  InnerArguments<F> inner;        // the grid has groups of outputs, of limbs and of items
  const u32* turns[kTurns];       // tables of CudaPermutation; null: identity
  u32 limbs, items, first, onto;  // first: number of the first digit; onto: whether to add to existing sums
};
static_assert(kTurns <= Sum<Field60>::kSteps);
static_assert(sizeof(TurnedArguments<Field32>) <= kMostArguments && sizeof(TurnedArguments<Field50>) <= kMostArguments &&
              sizeof(TurnedArguments<Field60>) <= kMostArguments);

/// Work of a thread: numbers of results, limbs and items, and of digits whose loads are in flight.
template <u32 OUTPUTS, u32 LIMBS, u32 ITEMS, u32 AHEAD>
struct TurnedShape {
  static constexpr u32 kOutputs = OUTPUTS, kLimbs = LIMBS, kItems = ITEMS, kAhead = AHEAD;
};

/// A thread has one position. The thread has either several limbs and results, or several items. The limbs, and the items,
/// use the same source positions; the results use the same digits, the items the same keys. In the NTT domain automorphisms
/// map aligned runs of positions to aligned runs, so gathers read whole cache lines. The digits stay in the L2 cache; the
/// key is read once.
template <class F, class S>
__global__ void __launch_bounds__(kThreads, 2) turned_product_kernel(const __grid_constant__ TurnedArguments<F> c) {
  take_turn();
  using Word = typename F::Word;
  constexpr u32 kOutputs = S::kOutputs, kLimbs = S::kLimbs, kItems = S::kItems, kAhead = S::kAhead;
  const InnerArguments<F>& inner = c.inner;
  const Arguments<F>& g = inner.common;
  const At at = locate(g.grid, blockIdx.x);
  const u32 i = at.part * kThreads + threadIdx.x;
  if (i >= g.n) return;
  const u32 output = at.component * kOutputs;
  // Phase 1: operands of this thread. An index beyond the last limb or item repeats the last one.
  const auto limb_at = [&](u32 l) { return least(at.limb * kLimbs + l, c.limbs - 1); };
  const auto item_at = [&](u32 k) { return least(at.item * kItems + k, c.items - 1); };
  const Word *x[kItems][kLimbs], *key[kLimbs];
  typename F::Prime p[kLimbs];
  KeySum<F> sum[kItems][kLimbs][kOutputs];
#pragma unroll
  for (u32 l = 0; l < kLimbs; ++l) {
    p[l] = g.table[g.primes.index[limb_at(l)]];
    key[l] = limb_of<Word>(g.b, 0, c.first * inner.outputs + output, inner.key_limbs.index[limb_at(l)]) + i;
#pragma unroll
    for (u32 k = 0; k < kItems; ++k) {
      x[k][l] = limb_of<Word>(g.a, item_at(k), 0, limb_at(l));
#pragma unroll
      for (u32 o = 0; o < kOutputs; ++o) sum[k][l][o].start();
    }
  }
  const u64 digit = inner.outputs * g.b.component;
  u32 from[kAhead];
  Word words[kAhead][kItems][kLimbs], keys[kAhead][kLimbs][kOutputs];
  /// Loads the words of the digits from `first` on; an index beyond the last digit repeats the last one.
  const auto find = [&](u32 first) {
#pragma unroll
    for (u32 j = 0; j < kAhead; ++j) {
      const u32* const turn = c.turns[least(first + j, inner.count - 1)];
      from[j] = turn ? __ldg(turn + i) >> 1 : i;
    }
  };
  const auto fetch = [&](u32 first) {
#pragma unroll
    for (u32 j = 0; j < kAhead; ++j) {
#pragma unroll
      for (u32 l = 0; l < kLimbs; ++l) {
#pragma unroll
        for (u32 k = 0; k < kItems; ++k) words[j][k][l] = x[k][l][from[j]];
#pragma unroll
        for (u32 o = 0; o < kOutputs; ++o) {
          const Word* const k = key[l] + least(first + j, inner.count - 1) * digit + o * g.b.component;
          keys[j][l][o] = kItems == 1 ? __ldcs(k) : __ldg(k);
        }
      }
    }
  };
  // Phase 2: sums over the digits. Loads of digits overlap with products of earlier digits. Source positions are loaded
  // before they are needed.
  find(0);
  fetch(0);
  find(kAhead);
  for (u32 d = 0; d < inner.count; d += kAhead) {
    typename F::Value a[kAhead][kItems][kLimbs], b[kAhead][kLimbs][kOutputs];
#pragma unroll
    for (u32 j = 0; j < kAhead; ++j) {
#pragma unroll
      for (u32 l = 0; l < kLimbs; ++l) {
#pragma unroll
        for (u32 k = 0; k < kItems; ++k) a[j][k][l] = F::load(words[j][k][l]);
#pragma unroll
        for (u32 o = 0; o < kOutputs; ++o) b[j][l][o] = F::load(keys[j][l][o]);
      }
    }
    if (d + kAhead < inner.count) {
      fetch(d + kAhead);
      find(d + 2 * kAhead);
    }
#pragma unroll
    for (u32 j = 0; j < kAhead; ++j) {
      if (d + j >= inner.count) break;
#pragma unroll
      for (u32 k = 0; k < kItems; ++k) {
#pragma unroll
        for (u32 l = 0; l < kLimbs; ++l) {
#pragma unroll
          for (u32 o = 0; o < kOutputs; ++o) {
            sum[k][l][o].add(a[j][k][l], b[j][l][o], p[l]);
            if ((d + j) % 4 == 3) sum[k][l][o].fold(p[l]);
          }
        }
      }
    }
  }
#pragma unroll
  for (u32 k = 0; k < kItems; ++k) {
    if (at.item * kItems + k >= c.items) return;
#pragma unroll
    for (u32 l = 0; l < kLimbs; ++l) {
      if (at.limb * kLimbs + l >= c.limbs) break;
#pragma unroll
      for (u32 o = 0; o < kOutputs; ++o) {
        sum[k][l][o].fold(p[l]);
        Word* const out = limb_of<Word>(g.out, item_at(k), output + o, limb_at(l)) + i;
        const Word here = F::canonical(sum[k][l][o].finish(p[l]), p[l]);
        *out = c.onto ? Adds::apply(F{}, here, *out, here, p[l]) : here;
      }
    }
  }
}

/// Sums for many items of one limb, with their words in shared memory. A block has kSharedItems items, some positions and
/// some results. A thread has one position of all items and kSharedOutputs results. Each block reads the keys once, from the
/// L2 cache.
constexpr u32 kSharedItems = 8, kSharedOutputs = 2;
constexpr u32 kSharedThreads = 512, kSharedGroups = 8;  // maximum threads of a block; maximum groups of outputs in a block
constexpr u32 kSharedTurns = 256;                       // maximum automorphisms of one launch

struct SharedArguments {
  InnerArguments<Field50> inner;  // the grid has groups of outputs and of items
  const u32* turns[kSharedTurns];
  u32 items, first, onto;
  u32 positions;  // number of positions of a block, a multiple of 32
};
static_assert(sizeof(SharedArguments) <= kMostArguments);

/// A sum of products of numbers of at most q/2 in magnitude, for q < 2^50. `high` is the rounded sum: near kBias, additions
/// round each product to a multiple of 2^50. `low` is the sum of the exact rounding errors, each at most 2^49.
struct RoundedSum {
  static constexpr u32 kFoldEvery = 8;                                // bounds: 2^101 in `high`, 2^52 in `low`
  static constexpr double kBias = 7605903601369376408980219232256.0;  // 1.5 2^102
  double high, low;

  __device__ __forceinline__ void start() { high = kBias, low = 0; }
  __device__ __forceinline__ void add(double a, double b) {
    const double next = __fma_rn(a, b, high);
    low = __dadd_rn(low, __fma_rn(a, b, -__dadd_rn(next, -high)));
    high = next;
  }
  /// Reduces the sum to about q/2, stored in `low`; `high` becomes kBias.
  __device__ __forceinline__ void fold(const Field50::Prime& p) {
    const double sum = __dadd_rn(high, -kBias), rest = __fma_rn(-Field50::quotient(sum, p), p.q, sum);
    low = Field50::reduce(__dadd_rn(low, rest), p), high = kBias;
  }
};

/// Returns the residue nearest to 0 of a canonical word.
__device__ __forceinline__ double centred(u64 word, u64 q) {
  constexpr u64 kMiddle = u64{1} << 51;  // the low 52 bits of the double 1.5 2^52
  const u64 shifted = word + (word > q / 2 ? kMiddle - q : kMiddle);
  return __dadd_rn(__longlong_as_double(static_cast<long long>(shifted | u64{0x433} << 52)), -Field50::kRound);
}

__global__ void __launch_bounds__(kSharedThreads, 1) shared_product_kernel(const __grid_constant__ SharedArguments c) {
  take_turn();
  extern __shared__ double words[];  // words of all items: [item][position]
  const Arguments<Field50>& g = c.inner.common;
  const At at = locate(g.grid, blockIdx.x);
  const Field50::Prime p = g.table[g.primes.index[0]];
  const u64 q = modulus<Field50>(p);
  // Indices beyond the last item or output repeat the last one.
  const auto item_at = [&](u32 k) { return least(at.item * kSharedItems + k, c.items - 1); };
  const u32 groups = blockDim.x / c.positions, group = at.component * groups + threadIdx.x / c.positions;
  const auto output_at = [&](u32 o) { return least(group * kSharedOutputs + o, c.inner.outputs - 1); };
  for (u32 k = 0; k < kSharedItems; ++k) {
    const u64* const from = limb_of<u64>(g.a, item_at(k), 0, 0);
    for (u32 i = threadIdx.x; i < g.n; i += blockDim.x) words[k * g.n + i] = centred(from[i], q);
  }
  __syncthreads();
  const u32 i = at.part * c.positions + threadIdx.x % c.positions;
  if (i >= g.n) return;
  const u64* key[kSharedOutputs];
#pragma unroll
  for (u32 o = 0; o < kSharedOutputs; ++o)
    key[o] = limb_of<u64>(g.b, 0, c.first * c.inner.outputs + output_at(o), c.inner.key_limbs.index[0]) + i;
  const u64 digit = c.inner.outputs * g.b.component;
  RoundedSum sum[kSharedItems][kSharedOutputs];
#pragma unroll
  for (u32 k = 0; k < kSharedItems; ++k) {
#pragma unroll
    for (u32 o = 0; o < kSharedOutputs; ++o) sum[k][o].start();
  }
  constexpr u32 kAhead = 2;  // automorphisms whose keys are being loaded
  u64 keys[kAhead][kSharedOutputs];
  u32 from[kAhead];
  const auto fetch = [&](u32 d, u32 slot) {
    const u32 turn = least(d, c.inner.count - 1);
#pragma unroll
    for (u32 o = 0; o < kSharedOutputs; ++o) keys[slot][o] = __ldg(key[o] + turn * digit);
    from[slot] = c.turns[turn] ? __ldg(c.turns[turn] + i) >> 1 : i;
  };
#pragma unroll
  for (u32 d = 0; d < kAhead; ++d) fetch(d, d);
  for (u32 first = 0; first < c.inner.count; first += RoundedSum::kFoldEvery) {
#pragma unroll
    for (u32 j = 0; j < RoundedSum::kFoldEvery; ++j) {
      if (first + j >= c.inner.count) break;
      double b[kSharedOutputs];
#pragma unroll
      for (u32 o = 0; o < kSharedOutputs; ++o) b[o] = centred(keys[j % kAhead][o], q);
      const double* const a = words + from[j % kAhead];
      fetch(first + j + kAhead, j % kAhead);
#pragma unroll
      for (u32 k = 0; k < kSharedItems; ++k) {
        const double x = a[k * g.n];
#pragma unroll
        for (u32 o = 0; o < kSharedOutputs; ++o) sum[k][o].add(x, b[o]);
      }
    }
#pragma unroll
    for (u32 k = 0; k < kSharedItems; ++k) {
#pragma unroll
      for (u32 o = 0; o < kSharedOutputs; ++o) sum[k][o].fold(p);
    }
  }
#pragma unroll
  for (u32 k = 0; k < kSharedItems; ++k) {
    if (at.item * kSharedItems + k >= c.items) return;
#pragma unroll
    for (u32 o = 0; o < kSharedOutputs; ++o) {
      if (group * kSharedOutputs + o >= c.inner.outputs) break;
      u64* const out = limb_of<u64>(g.out, item_at(k), output_at(o), 0) + i;
      const u64 here = Field50::canonical(sum[k][o].low, p);
      *out = c.onto ? Adds::apply(Field50{}, here, *out, here, p) : here;
    }
  }
}

/// Calls f(first, count, tables) for groups of at most MOST automorphisms, the number that fits a launch.
template <u32 MOST, class Body>
void for_turns(Queue& q, const device::InnerProduct& call, Body body) {
  std::array<const u32*, MOST> tables;
  for (std::size_t first = 0; first < call.turns.size(); first += MOST) {
    const std::size_t count = std::min<std::size_t>(MOST, call.turns.size() - first);
    for (std::size_t j = 0; j < count; ++j) {
      const device::PermutationHandle& turn = call.turns[first + j];
      tables[j] = turn ? own_as<CudaPermutation>(q, *turn).table().template as<u32>() : nullptr;
    }
    body(static_cast<u32>(first), static_cast<u32>(count), tables);
  }
}

template <class F, class S>
void sum_turned_as(Queue& q, const device::InnerProduct& call, const InnerArguments<F>& all) {
  TurnedArguments<F> c{.inner = all,
                       .turns = {},
                       .limbs = static_cast<u32>(call.out.limbs),
                       .items = static_cast<u32>(call.out.items()),
                       .first = 0,
                       .onto = 0};
  Grid& grid = c.inner.common.grid;
  grid.components = Divisor(all.outputs / S::kOutputs);
  grid.limbs = Divisor(parts_of(c.limbs, S::kLimbs)), grid.items = Divisor(parts_of(c.items, S::kItems));
  for_turns<kTurns>(q, call, [&](u32 first, u32 count, const auto& turns) {
    std::copy_n(turns.begin(), count, c.turns);
    c.inner.count = count, c.first = first, c.onto = first > 0;
    launch(q, "inner_product", &turned_product_kernel<F, S>, grid.blocks(), kThreads, 0, c);
  });
}

/// Returns whether there are enough items, and enough shared memory for their words.
bool shares_words(const State& state, const device::InnerProduct& call) {
  return call.out.limbs == 1 && call.out.items() > kTurnedItems &&
         kSharedItems * call.out.n * sizeof(double) <= state.properties().shared_bytes_a_block;
}

void sum_shared(Queue& q, const device::InnerProduct& call, const InnerArguments<Field50>& all) {
  const u32 groups = std::min(kSharedGroups, parts_of(all.outputs, kSharedOutputs));
  SharedArguments c{.inner = all,
                    .turns = {},
                    .items = static_cast<u32>(call.out.items()),
                    .first = 0,
                    .onto = 0,
                    .positions = groups <= kSharedGroups / 2 ? 128u : 64u};
  static_assert(kSharedGroups * 64 <= kSharedThreads && kSharedGroups / 2 * 128 <= kSharedThreads);
  Grid& grid = c.inner.common.grid;
  grid.parts = Divisor(parts_of(call.out.n, c.positions));
  grid.components = Divisor(parts_of(all.outputs, kSharedOutputs * groups));
  grid.items = Divisor(parts_of(c.items, kSharedItems));
  for_turns<kSharedTurns>(q, call, [&](u32 first, u32 count, const auto& turns) {
    std::copy_n(turns.begin(), count, c.turns);
    c.inner.count = count, c.first = first, c.onto = first > 0;
    launch(q, "inner_product", &shared_product_kernel, grid.blocks(), c.positions * groups,
           kSharedItems * call.out.n * sizeof(double), c);
  });
}

template <class F>
void sum_turned(Queue& q, const State& state, const device::InnerProduct& call, const InnerArguments<F>& all) {
  if constexpr (std::is_same_v<F, Field50>) {
    if (shares_words(state, call)) return sum_shared(q, call, all);
  }
  const bool one_limb = call.out.limbs == 1;
  if (one_limb && call.out.items() >= kTurnedItems)
    all.outputs % 4 == 0 ? sum_turned_as<F, TurnedShape<4, 1, kTurnedItems, 1>>(q, call, all)
                         : sum_turned_as<F, TurnedShape<1, 1, kTurnedItems, 1>>(q, call, all);
  else if (one_limb)
    sum_turned_as<F, TurnedShape<1, 1, 1, 8>>(q, call, all);
  else
    all.outputs % 2 == 0 ? sum_turned_as<F, TurnedShape<2, kTurnedLimbs, 1, 1>>(q, call, all)
                         : sum_turned_as<F, TurnedShape<1, kTurnedLimbs, 1, 1>>(q, call, all);
}

}  // namespace

void CudaKernels::run(Queue& q, const device::InnerProduct& call) {
  const CudaRing& ring = own_ring(q, *call.ring);
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    InnerArguments<F> c{
        .common = arguments<F>(ring, call.primes, call.digits, &call.key, call.out, parts_of(call.out.n, kThreads)),
        .key_limbs = primes_of(call.key_limbs),
        .count = static_cast<u32>(call.digits.components),
        .outputs = static_cast<u32>(call.out.components)};
    if (call.turns.empty())
      launch(q, "inner_product", &inner_product_kernel<F>, c.common.grid.blocks(), kThreads, 0, c);
    else
      sum_turned(q, *state_, call, c);
  });
}

}  // namespace heliograph::backend::cuda
