// Conversions between RNS bases. One formula serves base extension, mod down, rescaling, the scale-and-round of BFV
// (Halevi, Polyakov, Shoup, ePrint 2018/117), encoding and decoding:
//
//   y_i   = x_i * inverse_i                     mod from_i
//   v     = (sum_i (y_i * fraction_i >> shift) + 2^(bits-1)) >> bits      (0 where the conversion is approximate)
//   out_j = x'_j * own_j + sum_i y_i * matrix_ji + v * wrap_j             mod to_j
//
// v is the rounded sum of y_i / from_i in fixed point: integers, so no order of summing changes a bit.
#pragma once

#include <vector>

#include "math/ring.h"

namespace heliograph::math {

/// The fixed-point constants of v for a list of moduli; the rule that picks `shift` and `bits` is part of the format:
/// all moduli below 2^30: shift 0, bits 58; all below 2^50: shift 52; else shift 64; there bits is the length of the
/// smallest modulus less one (of q - 1, so that powers of two fit), 58 at most.
struct FixedPoint {
  int shift = 0;
  int bits = 0;
  std::vector<u64> fractions;  // floor(2^(shift+bits) / from_i)
  /// |v - sum y_i / from_i| <= 1/2 + error
  double error = 0;
};
FixedPoint fixed_point(const std::vector<u64>& moduli);

struct Conversion {
  std::vector<u64> from, to;  // moduli; `from` is coprime in pairs
  std::vector<u64> inverse;   // one for each `from`
  std::vector<u64> matrix;    // row j: one for each `from`
  std::vector<u64> own;       // empty, or one for each `to`
  std::vector<u64> wrap;      // one for each `to`; unused where approximate
  bool rounded = true;        // false: v = 0, the result is off by a multiple of the product of `from`
  FixedPoint fixed;

  std::size_t sources() const { return from.size(); }
  std::size_t targets() const { return to.size(); }
};

/// out = [multiplier * x] centred modulo the product F of `from` (approximate: plus u*F, 0 <= u < |from|).
Conversion extend_base(std::vector<u64> from, std::vector<u64> to, bool rounded = true, u64 multiplier = 1);

/// out = times * round(multiplier * x / F) modulo each of `to`, x given modulo `from` (product F) and `to`. Centred, ties
/// by v.
Conversion divide_and_round(std::vector<u64> from, std::vector<u64> to, u64 multiplier = 1, u64 times = 1);
/// The same with the product of several multipliers. A modulus of `to` may be among them: x is then not asked for there.
Conversion divide_and_round(std::vector<u64> from, std::vector<u64> to, const std::vector<u64>& multipliers, u64 times);

/// out = (x - d) / F modulo each of `to`, d congruent to x modulo F (the product of `from`) and to 0 modulo t, and least:
/// BGV's modulus switch (ePrint 2021/204, section 3). t is coprime to F.
Conversion divide_keeping(std::vector<u64> from, std::vector<u64> to, u64 t);

/// The conversion with no own operand: out less x * own.
Conversion without_own(Conversion c);

/// out = round(t * x / Q) mod t for x modulo the chain `from` (product Q): BFV's last step of decryption.
Conversion scale_to_plain(std::vector<u64> from, u64 t);

/// out = round(Q * m / t) modulo each prime of `to` (product Q) for m in [0, t): BFV's encoding (ePrint 2021/204, section 3).
Conversion scale_from_plain(u64 t, std::vector<u64> to);

/// The formula itself, for one coefficient: `x` modulo `from`, `own` (empty or) modulo `to`.
std::vector<u64> evaluate(const Conversion& c, const std::vector<u64>& x, const std::vector<u64>& own = {});

}  // namespace heliograph::math
