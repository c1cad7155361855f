// Products of masks with binary secrets, exact modulo 2^64 (or 2^32), in a time that does not depend on the secrets.
#pragma once

#include <span>
#include <vector>

#include "base/secret.h"
#include "math/modulus.h"

namespace heliograph::lwe {

using math::u32;
using math::u64;

/// sum of a_i s_i; `s` is as long as `a` and holds all ones where the bit is 1, else 0.
u64 dot(std::span<const u64> a, std::span<const u64> s);
u32 dot(std::span<const u32> a, std::span<const u32> s);

/// A binary polynomial to multiply with modulo X^N + 1, by a floating-point transform. With N <= 2^12, halves of words below
/// 2^31 and transforms that err by at most 12 N's bits times 2^-53 of the operands' lengths together, a coefficient is off by
/// less than 0.4, and by 2^-8 as a rule: rounded, it is exact.
class BinaryPolynomial {
 public:
  static constexpr std::size_t kMostCoefficients = 4096;
  explicit BinaryPolynomial(std::span<const unsigned char> coefficients);
  /// out += a * this; a and out have N words.
  void multiply_add(std::span<const u64> a, std::span<u64> out) const;

 private:
  std::size_t degree_;
  const std::vector<double>& roots_;
  SecretVector<double> values_;  // at the roots of X^N = -1: real parts, then imaginary parts
};

}  // namespace heliograph::lwe
