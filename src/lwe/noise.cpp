#include "lwe/noise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

namespace heliograph::lwe {

namespace {

/// Returns E[d^2] of a signed digit d in [-B/2, B/2) of a uniform word: B^2 / 12 - 1 / 12, plus the squared mean (-1/2)^2.
double digit_square(const device::Gadget& g) { return (std::exp2(2.0 * g.log_base) + 2) / 12; }

/// Returns the variance of the part of a uniform word that the gadget discards: this part is uniform between -+ 2^-(log_base
/// * length) /
/// 2.
double cut_off(const device::Gadget& g) { return std::exp2(-2.0 * g.log_base * g.length) / 12; }

/// Returns the variance that floating-point transforms add to each word of a step's product, in squared turns. The product
/// is the sum of `values * rows * N` products of a digit and a uniform word. The relative error of the product was measured
/// for N from 256 to 4096, groups of 1 to 4 bits, and every instruction set (docs/tfhe-parameters.md).
double of_transforms(const device::BootstrapShape& b) {
  const auto degree = static_cast<double>(b.degree), values = static_cast<double>(b.values());
  const double relative = (2.2 * std::log2(degree) + 2 * values) * 0x1p-106;
  return relative * values * static_cast<double>(b.rows()) * degree * digit_square(b.gadget) / 12;
}

double weight_of(const SecretKey& s) {
  return std::accumulate(s.wide.begin(), s.wide.end(), 0.0, [](double sum, unsigned char bit) { return sum + bit; });
}

}  // namespace

NoiseModel::NoiseModel(const Parameters& p) : NoiseModel(p, static_cast<double>(p.wide()) / 2) {}
NoiseModel::NoiseModel(const Parameters& p, const SecretKey& s) : NoiseModel(p, weight_of(s)) {}

NoiseModel::NoiseModel(const Parameters& p, double wide_weight) {
  const device::BootstrapShape& b = p.bootstrap;
  const auto groups = static_cast<double>(b.groups()), wide = static_cast<double>(b.wide()), n = static_cast<double>(b.n);
  fresh = p.glwe_noise.variance();
  // A step multiplies each digit by the errors of all GGSW ciphertexts of the group, each rotated by a power of X. The step
  // also adds the parts that the gadget discards, and the errors of the transforms; errors of the masks are multiplied by
  // the key.
  const double products =
      static_cast<double>(b.values() * b.rows() * b.degree) * digit_square(b.gadget) * p.glwe_noise.variance();
  bootstrap = groups * (products + (cut_off(b.gadget) + of_transforms(b)) * (1 + wide_weight));
  // The key-switching key's bodies and the ciphertext's body are rounded to 32 bits; masks are drawn with 32 bits.
  const double word = 0x1p-64 / 12;
  key_switch = wide * p.key_switch.gadget.length * digit_square(p.key_switch.gadget) * (p.lwe_noise.variance() + word) +
               cut_off(p.key_switch.gadget) * wide_weight + word;
  // A rounding error e_i of a mask word adds e_i (s_i - 1/2) to the phase, because half the sum of the errors is subtracted
  // from the body. The rounding of the body adds one more error.
  const double step = 1 / (2 * static_cast<double>(b.degree));
  modulus_switch = (n / 4 + 1) * step * step / 12;
}

double NoiseModel::before_table(double norm) const {
  return norm * std::max(bootstrap, fresh) + key_switch + modulus_switch;
}

double log2_tail(double variance, double distance) {
  const double x = distance / std::sqrt(2 * variance);
  if (x < 20) return std::log2(std::erfc(x));
  // erfc(x) = exp(-x^2) / (x sqrt(pi)) * (1 - 1 / (2 x^2) + ...)
  return -x * x * std::numbers::log2e - std::log2(x * std::sqrt(std::numbers::pi)) + std::log2(1 - 1 / (2 * x * x));
}

namespace {

struct Point {
  double dimension, log2_deviation;
};

/// Returns log2 of the standard deviation of TUniform(b), as a fraction of a turn: 2^b / sqrt(3) units of 2^-64.
double log2_deviation(double b) { return b - 64 - std::log2(3.0) / 2; }

const std::array<Point, 5>& published() {
  static const std::array<Point, 5> points = {{{805, -17.38},
                                               {879, log2_deviation(46)},
                                               {918, log2_deviation(45)},
                                               {1077, log2_deviation(41)},
                                               {2048, log2_deviation(17)}}};
  return points;
}

double slope(const Point& a, const Point& b) { return (b.log2_deviation - a.log2_deviation) / (b.dimension - a.dimension); }

/// Returns the steepest slope between published sets, in bits per dimension; used for dimensions outside their range.
double steepest() {
  double s = 0;
  for (std::size_t i = 1; i < published().size(); ++i) s = std::min(s, slope(published()[i - 1], published()[i]));
  return s;
}

constexpr double kMargin = 0.25;

}  // namespace

double log2_least_secure_deviation(std::size_t dimension) {
  const auto& p = published();
  const auto d = static_cast<double>(dimension);
  if (d < p.front().dimension) return p.front().log2_deviation + steepest() * (d - p.front().dimension) + kMargin;
  for (std::size_t i = 1; i < p.size(); ++i) {
    if (d <= p[i].dimension) return p[i - 1].log2_deviation + slope(p[i - 1], p[i]) * (d - p[i - 1].dimension);
  }
  return p.back().log2_deviation;
}

double least_secure_dimension(double log2_deviation) {
  std::size_t low = 1, high = 2048;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (log2_least_secure_deviation(middle) <= log2_deviation)
      high = middle;
    else
      low = middle + 1;
  }
  return static_cast<double>(low);
}

namespace {

double log2_deviation_of(const Noise& noise) { return std::log2(noise.variance()) / 2; }

bool enough(const Noise& noise, std::size_t dimension) {
  return log2_deviation_of(noise) >= log2_least_secure_deviation(dimension) - 1e-9;
}

}  // namespace

bool is_secure(const Parameters& p) { return enough(p.lwe_noise, p.narrow()) && enough(p.glwe_noise, p.wide()); }

int rough_security_bits(const Parameters& p) {
  const auto bits = [](const Noise& noise, std::size_t dimension) {
    if (enough(noise, dimension)) return 128.0;
    return std::min(127.0, 128 * static_cast<double>(dimension) / least_secure_dimension(log2_deviation_of(noise)));
  };
  return static_cast<int>(std::min(bits(p.lwe_noise, p.narrow()), bits(p.glwe_noise, p.wide())));
}

}  // namespace heliograph::lwe
