// Roots of unity, and real polynomials at those of X^n + 1. The same bits on every machine: integers make the roots, and the sums
// have one order.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace heliograph::math {

/// exp(2 pi i part / whole), part below whole, whole at least 1 and below 2^32: both parts right to 2^-53.8.
std::complex<double> turn(std::uint64_t part, std::uint64_t whole);

class RealRoots {
 public:
  /// n a power of two, at least 4.
  explicit RealRoots(std::size_t n);

  /// exp(i pi j / n), j below 2n.
  std::complex<double> root(std::size_t j) const;

  /// Value k of n/2 is the one at exp(i pi (4k + 1) / n); at the other roots are their conjugates.
  void evaluate(const double* polynomial, double* re, double* im) const;
  /// Back, times `factor`. What it is given is used up.
  void interpolate(double* re, double* im, double factor, double* polynomial) const;

 private:
  std::vector<double> cosine_, sine_;    // of pi j / n, j = 0 .. n - 1
  std::vector<std::uint32_t> reversed_;  // the bits of 0 .. n/2 - 1
};

}  // namespace heliograph::math
