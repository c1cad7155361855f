// Scalar arithmetic modulo a word-sized integer: slow, plain, the definition.
#pragma once

#include <bit>
#include <cstdint>

#include "base/errors.h"

namespace heliograph::math {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;
__extension__ using u128 = unsigned __int128;
__extension__ using i128 = __int128;

inline u64 add_mod(u64 a, u64 b, u64 q) { return static_cast<u64>((u128{a} + b) % q); }
inline u64 sub_mod(u64 a, u64 b, u64 q) { return static_cast<u64>((u128{a} + q - b) % q); }
inline u64 neg_mod(u64 a, u64 q) { return a == 0 ? 0 : q - a; }
inline u64 mul_mod(u64 a, u64 b, u64 q) { return static_cast<u64>(u128{a} * b % q); }

inline u64 pow_mod(u64 base, u64 exponent, u64 q) {
  u64 result = 1 % q;
  for (base %= q; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = mul_mod(result, base, q);
    base = mul_mod(base, base, q);
  }
  return result;
}

/// Inverse of `a` modulo `q` (not necessarily prime). Throws ParameterError where none exists.
u64 inverse_mod(u64 a, u64 q);

/// `value` modulo `q`, for a signed value.
inline u64 signed_mod(i64 value, u64 q) {
  const u64 magnitude = value < 0 ? u64{0} - static_cast<u64>(value) : static_cast<u64>(value);
  const u64 r = magnitude % q;
  return value < 0 ? neg_mod(r, q) : r;
}

/// The representative of `a` in [-(q-1)/2, q/2]. For q = 2 the residues stay 0 and 1.
inline i64 centered(u64 a, u64 q) { return a > q / 2 ? static_cast<i64>(a) - static_cast<i64>(q) : static_cast<i64>(a); }

inline int bit_length(u64 v) { return static_cast<int>(std::bit_width(v)); }

/// `v` with its low `bits` bits in reverse order.
inline u64 reverse_bits(u64 v, int bits) {
  u64 r = 0;
  for (int i = 0; i < bits; ++i) r |= ((v >> i) & 1) << (bits - 1 - i);
  return r;
}

}  // namespace heliograph::math
