// Detects running times or addresses that depend on secrets. Under valgrind's memcheck every secret draw is marked as
// undefined. Each branch, address or division check that depends on a secret draw is then an error with its location. ctest
// runs this program with several instruction sets, chosen by HELIOGRAPH_CPU.
#include <gtest/gtest.h>
#include <valgrind/memcheck.h>

#include "heliograph/bfv.h"
#include "heliograph/bgv.h"
#include "heliograph/lookup.h"
#include "heliograph/switching.h"
#include "schemes/ckks/bootstrapping.h"
#include "schemes/exact/context.h"
#include "schemes/tfhe/context.h"
#include "tfhe_rig.h"

namespace heliograph::test {
namespace {

constexpr std::size_t kN = 1024;

void make_secret(const void* data, std::size_t bytes) { static_cast<void>(VALGRIND_MAKE_MEM_UNDEFINED(data, bytes)); }
void make_open(const void* data, std::size_t bytes) { static_cast<void>(VALGRIND_MAKE_MEM_DEFINED(data, bytes)); }

/// Marks values as public, as they are after the user has decrypted them.
template <class T>
std::vector<T> opened(std::vector<T> values) {
  make_open(values.data(), values.size() * sizeof(T));
  return values;
}

/// Returns whether memcheck regards any bit as undefined.
bool is_secret(const void* data, std::size_t bytes) {
  std::vector<unsigned char> bits(bytes);
  VALGRIND_GET_VBITS(data, bits.data(), bytes);
  return std::any_of(bits.begin(), bits.end(), [](unsigned char b) { return b != 0; });
}

/// Returns the number of memcheck errors that `work` causes.
template <class Work>
unsigned long errors_of(Work work) {
  const unsigned long before = VALGRIND_COUNT_ERRORS;
  work();
  return VALGRIND_COUNT_ERRORS - before;
}

class ConstantTime : public testing::Test {
 protected:
  void SetUp() override {
    if (!RUNNING_ON_VALGRIND) GTEST_SKIP() << "not running under valgrind";
    secret_marks = {.secret = make_secret, .open = make_open};
  }
  void TearDown() override { secret_marks = {}; }
};

template <class Work>
void expect_blind(const char* what, Work work) {
  EXPECT_EQ(errors_of(work), 0u) << what << " depends on secrets; valgrind's errors above have the locations";
}

/// The keys of a parameter set.
template <class Scheme>
struct Keys {
  std::optional<typename Scheme::SecretKey> secret;
  std::optional<typename Scheme::PublicKey> open;

  explicit Keys(const typename Scheme::Parameters& set) {
    expect_blind("generating a key", [&] { secret = Scheme::SecretKey::generate(set); });
    EXPECT_TRUE(is_secret(secret->data().key.coefficients().data(), kN));
    expect_blind("generating a public key", [&] { open = secret->public_key(); });
    expect_blind("generating evaluation keys", [&] { secret->evaluation_keys(true, {1}, true); });
  }
};

/// Makes keys, encrypts, computes and decrypts.
void exact_life(const char* scheme, int word_size) {
  SCOPED_TRACE(std::string(scheme) + " " + std::to_string(word_size));
  const auto make = std::string(scheme) == "bgv" ? bgv::make_spec : bfv::make_spec;
  const bfv::Parameters set(make(kN, 100, 1, {12289}, word_size, 0, true));
  bfv::Values values{.data = {}, .shape = {2}, .width = kN};
  for (std::size_t i = 0; i < 2 * kN; ++i) values.data.push_back(static_cast<std::int64_t>(i % 100));
  const std::vector<std::uint64_t> expected(values.data.begin(), values.data.end());

  const Keys<exact::Scheme> keys(set);
  std::optional<bfv::Ciphertext> x, y;
  expect_blind("encrypting", [&] { x = keys.secret->encrypt(values, bfv::Packing::slots); });
  expect_blind("encrypting with a public key", [&] { y = keys.open->encrypt(values, bfv::Packing::slots); });
  std::vector<std::uint64_t> back, again;
  expect_blind("decrypting", [&] { back = keys.secret->decrypt(*x), again = keys.secret->decrypt(*y); });
  EXPECT_EQ(opened(back), expected);
  EXPECT_EQ(opened(again), expected);
}

TEST_F(ConstantTime, Bfv) {
  exact_life("bfv", 64);
  exact_life("bfv", 32);
}

TEST_F(ConstantTime, Bgv) {
  exact_life("bgv", 64);
  exact_life("bgv", 32);
}

TEST_F(ConstantTime, Ckks) {
  for (int word_size : {64, 32}) {
    SCOPED_TRACE(word_size);
    const ckks::Parameters set(
        ckks::make_spec(kN, 3, word_size == 64 ? 30 : 28, word_size == 64 ? 45 : 50, 1, word_size, 0, true));
    const ckks::Values values{.data = std::vector<std::complex<double>>(2 * set.slots(), {0.5, -1.25}),
                              .shape = {2},
                              .width = set.slots(),
                              .complex = true};
    const Keys<ckks::Scheme> keys(set);
    std::optional<ckks::Ciphertext> x, y;
    expect_blind("encrypting", [&] { x = keys.secret->encrypt(values, 0); });
    expect_blind("encrypting with a public key", [&] { y = keys.open->encrypt(values, 0); });
    for (const ckks::Ciphertext* c : {&*x, &*y}) {
      ckks::Values back, published;
      expect_blind("decrypting", [&] { back = keys.secret->decrypt(*c); });
      expect_blind("decrypting for publication",
                   [&] { published = keys.secret->decrypt_for_publication(*c, 2, c->precision()); });
      for (const std::complex<double>& v : opened(back.data)) ASSERT_LT(std::abs(v - values.data[0]), 0x1p-8);
      for (const std::complex<double>& v : opened(published.data)) ASSERT_LT(std::abs(v - values.data[0]), 1);
    }
  }
}

TEST_F(ConstantTime, SparseKeyOfBootstrapping) {
  const ckks::Parameters set(ckks::make_bootstrapping_spec(2 * kN, 1, 39, 49.9, 2, 64, true));
  ckks::Context& c = *set.context();
  const ckks::SecretKey secret = ckks::SecretKey::generate(set);
  const ckks::Bootstrapper& how = c.bootstrapper();
  const rlwe::BootstrappingLayouts layouts = how.layouts();
  rlwe::Entropy entropy;
  std::optional<rlwe::SecretKey> sparse;
  expect_blind("drawing a sparse key",
               [&] { sparse = rlwe::SecretKey::generate_sparse(c.rlwe_shared(), ckks::kSparseWeight, entropy); });
  EXPECT_TRUE(is_secret(sparse->coefficients().data(), 2 * kN));
  std::optional<rlwe::SwitchKey> to_sparse, first;
  expect_blind("a key switch key to it", [&] {
    to_sparse = ckks::one_digit_key(*sparse, ring::limbs_of(secret.data().key.transformed(), layouts.to_sparse.primes),
                                    layouts.to_sparse, how.to_sparse_special(), entropy);
  });
  expect_blind("the first matrix's keys",
               [&] { first = ckks::first_matrix_key(c, secret.data().key, *sparse, how, entropy); });
}

TEST_F(ConstantTime, SwitchingKeys) {
  tfhe::Spec spec = small_tfhe();
  spec.n = 16, spec.message_bits = spec.carry_bits = 2;
  const ckks::SecretKey from =
      ckks::SecretKey::generate(ckks::Parameters(ckks::make_bootstrapping_spec(2 * kN, 1, 39, 49.9, 2, 64, true)));
  const tfhe::SecretKey to = tfhe::SecretKey::generate(tfhe::Parameters(spec));
  std::optional<switching::Keys> keys;
  expect_blind("generating switching keys", [&] { keys = switching::Keys::make(from, to); });
}

TEST_F(ConstantTime, Tfhe) {
  // Tests both noise distributions and both encodings: bits, and digits of two message and two carry bits.
  for (const bool gaussian : {true, false}) {
    for (const unsigned bits : {0U, 2U}) {
      SCOPED_TRACE(std::to_string(bits) + (gaussian ? " bits, Gaussian" : " bits, TUniform"));
      tfhe::Spec spec = small_tfhe();
      spec.n = 16, spec.message_bits = spec.carry_bits = bits;
      if (!gaussian) spec.lwe_noise = {true, 40}, spec.glwe_noise = {true, 20};
      const tfhe::Parameters set(spec);
      std::optional<tfhe::SecretKey> secret;
      expect_blind("generating a key", [&] { secret = tfhe::SecretKey::generate(set); });
      EXPECT_TRUE(is_secret(secret->data().key.wide.data(), 256));
      EXPECT_TRUE(is_secret(secret->data().key.narrow.data(), 16));
      expect_blind("generating evaluation keys", [&] { secret->evaluation_keys(); });
      const tfhe::Type type{.boolean = false, .bits = 8, .is_signed = true};
      const std::vector<std::uint64_t> values{5, 0, ~std::uint64_t{0}};
      std::optional<tfhe::Ciphertext> x;
      expect_blind("encrypting", [&] { x = secret->encrypt(values, {3}, type); });
      std::vector<std::uint64_t> back;
      expect_blind("decrypting", [&] { back = secret->decrypt(*x); });
      EXPECT_EQ(opened(back), values);
    }
  }
}

TEST_F(ConstantTime, PrivateLookup) {
  const lookup::Size size{2048, 2048};
  const std::string seed(32, 's');
  const lookup::Client client(size, seed);
  std::size_t row = 77;
  make_secret(&row, sizeof row);
  std::optional<lookup::Question> question;
  expect_blind("asking", [&] { question = client.ask(row); });
  EXPECT_TRUE(is_secret(question->words().data(), 256));
  // The content of the answer is irrelevant: WrongKeyError is thrown only after the complete answer has been read.
  const std::vector<std::uint16_t> bodies(size.columns);
  const std::vector<std::uint8_t> masks(size.columns * 3, 5);
  expect_blind("reading", [&] { EXPECT_THROW(question->read(bodies, masks), WrongKeyError); });
}

TEST_F(ConstantTime, KeysFromFiles) {
  const std::string file = testing::TempDir() + "heliograph-constant-time-" + std::to_string(::getpid()) + ".hg";
  const bfv::Parameters set(bfv::make_spec(kN, 100, 1, {12289}, 64, 0, true));
  secret_marks = {};  // memcheck must accept the write of the file, so its bytes are marked public
  bfv::SecretKey::generate(set).save(file);
  secret_marks = {.secret = make_secret, .open = make_open};
  std::optional<bfv::SecretKey> secret;
  expect_blind("loading a key", [&] { secret = bfv::SecretKey::load(file); });
  EXPECT_TRUE(is_secret(secret->data().key.coefficients().data(), kN));
  std::remove(file.c_str());
}

// Control tests: secrets are marked as undefined, and memcheck detects branches and addresses that depend on them.

TEST_F(ConstantTime, DetectsABranchOnASeed) {
  ring::Entropy entropy;
  const Secret<math::Key256> seed = entropy.next_secret();
  volatile int taken = 0;
  const unsigned char* const bytes = static_cast<const math::Key256&>(seed).data();
  EXPECT_GT(errors_of([&] {
              if (bytes[0] & 1) taken = taken + 1;
            }),
            0u);
}

TEST_F(ConstantTime, DetectsARangeCheckThatStopsAtTheFirstError) {
  const bfv::Parameters set(bfv::make_spec(kN, 100, 1, {12289}, 64, 0, true));
  const bfv::SecretKey secret = bfv::SecretKey::generate(set);
  EXPECT_GT(errors_of([&] {
              for (signed char v : secret.data().key.coefficients())
                require<DamagedFileError>(v >= -1 && v <= 1, "a secret key's coefficients are -1, 0 and 1");
            }),
            0u);
}

TEST_F(ConstantTime, DetectsATableReadAtASecretIndex) {
  const bfv::Parameters set(bfv::make_spec(kN, 100, 1, {12289}, 64, 0, true));
  const bfv::SecretKey secret = bfv::SecretKey::generate(set);
  static constexpr int table[3] = {1, 5, 7};
  volatile int sum = 0;
  EXPECT_GT(errors_of([&] { sum = sum + table[secret.data().key.coefficients()[0] + 1]; }), 0u);
}

}  // namespace
}  // namespace heliograph::test
