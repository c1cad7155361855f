// Digit products with AVX2's 16-bit multiply-add.
#pragma once

#include <immintrin.h>

#include "backend/cpu/loops/digit_product.h"

namespace heliograph::backend::cpu {
namespace {

struct Avx2Digits {
  using V = __m256i;
  static constexpr std::size_t kTile = 16;
  static constexpr int kOutputs = 2;

  static HELIOGRAPH_INLINE V zero() { return _mm256_setzero_si256(); }
  static HELIOGRAPH_INLINE V load(const void* p) { return _mm256_load_si256(static_cast<const V*>(p)); }
  static HELIOGRAPH_INLINE void store(void* p, V x) { _mm256_store_si256(static_cast<V*>(p), x); }
  static HELIOGRAPH_INLINE V broadcast(u32 w) { return _mm256_set1_epi32(static_cast<int>(w)); }
  static HELIOGRAPH_INLINE V dot(V sum, V x, V w) { return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w)); }
  template <bool High>
  static HELIOGRAPH_INLINE V interleave(V x, V y) {
    return High ? _mm256_unpackhi_epi16(x, y) : _mm256_unpacklo_epi16(x, y);
  }

  /// Cuts 16 words into vectors of digits. 128-bit lane L holds the words 2L, 4+2L, 2L+1, 5+2L, and the words with these
  /// numbers plus 8. In this order of words, the even lanes of a sum hold four consecutive words, and so do the odd lanes.
  struct Cut {
    V digit[4];
    __m128i step;
    Cut(int count, int bits) : step(_mm_cvtsi32_si128(16 - bits)) {
      for (int d = 0; d < 4; ++d)
        digit[d] = _mm256_set1_epi64x(d < count ? static_cast<long long>(((u64{1} << bits) - 1) << (16 * d)) : 0);
    }
    static HELIOGRAPH_INLINE V load4(const u64* p) { return _mm256_loadu_si256(reinterpret_cast<const V*>(p)); }
    static HELIOGRAPH_INLINE V load4(const u32* p) {
      return _mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
    HELIOGRAPH_INLINE V fields(V x) const {
      V r = _mm256_and_si256(x, digit[0]);
      unroll<3>([&](auto d) __attribute__((always_inline)) {
        x = _mm256_sll_epi64(x, step);
        r = _mm256_or_si256(r, _mm256_and_si256(x, digit[d() + 1]));
      });
      return r;
    }
    template <class Word>
    HELIOGRAPH_INLINE void operator()(const Word* x, char* to, std::size_t each) const {
      const V a = fields(load4(x)), b = fields(load4(x + 4)), c = fields(load4(x + 8)), d = fields(load4(x + 12));
      const V ab0 = _mm256_unpacklo_epi16(a, b), ab1 = _mm256_unpackhi_epi16(a, b);
      const V cd0 = _mm256_unpacklo_epi16(c, d), cd1 = _mm256_unpackhi_epi16(c, d);
      const V ab_low = _mm256_unpacklo_epi32(ab0, ab1), ab_high = _mm256_unpackhi_epi32(ab0, ab1);
      const V cd_low = _mm256_unpacklo_epi32(cd0, cd1), cd_high = _mm256_unpackhi_epi32(cd0, cd1);
      store(to, _mm256_unpacklo_epi64(ab_low, cd_low));
      store(to + each, _mm256_unpackhi_epi64(ab_low, cd_low));
      store(to + 2 * each, _mm256_unpacklo_epi64(ab_high, cd_high));
      store(to + 3 * each, _mm256_unpackhi_epi64(ab_high, cd_high));
    }
  };

  /// sum_d s_d 2^(bits d) mod q, by a small rounded quotient (see Avx512Digits). The upper digits' sum is below 2^51 and
  /// gives the quotient; for three digits the lowest is added, because it is comparable to q.
  template <int D>
  struct Join {
    V q, step, magic;
    __m256d scale, magic_float, low_scale;
    __m128i shift;
    Join(const Modulus& m, int bits)
        : q(set(m.q)),
          step(set(u64{1} << bits)),
          magic(set(0x4338000000000000)),
          scale(_mm256_set1_pd(static_cast<double>(u64{1} << (D == 4   ? 2 * bits
                                                              : D == 3 ? bits
                                                                       : 0)) /
                               static_cast<double>(m.q))),
          magic_float(_mm256_set1_pd(6755399441055744.0)),
          low_scale(_mm256_set1_pd(1.0 / static_cast<double>(m.q))),
          shift(_mm_cvtsi32_si128(D == 4 ? 2 * bits : bits)) {}
    static V set(u64 x) { return _mm256_set1_epi64x(static_cast<long long>(x)); }
    HELIOGRAPH_INLINE __m256d to_double(V x) const {
      return _mm256_sub_pd(_mm256_castsi256_pd(_mm256_add_epi64(x, magic)), magic_float);
    }
    static HELIOGRAPH_INLINE V multiply(V a, V b) {
      const V cross =
          _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), b), _mm256_mul_epu32(a, _mm256_srli_epi64(b, 32)));
      return _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64(cross, 32));
    }
    HELIOGRAPH_INLINE V residues(const V* s) const {
      const V one = set(1);
      V total, leading;
      __m256d low = _mm256_setzero_pd();
      if constexpr (D == 2) {
        total = leading = _mm256_add_epi64(_mm256_mul_epi32(s[0], one), _mm256_mul_epi32(s[1], step));
      } else if constexpr (D == 3) {
        const V lowest = _mm256_mul_epi32(s[0], one);
        leading = _mm256_add_epi64(_mm256_mul_epi32(s[1], one), _mm256_mul_epi32(s[2], step));
        total = _mm256_add_epi64(lowest, _mm256_sll_epi64(leading, shift));
        low = _mm256_mul_pd(to_double(lowest), low_scale);
      } else {
        leading = _mm256_add_epi64(_mm256_mul_epi32(s[2], one), _mm256_mul_epi32(s[3], step));
        total = _mm256_add_epi64(_mm256_add_epi64(_mm256_mul_epi32(s[0], one), _mm256_mul_epi32(s[1], step)),
                                 _mm256_sll_epi64(leading, shift));
      }
      const __m256d rounded = _mm256_add_pd(_mm256_fmadd_pd(to_double(leading), scale, low), magic_float);
      const V quotient = _mm256_sub_epi64(_mm256_castpd_si256(rounded), magic);
      const V r = _mm256_sub_epi64(total, multiply(quotient, q));
      return _mm256_add_epi64(r, _mm256_and_si256(_mm256_cmpgt_epi64(_mm256_setzero_si256(), r), q));
    }
    static HELIOGRAPH_INLINE void put(u64* p, V x) { _mm256_storeu_si256(reinterpret_cast<V*>(p), x); }
    static HELIOGRAPH_INLINE void put(u32* p, V x) {
      const V even = _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(even));
    }
    template <Put How, class Word>
    HELIOGRAPH_INLINE void finish(const V* s, Word* out) const {
      V r = residues(s);
      if constexpr (How == Put::add) {
        r = _mm256_add_epi64(r, Cut::load4(out));
        r = _mm256_sub_epi64(r, _mm256_andnot_si256(_mm256_cmpgt_epi64(q, r), q));
      }
      put(out, r);
    }
    template <Put How, class Word>
    HELIOGRAPH_INLINE void store(const V* s, Word* out) const {
      finish<How>(s, out);
      V odd[D];
      unroll<D>([&](auto d) __attribute__((always_inline)) { odd[d()] = _mm256_srli_epi64(s[d()], 32); });
      finish<How>(odd, out + 4);
    }
  };
};

}  // namespace
}  // namespace heliograph::backend::cpu
