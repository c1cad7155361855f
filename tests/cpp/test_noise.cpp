// Tests noise bounds (also unknown and exhausted bounds), and the distance of a phase from the noise limit.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "math/primes.h"
#include "math/roots.h"
#include "rlwe/noise.h"

namespace heliograph::rlwe {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
const double kUnknown = std::nan("");

TEST(Bounds, AddUp) {
  EXPECT_DOUBLE_EQ(log2_sum(3, 3), 4);
  EXPECT_DOUBLE_EQ(log2_sum(1, 0), std::log2(3));
  EXPECT_EQ(log2_sum(-kNone, -kNone), -kNone);
  EXPECT_EQ(log2_sum(-kNone, 5), 5);
  EXPECT_EQ(log2_max(2, 7), 7);
}

TEST(Bounds, ASumWithAnUnknownBoundIsUnknown) {
  for (const double known : {-kNone, 0.0, 7.5}) {
    EXPECT_TRUE(std::isnan(log2_sum(known, kUnknown)));
    EXPECT_TRUE(std::isnan(log2_sum(kUnknown, known)));
    EXPECT_TRUE(std::isnan(log2_max(known, kUnknown)));
    EXPECT_TRUE(std::isnan(log2_max(kUnknown, known)));
    EXPECT_TRUE(std::isnan(log2_times(known, kUnknown)));
  }
}

TEST(Bounds, UnknownBoundsStayUnknown) {
  for (const double other : {-kNone, 3.0, kNone, kUnknown}) {
    EXPECT_EQ(log2_sum(other, kNone), kNone);
    EXPECT_EQ(log2_sum(kNone, other), kNone);
    EXPECT_EQ(log2_max(other, kNone), kNone);
    EXPECT_EQ(log2_times(kNone, other), kNone);
  }
}

TEST(Bounds, AreStoredRoundedUp) {
  for (const double figure : {-3.0, -kNone, 0.0, 0.01, 1.0, 1.06, 41.9999, 65535.5}) {
    const double read = figure_from(stored_figure(figure));
    EXPECT_GE(read + 0x1p-13, figure);
    EXPECT_LE(read, std::max(0.0, figure) + 1.0 / 16);
    EXPECT_EQ(stored_figure(read), stored_figure(figure));  // saving again writes the same number
    // the same number is written even if another machine rounds log2 differently
    EXPECT_EQ(stored_figure(figure + 1e-9), stored_figure(figure));
  }
  EXPECT_EQ(stored_figure(kNone), kMostStored);
  EXPECT_EQ(stored_figure(1e300), kMostStored);
  EXPECT_EQ(figure_from(kMostStored), kNone);
}

/// Tests the first coefficient of the product of a rounding error and a secret. The sum over all slots is N / 2 times this
/// coefficient.
TEST(NoiseModel, WeightedSumsAreWithinTheBound) {
  constexpr std::size_t n = 4096, pairs = 2000;
  const NoiseModel model(n, NoiseModel::Spoils::values);
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> rounding(-0.5, 0.5);
  double largest = 0;
  for (std::size_t p = 0; p < pairs; ++p) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += rounding(random) * (static_cast<double>(random() % 3) - 1);
    largest = std::max(largest, std::abs(sum));
  }
  const double norm = model.rounding_times_secret(2), bound = norm - model.spread_bits();
  EXPECT_LT(std::log2(largest), bound - 3);
  EXPECT_GT(std::log2(largest), bound - 6);
  // log2(64 / 1.95): the model's bound already includes a factor of 1.95 for products
  EXPECT_NEAR(model.spread_bits(), 5.04, 0.01);
}

/// Tests the distribution of the product of a rounding error and a secret at the points of the embedding. The model's limit
/// of 33.2 deviations follows from this distribution.
TEST(NoiseModel, ProductsHaveTheModelsTails) {
  constexpr std::size_t n = 4096, pairs = 128;
  std::mt19937_64 random(1);
  const math::RealRoots roots(n);
  const auto values = [&](auto draw) {
    std::vector<double> x(n), re(n / 2), im(n / 2);
    for (double& c : x) c = draw();
    roots.evaluate(x.data(), re.data(), im.data());
    for (std::size_t k = 0; k < n / 2; ++k) re[k] = std::hypot(re[k], im[k]);
    return re;
  };
  std::uniform_real_distribution<double> rounding(-0.5, 0.5);
  std::uniform_int_distribution<int> secret(-1, 1);
  const double deviation = static_cast<double>(n) * std::sqrt(1.0 / 12 * 2 / 3);
  const auto tail = [](double x) { return 2 * x * std::cyl_bessel_k(1, 2 * x); };
  std::size_t beyond = 0;
  double largest = 0;
  for (std::size_t i = 0; i < pairs; ++i) {
    const auto r = values([&] { return rounding(random); }), s = values([&] { return secret(random); });
    for (std::size_t k = 0; k < n / 2; ++k) {
      beyond += r[k] * s[k] > 3 * deviation;
      largest = std::max(largest, r[k] * s[k]);
    }
  }
  const double expected = tail(3) * pairs * n / 2;
  EXPECT_NEAR(static_cast<double>(beyond), expected, 6 * std::sqrt(expected))
      << "a normal distribution has " << std::exp(-9) * pairs * n / 2;
  const double x = NoiseModel::kProductDeviations, d = NoiseModel::kDeviations;
  EXPECT_NEAR(std::log(tail(x)), -d * d, 0.5);
  const double least = NoiseModel::least_deviations(n);
  const NoiseModel by_values(n, NoiseModel::Spoils::values), by_coefficients(n);
  EXPECT_LT(std::log2(largest), by_values.rounding_times_secret(2));
  EXPECT_NEAR(by_values.rounding_times_secret(2) - by_coefficients.rounding_times_secret(2), std::log2(x / least), 1e-9);
  EXPECT_NEAR(by_values.rounding_times_secret(1) - by_coefficients.rounding(), std::log2(d / least), 1e-9);
}

TEST(NoiseModel, FailsWithTheStatedProbability) {
  for (int log_n = 10; log_n <= 17; ++log_n) {
    const std::size_t n = std::size_t{1} << log_n;
    const double d = NoiseModel::least_deviations(n), points = log_n - 1, polynomials = 12;
    EXPECT_LE(d, NoiseModel::kDeviations);
    EXPECT_NEAR(points + polynomials - d * d / std::log(2.0), NoiseModel::kFailureLog2, log_n == 17 ? 1 : 1e-9);
    const double error = NoiseModel(n).fresh_secret_key(), rounding = NoiseModel(n).rounding();
    EXPECT_NEAR(2 * NoiseModel(n).fresh_secret_key_rounded(), log2_sum(2 * error, 2 * rounding), 1e-4) << "variances add";
  }
  EXPECT_LE(16 + 12 - NoiseModel::kDeviations * NoiseModel::kDeviations / std::log(2.0), NoiseModel::kFailureLog2);
}

/// Returns the largest |[multiplier x]_Q| / Q, computed with integers.
double exact_fraction(const std::vector<u64>& words, std::size_t n, const std::vector<u64>& moduli, u64 multiplier) {
  const double largest = log2_largest(words.data(), n, moduli, multiplier);
  return largest < 0 ? 0 : std::exp2(largest - log2_product(moduli));
}

TEST(LargestFraction, EqualsThatOfExactIntegers) {
  std::mt19937_64 random(1);
  for (const int bits : {30, 50, 60}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{2}, std::size_t{7}}) {
      const std::vector<u64> moduli = math::largest_primes(bits, count, 2048);
      for (const u64 multiplier : {u64{1}, u64{65537}, (u64{1} << 59) + 1}) {
        for (const std::size_t n : {std::size_t{1}, std::size_t{3}}) {
          std::vector<u64> words;
          for (const u64 q : moduli)
            for (std::size_t c = 0; c < n; ++c) words.push_back(random() % q);
          EXPECT_NEAR(largest_fraction(words.data(), n, moduli, multiplier), exact_fraction(words, n, moduli, multiplier),
                      0x1p-45);
        }
      }
    }
  }
}

TEST(LargestFraction, IsExactForSmallAndHalfValues) {
  const std::vector<u64> moduli = math::largest_primes(50, 3, 2048);
  const auto residues = [&](std::int64_t v) {
    std::vector<u64> words;
    for (const u64 q : moduli) words.push_back(math::signed_mod(v, q));
    return words;
  };
  EXPECT_EQ(largest_fraction(residues(0).data(), 1, moduli, 3), 0);
  for (const std::int64_t small : {1, -1, 1000, -123456789})
    EXPECT_LT(largest_fraction(residues(small).data(), 1, moduli, 1), 0x1p-55);
  // Residues of the half values (Q - 1) / 2 and (Q + 1) / 2 modulo each prime q of Q.
  std::vector<u64> below, above;
  for (const u64 q : moduli) below.push_back((q - 1) / 2), above.push_back((q + 1) / 2);
  EXPECT_NEAR(largest_fraction(below.data(), 1, moduli, 1), 0.5, 0x1p-50);
  EXPECT_NEAR(largest_fraction(above.data(), 1, moduli, 1), 0.5, 0x1p-50);
}

}  // namespace
}  // namespace heliograph::rlwe
