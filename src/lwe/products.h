// Products of masks with binary secrets in constant time, exact modulo 2^64 (or 2^32).
#pragma once

#include <span>
#include <vector>

#include "base/secret.h"
#include "math/modulus.h"

namespace heliograph::lwe {

using math::u32;
using math::u64;

/// Returns the sum of a_i s_i. `s` has the length of `a`; s_i is all ones for a bit of 1, else 0.
u64 dot(std::span<const u64> a, std::span<const u64> s);
u32 dot(std::span<const u32> a, std::span<const u32> s);

/// A binary polynomial as a factor modulo X^N + 1, multiplied by a floating-point transform. N is at most 2^12, the halves
/// of words are below 2^31, and a transform errs by at most 12 log2(N) 2^-53 of the operands' norms. So the error of a
/// coefficient is below 0.4, typically 2^-8, and rounding makes the coefficient exact.
class BinaryPolynomial {
 public:
  static constexpr std::size_t kMostCoefficients = 4096;
  explicit BinaryPolynomial(std::span<const unsigned char> coefficients);
  /// Computes out += a * this polynomial; `a` and `out` have N words.
  void multiply_add(std::span<const u64> a, std::span<u64> out) const;

 private:
  std::size_t degree_;
  const std::vector<double>& roots_;
  SecretVector<double> values_;  // values at the roots of X^N = -1: real parts, then imaginary parts
};

}  // namespace heliograph::lwe
