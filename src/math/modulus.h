// Scalar arithmetic modulo a word-sized integer, in plain code that serves as the definition.
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
inline u64 neg_mod(u64 a, u64 q) { return (q - a) & (u64{0} - static_cast<u64>(a != 0)); }
inline u64 mul_mod(u64 a, u64 b, u64 q) { return static_cast<u64>(u128{a} * b % q); }

inline u64 pow_mod(u64 base, u64 exponent, u64 q) {
  u64 result = 1 % q;
  for (base %= q; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = mul_mod(result, base, q);
    base = mul_mod(base, base, q);
  }
  return result;
}

/// Returns the inverse of `a` modulo `q` (not necessarily prime). Throws ParameterError if there is none.
u64 inverse_mod(u64 a, u64 q);

// The next three functions process secrets, so they have no branches. signed_mod has a division; math/reducer.h has none.

inline u64 signed_mod(i64 value, u64 q) {
  const u64 sign = u64{0} - static_cast<u64>(value < 0);  // all ones for a negative value
  const u64 r = ((static_cast<u64>(value) ^ sign) - sign) % q;
  return (r & ~sign) | (neg_mod(r, q) & sign);
}

inline u64 ternary_mod(int value, u64 q) {
  return static_cast<u64>(static_cast<i64>(value)) + (q & (u64{0} - static_cast<u64>(value < 0)));
}

/// Returns the representative of `a` in [-(q-1)/2, q/2]. For q = 2 the representatives are 0 and 1.
inline i64 centered(u64 a, u64 q) { return static_cast<i64>(a - (q & (u64{0} - static_cast<u64>(a > q / 2)))); }

inline int bit_length(u64 v) { return static_cast<int>(std::bit_width(v)); }

/// Returns `v` with its low `bits` bits reversed.
inline u64 reverse_bits(u64 v, int bits) {
  u64 r = 0;
  for (int i = 0; i < bits; ++i) r |= ((v >> i) & 1) << (bits - 1 - i);
  return r;
}

}  // namespace heliograph::math
