// Conversions and uniform draws modulo numbers below 2^50, by IFMA.
#pragma once

#include "backend/cpu/loops/avx512_draws.h"
#include "backend/cpu/loops/ifma.h"

namespace heliograph::backend::cpu {
namespace {

/// Shift is the conversion's shift: 52 (fractions below 2^52) or 0 (all moduli below 2^30).
template <class Word, int Shift>
void ifma_lift(const LiftStep& s, const void* x, u64* y, u64* v, bool first, std::size_t count) {
  const PlainFloats state;
  const Ifma f(s.modulus);
  const Ifma::Factor factor{Ifma::set(s.factor), Ifma::set(s.factor_shoup52)};
  const __m512i fraction = Ifma::set(s.fraction);
  for (std::size_t i = 0; i < count; i += 8) {
    const __m512i product = Ifma::fold_float(f.lazy_factor(f.load(static_cast<const Word*>(x) + i), factor), f.q);
    f.store(y + i, product);
    if (!v) continue;
    const __m512i before = first ? Ifma::zero() : f.load(v + i);
    if constexpr (Shift == 0)
      f.store(v + i, _mm512_add_epi64(before, _mm512_mullo_epi64(product, fraction)));
    else
      f.store(v + i, Ifma::high(before, product, fraction));
  }
}

/// Adds up 2^52 times the result, then divides by 2^52 in one Montgomery step, because the high halves sum to less than 4 q.
template <class Word, bool Own, bool Rounded>
void montgomery_combine(const CombineStep& s, const u64* y, std::size_t stride, const u64* v, const Word* own, Word* out,
                        std::size_t count) {
  constexpr int kVectors = 4;
  const PlainFloats state;
  const Ifma f(s.modulus);
  const __m512i wrap = Ifma::set(s.montgomery_wrap), factor = Ifma::set(s.montgomery_own);
  for (std::size_t i = 0; i < count; i += 8 * kVectors) {
    Ifma::Sum sum[kVectors];
    unroll<kVectors>([&](auto u) __attribute__((always_inline)) {
      sum[u()] = f.sum_zero();
      if constexpr (Rounded) sum[u()].low = _mm512_mullo_epi64(f.load(v + i + 8 * u()), wrap);  // this product is below 2^56
      if constexpr (Own) f.accumulate(sum[u()], f.load(own + i + 8 * u()), factor);
    });
    const u64* from = y + i;
    for (std::size_t k = 0; k < s.sources; ++k, from += stride) {
      const __m512i row = Ifma::set(s.montgomery_row[k]);
      unroll<kVectors>([&](auto u) __attribute__((always_inline)) { f.accumulate(sum[u()], f.load(from + 8 * u()), row); });
    }
    unroll<kVectors>([&](auto u) __attribute__((always_inline)) {
      const __m512i high = _mm512_add_epi64(sum[u()].high, _mm512_srli_epi64(sum[u()].low, 52));
      const __m512i m = _mm512_mullo_epi64(sum[u()].low, f.inverse52);
      const __m512i r = _mm512_sub_epi64(high, Ifma::high(f.minus_q, m, f.q));  // r is below 5 q
      f.store(out + i + 8 * u(), Ifma::fold_float(Ifma::fold_float(Ifma::fold_float(r, f.q2), f.q2), f.q));
    });
  }
}

template <class Word>
void ifma_combine(const CombineStep& s, const u64* y, std::size_t stride, const u64* v, const void* own, void* out,
                  std::size_t count) {
  const Word* const x = static_cast<const Word*>(own);
  if (s.montgomery_row) {
    Word* const to = static_cast<Word*>(out);
    if (x)
      return v ? montgomery_combine<Word, true, true>(s, y, stride, v, x, to, count)
               : montgomery_combine<Word, true, false>(s, y, stride, v, x, to, count);
    return v ? montgomery_combine<Word, false, true>(s, y, stride, v, x, to, count)
             : montgomery_combine<Word, false, false>(s, y, stride, v, x, to, count);
  }
  constexpr int kVectors = 4;
  const Ifma f(s.modulus);
  const __m512i wrap = Ifma::set(s.wrap), factor = Ifma::set(s.own);
  for (std::size_t i = 0; i < count; i += 8 * kVectors) {
    Ifma::Sum sum[kVectors];
    unroll<kVectors>([&](auto u) __attribute__((always_inline)) {
      sum[u()] = f.sum_zero();
      if (x) f.accumulate(sum[u()], f.load(x + i + 8 * u()), factor);
      if (v) f.accumulate(sum[u()], f.load(v + i + 8 * u()), wrap);
    });
    std::size_t left = Ifma::kTerms - 2;
    for (std::size_t k = 0; k < s.sources; ++k, --left) {
      if (left == 0) {
        unroll<kVectors>([&](auto u) __attribute__((always_inline)) { sum[u()] = f.sum_from(f.reduce(sum[u()])); });
        left = Ifma::kTerms;
      }
      const __m512i row = Ifma::set(s.row[k]);
      unroll<kVectors>([&](auto u) __attribute__((always_inline)) {
        f.accumulate(sum[u()], f.load(y + k * stride + i + 8 * u()), row);
      });
    }
    unroll<kVectors>([&](auto u) __attribute__((always_inline)) {
      f.store(static_cast<Word*>(out) + i + 8 * u(), f.reduce(sum[u()]));
    });
  }
}

inline void permute_eights64(const void* a, const u32* block, const u64* lanes, void* out, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 8, ++block, ++lanes) {
    _mm_prefetch(static_cast<const u64*>(a) + block[kEightsAhead], _MM_HINT_T0);
    const __m512i lane = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(lanes)));
    const __m512i x = _mm512_loadu_si512(static_cast<const u64*>(a) + *block);
    _mm512_storeu_si512(static_cast<u64*>(out) + i, _mm512_permutexvar_epi64(lane, x));
  }
}
inline void permute_eights32(const void* a, const u32* block, const u64* lanes, void* out, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 8, ++block, ++lanes) {
    _mm_prefetch(static_cast<const u32*>(a) + block[kEightsAhead], _MM_HINT_T0);
    const __m256i lane = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(lanes)));
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(static_cast<const u32*>(a) + *block));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(static_cast<u32*>(out) + i), _mm256_permutevar8x32_epi32(x, lane));
  }
}

/// Reduces 128-bit numbers, split in base 2^52: low + middle * 2^52 + top * 2^104.
template <class Word>
void ifma_uniform(const Modulus& m, const u32* stream, void* out, std::size_t count) {
  const Ifma f(m);
  const __m512i two104 = Ifma::set(m.two104);
  const __m512i even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
  for (std::size_t i = 0; i < count; i += 8, stream += 32) {
    const __m512i a = _mm512_loadu_si512(stream), b = _mm512_loadu_si512(stream + 16);
    const __m512i low = _mm512_permutex2var_epi64(a, even, b), high = _mm512_permutex2var_epi64(a, odd, b);
    const __m512i middle = _mm512_or_si512(_mm512_srli_epi64(low, 52), _mm512_slli_epi64(high, 12));
    Ifma::Sum sum{_mm512_and_si512(low, f.mask), Ifma::zero()};
    f.accumulate(sum, middle, f.two52);
    f.accumulate(sum, _mm512_srli_epi64(high, 40), two104);
    f.store(static_cast<Word*>(out) + i, f.reduce(sum));
  }
}

/// Sets the draws and permutations of AVX-512, which do not depend on the product arithmetic.
template <class Word>
constexpr LimbOps with_avx512_draws(LimbOps ops) {
  constexpr bool kWide = sizeof(Word) == 8;
  ops.uniform = ifma_uniform<Word>;
  ops.spread = kWide ? avx512_spread64 : avx512_spread32;
  ops.permute_eights = kWide ? permute_eights64 : permute_eights32;
  return ops;
}

}  // namespace
}  // namespace heliograph::backend::cpu
