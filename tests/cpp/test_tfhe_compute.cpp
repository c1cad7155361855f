// Named operations on encrypted tensors are correct through the public C++ API.
#include <gtest/gtest.h>

#include <cmath>

#include "heliograph/tfhe.h"
#include "schemes/tfhe/context.h"
#include "tfhe_rig.h"

namespace heliograph::tfhe {
namespace {

using Values = std::vector<std::uint64_t>;

class Compute : public testing::TestWithParam<unsigned> {
 protected:
  Parameters parameters_{test::small_tfhe(GetParam())};
  SecretKey secret_ = SecretKey::generate(parameters_);
  EvaluationKeys keys_ = secret_.evaluation_keys();
};

TEST_P(Compute, GatesAndIntegers) {
  const Ciphertext a = secret_.encrypt({0, 0, 1, 1}, {4}, {}), b = secret_.encrypt({0, 1, 0, 1}, {4}, {});
  EXPECT_EQ(secret_.decrypt(compute(keys_, {.name = "nand"}, {a, b})[0]), (Values{1, 1, 1, 0}));
  const auto sums = compute(keys_, {.name = "full_adder"}, {a, b, a});
  EXPECT_EQ(secret_.decrypt(sums[0]), (Values{0, 1, 0, 1}));
  EXPECT_EQ(secret_.decrypt(sums[1]), (Values{0, 0, 1, 1}));
  const Type byte = type_of("uint8");
  const Ciphertext x = secret_.encrypt({200, 7}, {2, 1}, byte), y = secret_.encrypt({100, 3, 0}, {3}, byte);
  EXPECT_EQ(secret_.decrypt(compute(keys_, {.name = "add"}, {x, y})[0]), (Values{44, 203, 200, 107, 10, 7}));
  EXPECT_EQ(secret_.decrypt(compute(keys_, {.name = "multiply"}, {x, y})[0]), (Values{32, 88, 0, 188, 21, 0}));
  EXPECT_EQ(secret_.decrypt(compute(keys_, {.name = "less"}, {x, y})[0]), (Values{0, 0, 0, 1, 0, 0}));
}

TEST_P(Compute, OneTensorAsSeveralOperands) {
  const Type byte = type_of("uint8");
  const Ciphertext x = secret_.encrypt({200, 7, 255}, {3}, byte);
  EXPECT_EQ(secret_.decrypt(compute(keys_, {.name = "add"}, {x, x})[0]), (Values{144, 14, 254}));
  EXPECT_EQ(secret_.decrypt(compute(keys_, {.name = "multiply"}, {x, x})[0]), (Values{64, 49, 1}));
  EXPECT_EQ(secret_.decrypt(compute(keys_, {.name = "xor"}, {x, x})[0]), (Values{0, 0, 0}));
  const Ciphertext table = compute(keys_, {.name = "multiply"}, {reshape(x, {3, 1}), reshape(x, {1, 3})})[0];
  EXPECT_EQ(secret_.decrypt(table), (Values{64, 120, 56, 120, 49, 249, 56, 249, 1}));
}

TEST_P(Compute, RefusesWhatDoesNotFit) {
  const Ciphertext x = secret_.encrypt({1}, {1}, type_of("uint8")), y = secret_.encrypt({1}, {1}, type_of("int8"));
  EXPECT_THROW(compute(keys_, {.name = "add"}, {x, y}), DtypeError);
  EXPECT_THROW(compute(keys_, {.name = "nonsense"}, {x}), ParameterError);
  EXPECT_THROW(compute(keys_, {.name = "add", .variant = "karatsuba"}, {x, x}), ParameterError);
  EXPECT_THROW(compute(SecretKey::generate(parameters_).evaluation_keys(), {.name = "add"}, {x, x}), WrongKeyError);
}

INSTANTIATE_TEST_SUITE_P(Encodings, Compute, testing::Values(0, 1, 2));

/// The two bootstraps of a half adder have the same input. The noise of their results is uncorrelated, so later operations
/// may treat the results as independent.
TEST(HalfAdder, SumAndCarryAreFreshAndIndependent) {
  constexpr std::size_t kBits = 4096;
  Spec spec = test::small_tfhe();
  spec.n = 192;
  const Parameters parameters(spec);
  const SecretKey secret = SecretKey::generate(parameters);
  Values x(kBits), y(kBits), sum(kBits), carry(kBits);
  for (std::size_t i = 0; i < kBits; ++i) x[i] = i & 1, y[i] = i >> 1 & 1, sum[i] = x[i] ^ y[i], carry[i] = x[i] & y[i];
  const auto out = compute(secret.evaluation_keys(), {.name = "half_adder"},
                           {secret.encrypt(x, {kBits}, {}), secret.encrypt(y, {kBits}, {})});
  EXPECT_EQ(secret.decrypt(out[0]), sum);
  EXPECT_EQ(secret.decrypt(out[1]), carry);
  const std::vector<double> a = secret.errors(out[0]), b = secret.errors(out[1]);
  double aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < kBits; ++i) aa += a[i] * a[i], bb += b[i] * b[i], ab += a[i] * b[i];
  const double predicted = kBits * lwe::NoiseModel(parameters.context()->lwe()).bootstrap;
  EXPECT_NEAR(aa / predicted, 1, 0.2);
  EXPECT_NEAR(bb / predicted, 1, 0.2);
  EXPECT_LT(std::abs(ab) / std::sqrt(aa * bb), 5 / std::sqrt(kBits));
  std::printf("[ half adder ] measured over predicted: sum %.3f, carry %.3f; correlation %.4f\n", aa / predicted,
              bb / predicted, ab / std::sqrt(aa * bb));
}

}  // namespace
}  // namespace heliograph::tfhe
