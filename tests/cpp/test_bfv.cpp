// BFV through the public C++ API: what a C++ user writes, also under the sanitizers.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "heliograph/bfv.h"

namespace heliograph {
namespace {

using bfv::Ciphertext;
using bfv::Packing;
using bfv::Parameters;
using bfv::SecretKey;
using bfv::Values;

constexpr std::uint64_t kPlain = 12289;  // 1 modulo 2^12

Values random_values(const Shape& shape, std::size_t width, int bound) {
  std::mt19937_64 random(shape.size() + width);
  Values v{.shape = shape, .width = width};
  std::size_t count = width;
  for (std::size_t s : shape) count *= s;
  for (std::size_t i = 0; i < count; ++i) v.data.push_back(static_cast<std::int64_t>(random() % (2 * bound + 1)) - bound);
  return v;
}

struct Case {
  const char* edition;
  std::size_t special;
};

class Bfv : public testing::TestWithParam<Case> {
 protected:
  static constexpr std::size_t kN = 2048;
  Parameters parameters_ = Parameters(bfv::make_spec(kN, 150, GetParam().special, {kPlain}, GetParam().edition, 0, true));
  SecretKey secret_ = SecretKey::generate(parameters_);

  std::int64_t centered(std::int64_t v) const {
    const auto t = static_cast<std::int64_t>(kPlain);
    v = (v % t + t) % t;
    return v > t / 2 ? v - t : v;
  }
  std::vector<std::int64_t> decrypt(const Ciphertext& c) const {
    std::vector<std::int64_t> out;
    for (std::uint64_t r : secret_.decrypt(c)) out.push_back(centered(static_cast<std::int64_t>(r)));
    return out;
  }
};

TEST_P(Bfv, MultipliesRelinearizesAndAdds) {
  const Values a = random_values({3}, kN, 100), b = random_values({3}, kN, 100);
  const bfv::EvaluationKeys keys = secret_.evaluation_keys(true, {}, false);
  const Ciphertext x = secret_.encrypt(a, Packing::slots), y = secret_.encrypt(b, Packing::slots);
  const Ciphertext z = add(relinearize(multiply(x, y, nullptr), keys), x);
  EXPECT_EQ(z.degree(), 1u);
  EXPECT_LE(z.noise_budget(), secret_.noise_budget(z));
  const std::vector<std::int64_t> got = decrypt(z);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], centered(a.data[i] * b.data[i] + a.data[i])) << i;
}

TEST_P(Bfv, RotatesRowsAndColumns) {
  const Values a = random_values({}, kN, 6000);
  const bfv::EvaluationKeys keys = secret_.evaluation_keys(false, {1, 7}, true);
  const Ciphertext x = secret_.encrypt(a, Packing::slots);
  const std::vector<std::int64_t> both = decrypt(rotate_rows(x, {1, 7}, keys)), columns = decrypt(rotate_columns(x, keys));
  const std::size_t half = kN / 2;
  for (std::size_t i = 0; i < half; ++i) {
    ASSERT_EQ(both[i], a.data[(i + 1) % half]);
    ASSERT_EQ(both[kN + half + i], a.data[half + (i + 7) % half]);
    ASSERT_EQ(columns[i], a.data[half + i]);
  }
  EXPECT_THROW(rotate_rows(x, {2}, keys), MissingKeyError);
}

TEST_P(Bfv, ConvolvesWithPaddingInOneProduct) {
  const Values a = random_values({2, 4, 4}, 16, 9);
  std::vector<std::int64_t> weights;
  for (int i = 0; i < 3 * 2 * 3 * 3; ++i) weights.push_back(i % 7 - 3);
  const Ciphertext y = conv2d(secret_.encrypt(a, Packing::slots), weights, {3, 2, 3, 3, 1, 1, 1}, {1, 2, 3});
  EXPECT_EQ(y.shape(), (Shape{3, 4, 4}));
  const std::vector<std::int64_t> got = decrypt(y);
  for (int m = 0; m < 3; ++m) {
    for (int r = 0; r < 4; ++r) {
      for (int c = 0; c < 4; ++c) {
        std::int64_t sum = m + 1;
        for (int k = 0; k < 2 * 3 * 3; ++k) {
          const int channel = k / 9, row = r + k % 9 / 3 - 1, column = c + k % 3 - 1;
          if (row < 0 || row > 3 || column < 0 || column > 3) continue;
          sum += weights[static_cast<std::size_t>(m * 18 + k)] *
                 a.data[static_cast<std::size_t>(((channel * 4 + row) * 4 + column) * 16 + 5)];
        }
        ASSERT_EQ(got[static_cast<std::size_t>(((m * 4 + r) * 4 + c) * 16 + 5)], centered(sum));
      }
    }
  }
}

TEST_P(Bfv, KeepsValuesThroughFilesAndSmallerModuli) {
  const Values a = random_values({2, 2}, kN, 6000);
  const Ciphertext fresh = secret_.encrypt(a, Packing::slots);
  EXPECT_TRUE(fresh.seeded());
  const Ciphertext back = Ciphertext::from_bytes(fresh.to_bytes());
  EXPECT_EQ(decrypt(back), a.data);
  const Ciphertext low = switch_level(back, 0);
  EXPECT_LT(low.level(), fresh.level());
  EXPECT_EQ(decrypt(low), a.data);
  const Ciphertext open = secret_.public_key().encrypt(a, Packing::coefficients);
  EXPECT_EQ(decrypt(Ciphertext::from_bytes(open.to_bytes())), a.data);
  Bytes damaged = fresh.to_bytes();
  damaged[damaged.size() / 2] ^= std::byte{1};
  EXPECT_THROW(Ciphertext::from_bytes(damaged), DamagedFileError);
}

TEST_P(Bfv, NamesWhatIsWrong) {
  const Values a = random_values({}, kN, 5);
  const Ciphertext x = secret_.encrypt(a, Packing::slots);
  const SecretKey other = SecretKey::generate(parameters_);
  EXPECT_THROW(other.decrypt(x), WrongKeyError);
  EXPECT_THROW(add(x, other.encrypt(a, Packing::slots)), WrongKeyError);
  EXPECT_THROW(relinearize(square(x, nullptr), other.evaluation_keys(true, {}, false)), WrongKeyError);
  EXPECT_THROW(square(square(x, nullptr), nullptr), MissingKeyError);
  EXPECT_THROW(secret_.encrypt({.data = {6145}, .shape = {}, .width = 1}, Packing::slots), PlaintextRangeError);
  EXPECT_THROW(Parameters(bfv::make_spec(kN, 150, 0, {kPlain})), SecurityError);
}

INSTANTIATE_TEST_SUITE_P(Editions, Bfv, testing::Values(Case{"w64", 0}, Case{"w64", 1}, Case{"w32", 0}, Case{"w32", 2}),
                         [](const auto& info) {
                           return std::string(info.param.edition) + "_special" + std::to_string(info.param.special);
                         });

}  // namespace
}  // namespace heliograph
