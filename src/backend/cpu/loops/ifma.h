// Residues modulo primes below 2^50 in eight 64-bit lanes; products by AVX-512 IFMA (52-bit halves).
#pragma once

#include <immintrin.h>

#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/plain_floats.h"
#include "backend/cpu/loops/unroll.h"

namespace heliograph::backend::cpu {
namespace {

struct Ifma {
  using State = PlainFloats;
  struct WordState {};
  using Word = u64;
  using Cell = u64;
  using V = __m512i;
  /// w 2^52 mod q and w / q mod 2^52: the Montgomery product y w 2^-52 takes one low and two high halves.
  struct Twiddle {
    V w, m;
  };
  static constexpr std::size_t kLanes = 8, kLaneCells = 1, kTerms = 15;
  static constexpr bool kRefresh = false, kShifts = true;
  static constexpr int kPassVectors = 16, kVertical = 4, kPairs = 8;

  V q, q2, minus_q, inverse52, two52, two52_shoup, one_shoup, mask;
  u64 prime, prime_inverse;
  Twiddle last_x, last_y;

  static HELIOGRAPH_INLINE V set(u64 x) { return _mm512_set1_epi64(static_cast<long long>(x)); }
  static HELIOGRAPH_INLINE V zero() { return _mm512_setzero_si512(); }
  static HELIOGRAPH_INLINE V low(V c, V a, V b) { return _mm512_madd52lo_epu64(c, a, b); }
  static HELIOGRAPH_INLINE V high(V c, V a, V b) { return _mm512_madd52hi_epu64(c, a, b); }
  static HELIOGRAPH_INLINE V fold(V x, V m) { return _mm512_min_epu64(x, _mm512_sub_epi64(x, m)); }

  /// Computes `fold` with the instruction vminpd, which leaves the multipliers' ports free. A negative x - m has a NaN's bit
  /// pattern, so the minimum is x; otherwise both operands are denormals, ordered as integers. Requires PlainFloats; |x|,
  /// |m| below 2^52.
  static HELIOGRAPH_INLINE V fold_float(V x, V m) {
    return _mm512_castpd_si512(_mm512_min_pd(_mm512_castsi512_pd(_mm512_sub_epi64(x, m)), _mm512_castsi512_pd(x)));
  }

  explicit Ifma(const Modulus& m)
      : q(set(m.q)),
        q2(set(2 * m.q)),
        minus_q(set(u64{0} - m.q)),
        inverse52(set(m.inverse52)),
        two52(set(m.two52)),
        two52_shoup(set(m.two52_shoup)),
        one_shoup(set(m.one_shoup52)),
        mask(set(kMask)),
        prime(m.q),
        prime_inverse(m.inverse52),
        last_x{zero(), zero()},
        last_y{zero(), zero()} {}

  static constexpr u64 kMask = (u64{1} << 52) - 1;
  static u64 montgomery(u64 w, u64 q) { return static_cast<u64>((u128{w} << 52) % q); }
  static void encode_pair(const Modulus& m, u64 w, Cell* cell) {
    cell[0] = montgomery(w, m.q);
    cell[1] = cell[0] * m.inverse52 & kMask;
  }
  static void encode_lanes(const Modulus& m, const u64* w, std::size_t count, Cell* cell) {
    // For distance 1 the words are in the order of the unpack instructions: groups 0 4 1 5 2 6 3 7.
    for (std::size_t i = 0; i < count; ++i) cell[i] = montgomery(w[count == 8 ? i / 2 + i % 2 * 4 : i], m.q);
  }
  HELIOGRAPH_INLINE Twiddle pair(const Cell* cell) const { return {set(cell[0]), set(cell[1])}; }
  /// The twiddle's companion m is computed, not loaded: this costs one product and halves the table.
  template <int Period>
  HELIOGRAPH_INLINE Twiddle lane_twiddle(const Cell* cell) const {
    V w;
    if constexpr (Period == 2)
      w = _mm512_broadcast_i64x2(_mm_load_si128(reinterpret_cast<const __m128i*>(cell)));
    else if constexpr (Period == 4)
      w = _mm512_broadcast_i64x4(_mm256_load_si256(reinterpret_cast<const __m256i*>(cell)));
    else
      w = _mm512_load_si512(cell);
    return {w, _mm512_mullo_epi64(w, inverse52)};
  }
  void set_last(u64 x, u64 y) {
    const u64 wx = montgomery(x, prime), wy = montgomery(y, prime);
    last_x = {set(wx), set(wx * prime_inverse & kMask)};
    last_y = {set(wy), set(wy * prime_inverse & kMask)};
  }

  // Reorders (x0 to x7, x8 to x15) for distance 4: (x0 x8 x1 x9 ... x3 x11, x4 x12 ...); for distance 2: (x0 x4 x8 x12 x1
  // ..., x2 x6 ...); for distance 1: even and odd words of each vector, alternating; at the end: the original order.
  static HELIOGRAPH_INLINE void shuffle(V& a, V& b, V first, V second) {
    const V x = _mm512_permutex2var_epi64(a, first, b);
    b = _mm512_permutex2var_epi64(a, second, b);
    a = x;
  }
  static HELIOGRAPH_INLINE void restore(V& a, V& b) {
    const V x = _mm512_unpacklo_epi64(a, b);
    b = _mm512_unpackhi_epi64(a, b);
    a = x;
  }
  static HELIOGRAPH_INLINE void restore_back(V& a, V& b) {
    shuffle(a, b, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15));
  }
  template <int Distance>
  static HELIOGRAPH_INLINE void spread(V& a, V& b) {
    if constexpr (Distance == 1) {
      shuffle(a, b, _mm512_setr_epi64(0, 2, 8, 10, 1, 3, 9, 11), _mm512_setr_epi64(4, 6, 12, 14, 5, 7, 13, 15));
    } else {
      shuffle(a, b, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15));
    }
  }
  template <int Distance>
  static HELIOGRAPH_INLINE void gather(V& a, V& b) {
    if constexpr (Distance == 1)
      restore(a, b);
    else if constexpr (Distance == 2)
      shuffle(a, b, _mm512_setr_epi64(0, 4, 1, 5, 8, 12, 9, 13), _mm512_setr_epi64(2, 6, 3, 7, 10, 14, 11, 15));
    else
      restore_back(a, b);
  }

  // ---- butterflies: below 4q forward, Shifted from -2q to 2q; below 2q backward
  HELIOGRAPH_INLINE V load(const u64* p) const { return _mm512_loadu_si512(p); }
  HELIOGRAPH_INLINE void store(u64* p, V x) const { _mm512_storeu_si512(p, x); }
  HELIOGRAPH_INLINE void store_past(u64* p, V x) const { _mm512_stream_si512(reinterpret_cast<V*>(p), x); }
  HELIOGRAPH_INLINE V load_canonical(const Word* p) const { return load(p); }
  HELIOGRAPH_INLINE void store_canonical(Word* p, V x) const { store(p, x); }
  template <bool Shifted>
  HELIOGRAPH_INLINE V canonical(V x) const {
    return fold_float(Shifted ? raise(x) : fold_float(x, q2), q);
  }

  /// Returns y w 2^-52 mod q in [0, 2q), for y below 2^52.
  HELIOGRAPH_INLINE V product(V y, Twiddle t) const {
    const V m = _mm512_mullo_epi64(y, t.m);
    V p = _mm512_sub_epi64(high(zero(), y, t.w), high(minus_q, m, q));
    asm("" : "+v"(p));  // prevents g++ from distributing this difference over later sums, which would cost one more addition
    return p;
  }
  /// Returns x mod q below 2q, for x from -2q to 2q.
  HELIOGRAPH_INLINE V raise(V x) const {
    return _mm512_castpd_si512(_mm512_min_pd(_mm512_castsi512_pd(x), _mm512_castsi512_pd(_mm512_add_epi64(x, q2))));
  }
  template <bool Rest, bool Shifted, bool OneRange>
  HELIOGRAPH_INLINE void forward(V& x, V& y, Twiddle t) const {
    const V a = Rest ? x : Shifted ? raise(x) : fold_float(x, q2), b = product(Shifted ? _mm512_add_epi64(y, q2) : y, t);
    x = _mm512_add_epi64(a, b);
    y = _mm512_sub_epi64(OneRange ? _mm512_add_epi64(a, q2) : a, b);
  }
  template <bool Rest>
  HELIOGRAPH_INLINE void inverse(V& x, V& y, Twiddle t) const {
    const V difference = _mm512_add_epi64(_mm512_sub_epi64(x, y), q2), sum = _mm512_add_epi64(x, y);
    x = Rest ? sum : fold_float(sum, q2);
    y = product(difference, t);
  }
  HELIOGRAPH_INLINE void inverse_last(V& x, V& y) const {
    const V difference = _mm512_add_epi64(_mm512_sub_epi64(x, y), q2);
    x = product(_mm512_add_epi64(x, y), last_x);
    y = product(difference, last_y);
  }

  struct Factor {
    V w, shoup;
  };
  struct Sum {
    V low, high;
  };
  HELIOGRAPH_INLINE V load(const u32* p) const {
    return _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  HELIOGRAPH_INLINE void store(u32* p, V x) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi64_epi32(x));
  }
  HELIOGRAPH_INLINE V broadcast(u64 c) const { return set(c); }
  HELIOGRAPH_INLINE V add(V a, V b) const { return fold(_mm512_add_epi64(a, b), q); }
  HELIOGRAPH_INLINE V sub(V a, V b) const {
    const V d = _mm512_sub_epi64(a, b);
    return _mm512_min_epu64(d, _mm512_add_epi64(d, q));
  }
  HELIOGRAPH_INLINE V neg(V a) const { return fold(_mm512_sub_epi64(q, a), q); }
  Factor factor(u64 c) const { return {set(c), set(static_cast<u64>((u128{c} << 52) / prime))}; }
  HELIOGRAPH_INLINE V lazy_factor(V a, Factor f) const {
    const V quotient = high(zero(), a, f.shoup);
    return _mm512_sub_epi64(low(zero(), a, f.w), low(zero(), quotient, q)) & mask;
  }
  HELIOGRAPH_INLINE V mul_factor(V a, Factor f) const { return fold(lazy_factor(a, f), q); }
  HELIOGRAPH_INLINE V mul(V a, V b) const { return reduce({low(zero(), a, b), high(zero(), a, b)}); }
  HELIOGRAPH_INLINE Sum sum_zero() const { return {zero(), zero()}; }
  HELIOGRAPH_INLINE Sum sum_from(V a) const { return {a, zero()}; }
  HELIOGRAPH_INLINE void accumulate(Sum& s, V a, V b) const { s.low = low(s.low, a, b), s.high = high(s.high, a, b); }
  /// Returns high * 2^52 + low mod q, for high + low / 2^52 below 2^52 and low below 2^63.
  HELIOGRAPH_INLINE V reduce(const Sum& s) const {
    const V h = _mm512_add_epi64(s.high, _mm512_srli_epi64(s.low, 52));
    const V quotient = high(high(zero(), h, two52_shoup), s.low, one_shoup);
    const V lazy = _mm512_sub_epi64(low(s.low, h, two52), low(zero(), quotient, q)) & mask;
    return fold(fold(lazy, q2), q);
  }
};

}  // namespace
}  // namespace heliograph::backend::cpu
