// Shared parts of element-wise kernels and of sums of products of elements.
#pragma once

#include "backend/cuda/ring/elements.cuh"
#include "backend/cuda/ring/rows.cuh"

namespace heliograph::backend::cuda {

inline constexpr u32 kThreads = 256;
inline constexpr u32 kUnroll = 4;  // number of accesses that a thread has in flight

inline constexpr std::size_t kMostArguments = 4096;

template <class F>
struct Arguments {
  Strided a, b, out;
  Grid grid;
  Primes primes;
  const typename F::Prime* table;
  u32 n;
  u32 shift;  // one word of b serves 2^shift words of out
};

/// Operations on canonical words with canonical results.
template <class F>
__device__ __forceinline__ u64 modulus(const typename F::Prime& p) {
  return static_cast<u64>(p.q);
}

struct Adds {
  static constexpr bool kTwo = true, kOut = false;
  template <class F, class Word>
  static __device__ __forceinline__ Word apply(F, Word a, Word b, Word, const typename F::Prime& p) {
    const Word q = static_cast<Word>(modulus<F>(p));
    return least<Word>(a + b, a + b - q);
  }
};

inline u32 parts_of(std::size_t units, u32 each) { return static_cast<u32>((units + each - 1) / each); }

template <class F>
Arguments<F> arguments(const CudaRing& ring, const PrimeList& primes, const View& a, const View* b, const View& out,
                       u32 parts) {
  Arguments<F> g{.a = strided(a),
                 .out = strided(out),
                 .grid = Grid(parts, out),
                 .primes = primes_of(primes),
                 .table = ring.primes().as<typename F::Prime>(),
                 .n = static_cast<u32>(out.n),
                 .shift = b ? run_shift(*b, out.n) : 0};
  if (b) g.b = strided(*b);
  // An operand of one component serves all components of the result.
  if (a.components == 1) g.a.component = 0;
  if (b && b->components == 1) g.b.component = 0;
  return g;
}

}  // namespace heliograph::backend::cuda
