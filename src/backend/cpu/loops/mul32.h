// Residues modulo primes below 2^30 in 32-bit lanes: Shoup products by 32-bit multiplications, even and odd lanes
// separately. S, the instruction set, provides a vector of S::kLanes 32-bit lanes and the operations listed below.
#pragma once

#include <immintrin.h>

#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/unroll.h"

namespace heliograph::backend::cpu {
namespace {

template <class S>
struct Mul32 {
  using Word = u32;
  using Cell = u32;
  using V = typename S::V;
  struct State {};
  struct WordState {};
  struct Twiddle {
    V w, shoup;
    V odd_shoup;  // Shoup companions of the odd lanes, moved to even lanes
  };
  static constexpr std::size_t kLanes = S::kLanes, kLaneCells = 2, kTerms = 15;
  static constexpr bool kRefresh = false, kShifts = false;
  static constexpr int kPassVectors = S::kVertical == 4 ? 16 : 8, kVertical = S::kVertical, kPairs = 4;

  u32 prime;
  V q, q2;
  V two32, two32_shoup, one_shoup;
  Twiddle last_x, last_y;

  static u32 shoup(u64 w, u64 q) { return static_cast<u32>((w << 32) / q); }
  explicit Mul32(const Modulus& m)
      : prime(static_cast<u32>(m.q)), q(S::set(prime)), q2(S::set(2 * prime)), last_x{q, q, q}, last_y{q, q, q} {
    const u64 two = (u64{1} << 32) % m.q;
    two32 = S::set(static_cast<u32>(two)), two32_shoup = S::set(shoup(two, m.q)),
    one_shoup = S::set(static_cast<u32>((u64{1} << 32) / m.q));
  }

  static void encode_pair(const Modulus& m, u64 w, Cell* cell) { cell[0] = static_cast<u32>(w), cell[1] = shoup(w, m.q); }
  static void encode_lanes(const Modulus& m, const u64* w, std::size_t count, Cell* cell) {
    for (std::size_t i = 0; i < count; ++i) cell[i] = static_cast<u32>(w[i]), cell[count + i] = shoup(w[i], m.q);
  }
  HELIOGRAPH_INLINE Twiddle pair(const Cell* cell) const {
    const V companion = S::set(cell[1]);
    return {S::set(cell[0]), companion, companion};
  }
  template <int Period>
  HELIOGRAPH_INLINE Twiddle lane_twiddle(const Cell* cell) const {
    const V companion = S::template repeat<Period>(cell + Period);
    return {S::template repeat<Period>(cell), companion, S::odd(companion)};
  }
  Twiddle constant(u64 w) const {
    const V companion = S::set(shoup(w, prime));
    return {S::set(static_cast<u32>(w)), companion, companion};
  }
  void set_last(u64 x, u64 y) { last_x = constant(x), last_y = constant(y); }

  template <int Distance>
  static HELIOGRAPH_INLINE void spread(V& a, V& b) {
    S::interleave(a, b);
  }
  static HELIOGRAPH_INLINE void restore(V& a, V& b) { S::interleave(a, b); }
  template <int Distance>
  static HELIOGRAPH_INLINE void gather(V& a, V& b) {
    S::deinterleave(a, b);
  }
  static HELIOGRAPH_INLINE void restore_back(V& a, V& b) { S::deinterleave(a, b); }

  // ---- butterflies: below 4q forward, below 2q backward
  HELIOGRAPH_INLINE V load(const u32* p) const { return S::load(p); }
  HELIOGRAPH_INLINE void store(u32* p, V x) const { S::store(p, x); }
  HELIOGRAPH_INLINE void store_past(u32* p, V x) const { S::store_past(p, x); }
  HELIOGRAPH_INLINE V load_canonical(const u32* p) const { return S::load(p); }
  HELIOGRAPH_INLINE void store_canonical(u32* p, V x) const { S::store(p, x); }
  static HELIOGRAPH_INLINE V fold(V x, V m) { return S::min(x, S::sub(x, m)); }
  template <bool Shifted>
  HELIOGRAPH_INLINE V canonical(V x) const {
    return fold(fold(x, q2), q);
  }

  /// Returns y w mod q below 2q, for any y.
  HELIOGRAPH_INLINE V product(V y, const Twiddle& t) const {
    const V quotient = S::join_high(S::mul(y, t.shoup), S::mul(S::odd(y), t.odd_shoup));
    return S::sub(S::mul_low(y, t.w), S::mul_low(quotient, q));
  }
  template <bool Rest, bool Shifted, bool OneRange>
  HELIOGRAPH_INLINE void forward(V& x, V& y, const Twiddle& t) const {
    const V a = fold(x, q2), b = product(y, t);
    x = S::add(a, b);
    y = S::sub(S::add(a, q2), b);
  }
  template <bool Rest>
  HELIOGRAPH_INLINE void inverse(V& x, V& y, const Twiddle& t) const {
    const V difference = S::add(S::sub(x, y), q2);
    x = fold(S::add(x, y), q2);
    y = product(difference, t);
  }
  HELIOGRAPH_INLINE void inverse_last(V& x, V& y) const {
    const V difference = S::add(S::sub(x, y), q2);
    x = product(S::add(x, y), last_x);
    y = product(difference, last_y);
  }

  using Factor = Twiddle;
  struct Sum {
    V even, odd;  // 64-bit sums of even and odd lanes
  };
  HELIOGRAPH_INLINE V broadcast(u64 c) const { return S::set(static_cast<u32>(c)); }
  HELIOGRAPH_INLINE V add(V a, V b) const { return fold(S::add(a, b), q); }
  HELIOGRAPH_INLINE V sub(V a, V b) const {
    const V d = S::sub(a, b);
    return S::min(d, S::add(d, q));
  }
  HELIOGRAPH_INLINE V neg(V a) const { return fold(S::sub(q, a), q); }
  /// Gathers words from the positions source >> 1, negated if `source` is odd.
  HELIOGRAPH_INLINE V turned(const u32* a, const u32* source) const requires requires { S::gather_signed(a, source, q); }
  { return S::gather_signed(a, source, q); }
  Factor factor(u64 c) const { return constant(c); }
  HELIOGRAPH_INLINE V mul_factor(V a, const Factor& f) const { return fold(product(a, f), q); }
  HELIOGRAPH_INLINE V mul(V a, V b) const { return reduce({S::mul(a, b), S::mul(S::odd(a), S::odd(b))}); }
  /// Returns the number of products that fit 64 bits together with one residue.
  std::size_t terms() const { return static_cast<std::size_t>((~u64{0} - prime) / (u64{prime} * prime)); }
  HELIOGRAPH_INLINE Sum sum_zero() const { return {S::zero(), S::zero()}; }
  HELIOGRAPH_INLINE Sum sum_from(V a) const { return {S::low_halves(a), S::odd(a)}; }
  HELIOGRAPH_INLINE void accumulate(Sum& s, V a, V b) const {
    s.even = S::add64(s.even, S::mul(a, b));
    s.odd = S::add64(s.odd, S::mul(S::odd(a), S::odd(b)));
  }
  /// Returns x modulo q, below 4q. x is high * 2^32 + low; each half takes one lazy product.
  HELIOGRAPH_INLINE V lazy(V x) const {
    const V high = S::odd(x);
    const V a = S::sub64(S::mul(high, two32), S::mul(S::odd(S::mul(high, two32_shoup)), q));
    const V b = S::sub64(S::low_halves(x), S::mul(S::odd(S::mul(x, one_shoup)), q));
    return S::add64(a, b);
  }
  HELIOGRAPH_INLINE V reduce(const Sum& s) const { return fold(fold(S::join_low(lazy(s.even), lazy(s.odd)), q2), q); }
};

#if defined(__AVX512F__)
struct Lanes32x16 {
  using V = __m512i;
  static constexpr std::size_t kLanes = 16;
  static constexpr int kVertical = 4;
  static HELIOGRAPH_INLINE V zero() { return _mm512_setzero_si512(); }
  static HELIOGRAPH_INLINE V set(u32 x) { return _mm512_set1_epi32(static_cast<int>(x)); }
  static HELIOGRAPH_INLINE V load(const u32* p) { return _mm512_loadu_si512(p); }
  static HELIOGRAPH_INLINE void store(u32* p, V x) { _mm512_storeu_si512(p, x); }
  static HELIOGRAPH_INLINE void store_past(u32* p, V x) { _mm512_stream_si512(reinterpret_cast<V*>(p), x); }
  static HELIOGRAPH_INLINE V add(V a, V b) { return _mm512_add_epi32(a, b); }
  static HELIOGRAPH_INLINE V sub(V a, V b) { return _mm512_sub_epi32(a, b); }
  static HELIOGRAPH_INLINE V min(V a, V b) { return _mm512_min_epu32(a, b); }
  static HELIOGRAPH_INLINE V mul_low(V a, V b) { return _mm512_mullo_epi32(a, b); }
  static HELIOGRAPH_INLINE V mul(V a, V b) { return _mm512_mul_epu32(a, b); }
  static HELIOGRAPH_INLINE V add64(V a, V b) { return _mm512_add_epi64(a, b); }
  static HELIOGRAPH_INLINE V sub64(V a, V b) { return _mm512_sub_epi64(a, b); }
  static HELIOGRAPH_INLINE V odd(V x) { return _mm512_srli_epi64(x, 32); }
  static HELIOGRAPH_INLINE V low_halves(V x) { return _mm512_and_si512(x, _mm512_set1_epi64(0xffffffff)); }
  /// Join the upper, or the lower, halves of the 64-bit lanes of two vectors.
  static HELIOGRAPH_INLINE V join_high(V even, V odd) {
    return _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
  }
  static HELIOGRAPH_INLINE V join_low(V even, V odd) { return _mm512_or_si512(even, _mm512_slli_epi64(odd, 32)); }
  static HELIOGRAPH_INLINE V gather_signed(const u32* a, const u32* source, V q) {
    const V from = _mm512_loadu_si512(source), x = _mm512_i32gather_epi32(_mm512_srli_epi32(from, 1), a, 4);
    const __mmask16 negated = _mm512_test_epi32_mask(from, _mm512_set1_epi32(1)) & _mm512_test_epi32_mask(x, x);
    return _mm512_mask_sub_epi32(x, negated, q, x);
  }
  template <int Period>
  static HELIOGRAPH_INLINE V repeat(const u32* p) {
    if constexpr (Period == 2)
      return _mm512_broadcastq_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    else if constexpr (Period == 4)
      return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    else if constexpr (Period == 8)
      return _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    else
      return _mm512_loadu_si512(p);
  }
  static HELIOGRAPH_INLINE void interleave(V& a, V& b) {
    const V x = _mm512_permutex2var_epi32(a, _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), b);
    b = _mm512_permutex2var_epi32(a, _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31), b);
    a = x;
  }
  static HELIOGRAPH_INLINE void deinterleave(V& a, V& b) {
    const V x =
        _mm512_permutex2var_epi32(a, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), b);
    b = _mm512_permutex2var_epi32(a, _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), b);
    a = x;
  }
};
#endif

struct Lanes32x8 {
  using V = __m256i;
  static constexpr std::size_t kLanes = 8;
  static constexpr int kVertical = 3;
  static HELIOGRAPH_INLINE V zero() { return _mm256_setzero_si256(); }
  static HELIOGRAPH_INLINE V set(u32 x) { return _mm256_set1_epi32(static_cast<int>(x)); }
  static HELIOGRAPH_INLINE V load(const u32* p) { return _mm256_loadu_si256(reinterpret_cast<const V*>(p)); }
  static HELIOGRAPH_INLINE void store(u32* p, V x) { _mm256_storeu_si256(reinterpret_cast<V*>(p), x); }
  static HELIOGRAPH_INLINE void store_past(u32* p, V x) { _mm256_stream_si256(reinterpret_cast<V*>(p), x); }
  static HELIOGRAPH_INLINE V add(V a, V b) { return _mm256_add_epi32(a, b); }
  static HELIOGRAPH_INLINE V sub(V a, V b) { return _mm256_sub_epi32(a, b); }
  static HELIOGRAPH_INLINE V min(V a, V b) { return _mm256_min_epu32(a, b); }
  static HELIOGRAPH_INLINE V mul_low(V a, V b) { return _mm256_mullo_epi32(a, b); }
  static HELIOGRAPH_INLINE V mul(V a, V b) { return _mm256_mul_epu32(a, b); }
  static HELIOGRAPH_INLINE V add64(V a, V b) { return _mm256_add_epi64(a, b); }
  static HELIOGRAPH_INLINE V sub64(V a, V b) { return _mm256_sub_epi64(a, b); }
  static HELIOGRAPH_INLINE V odd(V x) { return _mm256_srli_epi64(x, 32); }
  static HELIOGRAPH_INLINE V low_halves(V x) { return _mm256_and_si256(x, _mm256_set1_epi64x(0xffffffff)); }
  static HELIOGRAPH_INLINE V join_high(V even, V odd) { return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa); }
  static HELIOGRAPH_INLINE V join_low(V even, V odd) { return _mm256_or_si256(even, _mm256_slli_epi64(odd, 32)); }
  template <int Period>
  static HELIOGRAPH_INLINE V repeat(const u32* p) {
    if constexpr (Period == 2)
      return _mm256_broadcastq_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    else if constexpr (Period == 4)
      return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    else
      return load(p);
  }
  static HELIOGRAPH_INLINE void interleave(V& a, V& b) {
    const V low = _mm256_unpacklo_epi32(a, b), high = _mm256_unpackhi_epi32(a, b);
    a = _mm256_permute2x128_si256(low, high, 0x20);
    b = _mm256_permute2x128_si256(low, high, 0x31);
  }
  static HELIOGRAPH_INLINE void deinterleave(V& a, V& b) {
    const __m256 x = _mm256_castsi256_ps(a), y = _mm256_castsi256_ps(b);
    a = _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(x, y, 0x88)), 0xd8);
    b = _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(x, y, 0xdd)), 0xd8);
  }
};

}  // namespace
}  // namespace heliograph::backend::cpu
