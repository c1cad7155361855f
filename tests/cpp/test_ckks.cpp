// CKKS through the public C++ API, against complex doubles.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <random>
#include <source_location>

#include "heliograph/ckks.h"
#include "schemes/ckks/context.h"

namespace heliograph {
namespace {

using ckks::Ciphertext;
using ckks::EvaluationKeys;
using ckks::Parameters;
using ckks::SecretKey;
using ckks::Values;
using Complex = std::complex<double>;

const std::string kSeed = "thirty-two bytes of a test's seed";  // the first 32 bytes are used

Values random_values(const Shape& shape, std::size_t width, bool complex, unsigned seed = 1) {
  std::mt19937_64 random(seed);
  const auto number = [&] { return std::ldexp(static_cast<double>(random() >> 11), -52) - 1; };
  Values v{.shape = shape, .width = width, .complex = complex};
  std::size_t count = width;
  for (std::size_t s : shape) count *= s;
  for (std::size_t i = 0; i < count; ++i) {
    const double re = number(), im = number();
    v.data.emplace_back(re, complex ? im : 0);
  }
  return v;
}

double worst(const Values& got, const std::vector<Complex>& expected) {
  EXPECT_EQ(got.data.size(), expected.size());
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) largest = std::max(largest, std::abs(got.data[i] - expected[i]));
  return largest;
}

template <class F>
std::vector<Complex> each(const Values& a, const Values& b, F f) {
  std::vector<Complex> out;
  for (std::size_t i = 0; i < a.data.size(); ++i) out.push_back(f(a.data[i], b.data[i]));
  return out;
}

struct Case {
  const char* name;
  int word_size;
  double log_scale;
  int base_bits;
  std::size_t special;
};

class Ckks : public testing::TestWithParam<Case> {
 protected:
  static constexpr std::size_t kN = 2048, kSlots = kN / 2, kLevels = 5;
  Parameters parameters_ = Parameters(ckks::make_spec(kN, kLevels, GetParam().log_scale, GetParam().base_bits,
                                                      GetParam().special, GetParam().word_size, 0, true));
  SecretKey secret_ = SecretKey::generate_for_test(parameters_, kSeed.substr(0, 32));
  EvaluationKeys keys_ = secret_.evaluation_keys(true, {1, 2, 4, -3}, true);
  Values a_ = random_values({3}, kSlots, true, 1), b_ = random_values({3}, kSlots, true, 2);
  Ciphertext x_ = secret_.encrypt(a_), y_ = secret_.encrypt(b_);

  double bound_bits() const { return x_.precision(); }
  double bound(const Ciphertext& c) const { return std::exp2(-c.precision()); }
  /// Checks that the error is within the model's bound, and that this bound is at most 2^most / scale.
  void expect(const Ciphertext& c, const std::vector<Complex>& expected, double most = 22,
              const std::source_location& at = std::source_location::current()) const {
    EXPECT_LE(worst(secret_.decrypt(c), expected), bound(c)) << "line " << at.line();
    EXPECT_LE(bound(c), std::exp2(most - GetParam().log_scale)) << "line " << at.line();
  }
};

TEST_P(Ckks, EncodesPrecisely) {
  const double scale = parameters_.scale(0);
  const Values back =
      ckks::decode_polynomial(parameters_, ckks::encode_polynomial(parameters_, a_, scale), a_.shape, kSlots, scale);
  EXPECT_LE(worst(back, a_.data), std::exp2(std::log2(kN) / 2 + 2 - GetParam().log_scale) + 0x1p-48);
}

TEST_P(Ckks, EncodesByPowersOfFive) {
  const Values one = random_values({}, kSlots, true);
  const std::vector<double> p = ckks::encode_polynomial(parameters_, one, 0x1p25);
  for (std::size_t slot : {std::size_t{0}, std::size_t{1}, std::size_t{77}, kSlots - 1}) {
    std::size_t power = 1;
    for (std::size_t i = 0; i < slot; ++i) power = power * 5 % (2 * kN);
    Complex sum = 0;
    for (std::size_t j = 0; j < kN; ++j)
      sum += p[j] * std::polar(1.0, std::numbers::pi * static_cast<double>(power * j % (2 * kN)) / kN);
    EXPECT_LT(std::abs(sum / 0x1p25 - one.data[slot]), 1e-5);
  }
}

TEST_P(Ckks, AddsAndNegates) {
  expect(x_, a_.data);
  expect(add(x_, y_), each(a_, b_, [](Complex a, Complex b) { return a + b; }));
  expect(subtract(x_, y_), each(a_, b_, [](Complex a, Complex b) { return a - b; }));
  expect(negate(x_), each(a_, b_, [](Complex a, Complex) { return -a; }));
  const auto plain = ckks::encode(parameters_, b_);
  expect(add(x_, plain), each(a_, b_, [](Complex a, Complex b) { return a + b; }));
  expect(subtract(x_, plain), each(a_, b_, [](Complex a, Complex b) { return a - b; }));
  const Values numbers{.data = {{0.25, 0}, {-3, 0}, {0, 0}}, .shape = {3}, .width = 1};
  std::vector<Complex> sums = a_.data;
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += numbers.data[i / kSlots];
  expect(add_constants(x_, numbers), sums);
  const Values turned{.data = {{0.5, -1.5}}, .shape = {}, .width = 1, .complex = true};
  expect(add_constants(x_, turned), each(a_, b_, [](Complex a, Complex) { return a + Complex(0.5, -1.5); }));
}

TEST_P(Ckks, Multiplies) {
  const auto product = each(a_, b_, [](Complex a, Complex b) { return a * b; });
  const Ciphertext lazy = multiply(x_, y_);
  EXPECT_EQ(lazy.degree(), 2u);
  EXPECT_EQ(lazy.level(), kLevels);
  EXPECT_DOUBLE_EQ(lazy.scale(), x_.scale() * y_.scale());
  expect(lazy, product);
  expect(rescale(lazy), product, 26);
  expect(relinearize(lazy, keys_), product);
  expect(rescale(relinearize(lazy, keys_)), product);
  const Ciphertext merged = relinearize_rescale(lazy, keys_);
  EXPECT_EQ(merged.level(), kLevels - 1);
  EXPECT_EQ(merged.scale(), parameters_.scale(kLevels - 1));
  expect(merged, product);
  expect(multiply_rescale(x_, y_, keys_), product);
  expect(rescale(multiply(x_, ckks::encode(parameters_, b_))), product);
  expect(multiply_i(x_), each(a_, b_, [](Complex a, Complex) { return a * Complex(0, 1); }));
  const Values numbers{.data = {{0.75, 0}, {-2.5, 0}, {0, 0}}, .shape = {3}, .width = 1};
  std::vector<Complex> products = a_.data;
  for (std::size_t i = 0; i < products.size(); ++i) products[i] *= numbers.data[i / kSlots];
  const Ciphertext scaled = rescale(multiply_constants(x_, numbers));
  EXPECT_EQ(scaled.scale(), parameters_.scale(kLevels - 1));
  expect(scaled, products);
  const Ciphertext thrice = multiply_constants(x_, {.data = {{-3, 0}}, .shape = {}, .width = 1}, 1);
  EXPECT_EQ(thrice.scale(), x_.scale());
  expect(thrice, each(a_, b_, [](Complex a, Complex) { return -3.0 * a; }));
}

// Numbers near the modulus, among them multiples of its primes, are much longer than a word and are still encoded exactly.
TEST_P(Ckks, EncodesLargeNumbers) {
  Values v{.shape = {4}, .width = 1};
  const auto q = static_cast<double>(parameters_.spec().chain[0]);
  for (double whole : {q, -3 * q, 0x1p90 / 3, -0x1p70}) v.data.emplace_back(std::rint(whole) / parameters_.scale(0));
  // the value exceeds the modulus of the lowest level, so encryption requires an explicit bound
  EXPECT_THROW(secret_.encrypt(v), PlaintextRangeError);
  const Values back =
      secret_.decrypt(secret_.encrypt(v, 0, {-0x1p90 / parameters_.scale(0), 0x1p90 / parameters_.scale(0)}));
  for (std::size_t i = 0; i < v.data.size(); ++i) {
    EXPECT_NEAR(back.data[i].real(), v.data[i].real(), std::exp2(-bound_bits()) + std::abs(v.data[i].real()) * 0x1p-45);
  }
}

TEST_P(Ckks, MultipliesDownToTheLowestLevel) {
  Values inside = a_;  // inside the unit circle: a sixteenth power of sqrt(2) is 2^8 and could exceed the lowest modulus
  for (Complex& v : inside.data) v *= 0.7;
  std::vector<Complex> expected = inside.data;
  Ciphertext power = secret_.encrypt(inside);
  for (std::size_t level = kLevels; level > 1; --level) {
    power = multiply_rescale(power, power, keys_);
    for (Complex& v : expected) v *= v;
    EXPECT_EQ(power.level(), level - 1);
    EXPECT_EQ(power.scale(), parameters_.scale(level - 1));
    EXPECT_NEAR(std::log2(power.scale()), GetParam().log_scale, 0.05);
  }
  expect(power, expected, 25);
  EXPECT_THROW(multiply_rescale(power, power, keys_), LevelError);
  EXPECT_THROW(rescale(power), LevelError);
}

TEST_P(Ckks, OperandsMeetAtTheLowerLevel) {
  for (std::size_t level = kLevels - 1; level >= 1; --level) {
    const Ciphertext low = lower(x_, level);
    EXPECT_EQ(low.level(), level);
    EXPECT_EQ(low.scale(), parameters_.scale(level));
    expect(low, a_.data);
    expect(add(low, y_), each(a_, b_, [](Complex a, Complex b) { return a + b; }));
    const Ciphertext direct = secret_.encrypt(b_, level);
    EXPECT_EQ(direct.scale(), low.scale());
    expect(add(direct, low), each(a_, b_, [](Complex a, Complex b) { return a + b; }));
    const auto plain = ckks::encode(parameters_, b_, level);
    expect(add(x_, plain), each(a_, b_, [](Complex a, Complex b) { return a + b; }));
    if (level > 1)
      expect(rescale(multiply(low, ckks::encode(parameters_, b_, 0, low.scale()))), each(a_, b_, std::multiplies<>()));
  }
  EXPECT_THROW(lower(x_, 0), LevelError);
  EXPECT_THROW(lower(lower(x_, 1), 2), LevelError);
}

TEST_P(Ckks, RotatesAndConjugates) {
  const Ciphertext turned = rotate(x_, {1, 0, -3, static_cast<std::int64_t>(kSlots) + 2}, keys_);
  EXPECT_EQ(turned.shape(), (Shape{4, 3}));
  std::vector<Complex> expected;
  for (std::size_t step : {std::size_t{1}, std::size_t{0}, kSlots - 3, std::size_t{2}}) {
    for (std::size_t i = 0; i < a_.data.size(); ++i)
      expected.push_back(a_.data[i / kSlots * kSlots + (i % kSlots + step) % kSlots]);
  }
  expect(turned, expected);
  expect(conjugate(x_, keys_), each(a_, b_, [](Complex a, Complex) { return std::conj(a); }));
  EXPECT_EQ(keys_.rotations(), (std::vector<std::int64_t>{1, 2, 4, static_cast<std::int64_t>(kSlots) - 3}));
  try {
    rotate(x_, {5}, keys_);
    FAIL();
  } catch (const MissingKeyError& e) {
    EXPECT_NE(std::string(e.what()).find("they have 1, 2, 4"), std::string::npos);
  }
}

TEST_P(Ckks, SumsSlotsAndAxes) {
  std::vector<Complex> sums(a_.data.size()), inner(kSlots), total(kSlots);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    for (std::size_t k = 0; k < 8; ++k) sums[i] += a_.data[i / kSlots * kSlots + (i % kSlots + k) % kSlots];
    inner[i % kSlots] += a_.data[i] * b_.data[i];
  }
  for (std::size_t i = 0; i < kSlots; ++i) {
    for (std::size_t k = 0; k < 8; ++k) total[i] += inner[(i + k) % kSlots];
  }
  const auto plain = ckks::encode(parameters_, b_);
  expect(sum_slots(x_, 8, keys_), sums);
  expect(rescale(sum(multiply(x_, plain), 0)), inner);
  expect(inner_product(x_, y_, 0, 1, keys_), inner);
  expect(inner_product(x_, y_, 0, 8, keys_), total);
  expect(inner_product(x_, plain, 0, 8, keys_), total);
  EXPECT_THROW(sum_slots(x_, 16, keys_), MissingKeyError);
  EXPECT_THROW(sum_slots(x_, 3, keys_), ShapeError);
  EXPECT_THROW(sum(x_, 1), ShapeError);
}

TEST_P(Ckks, AddsInPlace) {
  const Values a = random_values({2}, kSlots, false), b = random_values({2}, kSlots, false, 2);
  Ciphertext x = add_constants(secret_.encrypt(a), {{1}, {}, 1, false});
  const Ciphertext y = secret_.encrypt(b);
  const std::uintptr_t at = x.address();
  add_into(x, y);
  add_constants_into(x, {{-1}, {}, 1, false});
  subtract_into(x, ckks::encode(parameters_, b, x.level(), x.scale()));
  EXPECT_EQ(x.address(), at);
  EXPECT_THROW(add_constants_into(x, {{Complex(0, 1)}, {}, 1, true}), DtypeError);
  const Ciphertext same = x;
  add_into(x, lower(y, x.level() - 1));
  EXPECT_NE(x.address(), at);
  EXPECT_EQ(x.level(), same.level() - 1);
  EXPECT_LT(worst(secret_.decrypt(same), a.data), 1e-4);
  EXPECT_LT(worst(secret_.decrypt(x), each(a, b, std::plus<>())), 1e-4);
}

TEST_P(Ckks, ConcatenatesAndReordersItems) {
  const Ciphertext both = ckks::concatenate({x_, lower(y_, 2)}, 0);
  EXPECT_EQ(both.level(), 2u);
  std::vector<Complex> expected = a_.data;
  expected.insert(expected.end(), b_.data.begin(), b_.data.end());
  expect(both, expected);
  expect(reshape(transpose(reshape(both, {2, 3}), {1, 0}), {6}).shape() == Shape{6} ? index(both, 0, 4) : both,
         {b_.data.begin() + kSlots, b_.data.begin() + 2 * kSlots});
  EXPECT_THROW(index(both, 0, 6), ShapeError);
}

TEST_P(Ckks, KeepsValuesThroughFiles) {
  EXPECT_TRUE(x_.seeded());
  const Bytes bytes = x_.to_bytes();
  EXPECT_LT(bytes.size(), x_.bytes() * 6 / 10);
  const Ciphertext back = Ciphertext::from_bytes(bytes);
  EXPECT_EQ(back.scale(), x_.scale());
  EXPECT_EQ(back.to_bytes(), bytes);
  const std::string path = testing::TempDir() + "ckks_secret_" + GetParam().name + std::to_string(getpid());
  secret_.save(path);
  const SecretKey again = SecretKey::load(path);
  std::remove(path.c_str());
  EXPECT_LE(worst(again.decrypt(back), a_.data), bound(x_));
  const EvaluationKeys keys = EvaluationKeys::from_bytes(keys_.to_bytes());
  EXPECT_EQ(keys.rotations(), keys_.rotations());
  const Ciphertext product = multiply_rescale(back, back, keys);
  EXPECT_EQ(product.to_bytes(), multiply_rescale(x_, x_, keys_).to_bytes());
  const Ciphertext stored = Ciphertext::from_bytes(product.to_bytes());
  EXPECT_TRUE(std::isnan(stored.precision()));
  EXPECT_EQ(again.decrypt(stored).data, secret_.decrypt(product).data);
  const ckks::PublicKey open = ckks::PublicKey::from_bytes(secret_.public_key().to_bytes());
  for (std::size_t level : {kLevels, std::size_t{1}}) {
    const Ciphertext sealed = open.encrypt(a_, level);
    EXPECT_FALSE(sealed.seeded());
    const Ciphertext copy = Ciphertext::from_bytes(sealed.to_bytes());
    EXPECT_TRUE(std::isnan(sealed.precision()));  // the key is from a file
    EXPECT_LE(worst(again.decrypt(copy), a_.data), bound(secret_.public_key().encrypt(a_, level)));
  }
  for (std::size_t at : {bytes.size() / 2, bytes.size() - 1, std::size_t{3}}) {
    Bytes damaged = bytes;
    damaged[at] ^= std::byte{1};
    EXPECT_THROW(Ciphertext::from_bytes(damaged), FormatError);
  }
  EXPECT_THROW(EvaluationKeys::from_bytes(bytes), FormatError);
}

/// The proven bounds assume products in the worst case. Default decryption accepts values that fit the modulus without a
/// proof.
TEST_P(Ckks, RefusesValuesThatMayExceedTheModulus) {
  std::vector<Complex> expected = a_.data;
  Ciphertext power = x_;
  for (std::size_t level = kLevels; level > 1; --level) {
    power = multiply_rescale(power, power, keys_);
    for (Complex& v : expected) v *= v;
  }
  const double room = GetParam().base_bits - GetParam().log_scale - 1;  // log2 of the room
  if (room > 8.5) {
    EXPECT_LE(worst(secret_.decrypt(power), expected), bound(power));
  } else {
    EXPECT_TRUE(std::isinf(power.precision()));
    EXPECT_THROW(secret_.decrypt(power, ckks::Checked::proof), RoomError);
    EXPECT_THROW(secret_.decrypt(power), RoomError);
    EXPECT_THROW(secret_.decrypt_for_publication(power, 1), RoomError);
    EXPECT_LE(worst(secret_.decrypt(power, ckks::Checked::none), expected), 1e-3);
  }
}

TEST_P(Ckks, ErrorsNameTheCause) {
  const SecretKey other = SecretKey::generate(parameters_);
  EXPECT_THROW(other.decrypt(x_), WrongKeyError);
  EXPECT_THROW(add(x_, other.encrypt(a_)), WrongKeyError);
  EXPECT_THROW(add(x_, Ciphertext()), ParameterError);
  EXPECT_THROW(relinearize(multiply(x_, y_), other.evaluation_keys(true, {}, false)), WrongKeyError);
  EXPECT_THROW(relinearize(multiply(x_, y_), secret_.evaluation_keys(false, {}, false)), MissingKeyError);
  EXPECT_THROW(conjugate(x_, secret_.evaluation_keys(false, {1}, false)), MissingKeyError);
  EXPECT_THROW(add(x_, multiply(x_, y_)), ScaleError);
  EXPECT_THROW(add(x_, ckks::encode(parameters_, a_, 0, x_.scale() * 1.01)), ScaleError);
  EXPECT_THROW(lower(multiply(x_, y_), kLevels - 1), ScaleError);
  EXPECT_THROW(multiply(secret_.encrypt(a_, 1), secret_.encrypt(a_, 1)), LevelError);
  EXPECT_THROW(secret_.encrypt(a_, kLevels + 1), LevelError);
  EXPECT_THROW(secret_.encrypt({.data = {1e30}, .shape = {}, .width = 1}, 1), PlaintextRangeError);
  EXPECT_THROW(secret_.encrypt({.data = {std::nan("")}, .shape = {}, .width = 1}), PlaintextRangeError);
  EXPECT_THROW(secret_.encrypt(random_values({}, kSlots + 1, false)), ShapeError);
  EXPECT_THROW(secret_.encrypt({.data = {1, 2}, .shape = {3}, .width = 1}), ShapeError);
  EXPECT_THROW(multiply_constants(x_, {.data = {{1, 1}}, .shape = {}, .width = 1, .complex = true}), DtypeError);
}

TEST_P(Ckks, AddsNoiseForPublication) {
  const Values v = secret_.decrypt_for_publication(x_, 8);
  const double error = worst(v, a_.data);
  EXPECT_LE(error, bound(x_) * std::exp2(8) * 8 * std::sqrt(kN) + bound(x_));
  EXPECT_GE(error, bound(x_) * 4);  // the error shows that the noise was added
  EXPECT_THROW(secret_.decrypt_for_publication(x_, 60), NoiseError);
  const Ciphertext stored = Ciphertext::from_bytes(multiply_rescale(x_, y_, keys_).to_bytes());
  EXPECT_THROW(secret_.decrypt_for_publication(stored, 4), NoiseError);
}

TEST_P(Ckks, HasTheSameBitsOnEveryDevice) {
  std::vector<Bytes> first;
  for (const char* device : {"ref", "cpu", "cpu:scalar", "3*cpu"}) {
    const Parameters p = parameters_.on_device(device);
    const SecretKey secret = SecretKey::generate_for_test(p, kSeed.substr(0, 32));
    const EvaluationKeys keys = secret.evaluation_keys(true, {1, 2}, true);
    const Ciphertext x = secret.encrypt(a_), y = secret.encrypt(b_);
    const Ciphertext product = multiply_rescale(x, y, keys), low = lower(x, 2);
    const std::vector<Bytes> bytes = {x.to_bytes(),
                                      product.to_bytes(),
                                      rescale(relinearize(multiply(x, y), keys)).to_bytes(),
                                      low.to_bytes(),
                                      rotate(product, {1, 2}, keys).to_bytes(),
                                      conjugate(multiply_i(low), keys).to_bytes(),
                                      inner_product(x, y, 0, 4, keys).to_bytes()};
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first) << device;
  }
}

INSTANTIATE_TEST_SUITE_P(WordSizes, Ckks,
                         testing::Values(Case{"w64", 64, 45, 50, 2}, Case{"w64_one", 64, 40, 60, 1},
                                         Case{"w32_single", 32, 29, 50, 2}, Case{"w32_pairs", 32, 49.7, 60, 6}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CkksSets, AreSecureAndMatchTheirNames) {
  for (const std::string& name : ckks::named_specs()) {
    for (const char* ending : {"", "/w32"}) {
      if (*ending && ckks::named_spec(name).bootstrapping.levels > 0) continue;  // such sets exist only with 64-bit words
      const ckks::Spec spec = ckks::named_spec(name + ending);
      const Parameters p = Parameters(spec).on_device("null");
      EXPECT_TRUE(p.secure()) << name << ending;
      if (!*ending && name.find('l') != std::string::npos) {
        const std::size_t limbs = std::stoul(name.substr(name.find('l') + 1));
        EXPECT_EQ(p.level_limbs(0), limbs) << name;
      }
      // Primes for N = 2^16 are 2^17 apart, so scales of few bits deviate more.
      const double tolerance = spec.word_size == 32 || spec.log_scale < 32 ? 0.05 : 0.005;
      for (std::size_t level = 1; level <= p.top_level(); ++level)
        EXPECT_NEAR(std::log2(p.scale(level)), spec.log_scale, tolerance) << name << ending << level;
    }
  }
  const Parameters big = Parameters(ckks::named_spec("n16-l28")).on_device("null");
  EXPECT_GE(big.log_qp(), 1740);
  EXPECT_LE(big.log_qp(), 1747);
  EXPECT_THROW(ckks::named_spec("n16-l99"), ParameterError);
}

TEST(CkksSets, AreChosenForARequest) {
  for (int word_size : {64, 32}) {
    for (int depth : {0, 1, 4, 12}) {
      const ckks::Spec spec = ckks::choose({.depth = depth, .precision = 20, .integer_bits = 8, .word_size = word_size});
      const Parameters p = Parameters(spec).on_device("null");
      EXPECT_TRUE(p.secure());
      EXPECT_EQ(p.top_level(), static_cast<std::size_t>(depth) + 1);
    }
  }
  EXPECT_EQ(ckks::choose({.depth = 1, .slots = 16384}).n, 32768u);
  EXPECT_THROW(ckks::choose({.depth = 90, .precision = 34}), ParameterError);
  EXPECT_THROW(Parameters(ckks::make_spec(2048, 4, 40, 50, 1)), SecurityError);
  EXPECT_THROW(ckks::make_spec(2048, 4, 40, 50, 1, 16), ParameterError);
}

TEST(CkksSets, HoldTheRequestedPrecision) {
  for (int word_size : {64, 32}) {
    for (int depth : {1, 2, 5}) {
      const ckks::Spec spec = ckks::choose({.depth = depth, .precision = 25, .word_size = word_size});
      const SecretKey secret = SecretKey::generate(Parameters(spec));
      const EvaluationKeys keys = secret.evaluation_keys(true, {1}, false);
      const Values a = random_values({}, spec.n / 2, false);
      Ciphertext x = secret.encrypt(a);
      std::vector<Complex> expected = a.data;
      for (int level = 0; level < depth; ++level) {
        x = rotate(multiply_rescale(x, x, keys), {1}, keys);
        for (Complex& v : expected) v *= v;
        std::rotate(expected.begin(), expected.begin() + 1, expected.end());
      }
      x = ckks::index(x, 0, 0);
      for (int level = 1; level < depth; ++level) x = ckks::index(x, 0, 0);
      EXPECT_LE(worst(secret.decrypt(x), expected), std::exp2(depth - 25))  // each squaring doubles the error
          << word_size << " depth " << depth;
    }
  }
}

// Scales outside the limits are refused. A scale below 2^-65 would fit in zero primes, and decryption would divide by zero.
TEST(CkksScales, LieBetweenOneAndHalfTheModulus) {
  const SecretKey key = SecretKey::generate(Parameters(ckks::make_spec(1024, 3, 30, 40, 1, 64, 0, true)));
  const Ciphertext x = key.encrypt(random_values({}, 512, false));
  const double most = std::exp2(x.data().context->log_modulus(x.level()) - 1);
  for (const double scale : {0x1p-83, 0.99, 0.0, -1.0, most * 1.01, std::nan(""), HUGE_VAL}) {
    ckks::CiphertextData data = x.data();
    data.scale = scale;
    EXPECT_THROW(ckks::finish(std::move(data)), ScaleError) << scale;
  }
  for (const double scale : {1.0, most * 0.99}) {
    ckks::CiphertextData data = x.data();
    data.scale = scale;
    EXPECT_NO_THROW(key.decrypt(ckks::finish(std::move(data)), ckks::Checked::none)) << scale;
  }
}

// If the number of slots is a power of two below N/2, values repeat with this period, and rotations are cyclic within a
// period.
TEST(CkksSlots, RotateWithinTheirPeriod) {
  const Parameters p(ckks::make_spec(1024, 2, 40, 50, 1, 64, 8, true));
  const SecretKey secret = SecretKey::generate(p);
  const Values a = random_values({}, 8, false), few = random_values({}, 5, false);
  const EvaluationKeys keys = secret.evaluation_keys(false, {1, -3, 8}, false);
  EXPECT_EQ(keys.rotations(), (std::vector<std::int64_t>{1, 5}));
  std::vector<Complex> turned;
  for (std::size_t i = 0; i < 8; ++i) turned.push_back(a.data[(i + 5) % 8]);
  EXPECT_LE(worst(secret.decrypt(rotate(secret.encrypt(a), {5}, keys)), turned), 1e-6);
  std::vector<Complex> padded;
  for (std::size_t i = 0; i < 8; ++i) padded.push_back((i + 1) % 8 < 5 ? few.data[(i + 1) % 8] : 0);
  EXPECT_LE(worst(secret.decrypt(rotate(secret.encrypt(few), {1}, keys)), padded), 1e-6);
}

}  // namespace
}  // namespace heliograph
