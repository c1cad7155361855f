// Weighted sums of tensors and of CKKS ciphertexts equal separate products and sums, in all bits, noise estimates and
// scales.
#include <gtest/gtest.h>

#include "heliograph/ckks.h"
#include "mesh/mesh.h"
#include "op_rig.h"
#include "schemes/ckks/operations.h"

namespace heliograph {
namespace {

using ring::RnsTensor;
using Bytes = std::vector<std::byte>;

class Sums : public testing::TestWithParam<const char*> {
 protected:
  static constexpr std::size_t kN = 64;
  const std::vector<math::PrimeIndex> all_ = {0, 1, 2};

  RnsTensor tensor(const device::Shape& shape, std::size_t components) {
    RnsTensor t(engine_, shape, components, device::PrimeList(all_), math::Domain::ntt);
    std::vector<math::u64> words(t.view().words());
    for (math::u64& w : words) w = ++number_ * 0x12345671;
    ring::upload(t, std::as_bytes(std::span(words)));
    return t;
  }
  device::LimbConstants weight(math::u64 value) {
    device::LimbConstants w{};
    w.fill(value);
    return w;
  }
  RnsTensor times(const RnsTensor& a, const device::LimbConstants& w) {
    const RnsTensor out(engine_, a.shape(), a.components(), a.primes(), a.domain());
    engine_->enqueue(device::MulConstants{engine_->prepared(), a.primes(), a.view(), w, out.view()});
    return out;
  }
  RnsTensor one_by_one(const std::vector<ring::WeightedTerm>& terms, const std::optional<device::LimbConstants>& constant) {
    RnsTensor sum = times(terms[0].x, terms[0].weight);
    for (std::size_t k = 1; k < terms.size(); ++k) sum = ring::add(sum, times(terms[k].x, terms[k].weight));
    sum = ring::copy(sum);
    if (constant) ring::add_constant_in_place(sum, 0, sum.items(), *constant);
    return sum;
  }
  void expect(const std::vector<ring::WeightedTerm>& terms) {
    for (const auto& constant : {std::optional<device::LimbConstants>(), std::optional(weight(77))}) {
      const RnsTensor made = ring::weighted_sum(terms, constant), expected = one_by_one(terms, constant);
      ASSERT_EQ(made.shape(), expected.shape());
      ASSERT_EQ(made.components(), expected.components());
      const Bytes words = ring::download(expected);
      EXPECT_EQ(ring::download(made), words);
      // The sum may overwrite the first term if this term has the shape and the components of the sum.
      std::vector<ring::WeightedTerm> own = terms;
      own[0].x = ring::copy(terms[0].x);
      const RnsTensor over = ring::weighted_sum(own, constant, true);
      EXPECT_EQ(ring::download(over), words);
      const bool fits = terms[0].x.shape() == made.shape() && terms[0].x.components() == made.components();
      EXPECT_EQ(over.view().data == own[0].x.view().data, fits);
    }
  }

  std::unique_ptr<device::Device> device_ = mesh::open_device(GetParam());
  std::shared_ptr<ring::Engine> engine_ = std::make_shared<ring::Engine>(*device_, test::ring_of(test::kField50, kN, 3));
  math::u64 number_ = 0;
};

TEST_P(Sums, EqualProductsAndSums) {
  std::vector<ring::WeightedTerm> terms;
  for (std::size_t k = 0; k < 20; ++k) {  // more terms than one call takes
    terms.push_back({tensor({2}, 2), weight(k % 5 == 0 ? 1 : 1000003 * k)});
    expect(terms);
  }
}

TEST_P(Sums, TakeMissingComponentsAsZero) {
  const ring::WeightedTerm one{tensor({2}, 1), weight(5)}, two{tensor({2}, 2), weight(1)}, three{tensor({2}, 3), weight(9)},
      plain{tensor({2}, 3), weight(1)};
  expect({three, two});
  expect({two, three});
  expect({two, three, one, plain});
  expect({plain, two});
  expect({plain, plain});
  expect({plain, one, one, one, one, one, one, one, two, two, two});
}

TEST_P(Sums, Broadcast) {
  const ring::WeightedTerm row{tensor({3}, 2), weight(3)}, column{tensor({2, 1}, 2), weight(1)},
      none{tensor({}, 1), weight(8)};
  expect({row, column});
  expect({column, none, row});
  expect({none});
  EXPECT_EQ(ring::weighted_sum({{tensor({0}, 2), weight(2)}, none}, weight(3)).items(), 0U);
}

TEST_P(Sums, DependOnEveryWeightAndTerm) {
  std::vector<ring::WeightedTerm> terms;
  for (std::size_t k = 0; k < 10; ++k) terms.push_back({tensor({2}, 2), weight(3 + k)});
  const Bytes words = ring::download(ring::weighted_sum(terms, {}));
  for (std::size_t k = 0; k < terms.size(); ++k) {
    auto wrong = terms;
    wrong[k].weight[2] = 1;
    EXPECT_NE(ring::download(ring::weighted_sum(wrong, {})), words) << k;
    wrong = terms, wrong[k].x = terms[(k + 1) % 10].x;
    EXPECT_NE(ring::download(ring::weighted_sum(wrong, {})), words) << k;
  }
}

TEST_P(Sums, RefuseOperandsOfDifferentKinds) {
  const RnsTensor a = tensor({2}, 2);
  EXPECT_THROW(ring::weighted_sum({{a, weight(1)}, {a.with_limbs(0, 2), weight(2)}}, {}), MismatchError);
  EXPECT_THROW(ring::weighted_sum({{a, weight(1)}, {tensor({3}, 2), weight(2)}}, {}), ShapeError);
  const RnsTensor low = ring::to_domain(a, math::Domain::coefficient);
  EXPECT_THROW(ring::weighted_sum({{low, weight(2)}}, weight(1)), InternalError);
  EXPECT_NO_THROW(ring::weighted_sum({{low, weight(2)}, {low, weight(3)}}, {}));
}

INSTANTIATE_TEST_SUITE_P(Devices, Sums, testing::Values("ref", "cpu", "2*cpu/uncalibrated", "2*cpu/limb/uncalibrated"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); },
                               '_');
                           return name;
                         });

/// Weighted sums of ciphertexts equal separate operations in bits, precision and other estimates.
TEST(CkksSums, EqualSeparateOperations) {
  using ckks::Ciphertext;
  using ckks::Summand;
  const ckks::Parameters p(ckks::make_spec(1024, 4, 45, 50, 2, 64, 0, true));
  const ckks::SecretKey secret = ckks::SecretKey::generate_for_test(p, std::string(32, 's'));
  const auto fresh = [&](double value, bool complex) {
    return secret.encrypt(
        {std::vector<std::complex<double>>(3 * p.slots(), {value, complex ? 0.5 : 0}), {3}, p.slots(), complex});
  };
  const Ciphertext x = fresh(0.25, false), y = fresh(-0.75, true), z = fresh(0.5, false);
  const double scale = x.scale();
  const auto product = [&] { return ckks::multiply(x, z); };
  const std::vector<std::pair<std::vector<Summand>, double>> sums = {
      {{{x, 0.3, scale}}, 0},
      {{{x, 0.3, scale}}, -1.5},
      {{{x, 0.3, scale}, {z, -2, scale}}, 0},
      {{{x, 0, scale}, {y, 0.125, scale}, {x, 1, scale}}, 0.75},
      {{{product()}}, 0.25},
      {{{product()}}, 1e-30},  // this constant rounds to 0
      {{{product()}, {x, -1, scale}}, 0},
      {{{product()}, {ckks::multiply(y, z)}, {x, 3, scale}, {y, -0.1, scale}}, 2},
      {{{x, 0.3, scale}, {product()}, {product()}}, 0},
      {std::vector<Summand>(13, {x, 0.3, scale}), 1},
  };
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto& [summands, constant] = sums[i];
    std::optional<Ciphertext> expected;
    for (const Summand& s : summands) {
      const Ciphertext part = s.factor ? ckks::multiply_constants(s.x, ckks::number(*s.factor), s.scale) : s.x;
      expected = expected ? ckks::add(*expected, part) : part;
    }
    if (constant != 0) expected = ckks::add_constants(*expected, ckks::number(constant));
    for (const bool over : {false, true}) {
      std::vector<Summand> own = summands;
      if (over) own[0].x = ckks::negate(ckks::negate(own[0].x));  // own memory, so that the sum may overwrite it
      const Ciphertext made = ckks::weighted_sum(std::move(own), constant);
      EXPECT_EQ(made.to_bytes(), expected->to_bytes()) << i << ' ' << over;
      EXPECT_EQ(made.precision(), expected->precision()) << i;
      EXPECT_EQ(made.complex(), expected->complex()) << i;
    }
  }
  EXPECT_EQ(ckks::weighted_sum({{x}}).to_bytes(), x.to_bytes());
  // A sum refuses operands that any of the separate operations refuses.
  EXPECT_THROW(ckks::weighted_sum({{x, 0.3, scale}, {z, 0.3, 2 * scale}}), ScaleError);
  EXPECT_THROW(ckks::weighted_sum({{x, 0.3, 0.5}}), ScaleError);
  EXPECT_THROW(ckks::weighted_sum({{x, 0.3, 0x1p300}}), LevelError);
  EXPECT_THROW(ckks::weighted_sum({{x, 0.3, scale}}, 0x1p900), PlaintextRangeError);
  EXPECT_THROW(ckks::weighted_sum({{x, 0.3, scale}, {ckks::lower(z, 2), 0.3, scale}}), InternalError);
}

}  // namespace
}  // namespace heliograph
