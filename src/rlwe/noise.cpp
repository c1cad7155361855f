#include "rlwe/noise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/secret.h"
#include "math/sampler.h"

namespace heliograph::rlwe {

namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

using math::u128;

/// Returns [multiplier * (Q / q_i)^-1] mod q_i for each modulus q_i.
std::vector<u64> reconstruction_constants(const std::vector<u64>& moduli, u64 multiplier) {
  std::vector<u64> result;
  for (std::size_t i = 0; i < moduli.size(); ++i) {
    u64 cofactor = 1 % moduli[i];
    for (std::size_t k = 0; k < moduli.size(); ++k) {
      if (k != i) cofactor = math::mul_mod(cofactor, moduli[k] % moduli[i], moduli[i]);
    }
    result.push_back(math::mul_mod(multiplier % moduli[i], math::inverse_mod(cofactor, moduli[i]), moduli[i]));
  }
  return result;
}

using Big = std::vector<u64>;  // words in little-endian order; both numbers have the same length

void add_multiple(Big& sum, const Big& value, u64 factor) {
  u64 carry = 0;
  for (std::size_t k = 0; k < sum.size(); ++k) {
    const u128 t = u128{value[k]} * factor + sum[k] + carry;
    sum[k] = static_cast<u64>(t);
    carry = static_cast<u64>(t >> 64);
  }
}

void subtract(Big& a, const Big& b) {
  u64 borrow = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const u128 t = u128{a[k]} - b[k] - borrow;
    a[k] = static_cast<u64>(t);
    borrow = static_cast<u64>(t >> 64) & 1;
  }
}

bool less(const Big& a, const Big& b) { return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend()); }

Big product(const std::vector<u64>& moduli, std::size_t skip, std::size_t words) {
  Big r(words);
  r[0] = 1;
  for (std::size_t i = 0; i < moduli.size(); ++i) {
    if (i == skip) continue;
    Big next(words);
    add_multiple(next, r, moduli[i]);
    r = next;
  }
  return r;
}

double log2_of(const Big& a) {
  for (std::size_t k = a.size(); k-- > 0;) {
    if (a[k] == 0) continue;
    const double low = k > 0 ? std::ldexp(static_cast<double>(a[k - 1]), -64) : 0;
    return std::log2(static_cast<double>(a[k]) + low) + 64.0 * static_cast<double>(k);
  }
  return -1;
}

}  // namespace

double log2_times(double a, double b) { return a == kNone || b == kNone ? kNone : a + b; }

double log2_sum(double a, double b) {
  if (a == kNone || b == kNone) return kNone;
  if (std::isnan(a) || std::isnan(b)) return a + b;
  const double high = std::max(a, b), low = std::min(a, b);
  return high == low
             ? high + 1
             : high + std::log2(1 + std::exp2(low - high));  // also if both are minus infinity, whose difference is NaN
}

double log2_max(double a, double b) {
  return a == kNone || b == kNone || std::isnan(a + b) ? log2_sum(a, b) : std::max(a, b);
}

std::uint64_t stored_figure(double figure) {
  const double sixteenths = std::ceil(std::max(0.0, figure) * 16 - 0x1p-10);
  return sixteenths < static_cast<double>(kMostStored) ? static_cast<std::uint64_t>(sixteenths) : kMostStored;
}

double figure_from(std::uint64_t stored) { return stored < kMostStored ? static_cast<double>(stored) / 16 : kNone; }

double NoiseModel::random(double log_variance) const {
  return std::log2(deviations_.one) + (std::log2(n_) + log_variance) / 2;
}

double NoiseModel::random_product(double log_variance) const {
  const double more = spoils_ == Spoils::values ? std::log2(deviations_.product / deviations_.one) : 0;
  return random(log_variance) + more;
}

double NoiseModel::spread_bits() const {
  // Coefficients with standard deviation v give a weighted sum of at most D |w| v and a norm of D sqrt(N) v. For one given
  // factor, a product is a weighted sum of the other factor's coefficients: at most D v per unit of |w|, times the given
  // factor's norm.
  const double product = 2 * std::log2(deviations_.one) - std::log2(deviations_.product);
  return std::max(0.0, std::log2(n_) / 2 - std::max(0.0, product));
}

double NoiseModel::rounding() const { return random(-std::log2(12.0)) + kRoundingSlack; }

double NoiseModel::rounding_times_secret(std::size_t components) const {
  // A coefficient of s has variance 2/3, one of s^2 about 4N/9.
  double variance = 1;
  if (components > 1) variance += n_ * 2 / 3;
  if (components > 2) variance += n_ * n_ * 4 / 9;
  const double log_variance = std::log2(variance / 12);
  return (components > 1 ? random_product(log_variance) : random(log_variance)) + kRoundingSlack;
}

double NoiseModel::fresh_secret_key() const { return random(2 * std::log2(math::kSigma)); }

double NoiseModel::fresh_secret_key_rounded() const {
  return random(std::log2(math::kSigma * math::kSigma + 1.0 / 12)) + kRoundingSlack;
}

double NoiseModel::least_deviations(std::size_t n) {
  const double log_points = std::log2(static_cast<double>(n)) - 1, log_polynomials = 12;
  return std::min(kDeviations, std::sqrt((log_points + log_polynomials - kFailureLog2) * std::log(2.0)));
}

double NoiseModel::fresh_public_key(double log_p) const {
  return log2_sum(fresh_public_key() - log_p, rounding_times_secret(2));
}
double NoiseModel::fresh_public_key() const {
  return random_product(2 * std::log2(math::kSigma) + std::log2(1 + 4 * n_ / 3));
}

double NoiseModel::phase_over_modulus() const { return rounding_times_secret(2); }

double NoiseModel::key_switch(const std::vector<double>& log_digits, double log_p) const {
  double log_variance = -1e9;  // log2 of the variance of sum_j digit_j * e_j
  for (double d : log_digits)
    log_variance = log2_sum(log_variance, 2 * d - std::log2(12.0) + 2 * std::log2(math::kSigma) + std::log2(n_));
  const double product = random_product(log_variance) - log_p;
  return log_p > 0 ? log2_sum(product, rounding_times_secret(2)) : product;
}

double CanonicalNorm::operator()(const std::vector<double>& b) const {
  const std::size_t m = b.size() / 2;
  std::vector<double> re(m), im(m);
  roots_.evaluate(b.data(), re.data(), im.data());
  double largest = 0;
  for (std::size_t k = 0; k < m; ++k) largest = std::max(largest, re[k] * re[k] + im[k] * im[k]);
  return std::sqrt(largest);
}

double log2_largest(const u64* words, std::size_t n, const std::vector<u64>& moduli, u64 multiplier) {
  const std::size_t count = moduli.size(), length = count + 1;
  const std::vector<u64> constants = reconstruction_constants(moduli, multiplier);
  const Big q = product(moduli, ~std::size_t{0}, length);
  std::vector<Big> cofactors;
  for (std::size_t i = 0; i < count; ++i) cofactors.push_back(product(moduli, i, length));
  Big half = q, largest(length);
  for (std::size_t k = 0; k < length; ++k) half[k] = half[k] >> 1 | (k + 1 < length ? half[k + 1] << 63 : 0);
  for (std::size_t c = 0; c < n; ++c) {
    Big sum(length);
    double turns = 0;  // sum / Q; its integer part says how often to subtract Q
    for (std::size_t i = 0; i < count; ++i) {
      const u64 y = math::mul_mod(words[i * n + c], constants[i], moduli[i]);
      add_multiple(sum, cofactors[i], y);
      turns += static_cast<double>(y) / static_cast<double>(moduli[i]);
    }
    Big whole(length);
    add_multiple(whole, q, static_cast<u64>(std::max(0.0, std::floor(turns - 1e-6))));
    subtract(sum, whole);
    while (!less(sum, q)) subtract(sum, q);
    if (less(half, sum)) {
      Big mirrored = q;
      subtract(mirrored, sum);
      sum = mirrored;
    }
    if (less(largest, sum)) largest = sum;
  }
  return log2_of(largest);
}

double largest_fraction(const u64* words, std::size_t n, const std::vector<u64>& moduli, u64 multiplier) {
  // Sums x_i times the constant [multiplier (Q / q_i)^-1]_(q_i) / q_i, modulo 1. The constant has 128 fraction bits, the sum
  // has 64, and integer parts overflow. No reduction, division or comparison is needed.
  const std::vector<u64> constants = reconstruction_constants(moduli, multiplier);
  SecretVector<u64> turns(n);
  for (std::size_t i = 0; i < moduli.size(); ++i) {
    const u128 high = (u128{constants[i]} << 64) / moduli[i], rest = (u128{constants[i]} << 64) % moduli[i];
    const u64 upper = static_cast<u64>(high), lower = static_cast<u64>((rest << 64) / moduli[i]);
    const u64* const x = words + i * n;
    for (std::size_t c = 0; c < n; ++c) turns[c] += x[c] * upper + static_cast<u64>(u128{x[c]} * lower >> 64);
  }
  math::i64 worst = 0;
  for (const u64 turn : turns) {  // turns in units of 2^-63; 1/2 is 2^62
    const math::i64 signed_turn = static_cast<math::i64>(turn) >> 1, sign = signed_turn >> 63;
    const math::i64 more = ((signed_turn ^ sign) - sign) - worst;
    worst += more & ~(more >> 63);
  }
  return static_cast<double>(worst) * 0x1p-63;
}

}  // namespace heliograph::rlwe
