// Functions of encrypted reals through the public C++ API: errors below the promised bounds, refusals and guards.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

#include "circuits/ckks/integers.h"
#include "heliograph/functions.h"

namespace heliograph {
namespace {

using ckks::Approximation;
using ckks::Ciphertext;
using ckks::Evaluator;
using ckks::FunctionOptions;
using ckks::Interval;
using ckks::Operand;

using Real = double (*)(double);
using Function = Operand (*)(const Operand&, const Evaluator&, const FunctionOptions&);

struct Case {
  const char* name;
  Function function;
  Real clear;
  double low, high;
};

double gelu_of(double v) { return v * (1 + std::erf(v / std::sqrt(2.0))) / 2; }

/// Methods with Newton steps promise an error up to 2^9 times their largest error, methods with one polynomial up to 2^2
/// times.
const Case kCases[] = {
    {"exp", [](const Operand& x, const Evaluator& by, const FunctionOptions& o) { return ckks::exp(x, by, o); },
     [](double v) { return std::exp(v); }, -4, 4},
    {"log", &ckks::log, [](double v) { return std::log(v); }, 0.1, 8},
    {"sigmoid", &ckks::sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }, -8, 8},
    {"tanh", &ckks::tanh, [](double v) { return std::tanh(v); }, -4, 4},
    {"gelu", &ckks::gelu, &gelu_of, -5, 5},
    {"erf", &ckks::erf, [](double v) { return std::erf(v); }, -3, 3},
    {"sin", &ckks::sin, [](double v) { return std::sin(v); }, -10, 10},
    {"cos", &ckks::cos, [](double v) { return std::cos(v); }, -10, 10},
    {"inverse", &ckks::inverse, [](double v) { return 1 / v; }, 0.05, 3},
    {"negative", &ckks::inverse, [](double v) { return 1 / v; }, -3, -0.05},
    {"rsqrt", &ckks::rsqrt, [](double v) { return 1 / std::sqrt(v); }, 0.05, 3},
    {"sqrt", &ckks::sqrt, [](double v) { return std::sqrt(v); }, 0.05, 3},
};

class Functions : public testing::Test {
 protected:
  static constexpr std::size_t kSlots = 1024;
  ckks::Parameters parameters_ = ckks::Parameters(ckks::make_spec(2 * kSlots, 30, 45, 60, 1, 64, 0, true));
  ckks::SecretKey secret_ = ckks::SecretKey::generate(parameters_);
  std::vector<std::int64_t> turns_ = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  ckks::EvaluationKeys keys_ = secret_.evaluation_keys(true, turns_, false);

  /// Returns values of an interval, both ends included.
  static std::vector<double> spread(double low, double high) {
    std::vector<double> v(kSlots);
    for (std::size_t i = 0; i < kSlots; ++i)
      v[i] = low + (high - low) * static_cast<double>(i) / static_cast<double>(kSlots - 1);
    v.back() = high;
    return v;
  }

  /// Encrypts ciphertexts of kSlots values each, in one axis unless `shape` is given.
  Ciphertext encrypt(const std::vector<double>& values, Interval bound, const Shape& shape = {}) const {
    return secret_.encrypt({.data = {values.begin(), values.end()}, .shape = shape, .width = kSlots, .complex = false}, 0,
                           bound);
  }

  std::vector<double> decrypt(const Ciphertext& x) const {
    std::vector<double> values;
    for (const auto& v : secret_.decrypt(x).data) values.push_back(v.real());
    return values;
  }

  /// Checks that the largest error is below the promised error. Returns the promised error.
  double check(const Ciphertext& y, const std::vector<double>& wanted) const {
    const std::vector<double> got = decrypt(y);
    const double promised = ckks::error_bounds(y).trusted;
    double largest = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) largest = std::max(largest, std::abs(got[i] - wanted[i]));
    EXPECT_LE(largest, promised);
    return promised;
  }

  static std::vector<double> mapped(const std::vector<double>& v, const std::function<double(double)>& f) {
    std::vector<double> y(v.size());
    std::transform(v.begin(), v.end(), y.begin(), f);
    return y;
  }
};

TEST_F(Functions, HaveErrorsBelowTheirBounds) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const std::vector<double> v = spread(c.low, c.high);
    const Operand y = c.function(encrypt(v, {c.low, c.high}), keys_, {.error = 0x1p-18});
    EXPECT_LE(check(y, mapped(v, c.clear)), 0x1p-18);
    EXPECT_TRUE(ckks::guards_of(y).empty());
  }
}

TEST_F(Functions, RefuseWrongIntervals) {
  const Ciphertext x = encrypt(spread(-1, 1), 1), above = encrypt(spread(0.5, 1), {0.5, 1});
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    EXPECT_THROW(c.function(above, keys_, {.domain = Interval(2, 3)}), PlaintextRangeError);
    EXPECT_THROW(c.function(above, keys_, {.error = 0.0}), ParameterError);
    EXPECT_THROW(c.function(ckks::multiply_i(above), keys_, {}), DtypeError);
  }
  for (const Function f : {&ckks::log, &ckks::inverse, &ckks::rsqrt, &ckks::sqrt})
    EXPECT_THROW(f(x, keys_, {}), ParameterError);  // 0 is inside
  EXPECT_THROW(ckks::power(x, 0.5, keys_), ParameterError);
  EXPECT_THROW(ckks::power(x, -1, keys_), ParameterError);
  EXPECT_THROW(ckks::exp(x, keys_, {.error = 0x1p-40}), NoiseError);
  EXPECT_THROW(ckks::exp(ckks::lower(x, 2), keys_), LevelError);
}

TEST_F(Functions, GuardDeclaredIntervals) {
  std::vector<double> v = spread(0, 1);
  const auto loaded = [&] {
    return Ciphertext::from_bytes(encrypt(v, {0, 2}).to_bytes());
  };  // a loaded tensor has no trusted bounds
  const Ciphertext inside = loaded();
  v[17] = 1.2;
  const Ciphertext outside = loaded();
  const FunctionOptions declared{.domain = Interval(0, 1)};
  const Operand good = ckks::exp(inside, keys_, declared);
  ASSERT_EQ(ckks::guards_of(good).size(), 1U);
  EXPECT_EQ(ckks::guards_of(good)[0].operations, std::vector<std::string>{"exp on [0, 1]"});
  secret_.decrypt(good);
  EXPECT_THROW(secret_.decrypt(ckks::exp(outside, keys_, declared)), OutOfIntervalError);
  const ckks::SignOptions declared_sign{.gap = 0.25, .error = 0x1p-8, .domain = Interval(1)};
  const Operand signs = ckks::sign(inside, keys_, declared_sign);
  ASSERT_EQ(ckks::guards_of(signs).size(), 1U);
  EXPECT_EQ(ckks::guards_of(signs)[0].operations, std::vector<std::string>{"sign on [-1, 1]"});
  secret_.decrypt(signs);
  EXPECT_THROW(secret_.decrypt(ckks::sign(outside, keys_, declared_sign)), OutOfIntervalError);
  FunctionOptions silent = declared;
  silent.guard = ckks::Guarding::none;
  EXPECT_TRUE(ckks::guards_of(ckks::exp(outside, keys_, silent)).empty());
}

TEST_F(Functions, SquareExponentials) {
  const std::vector<double> v = spread(-30, 1);
  const Operand y = ckks::exp(encrypt(v, {-30, 1}), keys_, {}, ckks::ExpMethod::squaring);
  check(y, mapped(v, [](double a) { return std::exp(a); }));
}

TEST_F(Functions, RaiseToPowersAndDivide) {
  const std::vector<double> v = spread(0.5, 2);
  const Ciphertext x = encrypt(v, {0.5, 2});
  check(ckks::power(x, 1.5, keys_), mapped(v, [](double a) { return std::pow(a, 1.5); }));
  check(ckks::divide(x, x, keys_), mapped(v, [](double) { return 1.0; }));
  const std::vector<double> negative = spread(-2, -0.5);
  check(ckks::power(encrypt(negative, {-2, -0.5}), 3, keys_), mapped(negative, [](double a) { return a * a * a; }));
}

TEST_F(Functions, FitAFunctionOfTheCaller) {
  const auto bell = [](double v) { return std::exp(-v * v); };
  const Approximation f = ckks::approximate(bell, -3, 2, {.error = 1e-5});
  EXPECT_LE(f.error(), 1e-5);
  const std::vector<double> v = spread(-3, 2);
  for (const double a : v) EXPECT_LE(std::abs(f.clear(a) - bell(a)), f.error());
  const Ciphertext x = encrypt(v, {-3, 2});
  const Operand y = ckks::evaluate(f, x, keys_);
  EXPECT_EQ(x.level() - y.level(), f.depth());
  check(y, mapped(v, bell));
  EXPECT_THROW(f.clear(2.1), PlaintextRangeError);
  EXPECT_THROW(ckks::evaluate(f, encrypt(v, 4), keys_), PlaintextRangeError);

  const Approximation relative =
      ckks::approximate([](double a) { return std::exp(a); }, -6, 6, {.error = 1e-4, .relative = true});
  for (const double a : spread(-6, 6)) EXPECT_LE(std::abs(relative.clear(a) / std::exp(a) - 1), relative.error());
  EXPECT_EQ(ckks::approximate(bell, -1, 1, {.depth = 3}).degree(), 7U);
  EXPECT_THROW(ckks::approximate([](double a) { return std::abs(a); }, -1, 1, {.error = 1e-9}), ParameterError);
  EXPECT_THROW(ckks::approximate([](double a) { return std::log(a); }, -1, 1), PlaintextRangeError);
  EXPECT_THROW(ckks::approximate([](double a) { return std::sin(a); }, -1, 1, {.relative = true}), ParameterError);
  EXPECT_THROW(ckks::approximate(bell, 1, 1), ParameterError);
  EXPECT_THROW(ckks::approximate(std::function<double(double)>(), -1, 1), ParameterError);
  const double nan = std::nan("");
  using Made = ckks::Approximation;
  EXPECT_THROW(Made("f", nan, 1, {1, 2}, 0, false), ParameterError);
  EXPECT_THROW(Made("f", 5, 1, {1, 2}, 0, false), ParameterError);
  EXPECT_THROW(Made("f", -1, 1, {}, 0, false), ParameterError);
  EXPECT_THROW(Made("f", -1, 1, {1, nan}, 0, false), ParameterError);
  EXPECT_THROW(Made("f", -1, 1, {1, 2}, -1, false), ParameterError);
  EXPECT_THROW(Made("f", -1, 1, {1, 2}, nan, false), ParameterError);
}

TEST_F(Functions, SumExponentialsAlongAxes) {
  const std::vector<double> one = spread(-1, 1);
  std::vector<double> v = one, total(kSlots), norms(kSlots), shares;
  for (const double a : one) v.push_back(-a);
  for (const double a : one) v.push_back(a * a);
  for (std::size_t i = 0; i < v.size(); ++i) total[i % kSlots] += std::exp(v[i]), norms[i % kSlots] += v[i] * v[i];
  for (std::size_t i = 0; i < v.size(); ++i) shares.push_back(std::exp(v[i]) / total[i % kSlots]);
  const Ciphertext x = encrypt(v, 1, {3});
  check(ckks::softmax(x, 0, keys_), shares);
  check(ckks::logsumexp(x, 0, keys_), mapped(total, [](double a) { return std::log(a); }));
  double all = 0;
  for (const double a : one) all += std::exp(a);
  check(ckks::logsumexp(encrypt(one, 1), std::nullopt, keys_), std::vector<double>(kSlots, std::log(all)));
  const std::vector<double> far = spread(0.5, 1);
  check(ckks::norm(encrypt(far, {0.5, 1}), std::nullopt, keys_, {.domain = Interval(10, 40)}),
        std::vector<double>(kSlots, std::sqrt(std::inner_product(far.begin(), far.end(), far.begin(), 0.0))));
  EXPECT_THROW(ckks::norm(x, 0, keys_, {}), ParameterError);
  EXPECT_THROW(ckks::softmax(x, 3, keys_), ShapeError);
  EXPECT_THROW(ckks::softmax(encrypt(spread(-25, 25), 25), std::nullopt, keys_), NoiseError);
}

/// Returns values of the whole interval. The first values are replaced by values at the gap, inside the gap, at 0 and at the
/// ends.
std::vector<double> near_gap(const std::vector<double>& spread, double gap) {
  std::vector<double> v = spread;
  const double special[] = {gap, -gap, std::nextafter(gap, 1), -std::nextafter(gap, 1), gap / 2, -gap / 2, 0, 0x1p-40,
                            1,   -1};
  std::copy(std::begin(special), std::end(special), v.begin());
  return v;
}

double sign_of(double v) { return v > 0 ? 1 : v < 0 ? -1 : 0; }

TEST_F(Functions, SignsAreExactFromTheGapOn) {
  const double gap = 0x1p-6;
  const std::vector<double> v = near_gap(spread(-1, 1), gap);
  const Operand y = ckks::sign(encrypt(v, 1), keys_, {.gap = gap});
  const double promised = ckks::error_bounds(y).trusted;
  EXPECT_LE(promised, 0x1p-20);
  const std::vector<double> got = decrypt(y);
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (std::abs(v[i]) >= gap)
      EXPECT_LE(std::abs(got[i] - sign_of(v[i])), promised) << v[i];
    else
      EXPECT_TRUE(std::abs(got[i]) <= 1.01 && got[i] * sign_of(v[i]) >= -promised) << v[i];
  }
  EXPECT_LT(std::abs(got[6]), 0x1p-10);  // the value at 0
  EXPECT_THROW(ckks::sign(encrypt(v, 1), keys_, {}), ParameterError);
  EXPECT_THROW(ckks::sign(encrypt(v, 1), keys_, {.gap = 1.0, .integers = true}), ParameterError);
  EXPECT_THROW(ckks::sign(encrypt(v, 1), keys_, {.gap = 0x1p-25}), ParameterError);
  const Ciphertext noisy = ckks::with_error(encrypt(v, 1), {0x1p-10, 0x1p-10});
  EXPECT_THROW(ckks::sign(noisy, keys_, {.gap = gap}), NoiseError);
}

TEST_F(Functions, ComparisonsTellEqualValues) {
  const double gap = 0x1p-5;  // comparisons are certain from a difference of 3/2 gap on, and different values are 2^-4 apart
  std::vector<double> v(kSlots), w(kSlots);
  for (std::size_t i = 0; i < kSlots; ++i)
    v[i] = static_cast<double>(i % 33) / 16 - 1, w[i] = static_cast<double>(i % 11) / 8 - 0.5;
  const Ciphertext x = encrypt(v, 1), z = encrypt(w, 1);
  const ckks::SignOptions options{.gap = gap};
  const Operand less = ckks::compare(x, ckks::Relation::less, z, keys_, options);
  const std::vector<double> got = decrypt(less), chosen = decrypt(ckks::where(less, x, z, keys_));
  for (std::size_t i = 0; i < kSlots; ++i) {
    EXPECT_NEAR(got[i], v[i] == w[i] ? 0.5 : v[i] < w[i] ? 1 : 0, v[i] == w[i] ? 0x1p-6 : 0x1p-20);
    EXPECT_NEAR(chosen[i], std::min(v[i], w[i]), 0x1p-18);
  }
  std::vector<double> equal(kSlots), above(kSlots);
  for (std::size_t i = 0; i < kSlots; ++i) equal[i] = v[i] == w[i] ? 1 : 0, above[i] = v[i] >= 0.53125 ? 1 : 0;
  check(ckks::compare(x, ckks::Relation::equal, z, keys_, options), equal);
  check(ckks::compare(x, ckks::Relation::greater, 0.53125, keys_, options), above);
  EXPECT_THROW(ckks::where(x, x, z, keys_), PlaintextRangeError);
}

TEST_F(Functions, RelationsOfIntegersAreExact) {
  std::vector<double> v(kSlots);
  for (std::size_t i = 0; i < kSlots; ++i) v[i] = static_cast<double>(i % 9) - 4;
  const Ciphertext x = encrypt(v, 4);
  const ckks::SignOptions options{.integers = true};
  check(ckks::compare(x, ckks::Relation::less_equal, keys_, options),
        mapped(v, [](double a) { return a <= 0 ? 1.0 : 0.0; }));
  check(ckks::compare(x, ckks::Relation::greater, keys_, options), mapped(v, [](double a) { return a > 0 ? 1.0 : 0.0; }));
  EXPECT_THROW(ckks::sign(x, keys_, {.integers = true, .domain = Interval(0.2, 0.8)}), PlaintextRangeError);
  EXPECT_THROW(ckks::sign(x, keys_, {.integers = true, .domain = Interval(1e20)}), ParameterError);
  check(ckks::compare(x, ckks::Relation::not_equal, keys_, options), mapped(v, [](double a) { return a != 0 ? 1.0 : 0.0; }));
}

TEST_F(Functions, OfSignsHoldTheirErrorEverywhere) {
  const FunctionOptions options{.error = 0x1p-6};
  const std::vector<double> v = near_gap(spread(-1, 1), 0x1p-6), w = spread(0.5, -1);
  const Ciphertext x = encrypt(v, 1), z = encrypt(w, 1);
  std::vector<double> largest(kSlots), smallest(kSlots);
  for (std::size_t i = 0; i < kSlots; ++i) largest[i] = std::max(v[i], w[i]), smallest[i] = std::min(v[i], w[i]);
  EXPECT_LE(check(ckks::abs(x, keys_, options), mapped(v, [](double a) { return std::abs(a); })), 0x1p-6);
  EXPECT_LE(check(ckks::relu(x, keys_, options), mapped(v, [](double a) { return std::max(a, 0.0); })), 0x1p-6);
  EXPECT_LE(check(ckks::clip(x, -0.5, 0.25, keys_, options), mapped(v, [](double a) { return std::clamp(a, -0.5, 0.25); })),
            0x1p-6);
  EXPECT_LE(check(ckks::maximum(x, z, keys_, options), largest), 0x1p-6);
  EXPECT_LE(check(ckks::minimum(x, z, keys_, options), smallest), 0x1p-6);
  EXPECT_THROW(ckks::abs(x, keys_, {}), ParameterError);
  EXPECT_THROW(ckks::clip(x, 1, -1, keys_, options), ParameterError);
}

TEST_F(Functions, TablesOfSignsAreOddWaves) {
  const auto sign = [](std::int64_t m) { return m == 0 ? 0.0 : m < 0 ? -1.0 : 1.0; };
  const auto magnitude = [](std::int64_t m) { return std::abs(static_cast<double>(m)); };
  const auto positive = [](std::int64_t m) { return m >= 0 ? 1.0 : 0.0; };
  const Evaluator by(keys_);
  const auto size_of = [&](double low, double high, const ckks::Integers::Function& f, double error, double noise) {
    const Ciphertext x = encrypt(std::vector<double>(kSlots, high), {low, high});
    return ckks::Integers(ckks::with_error(x, {noise, noise}), {low, high}, by, "sign").chosen(f, error).size();
  };
  for (const double low : {-128.0, -127.0, -100.0}) {
    EXPECT_EQ(size_of(low, 127, sign, 0x1p-5, 0x1p-9), low == -128 ? 258U : 256U);
    EXPECT_EQ(size_of(low, 127, sign, 0x1p-9, 0x1p-9), 256U);  // 258 numbers double the error of 0
  }
  // Other functions and intervals, and waves that need more levels, keep the table of their own integers.
  EXPECT_EQ(size_of(-128, 127, magnitude, 0x1p-5, 0x1p-30), 256U);
  EXPECT_EQ(size_of(-128, 127, positive, 0x1p-5, 0x1p-30), 256U);
  EXPECT_EQ(size_of(-7, 7, sign, 0x1p-5, 0x1p-30), 16U);
  EXPECT_EQ(size_of(-8, 7, sign, 0x1p-5, 0x1p-30), 16U);
  EXPECT_EQ(size_of(-64, 63, sign, 0x1p-5, 0x1p-30), 128U);
  EXPECT_EQ(size_of(0, 200, sign, 0x1p-5, 0x1p-30), 201U);
  EXPECT_EQ(size_of(-1, 200, sign, 0x1p-5, 0x1p-30), 202U);
}

TEST_F(Functions, OrderValuesWithTies) {
  std::vector<double> v(3 * kSlots), largest(kSlots), first(kSlots), ordered(3 * kSlots), middle(kSlots);
  std::mt19937 random(7);
  for (double& a : v) a = static_cast<double>(random() % 5) / 2 - 1;
  for (std::size_t i = 0; i < kSlots; ++i) {
    std::array<double, 3> row = {v[i], v[kSlots + i], v[2 * kSlots + i]};
    first[i] = static_cast<double>(std::max_element(row.begin(), row.end()) - row.begin());
    std::sort(row.begin(), row.end());
    largest[i] = row[2], middle[i] = row[1];
    for (std::size_t k = 0; k < 3; ++k) ordered[k * kSlots + i] = row[k];
  }
  const Ciphertext x = encrypt(v, 1, {3});
  const ckks::OrderOptions options{.gap = 0.5};
  EXPECT_LE(check(ckks::max(x, 0, keys_, {.error = 0.25}), largest), 0.25);
  check(ckks::argmax(x, 0, keys_, options), first);
  check(ckks::sort(x, 0, keys_, options), ordered);
  check(ckks::top_k(x, 1, 0, keys_, options), largest);
  check(ckks::quantile(x, 0.5, 0, keys_, options), middle);
  EXPECT_THROW(ckks::sort(x, 1, keys_, options), ShapeError);
  EXPECT_THROW(ckks::compare(x, static_cast<ckks::Relation>(77), keys_, {.gap = 0.5}), ParameterError);
  EXPECT_THROW(ckks::sort(x, 0, keys_, {}), ParameterError);
  EXPECT_THROW(ckks::top_k(x, 4, 0, keys_, options), ParameterError);
  EXPECT_THROW(ckks::quantile(x, 2, 0, keys_, options), ParameterError);
  EXPECT_THROW(ckks::sort(encrypt(spread(-1, 1), 1), std::nullopt, keys_, options), ParameterError);  // too many pairs
}

TEST(OrderAlongSlots, TakesTheFirstSlots) {
  const ckks::SecretKey secret =
      ckks::SecretKey::generate(ckks::Parameters(ckks::make_spec(1024, 42, 45, 60, 1, 64, 16, true)));
  const ckks::EvaluationKeys keys = secret.evaluation_keys(true, ckks::sort_rotations(16), false);
  const std::vector<double> v = {0.5, -1, 0, 0.5, 1, 0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  const Ciphertext x = secret.encrypt({.data = {v.begin(), v.end()}, .shape = {}, .width = 16, .complex = false}, 0, 1);
  const auto at = [&](const Ciphertext& y, std::size_t slot) { return secret.decrypt(y).data[slot].real(); };
  const ckks::OrderOptions five{.gap = 0.5, .count = 5};
  const Operand ordered = ckks::sort(x, std::nullopt, keys, five);
  const double promised = ckks::error_bounds(ordered).trusted, wanted[] = {-1, 0, 0.5, 0.5, 1};
  EXPECT_LT(promised, 0.01);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(at(ordered, i), wanted[i], promised);
  EXPECT_NEAR(at(ckks::argmin(x, std::nullopt, keys, five), 9), 1, 0.01);
  EXPECT_NEAR(at(ckks::top_k(x, 2, std::nullopt, keys, five), 0), 1, 0.01);
  EXPECT_NEAR(at(ckks::top_k(x, 2, std::nullopt, keys, five), 2), 0, 0.01);
  EXPECT_NEAR(at(ckks::quantile(x, 0.25, std::nullopt, keys, five), 0), 0, 0.01);
  const Operand counts = ckks::histogram(x, {-1.25, -0.25, 0.75}, keys, {.gap = 0.25, .count = 5});
  EXPECT_NEAR(at(ckks::index(counts, 0, 0), 3), 1, 0.01);
  EXPECT_NEAR(at(ckks::index(counts, 0, 1), 3), 3, 0.01);
  EXPECT_NEAR(at(ckks::min(x, std::nullopt, keys, {.error = 0.25}), 0), -1, 0.25);
  EXPECT_THROW(ckks::histogram(x, {1, 0}, keys, five), ParameterError);
  EXPECT_THROW(ckks::sort(x, std::nullopt, secret.evaluation_keys(true, {1, 2}, false), five), MissingKeyError);
  EXPECT_THROW(ckks::sort(x, std::nullopt, keys, {.gap = 0.5, .count = 17}), ParameterError);
}

TEST(Compositions, AreAsTheirRows) {
  for (const ckks::Composition& c : ckks::compositions()) {
    for (int i = 0; i <= 2000; ++i) {
      const double v = std::pow(c.gap, 1 - i / 2000.0);
      double value = v;
      for (std::size_t k = 0; k < c.stages.size(); ++k) {
        EXPECT_GE(value, c.lows[k]);
        EXPECT_LE(value, 1);
        double sum = 0;
        for (std::size_t j = 1; j < c.stages[k].size(); j += 2) sum += c.stages[k][j] * std::cos(j * std::acos(value));
        value = sum;
      }
      EXPECT_LE(std::abs(value - 1), c.error * 1.001 + 0x1p-40);
      EXPECT_LE(std::abs(v * value - v), c.error_of_abs);
    }
  }
}

/// Bootstraps operands that have too few levels.
class Bootstrapping : public Evaluator {
 public:
  using Evaluator::Evaluator;
  Operand ready(const Operand& x, std::size_t levels) const override {
    return x.level() >= x.parameters().bootstrapping_level() + levels ? x : bootstrapped(x, 1);
  }
  bool is_automatic() const override { return true; }
  Operand bootstrapped(const Operand& x, int iterations) const override {
    ++count;
    return Evaluator::bootstrapped(x, iterations);
  }
  mutable std::size_t count = 0;
};

TEST(BootstrappedFunctions, HoldTheirErrors) {
  ckks::Spec spec = ckks::make_bootstrapping_spec(2048, 10, 47, 49.9, 3, 64, true);
  const ckks::SecretKey secret = ckks::SecretKey::generate(ckks::Parameters(spec));
  const ckks::EvaluationKeys keys = secret.evaluation_keys(true, {}, false, true);
  const ckks::Parameters parameters = secret.parameters();
  ckks::Values v{.data = {}, .shape = {}, .width = 1024, .complex = false};
  for (std::size_t i = 0; i < 1024; ++i) v.data.emplace_back(static_cast<double>(i % 9) - 4);
  const Ciphertext x = secret.encrypt(v, parameters.bootstrapping_level(), 4);
  // At this level the automatic choice of the method is a table.
  const Operand y = ckks::sign(x, keys, {.integers = true});
  EXPECT_GT(y.level(), x.level());
  const double promised = ckks::error_bounds(y).trusted;
  EXPECT_LE(promised, 0x1p-10);
  const ckks::Values got = secret.decrypt(y);
  for (std::size_t i = 0; i < 1024; ++i) EXPECT_LE(std::abs(got.data[i].real() - sign_of(v.data[i].real())), promised);

  const Bootstrapping by(keys);
  const Operand exponential = ckks::exp(secret.encrypt(v, parameters.bootstrapping_level() + 1, 4), by, {.error = 0x1p-4});
  EXPECT_EQ(by.count, 1U);
  const ckks::Values powers = secret.decrypt(exponential);
  for (std::size_t i = 0; i < 1024; ++i)
    EXPECT_LE(std::abs(powers.data[i].real() - std::exp(v.data[i].real())), ckks::error_bounds(exponential).trusted);

  // For a small gap a planned bootstrap is used, whose error is known from trials.
  for (std::size_t i = 0; i < 1024; ++i) v.data[i] = (i % 2 == 0 ? 1 : -1) * std::exp2(-static_cast<double>(i % 13));
  const Bootstrapping planned(keys);
  const Operand signs = ckks::sign(secret.encrypt(v, 0, 1), planned, {.gap = 0x1p-12, .error = 0x1p-12});
  EXPECT_EQ(planned.count, 1U);
  EXPECT_GE(signs.level(), parameters.bootstrapping_level());
  const ckks::Values found = secret.decrypt(signs);
  for (std::size_t i = 0; i < 1024; ++i) EXPECT_LE(std::abs(found.data[i].real() - (i % 2 == 0 ? 1 : -1)), 0x1p-12);
}

/// Counts the operands that have too few levels.
class Counting : public Evaluator {
 public:
  using Evaluator::Evaluator;
  Operand ready(const Operand& x, std::size_t levels) const override {
    if (x.level() <= levels) ++lacking;
    return x;
  }
  mutable std::size_t lacking = 0;
};

TEST_F(Functions, AskADerivedEvaluatorForLevels) {
  const Counting by(keys_);
  const Ciphertext x = encrypt(spread(0.1, 1), {0.1, 1});
  ckks::inverse(x, by);
  EXPECT_EQ(by.lacking, 0U);
  EXPECT_THROW(ckks::inverse(ckks::lower(x, 3), by), LevelError);
  EXPECT_EQ(by.lacking, 1U);
}

}  // namespace
}  // namespace heliograph
