// Arithmetic modulo one prime, in the three variants of the kernels:
// Field32  32-bit words, primes below 2^30: Shoup products of 32-bit integers.
// Field50  64-bit words, primes below 2^50: exact FP64 products by two FMAs (h + l = a*b); adding 2^52 replaces casts.
// Field60  64-bit words, primes below 2^60: Shoup products of 64-bit integers.
// A Word is a canonical residue in memory. A Value is a lazily reduced residue inside a kernel, within the bounds below.
#pragma once

#include <cstdint>

#include "backend/cuda/runtime/turn.cuh"

namespace heliograph::backend::cuda {

template <class T>
__device__ __forceinline__ T least(T a, T b) {
  return a < b ? a : b;
}

/// Shared parts of fields with integer words. F defines the product by a constant, which is below 2q for any factor. Lazy
/// bounds (Harvey, arXiv 1205.2926): the values of a forward transform are below 4q, those of an inverse transform below 2q.
template <class F, class W>
struct LazyField {
  using Word = W;
  using Value = W;
  using Stored = W;  // type of a Value in memory between two passes

  static __device__ __forceinline__ Value load(Word w) { return w; }
  template <class Prime>
  static __device__ __forceinline__ Stored store(Value a, const Prime&) {
    return a;
  }
  static __device__ __forceinline__ Value restore(Stored s) { return s; }
  /// Reduces a value below 4q to canonical.
  template <class Prime>
  static __device__ __forceinline__ Word canonical(Value a, const Prime& p) {
    a = least(a, a - 2 * p.q);
    return least(a, a - p.q);
  }
  template <class Constant, class Prime>
  static __device__ __forceinline__ void forward(Value& u, Value& v, Constant w, const Prime& p, bool) {
    const Value x = least(u, u - 2 * p.q), y = F::mul(v, w, p);
    u = x + y;
    v = x - y + 2 * p.q;
  }
  template <class Constant, class Prime>
  static __device__ __forceinline__ void inverse(Value& u, Value& v, Constant w, const Prime& p, bool) {
    const Value s = u + v;
    v = F::mul(u - v + 2 * p.q, w, p);
    u = least(s, s - 2 * p.q);
  }
  template <class Prime>
  static __device__ __forceinline__ void inverse_last(Value& u, Value& v, const Prime& p) {
    const Value s = u + v;
    v = F::mul(u - v + 2 * p.q, p.last, p);
    u = F::mul(s, p.n_inverse, p);
  }
  /// Converts a Value of a transform to a factor of mul_reduced.
  template <class Prime>
  static __device__ __forceinline__ Value reduce(Value a, const Prime& p) {
    return canonical(a, p);
  }
  template <class Prime>
  static __device__ __forceinline__ Value add_reduced(Value a, Value b, const Prime& p) {
    return least(a + b, a + b - p.q);
  }
};

struct Field32 : LazyField<Field32, u32> {
  struct alignas(8) Constant {
    u32 w, quotient;  // quotient = floor(w 2^32 / q)
  };
  struct Prime {
    u32 q, mu, shift;          // mu = floor(2^(bits+30) / q), shift = bits - 2
    Constant n_inverse, last;  // 1/n, and 1/n times the inverse transform's last twiddle
    u64 mu64;                  // floor((2^64 - 1) / q)
    u64 fold;                  // the largest multiple of q up to 2^63
#ifdef HELIOGRAPH_WORKBENCH_FP64
    double inverse;  // 1/q, rounded
#endif
  };

  static __device__ __forceinline__ Value mul(Value a, Constant c, const Prime& p) {  // takes any a; the result is below 2q
    return a * c.w - __umulhi(a, c.quotient) * p.q;
  }
  /// Returns the canonical product of canonical factors (Barrett).
  static __device__ __forceinline__ Value mul_reduced(Value a, Value b, const Prime& p) {
    const u64 x = u64{a} * b;
    const u32 estimate = __umulhi(static_cast<u32>(x >> p.shift), p.mu);
    return canonical(static_cast<u32>(x) - estimate * p.q, p);
  }
};

/// A Value is a double that holds an integer. For |w| <= q/2 and |a| <= 4q < 2^52, let h = a w rounded, and b the integer
/// nearest to h/q, obtained by adding 1.5 2^52. Then a w - b q = (h - b q) + (a w - h) is exact and at most q in magnitude.
/// A forward pass of up to four stages ends below 3.9q for any input below 4q. An inverse pass keeps values within q,
/// because sums are reduced in every second stage.
struct Field50 {
  using Word = u64;
  using Value = double;
  using Stored = double;
  using Constant = double;  // an integer in [-q/2, q/2]
  struct Prime {
    double q, inverse;  // inverse = 1/q, rounded
    Constant n_inverse, last;
  };
  static constexpr double kRound = 6755399441055744.0;  // 1.5 2^52
  static constexpr double kWhole = 4503599627370496.0;  // 2^52

  static __device__ __forceinline__ Value load(Word w) {
    return __dadd_rn(__longlong_as_double(static_cast<long long>(w | 0x4330000000000000ULL)), -kWhole);
  }
  static __device__ __forceinline__ Stored store(Value a, const Prime&) { return a; }
  static __device__ __forceinline__ Value restore(Stored s) { return s; }
  static __device__ __forceinline__ double quotient(double h, const Prime& p) {
    return __dadd_rn(__fma_rn(h, p.inverse, kRound), -kRound);
  }
  /// Reduces |a| <= 4q to about q/2.
  static __device__ __forceinline__ Value reduce(Value a, const Prime& p) { return __fma_rn(-quotient(a, p), p.q, a); }
  static __device__ __forceinline__ Value mul(Value a, Constant w, const Prime& p) {
    const double h = __dmul_rn(a, w), l = __fma_rn(a, w, -h);
    return __dadd_rn(__fma_rn(-quotient(h, p), p.q, h), l);
  }
  static __device__ __forceinline__ Word word(Value a) {  // requires 0 <= a < 2^52
    return static_cast<u64>(__double_as_longlong(__dadd_rn(a, kWhole))) & 0xfffffffffffffULL;
  }
  /// Converts a, |a| < q, to the canonical residue, still as a double.
  static __device__ __forceinline__ Value positive(Value a, const Prime& p) { return a < 0 ? __dadd_rn(a, p.q) : a; }
  static __device__ __forceinline__ Word canonical(Value a, const Prime& p) { return word(positive(reduce(a, p), p)); }
  static __device__ __forceinline__ void forward(Value& u, Value& v, Constant w, const Prime& p, bool reduce_u) {
    const double x = reduce_u ? reduce(u, p) : u, y = mul(v, w, p);
    u = __dadd_rn(x, y);
    v = __dadd_rn(x, -y);
  }
  static __device__ __forceinline__ void inverse(Value& u, Value& v, Constant w, const Prime& p, bool reduce_sum) {
    const double s = __dadd_rn(u, v), d = __dadd_rn(u, -v);
    u = reduce_sum ? reduce(s, p) : s;
    v = mul(d, w, p);
  }
  static __device__ __forceinline__ void inverse_last(Value& u, Value& v, const Prime& p) {
    const double s = __dadd_rn(u, v), d = __dadd_rn(u, -v);
    u = mul(s, p.n_inverse, p);
    v = mul(d, p.last, p);
  }
  /// Factors are reduced or canonical; the product is below q in magnitude.
  static __device__ __forceinline__ Value mul_reduced(Value a, Value b, const Prime& p) { return mul(a, b, p); }
  static __device__ __forceinline__ Value add_reduced(Value a, Value b, const Prime& p) {
    return reduce(__dadd_rn(a, b), p);
  }
};

/// Field32's arithmetic with 64-bit words.
struct Field60 : LazyField<Field60, u64> {
  struct alignas(16) Constant {
    u64 w, quotient;  // quotient = floor(w 2^64 / q)
  };
  struct Prime {
    u64 q, mu;       // mu = floor((2^64 - 1) / q)
    Constant two64;  // 2^64 mod q
    Constant n_inverse, last;
  };

  static __device__ __forceinline__ Value mul(Value a, Constant c, const Prime& p) {
    return a * c.w - __umul64hi(a, c.quotient) * p.q;
  }
  /// Returns the canonical residue of any 64-bit number.
  static __device__ __forceinline__ u64 reduce64(u64 a, const Prime& p) {
    return canonical(a - __umul64hi(a, p.mu) * p.q, p);
  }
  /// Returns the canonical residue of any 128-bit number.
  static __device__ __forceinline__ u64 reduce128(u64 high, u64 low, const Prime& p) {
    const u64 r = mul(reduce64(high, p), p.two64, p) + reduce64(low, p);  // r is below 3q
    return canonical(r, p);
  }
  static __device__ __forceinline__ Value mul_reduced(Value a, Value b, const Prime& p) {
    return reduce128(__umul64hi(a, b), a * b, p);
  }
};

}  // namespace heliograph::backend::cuda

// For measurements: replaces Field32's arithmetic in transforms and sums by FP64 arithmetic of the workbench (-I workbench).
#ifdef HELIOGRAPH_WORKBENCH_FP64
#include <fp64.cuh>
#endif

namespace heliograph::backend::cuda {

#ifdef HELIOGRAPH_WORKBENCH_FP64
template <class F>
using Arithmetic = typename ArithmeticOf<F>::Type;
#else
/// Arithmetic that a field uses in transforms and in sums of limbs.
template <class F>
using Arithmetic = F;
#endif

}  // namespace heliograph::backend::cuda
