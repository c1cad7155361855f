// Sums of products of single limbs, all in one launch. A block reads its limbs, weights and turns from the list (forms.h);
// all of its threads read the same entries.
#include "backend/cuda/ring/elements.cuh"
#include "backend/cuda/ring/kernels.h"
#include "backend/cuda/ring/rows.cuh"

namespace heliograph::backend::cuda {

namespace {

constexpr u32 kThreads = 256;
constexpr u32 kUnroll = 2;     // packs of words of a thread in flight
constexpr u32 kFoldEvery = 4;  // products between two folds of a KeySum
constexpr u32 kNone = device::LimbSumList::kNone;

/// Address and strides of an operand; strides are in words.
struct Operand {
  std::byte* data;
  math::i64 item;
  u64 component, limb;
};
template <class F>
struct SumArguments {
  Operand from[device::LimbSums::kMostFrom], to[device::LimbSums::kMostTo];
  const u32* turns[device::LimbSums::kMostTurns];
  const CudaLimbSums::Term* terms;
  const CudaLimbSums::Result* results;
  const typename F::Prime* table;
  u32 n;
  Divisor parts, items;
};
static_assert(sizeof(SumArguments<Field60>) <= 4096, "kernel arguments must fit every driver");

template <class Word>
__device__ __forceinline__ Word* words_of(const Operand& o, u32 item, u32 component, u32 limb) {
  return reinterpret_cast<Word*>(o.data) + (static_cast<math::i64>(component * o.component + limb * o.limb) + item * o.item);
}

/// Loads a pack. `once`: the data is not read again, so the caches may evict it first.
template <class Pack>
__device__ __forceinline__ Pack load(const Pack* from, bool once) {
  if constexpr (sizeof(Pack) == sizeof(uint4)) {
    if (once) {
      const uint4 raw = __ldcs(reinterpret_cast<const uint4*>(from));
      return reinterpret_cast<const Pack&>(raw);
    }
  }
  return *from;
}

template <class F, u32 COUNT>
__global__ void __launch_bounds__(kThreads) limb_sums_kernel(const __grid_constant__ SumArguments<F> g) {
  take_turn();
  using Word = typename F::Word;
  using Value = typename F::Value;
  using Pack = Packed<Word, COUNT>;
  u32 part = blockIdx.x;
  u32 item = g.parts.divide(part);
  const u32 number = g.items.divide(item);
  const CudaLimbSums::Result r = g.results[number];
  const typename F::Prime p = g.table[r.prime];
  const u32 packs = g.n / COUNT;
  KeySum<F> sum[kUnroll][COUNT];
#pragma unroll
  for (u32 u = 0; u < kUnroll; ++u) {
#pragma unroll
    for (u32 w = 0; w < COUNT; ++w) sum[u][w].start();
  }
  for (u32 k = 0; k < r.count; ++k) {
    const CudaLimbSums::Term t = g.terms[r.first + k];
    const Word* const a = words_of<const Word>(g.from[t.a], item, t.a_component, t.a_limb);
    const bool product = t.b != kNone;
    const Word* const b = product ? words_of<const Word>(g.from[t.b], item, t.b_component, t.b_limb) : a;
    Pack x[kUnroll] = {}, y[kUnroll] = {};
    if (t.turn == kNone) {
      each_position<kUnroll, kThreads>(part, packs,
                                       [&](u32 u, u32 i) { x[u] = load(reinterpret_cast<const Pack*>(a) + i, t.once & 1); });
    } else {
      const auto* const turn = reinterpret_cast<const Packed<u32, COUNT>*>(g.turns[t.turn]);
      each_position<kUnroll, kThreads>(part, packs, [&](u32 u, u32 i) {
        const Packed<u32, COUNT> from = turn[i];
#pragma unroll
        for (u32 w = 0; w < COUNT; ++w) {
          const Word word = a[from.at[w] >> 1];
          x[u].at[w] = (from.at[w] & 1) != 0 && word != 0 ? static_cast<Word>(p.q) - word : word;
        }
      });
    }
    if (product)
      each_position<kUnroll, kThreads>(part, packs,
                                       [&](u32 u, u32 i) { y[u] = load(reinterpret_cast<const Pack*>(b) + i, t.once & 2); });
    const Value weight = F::load(static_cast<Word>(t.weight));
#pragma unroll
    for (u32 u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (u32 w = 0; w < COUNT; ++w) {
        Value first = F::load(x[u].at[w]);
        if (product && t.weight != 1) first = F::load(static_cast<Word>(F::canonical(F::mul_reduced(first, weight, p), p)));
        sum[u][w].add(first, product ? F::load(y[u].at[w]) : weight, p);
        if (k % kFoldEvery == kFoldEvery - 1) sum[u][w].fold(p);
      }
    }
  }
  Pack* const out = reinterpret_cast<Pack*>(words_of<Word>(g.to[r.to], item, r.component, r.limb));
  const Word q = static_cast<Word>(p.q), constant = static_cast<Word>(r.constant);
  each_position<kUnroll, kThreads>(part, packs, [&](u32 u, u32 i) {
    Pack made;
#pragma unroll
    for (u32 w = 0; w < COUNT; ++w) {
      sum[u][w].fold(p);
      const Word here = F::canonical(sum[u][w].finish(p), p);
      made.at[w] = least<Word>(here + constant, here + constant - q);
    }
    out[i] = made;
  });
}

Operand operand(const View& v) { return {v.data, v.axes > 0 ? v.stride[0] : 0, v.component_stride, v.limb_stride}; }

}  // namespace

void CudaKernels::run(Queue& q, const device::LimbSums& call) {
  const CudaRing& ring = own_ring(q, *call.ring);
  const CudaLimbSums& list = own_as<CudaLimbSums>(q, *call.sums);
  const u32 results = static_cast<u32>(call.sums->list().results.size()), items = static_cast<u32>(call.to[0].items());
  if (results == 0) return;
  with_field(ring.kind(), [&](auto f) {
    using F = Arithmetic<decltype(f)>;
    constexpr u32 kPack = 16 / sizeof(typename F::Word);
    const u32 n = static_cast<u32>(call.to[0].n);
    const bool packed = n % kPack == 0;
    const u32 parts = (n / (packed ? kPack : 1) + kThreads * kUnroll - 1) / (kThreads * kUnroll);
    SumArguments<F> g{.from = {},
                      .to = {},
                      .turns = {},
                      .terms = list.terms().as<CudaLimbSums::Term>(),
                      .results = list.results().as<CudaLimbSums::Result>(),
                      .table = ring.primes().as<typename F::Prime>(),
                      .n = n,
                      .parts = Divisor(parts),
                      .items = Divisor(items)};
    for (std::size_t i = 0; i < call.from.size(); ++i) g.from[i] = operand(call.from[i]);
    for (std::size_t i = 0; i < call.to.size(); ++i) g.to[i] = operand(call.to[i]);
    for (std::size_t i = 0; i < call.turns.size(); ++i)
      g.turns[i] = own_as<CudaPermutation>(q, *call.turns[i]).table().as<u32>();
    const u64 blocks = u64{parts} * results * items;
    packed ? launch(q, "limb_sums", &limb_sums_kernel<F, kPack>, blocks, kThreads, 0, g)
           : launch(q, "limb_sums", &limb_sums_kernel<F, 1>, blocks, kThreads, 0, g);
  });
}

}  // namespace heliograph::backend::cuda
