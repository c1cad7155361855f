// Digit products with AVX-512 VNNI.
#pragma once

#include <immintrin.h>

#include "backend/cpu/loops/digit_product.h"

namespace heliograph::backend::cpu {
namespace {

struct Avx512Digits {
  using V = __m512i;
  static constexpr std::size_t kTile = 32;
  static constexpr int kOutputs = 5;

  static HELIOGRAPH_INLINE V zero() { return _mm512_setzero_si512(); }
  static HELIOGRAPH_INLINE V load(const void* p) { return _mm512_load_si512(p); }
  static HELIOGRAPH_INLINE void store(void* p, V x) { _mm512_store_si512(p, x); }
  static HELIOGRAPH_INLINE V broadcast(u32 w) { return _mm512_set1_epi32(static_cast<int>(w)); }
  /// Written as inline assembly, because g++ 12 copies the sum around its builtin and spills registers.
  static HELIOGRAPH_INLINE V dot(V sum, V x, V w) {
    asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
  }
  template <bool High>
  static HELIOGRAPH_INLINE V interleave(V x, V y) {
    return High ? _mm512_unpackhi_epi16(x, y) : _mm512_unpacklo_epi16(x, y);
  }

  /// Cuts 32 words into vectors of digits. 128-bit lane L holds the words 2L, 8+2L, 2L+1, 9+2L, and the words with these
  /// numbers plus 16. The sums' even and odd lanes then hold eight words in order.
  struct Cut {
    int bits;
    V mask, fields1, fields2, fields3;
    Cut(int count, int digit_bits) : bits(digit_bits) {
      const u64 digit = (u64{1} << digit_bits) - 1;
      u64 all = 0;
      for (int d = 0; d < count; ++d) all |= digit << (16 * d);
      mask = set(all);
      fields1 = set(u64{0xffff} << 16), fields2 = set(u64{0xffff} << 32), fields3 = set(u64{0xffff} << 48);
    }
    static V set(u64 x) { return _mm512_set1_epi64(static_cast<long long>(x)); }
    static HELIOGRAPH_INLINE V load8(const u64* p) { return _mm512_loadu_si512(p); }
    static HELIOGRAPH_INLINE V load8(const u32* p) {
      return _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    /// Moves digit d to bits 16 d of its word.
    HELIOGRAPH_INLINE V fields(V x) const {
      const __m128i step = _mm_cvtsi32_si128(16 - bits);
      const V x1 = _mm512_sll_epi64(x, step), x2 = _mm512_sll_epi64(x1, step), x3 = _mm512_sll_epi64(x2, step);
      V r = _mm512_ternarylogic_epi64(fields1, x1, x,
                                      0xca);  // selects the second operand where the mask is set, else the third
      r = _mm512_ternarylogic_epi64(fields2, x2, r, 0xca);
      r = _mm512_ternarylogic_epi64(fields3, x3, r, 0xca);
      return _mm512_and_si512(r, mask);
    }
    template <class Word>
    HELIOGRAPH_INLINE void operator()(const Word* x, char* to, std::size_t step) const {
      const V a = fields(load8(x)), b = fields(load8(x + 8)), c = fields(load8(x + 16)), d = fields(load8(x + 24));
      const V ab0 = _mm512_unpacklo_epi16(a, b), ab1 = _mm512_unpackhi_epi16(a, b);
      const V cd0 = _mm512_unpacklo_epi16(c, d), cd1 = _mm512_unpackhi_epi16(c, d);
      const V ab_low = _mm512_unpacklo_epi32(ab0, ab1), ab_high = _mm512_unpackhi_epi32(ab0, ab1);
      const V cd_low = _mm512_unpacklo_epi32(cd0, cd1), cd_high = _mm512_unpackhi_epi32(cd0, cd1);
      store(to, _mm512_unpacklo_epi64(ab_low, cd_low));
      store(to + step, _mm512_unpackhi_epi64(ab_low, cd_low));
      store(to + 2 * step, _mm512_unpacklo_epi64(ab_high, cd_high));
      store(to + 3 * step, _mm512_unpackhi_epi64(ab_high, cd_high));
    }
  };

  /// sum_d s_d 2^(bits d) mod q. A rounded floating-point product gives the quotient, which is small, with an error of less
  /// than 1/2 beyond rounding. For D = 4 only the upper two sums determine the quotient; the lower two are below q / 2.
  template <int D>
  struct Join {
    V q, magic;
    __m512d scale;
    __m512d magic_float;
    __m128i upper_shift;
    V step;
    Join(const Modulus& m, int bits)
        : q(set(m.q)),
          magic(set(0x4338000000000000)),
          scale(_mm512_set1_pd((D == 4 ? static_cast<double>(u64{1} << (2 * bits)) : 1.0) / static_cast<double>(m.q))),
          magic_float(_mm512_set1_pd(6755399441055744.0)),
          upper_shift(_mm_cvtsi32_si128(2 * bits)),
          step(set(u64{1} << bits)) {}
    static V set(u64 x) { return _mm512_set1_epi64(static_cast<long long>(x)); }

    /// Returns the residues of eight words, from the lower 32 bits of each 64-bit lane.
    HELIOGRAPH_INLINE V residues(const V* s) const {
      const V one = set(1);
      const V low = _mm512_add_epi64(_mm512_mul_epi32(s[0], one), _mm512_mul_epi32(s[1], step));
      V total = low, leading = low;
      if constexpr (D == 3) {
        leading = total = _mm512_add_epi64(low, _mm512_sll_epi64(_mm512_mul_epi32(s[2], one), upper_shift));
      } else if constexpr (D == 4) {
        leading = _mm512_add_epi64(_mm512_mul_epi32(s[2], one), _mm512_mul_epi32(s[3], step));
        total = _mm512_add_epi64(low, _mm512_sll_epi64(leading, upper_shift));
      }
      const __m512d rounded = _mm512_fmadd_pd(_mm512_cvtepi64_pd(leading), scale, magic_float);
      const V quotient = _mm512_sub_epi64(_mm512_castpd_si512(rounded), magic);
      const V r = _mm512_sub_epi64(total, _mm512_mullo_epi64(quotient, q));
      return _mm512_min_epu64(r, _mm512_add_epi64(r, q));
    }
    static HELIOGRAPH_INLINE V get(const u64* p) { return _mm512_loadu_si512(p); }
    static HELIOGRAPH_INLINE V get(const u32* p) {
      return _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    template <Put How>
    static HELIOGRAPH_INLINE void put(u64* p, V x) {
      How == Put::stream ? _mm512_stream_si512(reinterpret_cast<V*>(p), x) : _mm512_storeu_si512(p, x);
    }
    template <Put How>
    static HELIOGRAPH_INLINE void put(u32* p, V x) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi64_epi32(x));
    }
    template <Put How, class Word>
    HELIOGRAPH_INLINE void finish(const V* s, Word* out) const {
      V r = residues(s);
      if constexpr (How == Put::add) {
        r = _mm512_add_epi64(r, get(out));
        r = _mm512_min_epu64(r, _mm512_sub_epi64(r, q));
      }
      put<How>(out, r);
    }
    template <Put How, class Word>
    HELIOGRAPH_INLINE void store(const V* s, Word* out) const {
      finish<How>(s, out);
      V odd[D];
      unroll<D>([&](auto d) __attribute__((always_inline)) { odd[d()] = _mm512_srli_epi64(s[d()], 32); });
      finish<How>(odd, out + 8);
    }
  };
};

}  // namespace
}  // namespace heliograph::backend::cpu
