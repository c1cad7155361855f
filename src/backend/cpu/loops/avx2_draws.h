// ChaCha20, eight blocks at a time.
#pragma once

#include <immintrin.h>

#include "backend/cpu/loops/scalar_loops.h"

namespace heliograph::backend::cpu {
namespace {

template <int K>
HELIOGRAPH_INLINE __m256i rotate8(__m256i x) {
  return _mm256_or_si256(_mm256_slli_epi32(x, K), _mm256_srli_epi32(x, 32 - K));
}
HELIOGRAPH_INLINE void quarter_round8(__m256i& a, __m256i& b, __m256i& c, __m256i& d) {
  a = _mm256_add_epi32(a, b), d = rotate8<16>(_mm256_xor_si256(d, a));
  c = _mm256_add_epi32(c, d), b = rotate8<12>(_mm256_xor_si256(b, c));
  a = _mm256_add_epi32(a, b), d = rotate8<8>(_mm256_xor_si256(d, a));
  c = _mm256_add_epi32(c, d), b = rotate8<7>(_mm256_xor_si256(b, c));
}

HELIOGRAPH_INLINE void transpose8(__m256i* v) {
  __m256i t[8];
  unroll<4>([&](auto i) __attribute__((always_inline)) {
    t[2 * i()] = _mm256_unpacklo_epi32(v[2 * i()], v[2 * i() + 1]);
    t[2 * i() + 1] = _mm256_unpackhi_epi32(v[2 * i()], v[2 * i() + 1]);
  });
  __m256i s[8];
  unroll<2>([&](auto i) __attribute__((always_inline)) {
    constexpr int k = 4 * i();
    s[k] = _mm256_unpacklo_epi64(t[k], t[k + 2]), s[k + 1] = _mm256_unpackhi_epi64(t[k], t[k + 2]);
    s[k + 2] = _mm256_unpacklo_epi64(t[k + 1], t[k + 3]), s[k + 3] = _mm256_unpackhi_epi64(t[k + 1], t[k + 3]);
  });
  unroll<4>([&](auto r) __attribute__((always_inline)) {
    v[r()] = _mm256_permute2x128_si256(s[r()], s[4 + r()], 0x20);
    v[4 + r()] = _mm256_permute2x128_si256(s[r()], s[4 + r()], 0x31);
  });
}

inline void avx2_chacha(const u32 key[8], u32 first, const u32 nonce[3], std::size_t blocks, u32* out) {
  const u32 start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, key[0], key[1],   key[2],   key[3],
                         key[4],     key[5],     key[6],     key[7],     first,  nonce[0], nonce[1], nonce[2]};
  std::size_t done = 0;
  for (; done + 8 <= blocks; done += 8, out += 128) {
    const __m256i counter = _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(first + static_cast<u32>(done))),
                                             _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const auto begin = [&](int i) __attribute__((always_inline)) {
      return i == 12 ? counter : _mm256_set1_epi32(static_cast<int>(start[i]));
    };
    __m256i v[16];
    unroll<16>([&](auto i) __attribute__((always_inline)) { v[i()] = begin(i()); });
    for (int r = 0; r < 10; ++r) {
      unroll<4>([&](auto k) __attribute__((always_inline)) { quarter_round8(v[k()], v[4 + k()], v[8 + k()], v[12 + k()]); });
      unroll<4>([&](auto k) __attribute__((always_inline)) {
        quarter_round8(v[k()], v[4 + (k() + 1) % 4], v[8 + (k() + 2) % 4], v[12 + (k() + 3) % 4]);
      });
    }
    unroll<16>([&](auto i) __attribute__((always_inline)) { v[i()] = _mm256_add_epi32(v[i()], begin(i())); });
    transpose8(v);
    transpose8(v + 8);
    unroll<8>([&](auto i) __attribute__((always_inline)) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 16 * i()), v[i()]);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 16 * i() + 8), v[8 + i()]);
    });
  }
  if (done < blocks) scalar_chacha(key, first + static_cast<u32>(done), nonce, blocks - done, out);
}

}  // namespace
}  // namespace heliograph::backend::cpu
