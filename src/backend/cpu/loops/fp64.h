// Residues modulo numbers below 2^50 in double precision, four lanes (AVX2 with FMA). Products are exact:
//   h = fl(y w), l = y w - h, c = round(fl(y fl(w / q))), y w - c q = (h - c q) + l,
// each difference an integer below 2^53. Within a transform, words hold doubles.
#pragma once

#include <immintrin.h>

#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/plain_floats.h"
#include "backend/cpu/loops/unroll.h"

namespace heliograph::backend::cpu {
namespace {

/// Conversions between integers from 0 to 2^52 and doubles, with the exponent bits of 2^52.
HELIOGRAPH_INLINE __m256d double_of(__m256i x) {
  const __m256i exponent = _mm256_set1_epi64x(0x4330000000000000);
  return _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(x, exponent)), _mm256_set1_pd(4503599627370496.0));
}
HELIOGRAPH_INLINE __m256i integer_of(__m256d x) {
  const __m256d lifted = _mm256_add_pd(x, _mm256_set1_pd(4503599627370496.0));
  return _mm256_xor_si256(_mm256_castpd_si256(lifted), _mm256_set1_epi64x(0x4330000000000000));
}

struct Fp64 {
  using Word = u64;
  using Cell = double;
  using V = __m256d;
  using State = PlainFloats;
  struct Twiddle {
    V w, ratio;  // w between -q/2 and q/2, and w / q
  };
  static constexpr std::size_t kLanes = 4, kLaneCells = 1;
  static constexpr bool kRefresh = true, kShifts = false;
  static constexpr int kPassVectors = 8, kVertical = 3, kPairs = 4;

  V q, reciprocal;
  double prime;
  Twiddle last_x, last_y;

  explicit Fp64(const Modulus& m)
      : q(_mm256_set1_pd(static_cast<double>(m.q))),
        reciprocal(_mm256_set1_pd(1.0 / static_cast<double>(m.q))),
        prime(static_cast<double>(m.q)),
        last_x{q, q},
        last_y{q, q} {}

  static double centred(u64 w, u64 q) {
    return static_cast<double>(w > q / 2 ? static_cast<i64>(w) - static_cast<i64>(q) : static_cast<i64>(w));
  }
  static void encode_pair(const Modulus& m, u64 w, Cell* cell) {
    cell[0] = centred(w, m.q);
    cell[1] = cell[0] / static_cast<double>(m.q);
  }
  static void encode_lanes(const Modulus& m, const u64* w, std::size_t count, Cell* cell) {
    for (std::size_t i = 0; i < count; ++i) cell[i] = centred(w[i], m.q);
  }
  HELIOGRAPH_INLINE Twiddle pair(const Cell* cell) const { return {_mm256_set1_pd(cell[0]), _mm256_set1_pd(cell[1])}; }
  template <int Period>
  HELIOGRAPH_INLINE Twiddle lane_twiddle(const Cell* cell) const {
    V w;
    if constexpr (Period == 2)
      w = _mm256_permute4x64_pd(_mm256_castpd128_pd256(_mm_loadu_pd(cell)), 0x50);
    else
      w = _mm256_loadu_pd(cell);
    return {w, _mm256_mul_pd(w, reciprocal)};
  }
  void set_last(u64 x, u64 y) {
    const u64 modulus = static_cast<u64>(prime);
    const double wx = centred(x, modulus), wy = centred(y, modulus);
    last_x = {_mm256_set1_pd(wx), _mm256_set1_pd(wx / prime)};
    last_y = {_mm256_set1_pd(wy), _mm256_set1_pd(wy / prime)};
  }

  // (A0 A1 A2 A3, B0 B1 B2 B3) -> 2: (A0 A1 B0 B1, A2 A3 B2 B3) -> 1: (A0 A2 B0 B2, A1 A3 B1 B3).
  static HELIOGRAPH_INLINE void swap_halves(V& a, V& b) {
    const V x = _mm256_permute2f128_pd(a, b, 0x20);
    b = _mm256_permute2f128_pd(a, b, 0x31);
    a = x;
  }
  static HELIOGRAPH_INLINE void unpack(V& a, V& b) {
    const V x = _mm256_unpacklo_pd(a, b);
    b = _mm256_unpackhi_pd(a, b);
    a = x;
  }
  template <int Distance>
  static HELIOGRAPH_INLINE void spread(V& a, V& b) {
    Distance == 2 ? swap_halves(a, b) : unpack(a, b);
  }
  static HELIOGRAPH_INLINE void restore(V& a, V& b) { unpack(a, b), swap_halves(a, b); }
  template <int Distance>
  static HELIOGRAPH_INLINE void gather(V& a, V& b) {
    if constexpr (Distance == 1) swap_halves(a, b);
    unpack(a, b);
  }
  static HELIOGRAPH_INLINE void restore_back(V& a, V& b) { swap_halves(a, b); }

  // ---- butterflies: |values| below 8q. A forward stage grows u q to at most (1.19 u + 0.5) q, an inverse stage to 2 u q.
  HELIOGRAPH_INLINE V load_canonical(const u64* p) const {
    return double_of(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  HELIOGRAPH_INLINE V load(const u64* p) const { return _mm256_loadu_pd(reinterpret_cast<const double*>(p)); }
  HELIOGRAPH_INLINE void store(u64* p, V x) const { _mm256_storeu_pd(reinterpret_cast<double*>(p), x); }
  static HELIOGRAPH_INLINE V round(V x) { return _mm256_round_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  HELIOGRAPH_INLINE V refresh(V x) const { return _mm256_fnmadd_pd(round(_mm256_mul_pd(x, reciprocal)), q, x); }
  HELIOGRAPH_INLINE V product(V y, Twiddle t) const {
    const V h = _mm256_mul_pd(y, t.w), c = round(_mm256_mul_pd(y, t.ratio)), l = _mm256_fmsub_pd(y, t.w, h);
    return _mm256_add_pd(_mm256_fnmadd_pd(c, q, h), l);
  }
  template <bool Rest, bool Shifted, bool OneRange>
  HELIOGRAPH_INLINE void forward(V& x, V& y, Twiddle t) const {
    const V a = x, b = product(y, t);
    x = _mm256_add_pd(a, b);
    y = _mm256_sub_pd(a, b);
  }
  template <bool Rest>
  HELIOGRAPH_INLINE void inverse(V& x, V& y, Twiddle t) const {
    const V difference = _mm256_sub_pd(x, y);
    x = _mm256_add_pd(x, y);
    y = product(difference, t);
  }
  HELIOGRAPH_INLINE void inverse_last(V& x, V& y) const {
    const V difference = _mm256_sub_pd(x, y);
    x = product(_mm256_add_pd(x, y), last_x);
    y = product(difference, last_y);
  }
  /// Returns r in [0, q).
  HELIOGRAPH_INLINE V positive(V r) const {
    return _mm256_add_pd(r, _mm256_and_pd(_mm256_cmp_pd(r, _mm256_setzero_pd(), _CMP_LT_OQ), q));
  }
  template <bool Shifted>
  HELIOGRAPH_INLINE V canonical(V x) const {
    return positive(refresh(x));
  }
  HELIOGRAPH_INLINE void store_canonical(u64* p, V x) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), integer_of(x));
  }
};

/// Element-wise arithmetic on integers in memory, with the exact products described above.
struct Fp64Words {
  using Word = u64;
  using V = __m256i;
  using WordState = PlainFloats;
  static constexpr std::size_t kLanes = 4, kTerms = 8;

  Fp64 f;
  V q;
  explicit Fp64Words(const Modulus& m) : f(m), q(_mm256_set1_epi64x(static_cast<long long>(m.q))) {}

  HELIOGRAPH_INLINE V load(const u64* p) const { return _mm256_loadu_si256(reinterpret_cast<const V*>(p)); }
  HELIOGRAPH_INLINE void store(u64* p, V x) const { _mm256_storeu_si256(reinterpret_cast<V*>(p), x); }
  HELIOGRAPH_INLINE void store_past(u64* p, V x) const { _mm256_stream_si256(reinterpret_cast<V*>(p), x); }
  HELIOGRAPH_INLINE V load(const u32* p) const {
    return _mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  HELIOGRAPH_INLINE void store(u32* p, V x) const {
    const V even = _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(even));
  }
  HELIOGRAPH_INLINE V broadcast(u64 c) const { return _mm256_set1_epi64x(static_cast<long long>(c)); }
  HELIOGRAPH_INLINE V add(V a, V b) const {
    const V sum = _mm256_add_epi64(a, b);
    return _mm256_sub_epi64(sum, _mm256_andnot_si256(_mm256_cmpgt_epi64(q, sum), q));
  }
  HELIOGRAPH_INLINE V sub(V a, V b) const {
    const V d = _mm256_sub_epi64(a, b);
    return _mm256_add_epi64(d, _mm256_and_si256(_mm256_cmpgt_epi64(_mm256_setzero_si256(), d), q));
  }
  HELIOGRAPH_INLINE V neg(V a) const {
    return _mm256_andnot_si256(_mm256_cmpeq_epi64(a, _mm256_setzero_si256()), _mm256_sub_epi64(q, a));
  }
  struct Factor {
    __m256d w, ratio;
  };
  Factor factor(u64 c) const {
    const double w = static_cast<double>(c);
    return {_mm256_set1_pd(w), _mm256_set1_pd(w / f.prime)};
  }
  HELIOGRAPH_INLINE V mul_factor(V a, Factor t) const {
    return integer_of(f.positive(f.product(double_of(a), {t.w, t.ratio})));
  }
  HELIOGRAPH_INLINE __m256d raw(V a, V b) const {
    const __m256d y = double_of(b);
    return f.product(double_of(a), {y, _mm256_mul_pd(y, f.reciprocal)});
  }
  HELIOGRAPH_INLINE V mul(V a, V b) const { return integer_of(f.positive(raw(a, b))); }
  /// A sum of up to eight products, each below 0.9 q in magnitude.
  using Sum = __m256d;
  HELIOGRAPH_INLINE Sum sum_zero() const { return _mm256_setzero_pd(); }
  HELIOGRAPH_INLINE Sum sum_from(V a) const { return f.refresh(double_of(a)); }
  HELIOGRAPH_INLINE void accumulate(Sum& s, V a, V b) const { s = _mm256_add_pd(s, raw(a, b)); }
  HELIOGRAPH_INLINE V reduce(Sum s) const { return integer_of(f.positive(f.refresh(s))); }
};

/// Step two of a conversion: each product with a constant is reduced to less than 0.8 q and added.
template <class Word>
void fp64_combine(const CombineStep& s, const u64* y, std::size_t stride, const u64* v, const void* own, void* out,
                  std::size_t count) {
  constexpr int kVectors = 2;
  const PlainFloats state;
  const Fp64Words e(s.modulus);
  const Word* const x = static_cast<const Word*>(own);
  const Fp64Words::Factor wrap = e.factor(s.wrap), factor = e.factor(s.own);
  const auto add = [&](__m256d & sum, __m256i a, Fp64Words::Factor t) __attribute__((always_inline)) {
    sum = _mm256_add_pd(sum, e.f.product(double_of(a), {t.w, t.ratio}));
  };
  for (std::size_t i = 0; i < count; i += 4 * kVectors) {
    __m256d sum[kVectors];
    unroll<kVectors>([&](auto u) __attribute__((always_inline)) {
      sum[u()] = e.sum_zero();
      if (x) add(sum[u()], e.load(x + i + 4 * u()), factor);
      if (v) add(sum[u()], e.load(v + i + 4 * u()), wrap);
    });
    std::size_t left = 6;
    for (std::size_t k = 0; k < s.sources; ++k, --left) {
      if (left == 0) {
        unroll<kVectors>([&](auto u) __attribute__((always_inline)) { sum[u()] = e.f.refresh(sum[u()]); });
        left = 7;
      }
      const __m256d w = _mm256_set1_pd(static_cast<double>(s.row[k]));
      const Fp64Words::Factor row{w, _mm256_mul_pd(w, e.f.reciprocal)};
      unroll<kVectors>([&](auto u)
                           __attribute__((always_inline)) { add(sum[u()], e.load(y + k * stride + i + 4 * u()), row); });
    }
    unroll<kVectors>([&](auto u) __attribute__((always_inline)) {
      e.store(static_cast<Word*>(out) + i + 4 * u(), e.reduce(sum[u()]));
    });
  }
}

}  // namespace
}  // namespace heliograph::backend::cpu
