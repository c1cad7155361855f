// Products of bytes with words modulo 2^32 by AVX-512 VNNI. A word is cut into four signed digits of base 256, one plane of
// bytes per digit. One instruction adds the products of 64 bytes with 64 digits; overflow wraps modulo 2^32 as required.
#pragma once

#include <immintrin.h>

#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/unroll.h"

namespace heliograph::backend::cpu {
namespace {

struct VnniBytes {
  static constexpr std::size_t kStep = 64;  // inputs per instruction; their digits are four adjacent vectors

  /// Digit k plus 128 is byte k of the word plus 0x80808080.
  static void pack(const u32* words, std::size_t inputs, std::byte* packed) {
    const __m512i half = _mm512_set1_epi8(static_cast<char>(0x80)), carry = _mm512_set1_epi32(static_cast<int>(0x80808080U));
    for (std::size_t i = 0; i < inputs; i += kStep) {
      __m512i digits[4];
      unroll<4>([&](auto k) __attribute__((always_inline)) {
        digits[k()] = _mm512_xor_si512(_mm512_add_epi32(_mm512_loadu_si512(words + i + 16 * k()), carry), half);
      });
      unroll<4>([&](auto plane) __attribute__((always_inline)) {
        unroll<4>([&](auto k) __attribute__((always_inline)) {
          const __m128i sixteen = _mm512_cvtepi32_epi8(_mm512_srli_epi32(digits[k()], 8 * plane()));
          _mm_storeu_si128(reinterpret_cast<__m128i*>(packed + 4 * i + 64 * plane() + 16 * k()), sixteen);
        });
      });
    }
  }

  /// Returns the sum over the planes of 2^(8 plane) times the plane's sum.
  static HELIOGRAPH_INLINE u32 gathered(const __m512i (&sum)[4]) {
    const __m512i low = _mm512_add_epi32(sum[0], _mm512_slli_epi32(sum[1], 8));
    const __m512i high = _mm512_add_epi32(_mm512_slli_epi32(sum[2], 16), _mm512_slli_epi32(sum[3], 24));
    const __m512i all = _mm512_add_epi32(low, high);
    const __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    // The intrinsic for a vector's sum adds signed words, which must not overflow.
    __m128i some = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    some = _mm_add_epi32(some, _mm_shuffle_epi32(some, 0x4e));
    some = _mm_add_epi32(some, _mm_shuffle_epi32(some, 0xb1));
    return static_cast<u32>(_mm_cvtsi128_si32(some));
  }

  /// Returns 128 times the sum of one vector's words.
  static u32 offset(const std::byte* planes, std::size_t inputs) {
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i sum[4] = {};
    for (std::size_t i = 0; i < inputs; i += kStep) {
      unroll<4>([&](auto plane) __attribute__((always_inline)) {
        sum[plane()] = _mm512_dpbusd_epi32(sum[plane()], ones, _mm512_loadu_si512(planes + 4 * i + 64 * plane()));
      });
    }
    return gathered(sum) * 128;
  }

  template <int Rows, int Vectors>
  static HELIOGRAPH_INLINE void tile(const ByteBlock& b, std::size_t r, std::size_t v, const u32* offsets) {
    __m512i sum[Rows][Vectors][4] = {};
    const unsigned char* rows[Rows];
    const std::byte* planes[Vectors];
    unroll<Rows>([&](auto k) __attribute__((always_inline)) { rows[k()] = b.rows[r + k()]; });
    unroll<Vectors>([&](auto k) __attribute__((always_inline)) { planes[k()] = b.vectors[v + k()]; });
    for (std::size_t i = 0; i < b.inputs; i += kStep) {
      __m512i bytes[Rows];
      unroll<Rows>([&](auto k) __attribute__((always_inline)) {
        bytes[k()] = _mm512_loadu_si512(rows[k()] + i);
        _mm_prefetch(reinterpret_cast<const char*>(rows[k()] + i + kAhead), _MM_HINT_T0);
      });
      unroll<Vectors>([&](auto w) __attribute__((always_inline)) {
        unroll<4>([&](auto plane) __attribute__((always_inline)) {
          const __m512i digits = _mm512_loadu_si512(planes[w()] + 4 * i + 64 * plane());
          unroll<Rows>([&](auto k) __attribute__((always_inline)) {
            sum[k()][w()][plane()] = _mm512_dpbusd_epi32(sum[k()][w()][plane()], bytes[k()], digits);
          });
        });
      });
    }
    unroll<Vectors>([&](auto w) __attribute__((always_inline)) {
      unroll<Rows>([&](auto k) __attribute__((always_inline)) {
        u32& to = b.sums[(v + w()) * b.sum_stride + r + k()];
        to = (b.add ? to : 0) + gathered(sum[k()][w()]) - offsets[w()];
      });
    });
  }

  template <int Rows>
  static void strip(const ByteBlock& b, std::size_t r, const u32* offsets) {
    std::size_t v = 0;
    if constexpr (Rows == 4) {
      for (; v < b.vectors_count; ++v) tile<4, 1>(b, r, v, offsets + v);
    } else {
      for (; v + 3 <= b.vectors_count; v += 3) tile<Rows, 3>(b, r, v, offsets + v);
      for (; v < b.vectors_count; ++v) tile<Rows, 1>(b, r, v, offsets + v);
    }
  }

  static void run(const ByteBlock& b) {
    u32 offsets[kMostVectors];
    for (std::size_t v = 0; v < b.vectors_count; ++v) offsets[v] = offset(b.vectors[v], b.inputs);
    std::size_t r = 0;
    if (b.vectors_count < 3) {
      for (; r + 4 <= b.count; r += 4) strip<4>(b, r, offsets);
    }
    for (; r + 2 <= b.count; r += 2) strip<2>(b, r, offsets);
    for (; r < b.count; ++r) strip<1>(b, r, offsets);
  }

  static constexpr std::size_t kMostVectors = kMostByteVectors;
  static constexpr std::size_t kAhead = 1024;  // prefetch distance within a row, in bytes
};

}  // namespace
}  // namespace heliograph::backend::cpu
