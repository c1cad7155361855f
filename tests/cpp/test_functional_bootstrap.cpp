// Functional bootstrapping evaluates tables of integers in CKKS, here on a small ring.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "heliograph/ckks.h"

namespace heliograph {
namespace {

using namespace ckks;
using Complex = std::complex<double>;
using Table = std::vector<Complex>;

constexpr std::size_t kDepth = 6;

struct Rig {
  Parameters parameters{ckks::make_bootstrapping_spec(2048, kDepth, 39, 49.9, 3, 64, true)};
  SecretKey secret = SecretKey::generate(parameters);
  EvaluationKeys keys = secret.evaluation_keys(true, {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}, true, true);
};
Rig& rig() {
  static Rig r;
  return r;
}

/// Returns integers below p plus noise between -noise and noise.
struct Sample {
  Values values;
  std::vector<std::size_t> whole;
};
Sample sample(std::size_t p, const Shape& shape, double noise, unsigned seed = 1) {
  std::mt19937_64 random(seed);
  Sample s{{.shape = shape, .width = 1024}, {}};
  std::size_t count = 1024;
  for (const std::size_t n : shape) count *= n;
  for (std::size_t i = 0; i < count; ++i) {
    s.whole.push_back(random() % p);
    const double off = 2 * std::ldexp(static_cast<double>(random() >> 11), -53) - 1;
    s.values.data.emplace_back(static_cast<double>(s.whole.back()) + noise * off);
  }
  return s;
}

double worst(const Values& got, const std::vector<std::size_t>& whole, const Table& table) {
  EXPECT_EQ(got.data.size(), whole.size());
  double largest = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) largest = std::max(largest, std::abs(got.data[i] - table[whole[i]]));
  return largest;
}

double distance(const Table& table) {
  double largest = 0;
  for (const Complex& a : table)
    for (const Complex& b : table) largest = std::max(largest, std::abs(a - b));
  return largest;
}

/// Evaluates the table on integers with `noise`. With noise, checks that the error is below the term that is quadratic in
/// the noise. Without noise, checks that the error is below the result's own bound.
Ciphertext check(const Table& table, double noise = 0, const Shape& shape = {}) {
  const Sample s = sample(table.size(), shape, noise);
  const Ciphertext x = rig().secret.encrypt(s.values, rig().parameters.bootstrapping_level());
  const Ciphertext y = ckks::functional_bootstrap(x, table, rig().keys);
  const double error = worst(rig().secret.decrypt(y), s.whole, table), own = std::exp2(-y.precision());
  EXPECT_GT(y.precision(), 16.5) << table.size();
  EXPECT_LT(error, 3.29 * noise * noise * distance(table) + own) << table.size();
  EXPECT_EQ(y.complex(), std::any_of(table.begin(), table.end(), [](const Complex& v) { return v.imag() != 0; }));
  return y;
}

Table counted(std::size_t p) {
  Table t;
  for (std::size_t i = 0; i < p; ++i) t.emplace_back(static_cast<double>(i));
  return t;
}

TEST(Lookup, Bits) {
  const std::size_t top = rig().parameters.top_level();
  EXPECT_EQ(check({0, 1}).level(), top);
  EXPECT_EQ(check({1, 0}, 0.05, {3}).level(), top);  // two real ciphertexts are bootstrapped together, the third alone
  EXPECT_EQ(check({-3, 5}, 0.2, {2, 2}).level(), top);
  check({1, 1});
}

TEST(Lookup, Tables) {
  const std::size_t top = rig().parameters.top_level();
  EXPECT_EQ(check(counted(4), 0, {2}).level(), top - 2);
  EXPECT_EQ(check({3, 1, 0, 2}, 0.05).level(), top - 2);
  EXPECT_EQ(check({0, 0, 0, 0, 1, 1, 1, 1}, 0.05).level(), top - 3);  // the values 1 of the table begin at p / 2
  check({5, 2, 7, 1, 0, 6, 4, 3}, 0, {3});
  check({0.5, -2.25, 1, 3, 0, -1, 8, 0.125}, 0.01);
  check(counted(11), 0.001);
  check(counted(16));
  check({0, 1, 0, 1});
  check({Complex(1, 2), Complex(0, -1), 3}, 0.05, {2});
  check({Complex(0, 1), 1});
}

Table odd_wave() {
  Table wave(258);
  for (std::size_t m = 1; m < 129; ++m) wave[m] = 1, wave[m + 129] = -1;
  return wave;
}

TEST(Lookup, AnOddWaveOf258NumbersHasTheDepthOf256) {
  const Table wave = odd_wave();
  const double noise = 0.02;
  Sample s = sample(258, {}, noise);
  for (std::size_t i = 0; i < 100; ++i) s.values.data[i] -= static_cast<double>(s.whole[i]), s.whole[i] = 0;
  const Ciphertext y =
      ckks::functional_bootstrap(rig().secret.encrypt(s.values, rig().parameters.bootstrapping_level()), wave, rig().keys);
  EXPECT_EQ(y.level(), rig().parameters.top_level() - 8);
  const Values got = rig().secret.decrypt(y);
  double zeros = 0, others = 0;
  for (std::size_t i = 0; i < s.whole.size(); ++i) {
    double& most = s.whole[i] % 129 == 0 ? zeros : others;
    most = std::max(most, std::abs(got.data[i] - wave[s.whole[i]]));
  }
  EXPECT_LT(zeros, 2 * noise * 1.04);
  EXPECT_GT(zeros, noise);
  EXPECT_LT(others, 8 * noise * noise);
}

TEST(Lookup, ValuesCountModuloTheTable) {
  const Sample a = sample(2, {}, 0, 1), b = sample(2, {}, 0, 2);
  const Ciphertext x = rig().secret.encrypt(a.values), y = rig().secret.encrypt(b.values);
  std::vector<std::size_t> exclusive, difference;
  for (std::size_t i = 0; i < a.whole.size(); ++i) {
    exclusive.push_back(a.whole[i] ^ b.whole[i]);
    difference.push_back((a.whole[i] + 3 - b.whole[i]) % 3);
  }
  EXPECT_LT(worst(rig().secret.decrypt(ckks::functional_bootstrap(add(x, y), {0, 1}, rig().keys)), exclusive, {0, 1}),
            0x1p-20);
  const Table three = {7, 8, 9};
  EXPECT_LT(worst(rig().secret.decrypt(ckks::functional_bootstrap(subtract(x, y), three, rig().keys)), difference, three),
            0x1p-18);
}

TEST(Lookup, AnyValueGivesAMeanOfTableValues) {
  const Sample s = sample(4, {}, 0.5);
  for (const Complex& v :
       rig().secret.decrypt(ckks::functional_bootstrap(rig().secret.encrypt(s.values), {-1, 2, 2, 0}, rig().keys)).data) {
    EXPECT_GT(v.real(), -1.0001);
    EXPECT_LT(v.real(), 2.0001);
  }
}

TEST(Lookup, TheNoiseIsSquaredAndItsBoundKnown) {
  Sample s = sample(4, {}, 0);
  for (Complex& v : s.values.data) v = std::ldexp(v.real(), -24);
  const std::size_t level = rig().parameters.bootstrapping_level();
  const Ciphertext x = multiply_constants(rig().secret.encrypt(s.values, level, 0x1p-22), {{0x1p24}, {}, 1, false}, 1);
  const double before = std::exp2(-x.precision()), own = std::exp2(-check(counted(4)).precision());
  EXPECT_GT(before, 0x1p-7);
  const Ciphertext y = ckks::functional_bootstrap(x, counted(4), rig().keys);
  EXPECT_LT(worst(rig().secret.decrypt(y), s.whole, counted(4)), std::exp2(-y.precision()));
  EXPECT_NEAR(-y.precision(), std::log2(3.29 * before * before * 3 + own), 0.5);
}

TEST(Lookup, PaddingSlotsGetTheTableValueOfZero) {
  Sample s = sample(2, {}, 0);
  s.values.width = 8, s.values.data.resize(8), s.whole.resize(8);
  const Ciphertext x = rig().secret.encrypt(s.values);
  for (const Table& table : {Table{1, 0}, Table{0, 1}}) {
    const Ciphertext y = ckks::functional_bootstrap(x, table, rig().keys);
    EXPECT_TRUE(y.tail_known());
    EXPECT_LT(worst(rig().secret.decrypt(y), s.whole, table), 0x1p-20);
    double sum = 0;
    for (const std::size_t i : s.whole) sum += table[i].real();
    EXPECT_NEAR(rig().secret.decrypt(sum_slots(y, 1024, rig().keys)).data[0].real(), sum, 0x1p-12);
  }
}

TEST(Lookup, Refuses) {
  const Sample s = sample(2, {}, 0);
  const std::size_t entry = rig().parameters.bootstrapping_level();
  const Ciphertext x = rig().secret.encrypt(s.values, entry);
  const EvaluationKeys& keys = rig().keys;
  EXPECT_THROW(ckks::functional_bootstrap(x, {1}, keys), ParameterError);
  EXPECT_THROW(ckks::functional_bootstrap(x, counted(257), keys), ParameterError);
  EXPECT_THROW(ckks::functional_bootstrap(x, counted(258), keys), ParameterError);
  Table wave = odd_wave();
  wave[7] = 2;
  EXPECT_THROW(ckks::functional_bootstrap(x, wave, keys), ParameterError);
  EXPECT_THROW(ckks::functional_bootstrap(x, {0, std::nan("")}, keys), PlaintextRangeError);
  EXPECT_THROW(ckks::functional_bootstrap(x, {0, Complex(0, INFINITY)}, keys), PlaintextRangeError);
  EXPECT_THROW(ckks::functional_bootstrap(x, {0, 1e200}, keys), PlaintextRangeError);
  EXPECT_THROW(ckks::functional_bootstrap(multiply_i(x), {0, 1}, keys), DtypeError);
  EXPECT_THROW(ckks::functional_bootstrap(lower(x, entry - 1), {0, 1}, keys), LevelError);
  EXPECT_THROW(ckks::functional_bootstrap(multiply(x, x), {0, 1}, keys), ScaleError);
  EXPECT_THROW(ckks::functional_bootstrap(x, {0, 1}, rig().secret.evaluation_keys(true, {}, true)), MissingKeyError);
  EXPECT_THROW(ckks::functional_bootstrap(x, {0, 1}, SecretKey::generate(rig().parameters).evaluation_keys(true, {}, false)),
               WrongKeyError);
  const Parameters plain(ckks::make_spec(1024, 6, 39, 49, 2, 64, 0, true));
  const SecretKey other = SecretKey::generate(plain);
  EXPECT_THROW(ckks::functional_bootstrap(other.encrypt({.data = {1}, .shape = {}, .width = 1}), {0, 1},
                                          other.evaluation_keys(true, {}, true)),
               ParameterError);
}

TEST(Lookup, NeedsLevelsForItsPolynomial) {
  const Parameters shallow(ckks::make_bootstrapping_spec(2048, 1, 39, 49.9, 3, 64, true));
  const SecretKey secret = SecretKey::generate(shallow);
  const EvaluationKeys keys = secret.evaluation_keys(true, {}, true, true);
  const Ciphertext x = secret.encrypt(sample(2, {}, 0).values);
  EXPECT_THROW(ckks::functional_bootstrap(x, counted(64), keys), LevelError);
  EXPECT_EQ(ckks::functional_bootstrap(x, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, keys).level(),
            shallow.top_level() - 4);
}

TEST(Lookup, AnEmptyTensorGivesAnEmptyTensor) {
  const Ciphertext none = rig().secret.encrypt({.data = {}, .shape = {0}, .width = 1024});
  EXPECT_EQ(ckks::functional_bootstrap(none, counted(4), rig().keys).shape(), Shape{0});
}

}  // namespace
}  // namespace heliograph
