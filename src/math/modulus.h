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

/// Inverse of `a` modulo `q` (not necessarily prime). Throws ParameterError where none exists.
u64 inverse_mod(u64 a, u64 q);

// Secrets pass through the next three, so they do not branch; signed_mod divides (math/reducer.h does not).

/// `value` modulo `q`, for a signed value.
inline u64 signed_mod(i64 value, u64 q) {
  const u64 sign = u64{0} - static_cast<u64>(value < 0);  // all ones for a negative value
  const u64 r = ((static_cast<u64>(value) ^ sign) - sign) % q;
  return (r & ~sign) | (neg_mod(r, q) & sign);
}

/// `value` modulo `q`, for a value of -1, 0 or 1.
inline u64 ternary_mod(int value, u64 q) {
  return static_cast<u64>(static_cast<i64>(value)) + (q & (u64{0} - static_cast<u64>(value < 0)));
}

/// The representative of `a` in [-(q-1)/2, q/2]. For q = 2 the residues stay 0 and 1.
inline i64 centered(u64 a, u64 q) { return static_cast<i64>(a - (q & (u64{0} - static_cast<u64>(a > q / 2)))); }

inline int bit_length(u64 v) { return static_cast<int>(std::bit_width(v)); }

/// `v` with its low `bits` bits in reverse order.
inline u64 reverse_bits(u64 v, int bits) {
  u64 r = 0;
  for (int i = 0; i < bits; ++i) r |= ((v >> i) & 1) << (bits - 1 - i);
  return r;
}

}  // namespace heliograph::math
