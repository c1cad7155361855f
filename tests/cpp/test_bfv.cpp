// BFV and BGV through the public C++ API, also under the sanitizers.
#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>
#include <random>

#include "heliograph/bfv.h"
#include "heliograph/bgv.h"

namespace heliograph {
namespace {

using bfv::Ciphertext;
using bfv::Packing;
using bfv::Parameters;
using bfv::SecretKey;
using bfv::Values;

constexpr std::uint64_t kPlain = 12289;  // a prime that is 1 modulo 2^12

Values random_values(const Shape& shape, std::size_t width, int bound) {
  std::mt19937_64 random(shape.size() + width);
  Values v{.shape = shape, .width = width};
  std::size_t count = width;
  for (std::size_t s : shape) count *= s;
  for (std::size_t i = 0; i < count; ++i) v.data.push_back(static_cast<std::int64_t>(random() % (2 * bound + 1)) - bound);
  return v;
}

struct Case {
  const char* scheme;
  int word_size;
  std::size_t special;
};

class Bfv : public testing::TestWithParam<Case> {
 protected:
  static constexpr std::size_t kN = 2048;
  static bfv::Spec spec(int log_q, std::vector<std::uint64_t> plain, bool insecure = true, std::size_t n = kN) {
    const Case& c = GetParam();
    const auto make = std::string(c.scheme) == "bgv" ? bgv::make_spec : bfv::make_spec;
    return make(n, log_q, c.special, std::move(plain), c.word_size, 0, insecure);
  }
  Parameters parameters_ = Parameters(spec(150, {kPlain}));
  SecretKey secret_ = SecretKey::generate(parameters_);

  std::int64_t centered(std::int64_t v) const {
    const auto t = static_cast<std::int64_t>(kPlain);
    v = (v % t + t) % t;
    return v > t / 2 ? v - t : v;
  }
  std::vector<std::int64_t> decrypt_by(const SecretKey& secret, const Ciphertext& c) const {
    std::vector<std::int64_t> out;
    for (std::uint64_t r : secret.decrypt(c)) out.push_back(centered(static_cast<std::int64_t>(r)));
    return out;
  }
  std::vector<std::int64_t> decrypt(const Ciphertext& c) const { return decrypt_by(secret_, c); }
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

TEST_P(Bfv, SumsLeaveOutUnusedSlots) {
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 1; step < static_cast<std::int64_t>(kN / 2); step *= 2) steps.push_back(step);
  const bfv::EvaluationKeys keys = secret_.evaluation_keys(true, steps, true);
  const Values a = random_values({2}, 5, 100);
  const Ciphertext x = secret_.encrypt(a, Packing::slots),
                   more = add_integers(x, {.data = {7, -3}, .shape = {2}, .width = 1});
  EXPECT_TRUE(more.tail_known());
  const std::vector<std::int64_t> got = decrypt(sum_slots(more, keys));
  ASSERT_EQ(got.size(), 10u);
  for (std::size_t i = 0; i < 2; ++i) {
    std::int64_t total = i == 0 ? 5 * 7 : -5 * 3;
    for (std::size_t k = 0; k < 5; ++k) total += a.data[i * 5 + k];
    for (std::size_t k = 0; k < 5; ++k) EXPECT_EQ(got[i * 5 + k], centered(total));
  }
  const Ciphertext mixed = subtract(x, sum_slots(x, keys));  // a rotation would move unknown values into the used slots
  EXPECT_FALSE(mixed.tail_known());
  const std::vector<std::int64_t> parts = decrypt(mixed), sums = decrypt(sum_slots(mixed, keys));
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(sums[i * 5], centered(std::accumulate(parts.begin() + 5 * i, parts.begin() + 5 * (i + 1), std::int64_t{0})));
}

TEST_P(Bfv, AddsInPlace) {
  const Values a = random_values({3}, kN, 100), b = random_values({3}, kN, 99);
  Ciphertext x = add_integers(secret_.encrypt(a, Packing::slots), {.data = {1}, .shape = {}, .width = 1});
  const Ciphertext y = secret_.encrypt(b, Packing::slots);
  const std::uintptr_t at = x.address();
  add_into(x, y);
  subtract_into(x, index(y, 0, 1));
  add_integers_into(x, {.data = {4}, .shape = {}, .width = 1});
  add_into(x, x);
  EXPECT_EQ(x.address(), at);
  const Ciphertext slice_of_x = slice(x, 0, 0, 1, 1), same = x;
  add_into(x, y);
  EXPECT_NE(x.address(), at);
  EXPECT_THROW(add_into(x, broadcast_to(y, {2, 3})), ShapeError);
  const std::vector<std::int64_t> got = decrypt(x), kept = decrypt(same), some = decrypt(slice_of_x);
  for (std::size_t i = 0; i < 3 * kN; ++i) {
    const std::int64_t twice = 2 * (a.data[i] + 1 + b.data[i] - b.data[kN + i % kN] + 4);
    ASSERT_EQ(got[i], centered(twice + b.data[i])) << i;
    ASSERT_EQ(kept[i], centered(twice)) << i;
    if (i < kN) {
      ASSERT_EQ(some[i], centered(twice)) << i;
    }
  }
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

TEST_P(Bfv, ErrorsNameTheCause) {
  const Values a = random_values({}, kN, 5);
  const Ciphertext x = secret_.encrypt(a, Packing::slots);
  const SecretKey other = SecretKey::generate(parameters_);
  EXPECT_THROW(other.decrypt(x), WrongKeyError);
  EXPECT_THROW(add(x, other.encrypt(a, Packing::slots)), WrongKeyError);
  EXPECT_THROW(relinearize(square(x, nullptr), other.evaluation_keys(true, {}, false)), WrongKeyError);
  EXPECT_THROW(square(square(x, nullptr), nullptr), MissingKeyError);
  EXPECT_THROW(secret_.encrypt({.data = {6145}, .shape = {}, .width = 1}, Packing::slots), PlaintextRangeError);
  EXPECT_THROW(Parameters(spec(150, {kPlain}, false)), SecurityError);
  bfv::Spec odd = spec(150, {kPlain});
  odd.scheme = "bgw";
  EXPECT_THROW(Parameters{odd}, ParameterError);
  odd.scheme = std::string(GetParam().scheme) == "bgv" ? "bfv" : "bgv";
  const SecretKey foreign = SecretKey::generate(Parameters(odd));
  EXPECT_THROW(add(x, foreign.encrypt(a, Packing::slots)), MismatchError);
}

TEST_P(Bfv, RefusesEmptyObjects) {
  Ciphertext x = secret_.encrypt(random_values({}, kN, 5), Packing::slots), moved = std::move(x);
  const Ciphertext none;
  EXPECT_THROW(secret_.decrypt(none), ParameterError);
  EXPECT_THROW(none.shape(), ParameterError);
  EXPECT_THROW(add(moved, none), ParameterError);
  EXPECT_THROW(secret_.decrypt(x), ParameterError);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(decrypt(moved).size(), kN);
}

/// Products in sequence and sums of operands at different levels are correct for both plaintext moduli.
TEST_P(Bfv, ComputesProductsInSequence) {
  const Parameters parameters(spec(300, {kPlain, 40961}));
  const SecretKey secret = SecretKey::generate(parameters);
  const bfv::EvaluationKeys keys = secret.evaluation_keys(true, {}, false);
  const Values a = random_values({2}, kN, 20),
               ones = {.data = std::vector<std::int64_t>(2 * kN, 1), .shape = {2}, .width = kN};
  const bfv::Plaintext one = encode(parameters, ones, Packing::slots);
  const Ciphertext x = secret.public_key().encrypt(a, Packing::slots);
  const Ciphertext squared = relinearize(multiply_switched(x, x, &keys), keys);
  const Ciphertext fourth = multiply_switched(squared, squared, &keys);
  // Computes 2 x^4 + x + 8; one of the two powers x^4 is loaded from bytes.
  Ciphertext z = add(add(fourth, squared), Ciphertext::from_bytes(fourth.to_bytes()));
  z = add(add(z, x), one);
  z = add_integers(subtract(z, squared), {.data = {7}, .shape = {}, .width = 1});
  const Ciphertext rows = bfv::concatenate({z, relinearize(z, keys), x}, 0);
  EXPECT_LE(relinearize(z, keys).noise_budget(), 300);
  const Ciphertext low = switch_level(rows, 0);
  const std::size_t width = 2 * kN;
  for (const Ciphertext& c : {rows, low}) {
    const std::vector<std::uint64_t> got = secret.decrypt(c);
    ASSERT_EQ(got.size(), 2 * 3 * width);
    for (std::size_t part = 0; part < 2; ++part) {
      const auto t = static_cast<std::int64_t>(parameters.spec().plain_moduli[part]);
      for (std::size_t i = 0; i < width; ++i) {
        const std::int64_t v = a.data[i], expected = (((2 * v * v * v * v + v + 8) % t) + t) % t;
        ASSERT_EQ(got[part * 3 * width + i], static_cast<std::uint64_t>(expected)) << i;
        ASSERT_EQ(got[part * 3 * width + width + i], static_cast<std::uint64_t>(expected)) << i;
        ASSERT_EQ(got[part * 3 * width + 2 * width + i], static_cast<std::uint64_t>((v % t + t) % t)) << i;
      }
    }
  }
}

/// Composite plaintext moduli allow no slots, so values are polynomial coefficients.
TEST_P(Bfv, ComputesModuloPowersOfTwo) {
  for (const std::uint64_t t : {std::uint64_t{2}, std::uint64_t{4096}}) {
    const Parameters parameters(spec(240, {t}));
    const SecretKey secret = SecretKey::generate(parameters);
    const bfv::EvaluationKeys keys = secret.evaluation_keys(true, {}, false);
    Values a = {.data = std::vector<std::int64_t>(kN), .shape = {}, .width = kN};
    a.data[1] = 1, a.data[kN - 1] = 1;  // X + X^(N-1); its square is X^2 - 2 - X^(N-2)
    const Ciphertext x = secret.encrypt(a, Packing::coefficients);
    const Ciphertext y = relinearize(multiply_switched(x, x, &keys), keys);
    const std::vector<std::uint64_t> got = secret.decrypt(add(add(y, x), switch_level(y, 2)));
    for (std::size_t i = 0; i < kN; ++i) {
      const std::int64_t expected = 2 * ((i == 2) - 2 * (i == 0) - (i == kN - 2)) + a.data[i];
      ASSERT_EQ(got[i], static_cast<std::uint64_t>(expected + static_cast<std::int64_t>(2 * t)) % t) << t << " " << i;
    }
  }
}

/// Results have the same words on every device.
TEST_P(Bfv, HasTheBitsOfRefOnEveryDevice) {
  std::vector<Bytes> results;
  for (const char* device : {"ref", "cpu", "cpu:scalar", "3*cpu/uncalibrated"}) {
    const Parameters parameters = Parameters(spec(200, {kPlain, 40961}, true, 1024)).on_device(device);
    const SecretKey secret = SecretKey::generate_for_test(parameters, std::string(32, 's'));
    const bfv::EvaluationKeys keys = secret.evaluation_keys(true, {1, 5}, false);
    const Values a = random_values({5}, 1024, 6000);
    const Ciphertext x = secret.encrypt(a, Packing::slots);
    const Ciphertext product = multiply_switched(x, transpose(x, {0}), &keys);
    const bfv::Plaintext p = encode(parameters, a, Packing::slots);
    const Ciphertext turned = rotate_rows(relinearize(product, keys), {1, 0, 5}, keys);
    const Ciphertext all = bfv::concatenate({reshape(add(turned, multiply(x, p)), {15}), add(product, p), x}, 0);
    const Ciphertext sums = matmul(std::vector<std::int64_t>(2 * 25, 3), 2, 25, all, {5, -6});
    Bytes bytes = all.to_bytes();
    for (const Ciphertext& c : {sums, switch_level(all, 2), switch_level(sums, 1)}) {
      const Bytes more = c.to_bytes();
      bytes.insert(bytes.end(), more.begin(), more.end());
    }
    results.push_back(std::move(bytes));
    EXPECT_EQ(results.back(), results.front()) << device;
  }
}

/// Before a product, BGV switches the operands to a lower level; BFV never does. Tensors from files use the file's noise
/// estimate.
TEST_P(Bfv, ChoosesTheLevelOfProducts) {
  const Parameters parameters(spec(300, {kPlain}));
  const SecretKey secret = SecretKey::generate(parameters);
  const bfv::EvaluationKeys keys = secret.evaluation_keys(true, {}, false);
  const Values a = random_values({}, kN, 100);
  const Ciphertext x = secret.encrypt(a, Packing::slots);
  const Ciphertext y = relinearize(multiply_switched(x, x, &keys), keys),
                   z = relinearize(multiply_switched(y, y, &keys), keys);
  const bool switches = std::string(GetParam().scheme) == "bgv";
  EXPECT_EQ(product_level(z, z) < z.level(), switches);
  const Ciphertext loaded = Ciphertext::from_bytes(z.to_bytes());
  EXPECT_EQ(product_level(loaded, z), product_level(z, z));
  EXPECT_TRUE(z.vouched());
  EXPECT_FALSE(loaded.vouched() || add(z, loaded).vouched() || add(loaded, z).vouched());
  const Ciphertext w = multiply_switched(z, z, &keys);
  EXPECT_GE(w.noise_budget(), multiply(z, z, &keys).noise_budget() - 0.5);
  EXPECT_LE(w.noise_budget(), secret.noise_budget(w));
  EXPECT_GT(w.noise_budget(), 0);
  const std::vector<std::int64_t> got = decrypt_by(secret, w);
  for (std::size_t i = 0; i < got.size(); ++i) {
    std::int64_t v = a.data[i];
    for (int k = 0; k < 3; ++k) v = centered(v * v);
    ASSERT_EQ(got[i], v);
  }
}

TEST(Bgv, ChoosesAndNamesSets) {
  for (const std::string& name : bgv::named_specs()) {
    for (const char* ending : {"", "/w32"}) EXPECT_TRUE(Parameters(bgv::named_spec(name + ending)).secure());
  }
  EXPECT_THROW(bgv::named_spec("hcnn5"), ParameterError);
  EXPECT_THROW(bfv::named_spec("bgv-n15"), ParameterError);
  const bfv::Spec few = bgv::choose({.depth = 1, .plain_moduli = {65537}, .terms = 1});
  const bfv::Spec many = bgv::choose({.depth = 8, .plain_moduli = {65537}, .terms = 1});
  EXPECT_EQ(few.scheme, "bgv");
  EXPECT_LT(few.n, many.n);
}

INSTANTIATE_TEST_SUITE_P(WordSizes, Bfv,
                         testing::Values(Case{"bfv", 64, 0}, Case{"bfv", 64, 1}, Case{"bfv", 32, 0}, Case{"bfv", 32, 2},
                                         Case{"bgv", 64, 0}, Case{"bgv", 64, 2}, Case{"bgv", 32, 0}, Case{"bgv", 32, 2}),
                         [](const auto& info) {
                           return std::string(info.param.scheme) + "_w" + std::to_string(info.param.word_size) + "_special" +
                                  std::to_string(info.param.special);
                         });

}  // namespace
}  // namespace heliograph
