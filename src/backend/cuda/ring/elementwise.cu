// Element-wise kernels, permutations and copies. Element-wise kernels are memory-bound: a thread accesses 16 bytes at once
// if the degree allows it, with several accesses in flight.
#include <algorithm>
#include <chrono>

#include "backend/cuda/ring/elementwise.cuh"
#include "backend/cuda/ring/kernels.h"

namespace heliograph::backend::cuda {

namespace {

template <class F>
struct ConstantArguments {
  Arguments<F> common;
  device::LimbConstants constants;
  u32 everywhere;  // add_constants adds to every position, not only to coefficient 0
};

struct Subtracts {
  static constexpr bool kTwo = true, kOut = false;
  template <class F, class Word>
  static __device__ __forceinline__ Word apply(F, Word a, Word b, Word, const typename F::Prime& p) {
    const Word q = static_cast<Word>(modulus<F>(p));
    return least<Word>(a - b, a - b + q);
  }
};
struct Negates {
  static constexpr bool kTwo = false, kOut = false;
  template <class F, class Word>
  static __device__ __forceinline__ Word apply(F, Word a, Word, Word, const typename F::Prime& p) {
    return a == 0 ? a : static_cast<Word>(modulus<F>(p)) - a;
  }
};
struct Multiplies {
  static constexpr bool kTwo = true, kOut = false;
  template <class F, class Word>
  static __device__ __forceinline__ Word apply(F, Word a, Word b, Word, const typename F::Prime& p) {
    return F::canonical(F::mul_reduced(F::load(a), F::load(b), p), p);
  }
};
struct MultipliesOnto {
  static constexpr bool kTwo = true, kOut = true;
  template <class F, class Word>
  static __device__ __forceinline__ Word apply(F f, Word a, Word b, Word out, const typename F::Prime& p) {
    return Adds::apply(f, Multiplies::apply(f, a, b, out, p), out, out, p);
  }
};

/// A part has kThreads * kUnroll packs of COUNT words. If one word of b serves a run of words, COUNT is 1.
template <class F, class Op, u32 COUNT>
__global__ void __launch_bounds__(kThreads) elementwise_kernel(const __grid_constant__ Arguments<F> g) {
  take_turn();
  using Word = typename F::Word;
  using Pack = Packed<Word, COUNT>;
  const auto [at, p] = place_of(g);
  const auto* const a = reinterpret_cast<const Pack*>(limb_of<Word>(g.a, at.item, at.component, at.limb));
  const auto* const b = Op::kTwo ? reinterpret_cast<const Pack*>(limb_of<Word>(g.b, at.item, at.component, at.limb)) : a;
  auto* const out = reinterpret_cast<Pack*>(limb_of<Word>(g.out, at.item, at.component, at.limb));
  const u32 packs = g.n / COUNT, first = at.part * kThreads * kUnroll + threadIdx.x;
  Pack x[kUnroll], y[kUnroll], z[kUnroll];
#pragma unroll
  for (u32 k = 0; k < kUnroll; ++k) {
    const u32 i = first + k * kThreads;
    if (i >= packs) continue;
    x[k] = a[i];
    if (Op::kTwo) y[k] = COUNT == 1 ? b[i >> g.shift] : b[i];
    if (Op::kOut) z[k] = out[i];
  }
#pragma unroll
  for (u32 k = 0; k < kUnroll; ++k) {
    const u32 i = first + k * kThreads;
    if (i >= packs) continue;
    Pack r;
#pragma unroll
    for (u32 w = 0; w < COUNT; ++w)
      r.at[w] = Op::apply(F{}, x[k].at[w], Op::kTwo ? y[k].at[w] : Word{}, Op::kOut ? z[k].at[w] : Word{}, p);
    out[i] = r;
  }
}

template <class F, bool MULTIPLY>
__global__ void __launch_bounds__(kThreads) constants_kernel(const __grid_constant__ ConstantArguments<F> c) {
  take_turn();
  using Word = typename F::Word;
  const Arguments<F>& g = c.common;
  const auto [at, p] = place_of(g);
  const Word constant = static_cast<Word>(c.constants[at.limb]);
  const Word* const a = limb_of<Word>(g.a, at.item, at.component, at.limb);
  Word* const out = limb_of<Word>(g.out, at.item, at.component, at.limb);
  Word x[kUnroll];  // all loads precede the first store, because the operands may be the same memory
  each_position<kUnroll, kThreads>(at.part, g.n, [&](u32 k, u32 i) { x[k] = a[i]; });
  each_position<kUnroll, kThreads>(at.part, g.n, [&](u32 k, u32 i) {
    if constexpr (MULTIPLY) {
      out[i] = Multiplies::apply(F{}, x[k], constant, x[k], p);
    } else {
      out[i] = c.everywhere || i == 0 ? Adds::apply(F{}, x[k], constant, x[k], p) : x[k];
    }
  });
}

constexpr u32 kSumUnroll = 2;       // loads of a thread in flight for one term, and as many for the next term
constexpr u32 kWeightBytes = 2304;  // bytes of weights per launch: 32 limbs with the maximum number of terms in 64-bit words

template <class F>
struct WeightedArguments {
  Strided x[device::WeightedSum::kMost], out;
  Grid grid;
  Primes primes;
  const typename F::Prime* table;
  u32 n, terms;
  // for each limb, the weights of its terms, then the constant
  typename F::Word weights[kWeightBytes / sizeof(typename F::Word)];
};
/// Largest size of kernel arguments in bytes that every driver accepts.
static_assert(sizeof(WeightedArguments<Field32>) <= kMostArguments && sizeof(WeightedArguments<Field50>) <= kMostArguments &&
              sizeof(WeightedArguments<Field60>) <= kMostArguments);

/// A part has kThreads * kSumUnroll packs of COUNT words. The loads of a term overlap with the products of the previous
/// term. All loads precede the first store, because the operands may be the same memory.
template <class F, u32 COUNT>
__global__ void __launch_bounds__(kThreads) weighted_sum_kernel(const __grid_constant__ WeightedArguments<F> g) {
  take_turn();
  using Word = typename F::Word;
  using Pack = Packed<Word, COUNT>;
  const auto [at, p] = place_of(g);
  const u32 packs = g.n / COUNT, limb = at.limb * (g.terms + 1);
  KeySum<F> sum[kSumUnroll][COUNT];
#pragma unroll
  for (u32 u = 0; u < kSumUnroll; ++u) {
#pragma unroll
    for (u32 w = 0; w < COUNT; ++w) sum[u][w].start();
  }
  Pack words[kSumUnroll] = {};
  const auto fetch = [&](u32 k) {
    const auto* const x = reinterpret_cast<const Pack*>(limb_of<Word>(g.x[k], at.item, at.component, at.limb));
    each_position<kSumUnroll, kThreads>(at.part, packs, [&](u32 u, u32 i) { words[u] = x[i]; });
  };
  fetch(0);
  for (u32 k = 0; k < g.terms; ++k) {
    const typename F::Value weight = F::load(g.weights[limb + k]);
    typename F::Value x[kSumUnroll][COUNT];
#pragma unroll
    for (u32 u = 0; u < kSumUnroll; ++u) {
#pragma unroll
      for (u32 w = 0; w < COUNT; ++w) x[u][w] = F::load(words[u].at[w]);
    }
    if (k + 1 < g.terms) fetch(k + 1);
#pragma unroll
    for (u32 u = 0; u < kSumUnroll; ++u) {
#pragma unroll
      for (u32 w = 0; w < COUNT; ++w) {
        sum[u][w].add(x[u][w], weight, p);
        if (k % 4 == 3) sum[u][w].fold(p);
      }
    }
  }
  const Word constant = at.component == 0 ? g.weights[limb + g.terms] : Word{0};
  auto* const out = reinterpret_cast<Pack*>(limb_of<Word>(g.out, at.item, at.component, at.limb));
  each_position<kSumUnroll, kThreads>(at.part, packs, [&](u32 u, u32 i) {
    Pack r;
#pragma unroll
    for (u32 w = 0; w < COUNT; ++w) {
      sum[u][w].fold(p);
      const Word here = F::canonical(sum[u][w].finish(p), p);
      r.at[w] = Adds::apply(F{}, here, constant, here, p);
    }
    out[i] = r;
  });
}

template <class F>
__global__ void __launch_bounds__(kThreads) permute_kernel(const __grid_constant__ Arguments<F> g, const u32* table) {
  take_turn();
  using Word = typename F::Word;
  const auto [at, p] = place_of(g);
  const Word* const a = limb_of<Word>(g.a, at.item, at.component, at.limb);
  Word* const out = limb_of<Word>(g.out, at.item, at.component, at.limb);
  u32 from[kUnroll];
  Word x[kUnroll];
  each_position<kUnroll, kThreads>(at.part, g.n, [&](u32 k, u32 i) { from[k] = __ldg(table + i); });
  each_position<kUnroll, kThreads>(at.part, g.n, [&](u32 k, u32) { x[k] = a[from[k] >> 1]; });
  each_position<kUnroll, kThreads>(
      at.part, g.n, [&](u32 k, u32 i) { out[i] = from[k] & 1 ? Negates::apply(F{}, x[k], x[k], x[k], p) : x[k]; });
}

struct CopyArguments {
  Strided a, out;
  Grid grid;
  u32 bytes;  // length of a limb in bytes
  u32 zero;
};

template <class Unit>
__global__ void __launch_bounds__(kThreads) copy_kernel(const __grid_constant__ CopyArguments g) {
  take_turn();
  const At at = locate_in_order(g.grid, blockIdx.x);
  const auto row = [&](const Strided& v) {
    return v.word_bytes == 8 ? reinterpret_cast<Unit*>(limb_of<u64>(v, at.item, at.component, at.limb))
                             : reinterpret_cast<Unit*>(limb_of<u32>(v, at.item, at.component, at.limb));
  };
  const Unit* const a = g.zero ? nullptr : row(g.a);
  Unit* const out = row(g.out);
  const u32 units = g.bytes / sizeof(Unit);
  Unit x[kUnroll];
  each_position<kUnroll, kThreads>(at.part, units, [&](u32 k, u32 i) { x[k] = g.zero ? Unit{} : a[i]; });
  each_position<kUnroll, kThreads>(at.part, units, [&](u32 k, u32 i) { out[i] = x[k]; });
}

template <class Op>
void elementwise(Queue& q, const char* name, const device::RingConstant& prepared, const PrimeList& primes, const View& a,
                 const View* b, const View& out) {
  const CudaRing& ring = own_ring(q, prepared);
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    constexpr u32 kPack = 16 / sizeof(typename F::Word);
    const bool packed = out.n % kPack == 0 && (!b || b->n == out.n);
    const auto g = arguments<F>(ring, primes, a, b, out, parts_of(out.n / (packed ? kPack : 1), kThreads * kUnroll));
    packed ? launch(q, name, &elementwise_kernel<F, Op, kPack>, g.grid.blocks(), kThreads, 0, g)
           : launch(q, name, &elementwise_kernel<F, Op, 1>, g.grid.blocks(), kThreads, 0, g);
  });
}

template <bool MULTIPLY>
void with_constants(Queue& q, const char* name, const device::RingConstant& prepared, const PrimeList& primes, const View& a,
                    const device::LimbConstants& constants, bool everywhere, const View& out) {
  const CudaRing& ring = own_ring(q, prepared);
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    ConstantArguments<F> c{.common = arguments<F>(ring, primes, a, nullptr, out, parts_of(out.n, kThreads * kUnroll)),
                           .constants = constants,
                           .everywhere = everywhere};
    u32 threads = kThreads;
    if (!everywhere && a.data == out.data && a.stride == out.stride) {  // in place: only coefficient 0 changes
      c.common.n = 1;
      c.common.grid.parts = Divisor(1);
      threads = 32;
    }
    launch(q, name, &constants_kernel<F, MULTIPLY>, c.common.grid.blocks(), threads, 0, c);
  });
}

/// Returns whether the start and the length of each limb of a view are multiples of `bytes`.
bool lies_at(const View& v, std::size_t bytes) {
  const std::size_t word = v.word_size();
  bool good = reinterpret_cast<std::uintptr_t>(v.data) % bytes == 0;
  for (std::size_t words : {v.n, v.limb_stride, v.component_stride}) good = good && words * word % bytes == 0;
  for (int i = 0; i < v.axes; ++i)
    good = good && v.stride[i] * static_cast<std::ptrdiff_t>(word) % static_cast<std::ptrdiff_t>(bytes) == 0;
  return good;
}

void copy_words(Queue& q, const char* name, const View* a, const View& out) {
  if (out.items() == 0) return;
  const std::size_t bytes = out.n * out.word_size();
  CopyArguments g{.out = strided(out), .grid = Grid(1, out), .bytes = static_cast<u32>(bytes), .zero = a == nullptr};
  if (a) g.a = strided(*a);
  const std::size_t unit = lies_at(out, 16) && (a == nullptr || lies_at(*a, 16)) ? 16 : 4;
  g.grid.parts = Divisor(parts_of(bytes / unit, kThreads * kUnroll));
  unit == 16 ? launch(q, name, &copy_kernel<uint4>, g.grid.blocks(), kThreads, 0, g)
             : launch(q, name, &copy_kernel<u32>, g.grid.blocks(), kThreads, 0, g);
}

/// Computes independent products in registers, to measure their rate.
__global__ void ceiling_kernel(double* out, double q, u32 rounds) {
  take_turn();
  const Field50::Prime p{.q = q, .inverse = 1.0 / q};
  double v[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = threadIdx.x * 8.0 + i + blockIdx.x;
  for (u32 r = 0; r < rounds; ++r) {
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = Field50::mul(v[i], 123456789012345.0, p);
  }
  double sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += v[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

}  // namespace

void CudaKernels::run(Queue& q, const device::Add& c) { elementwise<Adds>(q, "add", *c.ring, c.primes, c.a, &c.b, c.out); }
void CudaKernels::run(Queue& q, const device::Sub& c) {
  elementwise<Subtracts>(q, "sub", *c.ring, c.primes, c.a, &c.b, c.out);
}
void CudaKernels::run(Queue& q, const device::Neg& c) {
  elementwise<Negates>(q, "neg", *c.ring, c.primes, c.a, nullptr, c.out);
}
void CudaKernels::run(Queue& q, const device::Mul& c) {
  elementwise<Multiplies>(q, "mul", *c.ring, c.primes, c.a, &c.b, c.out);
}
void CudaKernels::run(Queue& q, const device::MulAccumulate& c) {
  elementwise<MultipliesOnto>(q, "mul_accumulate", *c.ring, c.primes, c.a, &c.b, c.out);
}
void CudaKernels::run(Queue& q, const device::MulConstants& call) {
  with_constants<true>(q, "mul_constants", *call.ring, call.primes, call.a, call.c, true, call.out);
}
void CudaKernels::run(Queue& q, const device::AddConstants& call) {
  with_constants<false>(q, "add_constants", *call.ring, call.primes, call.a, call.c, call.domain == math::Domain::ntt,
                        call.out);
}

void CudaKernels::run(Queue& q, const device::WeightedSum& call) {
  const CudaRing& ring = own_ring(q, *call.ring);
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    using Word = typename F::Word;
    constexpr u32 kPack = 16 / sizeof(Word);
    const bool packed = call.out.n % kPack == 0;
    const u32 parts = parts_of(call.out.n / (packed ? kPack : 1), kThreads * kSumUnroll);
    const std::size_t terms = call.x.size(), each = terms + 1, most = kWeightBytes / sizeof(Word) / each;
    for (std::size_t first = 0; first < call.out.limbs; first += most) {  // weights of `most` limbs fit a launch
      const std::size_t limbs = std::min(most, call.out.limbs - first);
      const View out = call.out.with_limbs(first, limbs);
      WeightedArguments<F> g{.x = {},
                             .out = strided(out),
                             .grid = Grid(parts, out),
                             .primes = primes_of(PrimeList(call.primes.begin() + first, limbs)),
                             .table = ring.primes().as<typename F::Prime>(),
                             .n = static_cast<u32>(out.n),
                             .terms = static_cast<u32>(terms),
                             .weights = {}};
      for (std::size_t k = 0; k < terms; ++k) {
        g.x[k] = strided(call.x[k].with_limbs(first, limbs));
        for (std::size_t l = 0; l < limbs; ++l) g.weights[l * each + k] = static_cast<Word>((*call.weights)[k][first + l]);
      }
      for (std::size_t l = 0; l < limbs && call.constant; ++l)
        g.weights[l * each + terms] = static_cast<Word>((*call.constant)[first + l]);
      packed ? launch(q, "weighted_sum", &weighted_sum_kernel<F, kPack>, g.grid.blocks(), kThreads, 0, g)
             : launch(q, "weighted_sum", &weighted_sum_kernel<F, 1>, g.grid.blocks(), kThreads, 0, g);
    }
  });
}

void CudaKernels::run(Queue& q, const device::Permute& c) {
  const CudaRing& ring = own_ring(q, *c.ring);
  const u32* const table = own_as<CudaPermutation>(q, *c.permutation).table().as<u32>();
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    const auto g = arguments<F>(ring, c.primes, c.a, nullptr, c.out, parts_of(c.out.n, kThreads * kUnroll));
    launch(q, "permute", &permute_kernel<F>, g.grid.blocks(), kThreads, 0, g, table);
  });
}

void CudaKernels::run(Queue& q, const device::Copy& c) { copy_words(q, "copy", &c.a, c.out); }
void CudaKernels::run(Queue& q, const device::Zero& c) { copy_words(q, "zero", nullptr, c.out); }

double CudaKernels::product_ceiling() {
  constexpr u32 kRounds = 4096;
  const u32 blocks = static_cast<u32>(state_->properties().processors) * 8;
  const Table out(state_, nullptr, 0, std::size_t{blocks} * kThreads * sizeof(double));
  CudaQueue queue(state_);
  double best = 0;
  for (int run = 0; run < 5; ++run) {
    queue.wait();
    const auto start = std::chrono::steady_clock::now();
    launch(queue, "ceiling", &ceiling_kernel, blocks, kThreads, 0, const_cast<double*>(out.as<double>()), 1125899904679937.0,
           kRounds);
    queue.wait();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, 8.0 * kRounds * blocks * kThreads / time.count());
  }
  return best;
}

}  // namespace heliograph::backend::cuda
