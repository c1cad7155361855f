// Conversions between RNS bases. One formula serves base extension, division by special primes, rescaling, BFV's
// scale-and-round (Halevi, Polyakov, Shoup, ePrint 2018/117), encoding and decoding:
//
//   y_i   = x_i * inverse_i                     mod from_i
//   v     = (sum_i (y_i * fraction_i >> shift) + 2^(bits-1)) >> bits      (0 if the conversion is approximate)
//   out_j = x'_j * own_j + sum_i y_i * matrix_ji + v * wrap_j             mod to_j
//
// v is the rounded sum of y_i / from_i in fixed point. The sum v is an integer, so the order of summation does not change a
// bit.
#pragma once

#include <vector>

#include "math/ring.h"

namespace heliograph::math {

/// Fixed-point constants of v for a list of moduli. The choice of `shift` and `bits` is part of the file format. If all
/// moduli are below 2^30, shift is 0 and bits is 58. If all moduli are below 2^50, shift is 52; otherwise shift is 64. With
/// shift 52 or 64, bits is the bit length of q - 1 for the smallest modulus q, minus 1, and at most 58.
struct FixedPoint {
  int shift = 0;
  int bits = 0;
  std::vector<u64> fractions;  // floor(2^(shift+bits) / from_i)
  /// Bound: |v - sum y_i / from_i| <= 1/2 + error.
  double error = 0;
};
FixedPoint fixed_point(const std::vector<u64>& moduli);

struct Conversion {
  std::vector<u64> from, to;  // moduli; `from` is pairwise coprime
  std::vector<u64> inverse;   // a constant for each modulus of `from`
  std::vector<u64> matrix;    // row j has a constant for each modulus of `from`
  std::vector<u64> own;       // empty, or a constant for each modulus of `to`
  std::vector<u64> wrap;      // a constant for each modulus of `to`; unused if approximate
  bool rounded = true;        // false: approximate, with v = 0; adds a multiple of the product of `from`
  FixedPoint fixed;

  std::size_t sources() const { return from.size(); }
  std::size_t targets() const { return to.size(); }
};

/// Returns the conversion out = [multiplier * x], centred modulo the product F of `from`. If `rounded` is false, out has an
/// additional u*F with 0 <= u < |from|.
Conversion extend_base(std::vector<u64> from, std::vector<u64> to, bool rounded = true, u64 multiplier = 1);

/// Returns the conversion out = times * round(multiplier * x / F) modulo each modulus of `to`. x is given modulo `from`
/// (product F) and `to`. The remainder is centred; ties are rounded as in v.
Conversion divide_and_round(std::vector<u64> from, std::vector<u64> to, u64 multiplier = 1, u64 times = 1);
/// Returns the conversion that divides and rounds for a product of several multipliers. If a multiplier is a modulus of
/// `to`, the conversion does not need x modulo it.
Conversion divide_and_round(std::vector<u64> from, std::vector<u64> to, const std::vector<u64>& multipliers, u64 times);

/// Returns the conversion out = (x - d) / F modulo each modulus of `to`. Here d is the least number that is congruent to x
/// modulo F (the product of `from`) and to 0 modulo t: BGV's modulus switch (ePrint 2021/204, section 3). t must be coprime
/// to F.
Conversion divide_keeping(std::vector<u64> from, std::vector<u64> to, u64 t);

/// Returns the conversion without its own operand, whose result is out minus x * own.
Conversion without_own(Conversion c);

/// Returns the conversion out = round(t * x / Q) mod t for x modulo the chain `from` (product Q): BFV's last step of
/// decryption.
Conversion scale_to_plain(std::vector<u64> from, u64 t);

/// Returns the conversion out = round(Q * m / t) modulo each prime of `to` (product Q) for m in [0, t): BFV's encoding
/// (ePrint 2021/204, section 3).
Conversion scale_from_plain(u64 t, std::vector<u64> to);

/// Evaluates the formula for one coefficient. `x`: residues modulo `from`; `own`: residues modulo `to`, or empty.
std::vector<u64> evaluate(const Conversion& c, const std::vector<u64>& x, const std::vector<u64>& own = {});

}  // namespace heliograph::math
