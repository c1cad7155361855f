// Arithmetic modulo one q without division or branch, for what depends on secrets: time and addresses tell nothing of the
// operands. What math/modulus.h has is shorter, and divides.
#pragma once

#include "math/modulus.h"

namespace heliograph::math {

inline u64 high_word(u64 a, u64 b) { return static_cast<u64>((u128{a} * b) >> 64); }
/// All ones where `condition` holds, else 0.
inline u64 mask_of(bool condition) { return u64{0} - static_cast<u64>(condition); }

class Reducer {
 public:
  /// 2 <= q < 2^62
  explicit Reducer(u64 q) : q_(q), reciprocal_(static_cast<u64>((u128{1} << 64) / q)), shift_((u64{1} << 62) / q * q + q) {}

  u64 modulus() const { return q_; }
  /// x mod q
  u64 operator()(u64 x) const { return once(x - high_word(x, reciprocal_) * q_); }
  /// x mod q, |x| <= 2^62
  u64 of_signed(i64 x) const { return (*this)(static_cast<u64>(x) + shift_); }
  /// a - b of residues
  u64 subtract(u64 a, u64 b) const { return once(a + q_ - b); }

  /// A residue to multiply with.
  struct Factor {
    u64 value, quotient;
  };
  Factor factor(u64 w) const { return {w, static_cast<u64>((u128{w} << 64) / q_)}; }
  /// x * w mod q, for any x
  u64 multiply(u64 x, const Factor& w) const { return once(x * w.value - high_word(x, w.quotient) * q_); }

 private:
  /// x mod q, x < 2q
  u64 once(u64 x) const { return x - (q_ & mask_of(x >= q_)); }

  u64 q_, reciprocal_, shift_;  // shift_: a multiple of q above 2^62
};

}  // namespace heliograph::math
