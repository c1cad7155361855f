#include "schemes/exact/bgv_noise.h"

#include <cmath>

namespace heliograph::bgv {

Noise::Noise(std::size_t n, double log_t, rlwe::NoiseModel::Deviations deviations)
    : model_(n, rlwe::NoiseModel::Spoils::coefficients, deviations),
      log_t_(log_t),
      message_(std::log2(static_cast<double>(n)) + log_t - 1) {}

double Noise::fresh(bool public_key) const {
  return rlwe::log2_sum(message_, log_t_ + (public_key ? model_.fresh_public_key() : model_.fresh_secret_key()));
}

double Noise::floor(std::size_t degree) const { return log_t_ + model_.rounding_times_secret(degree + 1); }

}  // namespace heliograph::bgv
