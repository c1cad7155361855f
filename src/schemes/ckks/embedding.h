// The canonical embedding of N real coefficients in N/2 complex slots, with the same bits on every machine.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "math/roots.h"

namespace heliograph::ckks {

/// Slot s is the value at exp(i pi 5^s / N), so X -> X^5 rotates the slots by one to the left.
class Embedding {
 public:
  /// n: a power of two, at least 8.
  explicit Embedding(std::size_t n);

  std::size_t n() const { return 2 * position_.size(); }
  /// Returns exp(i pi j / N) for j below 2N.
  std::complex<double> root(std::size_t j) const { return roots_.root(j); }
  /// Transforms [N/2] to [N], times `factor`.
  void to_polynomial(const std::complex<double>* slots, double factor, double* polynomial) const;
  /// Transforms [N] to [N/2], divided by `divisor`.
  void to_slots(const double* polynomial, double divisor, std::complex<double>* slots) const;

 private:
  math::RealRoots roots_;
  std::vector<std::uint32_t> position_;  // slot s is the value at exp(i pi (4 position + 1) / N)
};

}  // namespace heliograph::ckks
