// The canonical embedding: N/2 complex slots and N real coefficients. The same bits on every machine: integers make the
// roots, and the sums have one order.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace heliograph::ckks {

/// Slot s is the value at exp(i pi 5^s / N), so that X -> X^5 turns the slots by one to the left.
class Embedding {
 public:
  /// n a power of two, at least 8.
  explicit Embedding(std::size_t n);

  std::size_t n() const { return 2 * half_; }
  /// [N/2] -> [N], times `factor`.
  void to_polynomial(const std::complex<double>* slots, double factor, double* polynomial) const;
  /// [N] -> [N/2], divided by `divisor`.
  void to_slots(const double* polynomial, double divisor, std::complex<double>* slots) const;

 private:
  std::size_t half_;                     // N/2
  std::vector<double> cosine_, sine_;    // of pi j / N, j = 0 .. N - 1
  std::vector<std::uint32_t> position_;  // slot s is the value at exp(i pi (4 position + 1) / N)
  std::vector<std::uint32_t> reversed_;
};

}  // namespace heliograph::ckks
