// Noise growth, for operations on tensors and for programs that are analysed without tensors. A figure is the log2 of a
// canonical norm.
#pragma once

#include <algorithm>
#include <cmath>

#include "rlwe/noise.h"

namespace heliograph::ckks {

/// A bound on an error. As a figure it is log2 of the error's canonical norm, which bounds the error of each slot.
struct Noise : rlwe::Figure {
  /// log2 of B: a weighted sum of the error's coefficients is at most |w| B, for weights w independent of the error. The
  /// canonical norm is such a B for every error. Random errors have a smaller B (NoiseModel::spread_bits).
  rlwe::Figure spread;

  Noise(double both) : Figure(both), spread(both) {}        // NOLINT(google-explicit-constructor): a number is a bound
  Noise(rlwe::Figure norm) : Figure(norm), spread(norm) {}  // NOLINT(google-explicit-constructor): a figure bounds any error
  const Figure& norm() const { return *this; }

  static Noise of(rlwe::Figure norm, rlwe::Figure spread) {
    Noise noise = norm;
    noise.spread = spread;
    return noise;
  }
  static Noise random(rlwe::Figure norm, const rlwe::NoiseModel& model) { return of(norm, norm - model.spread_bits()); }
  /// Returns the noise of the error times a polynomial with canonical norm `factor` (log2).
  Noise times(rlwe::Figure factor) const { return of(norm() + factor, spread + factor); }
};

inline Noise both(const Noise& a, const Noise& b) {
  return Noise::of(rlwe::log2_sum(a.norm(), b.norm()), rlwe::log2_sum(a.spread, b.spread));
}

/// Returns a noise that bounds each of two errors.
inline Noise larger(const Noise& a, const Noise& b) {
  return Noise::of(rlwe::log2_max(a.norm(), b.norm()), rlwe::log2_max(a.spread, b.spread));
}

/// Returns the noise of the sum of `count` rotations of one error. Each slot has the sum of the errors of `count` slots: a
/// weighted sum of coefficients with |w| = sqrt(count N), because the vectors of different slots are orthogonal.
inline Noise of_rotations(const Noise& noise, double log_count, double log_n) {
  const auto least = [](double a, double b) { return std::isnan(a + b) ? a + b : std::min(a, b); };
  const rlwe::Figure all = noise.norm() + log_count, sums = noise.spread + (log_count + log_n) / 2;
  const rlwe::Figure norm(least(all.vouched, sums.vouched), least(all.assumed, sums.assumed));
  const rlwe::Figure spread = noise.spread + log_count;
  return Noise::of(norm, {least(norm.vouched, spread.vouched), least(norm.assumed, spread.assumed)});
}

/// Returns the noise of a product. `size`: of the values at their scale. A plaintext's noise is its rounding.
inline Noise product_noise(const Noise& a, rlwe::Figure size_a, const Noise& b, rlwe::Figure size_b) {
  return both(both(a.times(size_b), b.times(size_a)), a.norm() + b.norm());
}

/// Returns the noise that a summand adds to a sum at scale `to`: its noise, and its values times the relative scale
/// difference.
inline Noise added_noise(const Noise& noise, rlwe::Figure peak, double scale, double to) {
  const double off = std::abs(scale / to - 1);
  return off > 0 ? both(noise, peak + std::log2(to) + std::log2(off)) : noise;
}

}  // namespace heliograph::ckks
