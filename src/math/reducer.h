// Constant-time arithmetic modulo q, without divisions or branches, for secret operands. math/modulus.h has shorter
// functions that use divisions.
#pragma once

#include "math/modulus.h"

namespace heliograph::math {

inline u64 high_word(u64 a, u64 b) { return static_cast<u64>((u128{a} * b) >> 64); }
/// Returns all ones if `condition` holds, else 0.
inline u64 mask_of(bool condition) { return u64{0} - static_cast<u64>(condition); }

class Reducer {
 public:
  /// Requires 2 <= q < 2^62.
  explicit Reducer(u64 q) : q_(q), reciprocal_(static_cast<u64>((u128{1} << 64) / q)), shift_((u64{1} << 62) / q * q + q) {}

  u64 modulus() const { return q_; }
  /// Returns x mod q.
  u64 operator()(u64 x) const { return once(x - high_word(x, reciprocal_) * q_); }
  /// Returns x mod q for |x| <= 2^62.
  u64 of_signed(i64 x) const { return (*this)(static_cast<u64>(x) + shift_); }
  /// Returns a - b mod q for residues a and b.
  u64 subtract(u64 a, u64 b) const { return once(a + q_ - b); }

  /// A factor w with a precomputed quotient.
  struct Factor {
    u64 value, quotient;
  };
  Factor factor(u64 w) const { return {w, static_cast<u64>((u128{w} << 64) / q_)}; }
  /// Returns x * w mod q for any x.
  u64 multiply(u64 x, const Factor& w) const { return once(x * w.value - high_word(x, w.quotient) * q_); }

 private:
  /// Returns x mod q for x < 2q.
  u64 once(u64 x) const { return x - (q_ & mask_of(x >= q_)); }

  u64 q_, reciprocal_, shift_;  // shift_ is a multiple of q above 2^62
};

}  // namespace heliograph::math
