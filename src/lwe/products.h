// Products of masks with binary secrets, exact modulo 2^64 (or 2^32).
#pragma once

#include <span>
#include <vector>

#include "math/modulus.h"

namespace heliograph::lwe {

using math::u32;
using math::u64;

/// sum of a_i s_i; `s` is as long as `a` and holds all ones where the bit is 1, else 0.
u64 dot(std::span<const u64> a, std::span<const u64> s);
u32 dot(std::span<const u32> a, std::span<const u32> s);

/// A binary polynomial to multiply with modulo X^N + 1.
class BinaryPolynomial {
 public:
  explicit BinaryPolynomial(std::span<const unsigned char> coefficients);
  /// out += a * this; a and out have N words.
  void multiply_add(std::span<const u64> a, std::span<u64> out) const;

 private:
  std::size_t degree_;
  std::vector<u32> ones_;  // exponents
};

}  // namespace heliograph::lwe
