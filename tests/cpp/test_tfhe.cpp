// Tests of TFHE through the public C++ API: keys, encryption, circuits on encrypted tensors, errors and files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <random>

#include "heliograph/files.h"
#include "heliograph/progress.h"
#include "schemes/tfhe/encoding.h"
#include "schemes/tfhe/run.h"
#include "tfhe_rig.h"

namespace heliograph::tfhe {
namespace {

constexpr std::uint64_t kEighth = std::uint64_t{1} << 61;

/// Returns a small set that allows sums of five.
Spec small(unsigned message_bits, unsigned group = 2) {
  Spec s = test::small_tfhe(message_bits);
  s.group = group, s.norm = 17;
  return s;
}

Linear sum(std::vector<Term> terms, std::uint64_t constant) { return {std::move(terms), constant}; }

/// Returns a circuit with these gates: AND and OR by one bootstrap, XOR by a bootstrap, XOR without one, and a majority of
/// AND, OR and the first bit.
std::shared_ptr<const Circuit> gates() {
  auto c = std::make_shared<Circuit>();
  c->inputs = 2, c->wires = 6;
  c->tables = {{{kEighth}}};
  c->layers.resize(2);
  c->layers[0].push_back({sum({{0, 1}, {1, 1}}, 0 - kEighth), 0, 2, 2});  // and, or
  c->layers[0].push_back({sum({{0, 2}, {1, 2}}, 2 * kEighth), 0, 1, 4});  // xor
  c->layers[1].push_back({sum({{2, 1}, {3, 1}, {0, 1}}, 0), 0, 1, 5});    // majority(and, or, a) = a
  c->outputs = {sum({{2, 1}}, 0), sum({{3, 1}}, 0), sum({{4, 1}}, 0), sum({{2, -1}, {3, 1}}, 0 - kEighth), sum({{5, 1}}, 0)};
  return c;
}

class Tfhe : public testing::TestWithParam<std::string> {};

TEST_P(Tfhe, EvaluatesGatesOfBits) {
  const Parameters p = Parameters(small(0)).on_device(GetParam());
  const SecretKey secret = SecretKey::generate(p);
  const EvaluationKeys keys = secret.evaluation_keys();
  const Ciphertext a = secret.encrypt({0, 1}, {2, 1}, {}), b = secret.encrypt({0, 1, 1}, {3}, {});
  const auto out = run(keys.data(), gates(), {a.data().tensor, b.data().tensor}, {2, 1, 1, 1});
  ASSERT_EQ(out.size(), 4u);
  const Type two{.boolean = false, .bits = 2};
  const auto value = [&](std::size_t i, const Type& type) {
    EXPECT_EQ(out[i].shape(), (Shape{2, 3}));
    return secret.decrypt(make_ciphertext(p.context(), a.data().key, type, out[i]));
  };
  using Values = std::vector<std::uint64_t>;
  EXPECT_EQ(value(0, two), (Values{0, 2, 2, 2, 3, 3}));
  EXPECT_EQ(value(1, {}), (Values{0, 1, 1, 1, 0, 0}));
  EXPECT_EQ(value(2, {}), (Values{0, 1, 1, 1, 0, 0}));
  EXPECT_EQ(value(3, {}), (Values{0, 0, 0, 1, 1, 1}));
}

/// Returns a circuit of two digits: one bootstrap gives the digit and the carry of the sum, another the low digit of the
/// product.
std::shared_ptr<const Circuit> digit_adder(const Spec& spec) {
  const std::uint64_t unit = unit_of(spec);
  auto c = std::make_shared<Circuit>();
  c->inputs = 2, c->wires = 5;
  Table both, square;
  for (std::uint64_t v = 0; v < 8; ++v) both.values.push_back(v % 4 * unit);
  for (std::uint64_t v = 0; v < 8; ++v) both.values.push_back(v / 4 * unit);
  for (std::uint64_t v = 0; v < 16; ++v) square.values.push_back(v * v % 4 * unit);
  c->tables = {both, square};
  c->layers.resize(2);
  c->layers[0].push_back({sum({{0, 1}, {1, 1}}, unit / 2), 0, 2, 2});
  c->layers[1].push_back({sum({{2, 1}}, unit / 2), 1, 1, 4});
  c->outputs = {sum({{2, 1}}, 0), sum({{3, 1}}, 0), sum({{4, 1}}, 0)};
  return c;
}

TEST_P(Tfhe, EvaluatesDigitsAndCarries) {
  const Parameters p = Parameters(small(2, 4)).on_device(GetParam());
  const SecretKey secret = SecretKey::generate(p);
  const EvaluationKeys keys = secret.evaluation_keys();
  const Type digit{.boolean = false, .bits = 2}, two{.boolean = false, .bits = 4};
  std::vector<std::uint64_t> values{0, 1, 2, 3};
  const Ciphertext a = secret.encrypt(values, {4, 1}, digit), b = trivial(keys, values, {4}, digit);
  const auto out = run(keys.data(), digit_adder(p.spec()), {a.data().tensor, b.data().tensor}, {2, 1});
  const auto sums = secret.decrypt(make_ciphertext(p.context(), a.data().key, two, out[0]));
  const auto squares = secret.decrypt(make_ciphertext(p.context(), a.data().key, digit, out[1]));
  for (std::uint64_t x = 0; x < 4; ++x) {
    for (std::uint64_t y = 0; y < 4; ++y) {
      EXPECT_EQ(sums[4 * x + y], x + y);
      EXPECT_EQ(squares[4 * x + y], (x + y) % 4 * ((x + y) % 4) % 4);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Tfhe, testing::Values("ref", "cpu"));

TEST(TfheValues, SurviveEncryptionInEveryType) {
  std::mt19937_64 random(1);
  for (unsigned message : {0U, 1U, 2U}) {
    const Parameters p(small(message));
    const SecretKey secret = SecretKey::generate(p);
    for (const char* text : {"uint8", "int8", "uint24", "int32", "uint64", "int64", "bool"}) {
      const Type type = type_of(text);
      EXPECT_EQ(type.text(), text);
      std::vector<std::uint64_t> values(6);
      for (std::uint64_t& v : values) {
        v = random();
        if (type.boolean)
          v &= 1;
        else if (type.bits < 64)
          v &= (std::uint64_t{1} << type.bits) - 1;
        if (type.is_signed && type.bits < 64 && v >> (type.bits - 1)) v |= ~std::uint64_t{0} << type.bits;
      }
      const Ciphertext c = secret.encrypt(values, {2, 3}, type);
      EXPECT_TRUE(c.seeded());
      EXPECT_EQ(secret.decrypt(c), values) << text;
      EXPECT_EQ(secret.decrypt(transpose(transpose(c, {1, 0}), {1, 0})), values);
      EXPECT_EQ(secret.decrypt(index(c, 0, 1)), (std::vector<std::uint64_t>(values.begin() + 3, values.end())));
      EXPECT_EQ(secret.decrypt(reshape(slice(c, 1, 2, -1, 3), {6}))[0], values[2]);
      EXPECT_EQ(secret.decrypt(concatenate({c, c}, 0)).size(), 12u);
      const Ciphertext again = Ciphertext::from_bytes(c.to_bytes()),
                       plain = Ciphertext::from_bytes(transpose(c, {1, 0}).to_bytes());
      EXPECT_EQ(lwe::download(again.data().tensor), lwe::download(c.data().tensor));
      EXPECT_TRUE(again.seeded() && !plain.seeded());
      EXPECT_EQ(secret.decrypt(transpose(plain, {1, 0})), values);
    }
  }
  EXPECT_THROW(type_of("float32"), DtypeError);
  EXPECT_THROW(type_of("uint65"), DtypeError);
  EXPECT_THROW(type_of("uint08"), DtypeError);
}

TEST(TfheErrors, AreTypedAndEarly) {
  const Parameters p(small(0)), other(small(1));
  const SecretKey secret = SecretKey::generate(p), stranger = SecretKey::generate(p), elsewhere = SecretKey::generate(other);
  const Ciphertext a = secret.encrypt({1}, {}, {});
  EXPECT_THROW(stranger.decrypt(a), WrongKeyError);
  EXPECT_THROW(elsewhere.decrypt(a), MismatchError);
  EXPECT_THROW(secret.decrypt(Ciphertext()), ParameterError);
  EXPECT_THROW(concatenate({reshape(a, {1}), reshape(stranger.encrypt({1}, {}, {}), {1})}, 0), WrongKeyError);
  EXPECT_THROW(secret.encrypt({2}, {}, {}), PlaintextRangeError);
  EXPECT_THROW(secret.encrypt({1, 1}, {3}, {}), ShapeError);
  EXPECT_THROW(elsewhere.encrypt({1}, {}, {.boolean = false, .bits = 65}), DtypeError);
  EXPECT_THROW(SecretKey::generate_for_test(p, "short"), ParameterError);
  const EvaluationKeys keys = secret.evaluation_keys();
  EXPECT_THROW(run(keys.data(), gates(), {a.data().tensor}, {5}), MismatchError);
  EXPECT_THROW(run(keys.data(), gates(), {a.data().tensor, elsewhere.encrypt({1}, {}, {}).data().tensor}, {5}),
               MismatchError);
  {
    const ProgressScope scope([](double) { throw CancelledError("stopped"); });
    EXPECT_THROW(secret.evaluation_keys(), CancelledError);
  }
  // A sum whose noise is far above the limit is an error instead of a wrong value.
  const lwe::Tensor zero = p.context()->tensor({}, 1);
  std::vector<std::uint64_t> words(p.context()->words());
  lwe::upload(zero, words);
  EXPECT_THROW(secret.decrypt(make_ciphertext(p.context(), std::nullopt, {}, zero)), NoiseError);
}

TEST(TfheRun, ALayerIsOneLaunchUnlessManyResultsWouldBeUnused) {
  const Parameters p(small(0));
  EXPECT_EQ(p.context()->prepared(gates())->launches().size(), 3u);  // launches: two layers, and the outputs
  // The layer has one bootstrap with two results and many bootstraps with one result.
  for (const auto& [alone, launches] : {std::pair{64u, 2u}, std::pair{65u, 3u}}) {
    auto c = std::make_shared<Circuit>();
    c->inputs = 1, c->tables = {{{kEighth}}}, c->layers.resize(1), c->wires = 1;
    for (std::uint32_t i = 0; i <= alone; ++i) {
      const std::uint32_t outputs = i == 0 ? 2 : 1;
      c->layers[0].push_back({sum({{0, 1}}, i), 0, outputs, c->wires});
      c->wires += outputs;
    }
    c->outputs = {sum({{1, 1}}, 0), sum({{c->wires - 1, 1}}, 0)};
    EXPECT_EQ(p.context()->prepared(c)->launches().size(), launches);
  }
}

TEST(TfheRun, BatchSplitsAndRepeatedRunsGiveTheSameBits) {
  const Parameters p(small(0));
  const std::string seed(32, 's');
  const SecretKey one = SecretKey::generate_for_test(p, seed), two = SecretKey::generate_for_test(p, seed);
  EXPECT_EQ(one.key_id(), two.key_id());
  const EvaluationKeys keys = one.evaluation_keys(), same = two.evaluation_keys();
  EXPECT_EQ(keys.to_bytes(), same.to_bytes());
  std::vector<std::uint64_t> bits(3000);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = i * i / 7 % 2;
  const Ciphertext a = one.encrypt(bits, {3000}, {}), b = one.encrypt({1}, {}, {});
  double last = 0;
  const auto out = [&] {
    const ProgressScope scope([&](double done) {
      EXPECT_GE(done, last);
      last = done;
    });
    return run(keys.data(), gates(), {a.data().tensor, b.data().tensor}, {1, 1, 3});
  }();
  EXPECT_EQ(last, 1);
  EXPECT_EQ(one.decrypt(make_ciphertext(p.context(), a.data().key, {}, out[0])), bits);
  const auto again =
      run(EvaluationKeys::from_bytes(keys.to_bytes()).data(), gates(), {a.data().tensor, b.data().tensor}, {5});
  EXPECT_EQ(one.decrypt(make_ciphertext(p.context(), a.data().key, {}, again[0].with_components(4, 1))), bits);
}

TEST(TfheRun, KeysAreEvictedAndReloaded) {
  const Parameters p(small(0));
  const SecretKey secret = SecretKey::generate(p);
  const EvaluationKeys keys = secret.evaluation_keys();
  const Ciphertext a = secret.encrypt({0, 1}, {2}, {}), b = secret.encrypt({1}, {}, {});
  device::Residents& residents = p.context()->session().device().residents();
  const auto gate = [&] {
    const auto out = run(keys.data(), gates(), {a.data().tensor, b.data().tensor}, {1, 4});
    return secret.decrypt(make_ciphertext(p.context(), a.data().key, {}, out[0]));
  };
  const std::vector<std::uint64_t> both{0, 1};
  const std::size_t before = residents.evictable_bytes();
  EXPECT_EQ(gate(), both);
  EXPECT_GT(residents.evictable_bytes(), before);
  {
    const auto held = keys.data().prepared();
    EXPECT_EQ(residents.evictable_bytes(), before);  // used keys are not evicted
  }
  EXPECT_TRUE(residents.make_room(residents.evictable_bytes(), residents.evicted_bytes()));
  EXPECT_EQ(residents.evictable_bytes(), 0u);
  EXPECT_EQ(gate(), both);
  EXPECT_GT(residents.evictable_bytes(), 0u);
}

TEST(TfheFiles, AreReadOrRefused) {
  const Parameters p(small(1));
  const SecretKey secret = SecretKey::generate(p);
  const std::string path = testing::TempDir() + "heliograph-tfhe-secret" + std::to_string(getpid());
  secret.save(path);
  const SecretKey again = SecretKey::load(path);
  EXPECT_EQ(again.key_id(), secret.key_id());
  const Ciphertext c = secret.encrypt({200, 17}, {2}, type_of("uint8"));
  EXPECT_EQ(again.decrypt(c), (std::vector<std::uint64_t>{200, 17}));
  EXPECT_NE(inspect(path).find("heliograph.tfhe.secret-key"), std::string::npos);
  EXPECT_THROW(Ciphertext::load(path), FormatError);
  std::remove(path.c_str());
  // A file has only bodies and a seed, without masks.
  EXPECT_LT(c.to_bytes().size(), 2 * 8 * 8 + 2048u);
  for (const Bytes& whole : {c.to_bytes(), reshape(transpose(c, {0}), {2, 1}).to_bytes()}) {
    for (std::size_t i = 0; i < whole.size(); i += 97) {
      Bytes bad = whole;
      bad[i] ^= std::byte{1};
      EXPECT_THROW(Ciphertext::from_bytes(bad), FormatError) << i;
      EXPECT_THROW(Ciphertext::from_bytes(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(i))),
                   FormatError);
    }
  }
  EXPECT_THROW(EvaluationKeys::from_bytes(c.to_bytes()), FormatError);
}

TEST(TfheParameters, NamedSetsCompute) {
  for (const char* name : {"boolean", "2_2"}) {
    const Parameters p(named_spec(name));
    const SecretKey secret = SecretKey::generate(p);
    const EvaluationKeys keys = secret.evaluation_keys();
    const bool bits = p.is_boolean();
    const Type type = bits ? Type{} : Type{.boolean = false, .bits = 2};
    const std::vector<std::uint64_t> values = bits ? std::vector<std::uint64_t>{0, 1} : std::vector<std::uint64_t>{1, 3};
    const Ciphertext a = secret.encrypt(values, {2, 1}, type), b = secret.encrypt(values, {2}, type);
    const auto out =
        run(keys.data(), bits ? gates() : digit_adder(p.spec()), {a.data().tensor, b.data().tensor}, {1, bits ? 4u : 2u});
    const Ciphertext first = make_ciphertext(p.context(), a.data().key, type, out[0]);
    using Values = std::vector<std::uint64_t>;
    EXPECT_EQ(secret.decrypt(first), bits ? (Values{0, 0, 0, 1}) : (Values{2, 0, 0, 2})) << name;
    // The limit is far above the predicted deviation, and far below the errors that a wrong gadget or key causes.
    for (double e : secret.errors(first)) EXPECT_LT(std::abs(e), 8 * std::exp2(p.predicted().bootstrap / 2)) << name;
  }
}

TEST(TfheParameters, NamedSetsFailAsRarelyAsStated) {
  for (const std::string& name : named_specs()) {
    if (name == "morshed-2020") continue;
    const Parameters p(named_spec(name));
    EXPECT_TRUE(p.secure()) << name;
    EXPECT_EQ(p.security_bits(), 128);
    EXPECT_LE(p.log2_failure(), name.ends_with("/p64") ? -64 : -128) << name;
  }
  EXPECT_THROW(named_spec("morshed-2020"), SecurityError);
  const Parameters old(named_spec("morshed-2020", true));
  EXPECT_FALSE(old.secure());
  EXPECT_LT(old.security_bits(), 100);
  EXPECT_THROW(named_spec("2_3"), ParameterError);
  Spec s = named_spec("boolean");
  s.lwe_noise.value -= 1;
  EXPECT_THROW(Parameters{s}, SecurityError);
  s = named_spec("boolean");
  s.degree = 500;
  EXPECT_THROW(Parameters{s}, ParameterError);
  s = named_spec("2_2");
  s.name = "mine";
  EXPECT_EQ(Parameters(s).hash(), Parameters(named_spec("2_2")).hash());
}

}  // namespace
}  // namespace heliograph::tfhe
