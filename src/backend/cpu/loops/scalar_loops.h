// Conversions and draws in scalar code.
#pragma once

#include "backend/cpu/loops/scalar.h"

namespace heliograph::backend::cpu {
namespace {

template <class Word>
void scalar_lift(const LiftStep& s, const void* x, u64* y, u64* v, bool first, std::size_t count) {
  const u64 q = s.modulus.q;
  const Word* const in = static_cast<const Word*>(x);
  for (std::size_t i = 0; i < count; ++i) y[i] = fold(mul_lazy(in[i], s.factor, s.factor_shoup64, q), q);
  if (!v) return;
  if (first) {
    for (std::size_t i = 0; i < count; ++i) v[i] = static_cast<u64>((u128{y[i]} * s.fraction) >> s.shift);
  } else {
    for (std::size_t i = 0; i < count; ++i) v[i] += static_cast<u64>((u128{y[i]} * s.fraction) >> s.shift);
  }
}

template <class Word>
void scalar_combine(const CombineStep& s, const u64* y, std::size_t stride, const u64* v, const void* own, void* out,
                    std::size_t count) {
  const Word* const x = static_cast<const Word*>(own);
  for (std::size_t i = 0; i < count; ++i) {
    u128 sum = x ? u128{x[i]} * s.own : 0;
    if (v) sum += u128{v[i]} * s.wrap;
    for (std::size_t k = 0; k < s.sources; ++k) sum += u128{y[k * stride + i]} * s.row[k];
    static_cast<Word*>(out)[i] = static_cast<Word>(reduce128(sum, s.modulus));
  }
}

HELIOGRAPH_INLINE u32 rotate(u32 x, int k) { return x << k | x >> (32 - k); }
HELIOGRAPH_INLINE void quarter_round(u32& a, u32& b, u32& c, u32& d) {
  a += b, d = rotate(d ^ a, 16);
  c += d, b = rotate(b ^ c, 12);
  a += b, d = rotate(d ^ a, 8);
  c += d, b = rotate(b ^ c, 7);
}

inline void scalar_chacha(const u32 key[8], u32 first, const u32 nonce[3], std::size_t blocks, u32* out) {
  u32 start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
  for (int i = 0; i < 8; ++i) start[4 + i] = key[i];
  for (int i = 0; i < 3; ++i) start[13 + i] = nonce[i];
  for (std::size_t b = 0; b < blocks; ++b, out += 16) {
    start[12] = first + static_cast<u32>(b);
    for (int i = 0; i < 16; ++i) out[i] = start[i];
    for (int r = 0; r < 10; ++r) {
      for (int k = 0; k < 4; ++k) quarter_round(out[k], out[4 + k], out[8 + k], out[12 + k]);
      for (int k = 0; k < 4; ++k) quarter_round(out[k], out[4 + (k + 1) % 4], out[8 + (k + 2) % 4], out[12 + (k + 3) % 4]);
    }
    for (int i = 0; i < 16; ++i) out[i] += start[i];
  }
}

inline void scalar_ternary(const u64* stream, i32* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<i32>(high64(stream[i], 3)) - 1;
}

inline void scalar_gaussian(const u64* stream, const u64* table, std::size_t entries, i32* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const u64 position = stream[i] >> 1;
    i32 magnitude = 0;
    for (std::size_t k = 0; k < entries; ++k) magnitude += position >= table[k];
    const i32 sign = -static_cast<i32>(stream[i] & 1);
    out[i] = (magnitude ^ sign) - sign;
  }
}

template <class Word>
void scalar_uniform(const Modulus& m, const u32* stream, void* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i, stream += 4) {
    const u64 low = stream[0] | u64{stream[1]} << 32, high = stream[2] | u64{stream[3]} << 32;
    static_cast<Word*>(out)[i] = static_cast<Word>(reduce128(u128{high} << 64 | low, m));
  }
}

/// Reduces small signed numbers modulo q. The numbers are secret, so the loop has no division and no branch.
template <class Word>
void scalar_spread(const Modulus& m, const i32* small, void* out, std::size_t count) {
  const u64 q = m.q, shift = (u64{1} << 31) / q * q + q;  // makes every sum below positive
  for (std::size_t i = 0; i < count; ++i) {
    const u64 x = static_cast<u64>(static_cast<i64>(small[i])) + shift;
    static_cast<Word*>(out)[i] = static_cast<Word>(fold(x - high64(x, m.one_shoup64) * q, q));
  }
}

}  // namespace
}  // namespace heliograph::backend::cpu
