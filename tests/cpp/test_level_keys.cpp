// Gadgets of rotation keys for a level, matrices of blocks, and bootstraps to a level, through the C++ API.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

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
using Vector = std::vector<double>;

Parameters small_set(int word_size) {
  return Parameters(word_size == 64 ? ckks::make_spec(1024, 7, 40, 50, 2, 64, 0, true)
                                    : ckks::make_spec(1024, 7, 48, 58, 5, 32, 0, true));
}

Vector random_values(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  Vector values(count);
  for (double& v : values) v = std::ldexp(static_cast<double>(random() >> 11), -52) - 1;
  return values;
}

Values encrypted_form(const std::vector<Vector>& vectors) {
  Values v{.data = {}, .shape = {vectors.size()}, .width = vectors[0].size()};
  for (const Vector& each : vectors) v.data.insert(v.data.end(), each.begin(), each.end());
  return v;
}

double worst(const Values& found, const std::vector<Vector>& wanted) {
  double largest = 0;
  const std::size_t width = wanted[0].size();
  EXPECT_EQ(found.data.size(), wanted.size() * width);
  for (std::size_t i = 0; i < found.data.size(); ++i)
    largest = std::max(largest, std::abs(found.data[i] - wanted[i / width][i % width]));
  return largest;
}

/// Returns diagonal d times x rotated by k.
void add_product(Vector& to, const Vector& diagonal, const Vector& x, std::size_t k) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += diagonal[i] * x[(i + k) % x.size()];
}

double log2_of(const ckks::Context& c, const device::PrimeList& primes) {
  return rlwe::log2_product(c.rlwe().moduli(primes));
}

class Gadgets : public ::testing::TestWithParam<const char*> {};

TEST_P(Gadgets, CoverEveryLevelBelowAndBoundTheirErrors) {
  const Parameters parameters = Parameters(ckks::named_spec(GetParam())).on_device("null");
  ckks::Context& c = *parameters.context();
  for (std::size_t level = 1; level <= parameters.top_level(); ++level) {
    const rlwe::Gadget gadget = c.gadget(level);
    EXPECT_EQ(gadget.chain, c.primes_up_to(level));
    EXPECT_LE(gadget.ends.size(), c.spec().digits.size());
    EXPECT_GT(gadget.ends.back(), gadget.chain[gadget.chain.size() - 1]);
    const device::PrimeList all = c.rlwe().special();
    EXPECT_EQ(gadget.special, device::PrimeList(all.begin(), gadget.special.size()));
    for (std::size_t l = 1; l <= level; ++l) {
      const auto plan = c.switch_plan(level, l, std::max<std::size_t>(1, l - 1));
      device::check(*plan);
      EXPECT_LE(plan->digits.size(), gadget.ends.size());
      for (const device::KeySwitchPlan::Digit& digit : plan->digits) {
        const device::PrimeList primes(plan->chain.begin() + digit.first, digit.count);
        EXPECT_GE(log2_of(c, gadget.special), log2_of(c, primes)) << "level " << level << " at " << l;
      }
      EXPECT_LT(c.key_switch_noise(l, level), std::max(c.key_switch_noise(l), c.rounding_noise(2) + 1) + 0.01)
          << "level " << level << " at " << l;
    }
    const rlwe::KeyLayout keys = rlwe::KeyLayout::of(gadget), usual = rlwe::KeyLayout::of(c.rlwe());
    EXPECT_LE(keys.bytes(c.rlwe()), usual.bytes(c.rlwe()));
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, Gadgets,
                         ::testing::Values("n14-l8", "n15-l20/w32", "n16-l28/w32", "n16-b13", "n16-b18", "n16-b11/w32"),
                         [](const auto& name) {
                           std::string text = name.param;
                           for (char& letter : text)
                             letter = std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
                           return text;
                         });

class LevelKeys : public ::testing::TestWithParam<int> {};

TEST_P(LevelKeys, RotateAndRefuseHigherLevels) {
  const Parameters parameters = small_set(GetParam());
  const SecretKey secret = SecretKey::generate(parameters);
  const EvaluationKeys keys = secret.evaluation_keys(false, {}, false, false, {{3, {1, 5}, true}, {5, {1}, false}});
  EXPECT_EQ(keys.level_rotations(), (std::map<std::size_t, std::vector<std::int64_t>>{{3, {1, 5}}, {5, {1}}}));
  EXPECT_TRUE(keys.rotations().empty());
  EXPECT_TRUE(keys.has_conjugation());
  const Vector x = random_values(512, 1);
  Vector turned(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) turned[i] = x[(i + 1) % x.size()];
  for (std::size_t level = 1; level <= 5; ++level) {
    const Ciphertext encrypted = secret.encrypt(encrypted_form({x}), level);
    EXPECT_LT(worst(secret.decrypt(rotate(encrypted, {1}, keys)), {turned}), 1e-6);
  }
  const Ciphertext high = secret.encrypt(encrypted_form({x}), 6);
  EXPECT_THROW(rotate(high, {1}, keys), LevelError);
  EXPECT_THROW(conjugate(high, keys), LevelError);
  EXPECT_THROW(rotate(high, {2}, keys), MissingKeyError);
  EXPECT_THROW(secret.evaluation_keys(false, {}, false, false, {{8, {1}, false}}), LevelError);
}

TEST_P(LevelKeys, BlocksEqualSumsOfProducts) {
  const Parameters parameters = small_set(GetParam());
  const SecretKey secret = SecretKey::generate(parameters);
  constexpr std::size_t inputs = 3, outputs = 2, slots = 512;
  const std::vector<std::size_t> numbers = {0, 1, 2, 7, 16, 17, 511};
  std::vector<std::map<std::size_t, Vector>> diagonals(inputs * outputs);
  std::vector<ckks::DiagonalViews> blocks(inputs * outputs);
  for (std::size_t at = 0; at < blocks.size(); ++at) {
    for (std::size_t i = at % 3; i < numbers.size(); i += 1 + at % 2) {
      Vector& values = diagonals[at][numbers[i]] = random_values(slots, static_cast<unsigned>(10 * at + i));
      blocks[at].emplace(numbers[i], ckks::DiagonalView(values.data(), slots, false));
    }
  }
  diagonals[4].clear(), blocks[4].clear();
  std::vector<Vector> x, wanted(outputs, Vector(slots));
  for (unsigned i = 0; i < inputs; ++i) x.push_back(random_values(slots, 100 + i));
  for (std::size_t at = 0; at < blocks.size(); ++at)
    for (const auto& [k, values] : diagonals[at]) add_product(wanted[at / inputs], values, x[at % inputs], k);
  std::vector<Values> results;
  const Ciphertext encrypted = secret.encrypt(encrypted_form(x), 4);
  for (const ckks::Storage storage : {ckks::Storage::transforms, ckks::Storage::coefficients}) {
    const ckks::BlockTransform made(parameters, blocks, inputs, slots, 4, 0, 0, storage);
    EXPECT_EQ(made.inputs(), inputs);
    EXPECT_EQ(made.outputs(), outputs);
    const EvaluationKeys keys = secret.evaluation_keys(false, {}, false, false, {{4, made.rotations(), false}});
    const Ciphertext y = apply(made, encrypted, keys);
    EXPECT_EQ(y.level(), 3U);
    EXPECT_EQ(y.shape(), Shape{outputs});
    EXPECT_LT(worst(secret.decrypt(y), wanted), 1e-5);
  }
  const ckks::BlockTransform made(parameters, blocks, inputs, slots, 4);
  EXPECT_THROW(apply(made, secret.encrypt(encrypted_form({x[0]}), 4), secret.evaluation_keys(false, {}, false)), ShapeError);
  EXPECT_THROW(apply(made, encrypted, secret.evaluation_keys(false, {1}, false)), MissingKeyError);
}

INSTANTIATE_TEST_SUITE_P(Words, LevelKeys, ::testing::Values(64, 32));

TEST(LowerBootstrap, GivesTheLevelWithTheValues) {
  const Parameters parameters(ckks::make_bootstrapping_spec(2048, 4, 39, 45, 3, 64, true));
  const SecretKey secret = SecretKey::generate(parameters);
  const EvaluationKeys keys = secret.evaluation_keys(false, {}, false, true);
  const Vector x = random_values(1024, 4);
  const Ciphertext low = secret.encrypt(encrypted_form({x}), parameters.bootstrapping_level(), {-1, 1});
  for (std::size_t level = parameters.bootstrapping_level() + 1; level <= parameters.top_level(); ++level) {
    const Ciphertext y = bootstrap(low, keys, 0, 1, level);
    EXPECT_EQ(y.level(), level);
    EXPECT_EQ(y.scale(), parameters.scale(level));
    EXPECT_LT(worst(secret.decrypt(y), {x}), std::exp2(-y.precision()));
    EXPECT_GT(y.precision(), 12);
  }
  EXPECT_THROW(bootstrap(low, keys, 0, 1, parameters.bootstrapping_level()), LevelError);
  EXPECT_THROW(bootstrap(low, keys, 0, 1, parameters.top_level() + 1), LevelError);
}

TEST(LowerBootstrap, KeepsEveryDigitOfTheGadget) {
  const Parameters parameters = Parameters(ckks::named_spec("n16-b18")).on_device("null");
  ckks::Context& c = *parameters.context();
  const auto lowered = c.lowered(6);
  ASSERT_NE(lowered, nullptr);
  EXPECT_EQ(lowered->top_level(), 15U);
  EXPECT_EQ(c.lowered(6), lowered);
  const Parameters other = Parameters(ckks::named_spec("n16-b13")).on_device("null");
  const auto six = other.context()->lowered(6);
  ASSERT_NE(six, nullptr);
  EXPECT_EQ(six->top_level(), 6U);
  for (std::size_t level = 1; level <= 6; ++level) EXPECT_EQ(six->scale(level), other.context()->scale(level));
  EXPECT_EQ(six->scale(six->raised_level()), other.context()->scale(other.context()->raised_level()));
}

}  // namespace
}  // namespace heliograph
