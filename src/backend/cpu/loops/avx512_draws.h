// ChaCha20, sixteen blocks at a time, and small draws.
#pragma once

#include <immintrin.h>

#include "backend/cpu/loops/scalar_loops.h"

namespace heliograph::backend::cpu {
namespace {

HELIOGRAPH_INLINE void quarter_round16(__m512i& a, __m512i& b, __m512i& c, __m512i& d) {
  a = _mm512_add_epi32(a, b), d = _mm512_rol_epi32(_mm512_xor_si512(d, a), 16);
  c = _mm512_add_epi32(c, d), b = _mm512_rol_epi32(_mm512_xor_si512(b, c), 12);
  a = _mm512_add_epi32(a, b), d = _mm512_rol_epi32(_mm512_xor_si512(d, a), 8);
  c = _mm512_add_epi32(c, d), b = _mm512_rol_epi32(_mm512_xor_si512(b, c), 7);
}

HELIOGRAPH_INLINE void transpose16(__m512i* v) {
  __m512i t[16];
  unroll<8>([&](auto i) __attribute__((always_inline)) {
    t[2 * i()] = _mm512_unpacklo_epi32(v[2 * i()], v[2 * i() + 1]);
    t[2 * i() + 1] = _mm512_unpackhi_epi32(v[2 * i()], v[2 * i() + 1]);
  });
  unroll<4>([&](auto i) __attribute__((always_inline)) {
    constexpr int k = 4 * i();
    v[k] = _mm512_unpacklo_epi64(t[k], t[k + 2]), v[k + 1] = _mm512_unpackhi_epi64(t[k], t[k + 2]);
    v[k + 2] = _mm512_unpacklo_epi64(t[k + 1], t[k + 3]), v[k + 3] = _mm512_unpackhi_epi64(t[k + 1], t[k + 3]);
  });
  // v[4 g + r] has rows 4 g to 4 g + 3 of the columns r, r + 4, r + 8, r + 12.
  unroll<4>([&](auto r) __attribute__((always_inline)) {
    const __m512i a = _mm512_shuffle_i32x4(v[r()], v[4 + r()], 0x44), b = _mm512_shuffle_i32x4(v[r()], v[4 + r()], 0xee);
    const __m512i c = _mm512_shuffle_i32x4(v[8 + r()], v[12 + r()], 0x44),
                  d = _mm512_shuffle_i32x4(v[8 + r()], v[12 + r()], 0xee);
    t[r()] = _mm512_shuffle_i32x4(a, c, 0x88), t[r() + 4] = _mm512_shuffle_i32x4(a, c, 0xdd);
    t[r() + 8] = _mm512_shuffle_i32x4(b, d, 0x88), t[r() + 12] = _mm512_shuffle_i32x4(b, d, 0xdd);
  });
  unroll<16>([&](auto i) __attribute__((always_inline)) { v[i()] = t[i()]; });
}

inline void avx512_chacha(const u32 key[8], u32 first, const u32 nonce[3], std::size_t blocks, u32* out) {
  const u32 start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, key[0], key[1],   key[2],   key[3],
                         key[4],     key[5],     key[6],     key[7],     first,  nonce[0], nonce[1], nonce[2]};
  const __m512i counters = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  std::size_t done = 0;
  for (; done + 16 <= blocks; done += 16, out += 256) {
    const __m512i counter = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(first + static_cast<u32>(done))), counters);
    __m512i v[16];
    unroll<16>([&](auto i) __attribute__((always_inline)) {
      v[i()] = i() == 12 ? counter : _mm512_set1_epi32(static_cast<int>(start[i()]));
    });
    for (int r = 0; r < 10; ++r) {
      unroll<4>([&](auto k)
                    __attribute__((always_inline)) { quarter_round16(v[k()], v[4 + k()], v[8 + k()], v[12 + k()]); });
      unroll<4>([&](auto k) __attribute__((always_inline)) {
        quarter_round16(v[k()], v[4 + (k() + 1) % 4], v[8 + (k() + 2) % 4], v[12 + (k() + 3) % 4]);
      });
    }
    unroll<16>([&](auto i) __attribute__((always_inline)) {
      v[i()] = _mm512_add_epi32(v[i()], i() == 12 ? counter : _mm512_set1_epi32(static_cast<int>(start[i()])));
    });
    transpose16(v);
    unroll<16>([&](auto i) __attribute__((always_inline)) { _mm512_storeu_si512(out + 16 * i(), v[i()]); });
  }
  if (done < blocks) scalar_chacha(key, first + static_cast<u32>(done), nonce, blocks - done, out);
}

/// floor(3 draw / 2^64) - 1, by comparison with two thresholds.
inline void avx512_ternary(const u64* stream, i32* out, std::size_t count) {
  const __m512i third = _mm512_set1_epi64(0x5555555555555556),
                two_thirds = _mm512_set1_epi64(static_cast<long long>(0xaaaaaaaaaaaaaaab));
  const __m512i one = _mm512_set1_epi64(1);
  for (std::size_t i = 0; i < count; i += 8) {
    const __m512i x = _mm512_loadu_si512(stream + i);
    __m512i r = _mm512_set1_epi64(-1);
    r = _mm512_mask_add_epi64(r, _mm512_cmpge_epu64_mask(x, third), r, one);
    r = _mm512_mask_add_epi64(r, _mm512_cmpge_epu64_mask(x, two_thirds), r, one);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm512_cvtepi64_epi32(r));
  }
}

inline void avx512_gaussian(const u64* stream, const u64* table, std::size_t entries, i32* out, std::size_t count) {
  const __m512i one = _mm512_set1_epi64(1);
  for (std::size_t i = 0; i < count; i += 8) {
    const __m512i x = _mm512_loadu_si512(stream + i), position = _mm512_srli_epi64(x, 1);
    __m512i magnitude = _mm512_setzero_si512();
    for (std::size_t k = 0; k < entries; ++k) {
      const __mmask8 beyond = _mm512_cmpge_epu64_mask(position, _mm512_set1_epi64(static_cast<long long>(table[k])));
      magnitude = _mm512_mask_add_epi64(magnitude, beyond, magnitude, one);
    }
    const __mmask8 negative = _mm512_test_epi64_mask(x, one);
    magnitude = _mm512_mask_sub_epi64(magnitude, negative, _mm512_setzero_si512(), magnitude);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm512_cvtepi64_epi32(magnitude));
  }
}

/// Reduces small signed numbers modulo q, to words of either width; requires |small| < q.
inline void avx512_spread64(const Modulus& m, const i32* small, void* out, std::size_t count) {
  const __m512i q = _mm512_set1_epi64(static_cast<long long>(m.q));
  for (std::size_t i = 0; i < count; i += 8) {
    const __m512i x = _mm512_cvtepi32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(small + i)));
    _mm512_storeu_si512(static_cast<u64*>(out) + i, _mm512_min_epu64(x, _mm512_add_epi64(x, q)));
  }
}
inline void avx512_spread32(const Modulus& m, const i32* small, void* out, std::size_t count) {
  const __m512i q = _mm512_set1_epi32(static_cast<int>(m.q));
  for (std::size_t i = 0; i < count; i += 16) {
    const __m512i x = _mm512_loadu_si512(small + i);
    _mm512_storeu_si512(static_cast<u32*>(out) + i, _mm512_min_epu32(x, _mm512_add_epi32(x, q)));
  }
}

}  // namespace
}  // namespace heliograph::backend::cpu
