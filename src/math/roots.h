// Roots of unity, and real polynomials at the roots of X^n + 1, with the same bits on every machine. Roots come from integer
// arithmetic, and sums have a fixed order.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace heliograph::math {

/// Returns exp(2 pi i part / whole) for part < whole < 2^32, with both parts exact to 2^-53.8.
std::complex<double> turn(std::uint64_t part, std::uint64_t whole);

class RealRoots {
 public:
  /// `n` must be a power of two, at least 4.
  explicit RealRoots(std::size_t n);

  /// Returns exp(i pi j / n) for j below 2n.
  std::complex<double> root(std::size_t j) const;

  /// Computes n/2 values of a real polynomial: value k is at exp(i pi (4k + 1) / n). The values at the other roots are the
  /// conjugates.
  void evaluate(const double* polynomial, double* re, double* im) const;
  /// Inverts `evaluate` and multiplies by `factor`. Overwrites re and im.
  void interpolate(double* re, double* im, double factor, double* polynomial) const;

 private:
  std::vector<double> cosine_, sine_;    // cosine and sine of pi j / n, for j = 0 .. n - 1
  std::vector<std::uint32_t> reversed_;  // bit reversals of 0 .. n/2 - 1
};

}  // namespace heliograph::math
