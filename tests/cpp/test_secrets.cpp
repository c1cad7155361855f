// With several ranks, results, files and decrypted values equal those of one process. The secret key is only on rank 0. The
// tests start this program again as the ranks, which run the disabled tests below.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <mutex>

#include "heliograph/bfv.h"
#include "heliograph/bgv.h"
#include "heliograph/files.h"
#include "io/sha256.h"
#include "mesh/mesh.h"
#include "ranks_rig.h"
#include "said.h"
#include "schemes/ckks/context.h"
#include "schemes/exact/context.h"
#include "schemes/tfhe/context.h"
#include "tfhe_rig.h"

namespace heliograph::test {

namespace {

constexpr std::size_t kN = 2048, kSlots = kN / 2, kItems = 35;  // more items than BFV encrypts at once
constexpr std::int64_t kPlain = 12289;
const std::string kSeed = "thirty-two bytes of a known seed";

std::size_t own_rank() { return given("HELIOGRAPH_RANK").empty() ? 0 : std::stoul(given("HELIOGRAPH_RANK")); }
bool first_rank() { return own_rank() == 0; }
bfv::Spec exact_spec(const std::string& scheme) {
  const auto make = scheme == "bgv" ? bgv::make_spec : bfv::make_spec;
  return make(kN, 150, 1, {static_cast<std::uint64_t>(kPlain)}, 64, 0, true);
}
ckks::Spec ckks_spec() { return ckks::make_spec(kN, 3, 30, 45, 1, 64, 0, true); }
// Returns on rank 0 the values to encrypt. On other ranks, whose arguments are ignored, returns invalid values.
bfv::Values integers() {
  bfv::Values v{.shape = {kItems}, .width = kN};
  for (std::size_t i = 0; i < kItems * kN; ++i) v.data.push_back(static_cast<std::int64_t>(i % 100));
  return first_rank() ? v : bfv::Values{.data = {-1}, .shape = {}, .width = 1};
}
std::int64_t integer(std::size_t i) { return static_cast<std::int64_t>(i % 100); }
ckks::Values numbers() {
  ckks::Values v{.shape = {3}, .width = kSlots, .complex = true};
  for (std::size_t i = 0; i < 3 * kSlots; ++i) v.data.emplace_back(std::sin(i), std::cos(i));
  return first_rank() ? v : ckks::Values{.data = {std::nan("")}, .shape = {}, .width = 1};
}
std::vector<std::uint64_t> bits() {
  return first_rank() ? std::vector<std::uint64_t>{1, 0, 0, 1, 1} : std::vector<std::uint64_t>{7};
}

/// Prints digests of the objects, which must be equal on all ranks and in one process.
void print_digest(const std::string& mark, std::initializer_list<Bytes> objects) {
  std::printf("%s:", mark.c_str());
  for (const Bytes& b : objects) std::printf(" %s", io::to_hex(io::sha256(b)).substr(0, 16).c_str());
  std::printf("\n");
}

Bytes bytes_of(const ckks::Values& v) {
  const auto all = std::as_bytes(std::span(v.data));
  return {all.begin(), all.end()};
}

/// Returns the lines that every rank wrote after `mark`.
std::vector<std::string> lines_after(const std::vector<Outcome>& outcomes, const std::string& mark) {
  std::vector<std::string> lines;
  for (const Outcome& o : outcomes) {
    const std::size_t at = o.text.find(mark);
    lines.push_back(at == std::string::npos ? "" : o.text.substr(at, o.text.find('\n', at) - at));
  }
  return lines;
}

void expect_passed(const std::vector<Outcome>& outcomes) {
  for (std::size_t r = 0; r < outcomes.size(); ++r)
    EXPECT_TRUE(outcomes[r].passed) << "rank " << r << " (signal " << outcomes[r].signal << "):\n" << outcomes[r].text;
}

/// A temporary folder that has a subfolder for each rank.
class Folders {
 public:
  Folders() {
    for (int r = 0; r < 3; ++r) std::filesystem::create_directories(path_ / std::to_string(r));
  }
  ~Folders() { std::filesystem::remove_all(path_); }
  std::function<Environment(std::size_t)> with(const std::string& device) const {
    return [this, device](std::size_t) {
      return Environment{{"HELIOGRAPH_DEVICE", device}, {"HELIOGRAPH_TEST_FOLDER", path_.string()}};
    };
  }

 private:
  std::filesystem::path path_ = std::filesystem::temp_directory_path() / ("heliograph-secrets-" + std::to_string(getpid()));
};

void enter_own_folder() {
  std::filesystem::current_path(std::filesystem::path(given("HELIOGRAPH_TEST_FOLDER")) / std::to_string(own_rank()));
}

/// All bytes that this rank has received from the other ranks.
struct Received {
  std::mutex mutex;
  std::string bytes;
};
Received& received() {
  static auto* const all = new Received;  // never destroyed, because receiving threads outlive the test
  return *all;
}

/// Returns on all ranks the value that `make` returns on rank 0.
std::string broadcast(const std::function<std::string()>& make) {
  const auto bytes = mesh::default_device().broadcast([&] {
    const std::string text = make();
    const auto all = std::as_bytes(std::span(text));
    return std::vector<std::byte>(all.begin(), all.end());
  });
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class T, class Allocator>
std::string raw(const std::vector<T, Allocator>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// Returns parts of a ternary key in three representations: as in files, as residues, and in the NTT domain.
std::vector<std::string> parts_of(const rlwe::SecretKey& key) {
  std::vector<std::string> parts;
  parts.push_back(broadcast([&] { return raw(key.coefficients()).substr(100, 64); }));
  parts.push_back(broadcast([&] {
    std::vector<math::u64> residues;
    for (std::size_t i = 100; i < 132; ++i)
      residues.push_back(math::signed_mod(key.coefficients()[i], key.context()->parameters().chain[0]));
    return raw(residues);
  }));
  parts.push_back(broadcast([&] { return raw(ring::download(key.transformed())).substr(800, 64); }));
  return parts;
}

}  // namespace
}  // namespace heliograph::test

/// Replaces the transport's recv and records the received bytes.
extern "C" ssize_t recv(int socket, void* buffer, std::size_t size, int flags) {
  const ssize_t n = syscall(SYS_recvfrom, socket, buffer, size, flags, nullptr, nullptr);
  auto& all = heliograph::test::received();
  const std::lock_guard lock(all.mutex);
  if (n > 0) all.bytes.append(static_cast<const char*>(buffer), static_cast<std::size_t>(n));
  return n;
}

namespace heliograph::test {

// ---- Bodies of the ranks

TEST(RankBody, DISABLED_ComputesAsOneProcess) {
  for (const std::string scheme : {"bfv", "bgv"}) {
    SCOPED_TRACE(scheme);
    const bfv::SecretKey secret = bfv::SecretKey::generate_for_test(bfv::Parameters(exact_spec(scheme)), kSeed);
    const bfv::PublicKey key = secret.public_key();
    const bfv::EvaluationKeys keys = secret.evaluation_keys(true, {1}, false);
    const bfv::Ciphertext x = secret.encrypt(integers(), bfv::Packing::slots),
                          y = key.encrypt(integers(), bfv::Packing::slots);
    const bfv::Ciphertext square = bfv::relinearize(bfv::multiply(x, x, nullptr), keys);
    const std::vector<std::uint64_t> product = secret.decrypt(bfv::relinearize(bfv::multiply(x, y, nullptr), keys));
    ASSERT_EQ(product.size(), kItems * kN);
    for (std::size_t i = 0; i < product.size(); ++i)
      ASSERT_EQ(static_cast<std::int64_t>(product[i]), integer(i) * integer(i) % kPlain) << i;
    print_digest(scheme, {key.to_bytes(), keys.to_bytes(), x.to_bytes(), square.to_bytes()});
    std::printf("%s noise: %.17g\n", scheme.c_str(), secret.noise_budget(square));
    bfv::Ciphertext spent = bfv::slice(square, 0, 0, 1, 1);
    for (int i = 0; i < 6; ++i) spent = bfv::relinearize(bfv::multiply(spent, spent, nullptr), keys);
    EXPECT_TRUE(holds(message_of<NoiseError>([&] { secret.decrypt(spent); }), "is exhausted"));
    // If the values of rank 0 are invalid, all ranks raise the error.
    const bfv::Values wide{.data = std::vector<std::int64_t>(kN + 1), .shape = {}, .width = kN + 1};
    EXPECT_THROW(secret.encrypt(first_rank() ? wide : integers(), bfv::Packing::slots), ShapeError);
  }
  {
    const ckks::SecretKey secret = ckks::SecretKey::generate_for_test(ckks::Parameters(ckks_spec()), kSeed);
    const ckks::PublicKey key = secret.public_key();
    const ckks::EvaluationKeys keys = secret.evaluation_keys(true, {1}, true);
    const ckks::Ciphertext x = secret.encrypt(numbers(), 0), y = key.encrypt(numbers(), 0);
    const ckks::Ciphertext turned = ckks::rotate(x, {1}, keys);
    const ckks::Values back = secret.decrypt(turned), plain = secret.decrypt(y);
    const ckks::Values published = secret.decrypt_for_publication(y, 2, y.precision());
    ASSERT_EQ(plain.shape, (Shape{3}));
    ASSERT_TRUE(plain.complex);
    for (std::size_t i = 0; i < plain.data.size(); ++i) {
      const std::complex<double> v(std::sin(i), std::cos(i));
      const std::size_t next = i / kSlots * kSlots + (i + 1) % kSlots;
      ASSERT_LT(std::abs(plain.data[i] - v), 0x1p-8) << i;
      ASSERT_LT(std::abs(published.data[i] - v), 1) << i;
      ASSERT_LT(std::abs(back.data[i] - std::complex<double>(std::sin(next), std::cos(next))), 0x1p-8) << i;
    }
    print_digest("ckks", {key.to_bytes(), keys.to_bytes(), x.to_bytes(), turned.to_bytes(), bytes_of(back)});
    print_digest("same random bytes", {y.to_bytes(), bytes_of(plain), bytes_of(published)});
    EXPECT_EQ(x.precision(), ckks::Ciphertext(x).precision());
    EXPECT_THROW(secret.decrypt_for_publication(y, 100, y.precision()), NoiseError);
  }
  {
    const tfhe::SecretKey secret = tfhe::SecretKey::generate_for_test(tfhe::Parameters(small_tfhe()), kSeed);
    const tfhe::EvaluationKeys keys = secret.evaluation_keys();
    const Shape shape = first_rank() ? Shape{5} : Shape{2, 2};
    const tfhe::Ciphertext x = secret.encrypt(bits(), shape, {});
    EXPECT_EQ(x.shape(), (Shape{5}));
    const tfhe::Ciphertext y = tfhe::compute(keys, {.name = "nand"}, {x, tfhe::slice(x, 0, 4, -1, 5)})[0];
    EXPECT_EQ(secret.decrypt(x), (std::vector<std::uint64_t>{1, 0, 0, 1, 1}));
    EXPECT_EQ(secret.decrypt(y), (std::vector<std::uint64_t>{0, 1, 1, 1, 0}));
    EXPECT_EQ(secret.errors(y).size(), 5u);
    print_digest("tfhe", {keys.to_bytes(), x.to_bytes(), y.to_bytes()});
    EXPECT_THROW(secret.encrypt(first_rank() ? std::vector<std::uint64_t>{2} : bits(), {1}, {}), PlaintextRangeError);
  }
}

TEST(RankBody, DISABLED_KeepsSecretsOnRank0) {
  const bfv::SecretKey exact = bfv::SecretKey::generate(bfv::Parameters(exact_spec("bfv")));
  const ckks::SecretKey approximate = ckks::SecretKey::generate(ckks::Parameters(ckks_spec()));
  const tfhe::SecretKey binary = tfhe::SecretKey::generate(tfhe::Parameters(small_tfhe()));
  EXPECT_EQ(exact.data().key.coefficients().empty(), !first_rank());
  EXPECT_EQ(exact.data().key.context() == nullptr, !first_rank());
  EXPECT_EQ(exact.data().key.transformed().empty(), !first_rank());
  EXPECT_EQ(approximate.data().key.coefficients().empty(), !first_rank());
  EXPECT_EQ(approximate.data().key.transformed().empty(), !first_rank());
  EXPECT_EQ(binary.data().key.wide.empty(), !first_rank());
  EXPECT_EQ(binary.data().key.narrow.empty(), !first_rank());
  EXPECT_EQ(binary.data().masks.empty(), !first_rank());
  // Objects that all ranks have are made without sending secrets.
  const bfv::EvaluationKeys keys = exact.evaluation_keys(true, {1}, true);
  exact.decrypt(exact.encrypt(integers(), bfv::Packing::slots));
  exact.decrypt(exact.public_key().encrypt(integers(), bfv::Packing::slots));
  approximate.evaluation_keys(true, {1}, true);
  approximate.decrypt(approximate.encrypt(numbers(), 0));
  approximate.decrypt(approximate.public_key().encrypt(numbers(), 0));
  binary.evaluation_keys();
  binary.decrypt(binary.encrypt(bits(), {5}, {}));
  exact.save(given("HELIOGRAPH_TEST_FOLDER") + "/secret.hg");
  bfv::SecretKey::load(given("HELIOGRAPH_TEST_FOLDER") + "/secret.hg");
  std::string came;
  {
    const std::lock_guard lock(received().mutex);
    came = received().bytes;
  }
  mesh::default_device().confirm("the moment", "after");  // from here on, rank 0 may send the byte strings
  const io::Held bodies = keys.data().keys.relinearization->bodies();
  EXPECT_EQ(holds(came, raw(std::vector(bodies.bytes.begin(), bodies.bytes.begin() + 64))),
            !first_rank());  // control: rank 0 did send these public bytes
  std::vector<std::string> secrets = parts_of(exact.data().key);
  for (const std::string& part : parts_of(approximate.data().key)) secrets.push_back(part);
  secrets.push_back(broadcast([&] { return raw(binary.data().key.wide).substr(100, 64); }));
  secrets.push_back(broadcast([&] { return raw(binary.data().masks).substr(800, 256); }));
  secrets.push_back(broadcast([&] { return raw(binary.data().key.narrow).substr(0, 48); }));
  for (std::size_t i = 0; i < secrets.size(); ++i) {
    EXPECT_FALSE(secrets[i].empty()) << i;
    EXPECT_FALSE(holds(came, secrets[i])) << i;
  }
}

TEST(RankBody, DISABLED_ReadsAndWritesFilesOnRank0) {
  enter_own_folder();
  const auto there = [](const char* name) { return std::filesystem::exists(name); };
  const bfv::Parameters set(exact_spec("bgv"));
  const bfv::SecretKey secret = bfv::SecretKey::generate(set);
  secret.save("secret.hg");
  secret.public_key().save("public.hg");
  secret.evaluation_keys(true, {}, false).save("keys.hg");
  const bfv::Ciphertext x = secret.encrypt(integers(), bfv::Packing::slots);
  bfv::multiply(x, x, nullptr).save("square.hg");
  x.save("x.hg");
  for (const char* name : {"secret.hg", "public.hg", "keys.hg", "x.hg", "square.hg"}) EXPECT_EQ(there(name), first_rank());

  const bfv::SecretKey again = bfv::SecretKey::load("secret.hg");
  EXPECT_EQ(again.key_id(), secret.key_id());
  EXPECT_EQ(again.data().key.coefficients(), secret.data().key.coefficients());
  EXPECT_EQ(again.data().key.coefficients().empty(), !first_rank());
  const bfv::Ciphertext square = bfv::relinearize(bfv::Ciphertext::load("square.hg"), bfv::EvaluationKeys::load("keys.hg"));
  const bfv::Ciphertext sum = bfv::add(square, bfv::PublicKey::load("public.hg").encrypt(integers(), bfv::Packing::slots));
  const std::vector<std::uint64_t> got = again.decrypt(sum);
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(static_cast<std::int64_t>(got[i]), integer(i) * (integer(i) + 1) % kPlain) << i;
  EXPECT_EQ(bfv::Ciphertext::load("x.hg").to_bytes(), x.to_bytes());
  // The other ranks cannot read keys from the file on demand, so the combination with a memory limit is refused.
  EXPECT_THROW(bfv::EvaluationKeys::load("keys.hg", 1000), LimitError);
  EXPECT_EQ(bfv::Ciphertext::from_bytes(x.to_bytes()).key_id(), x.key_id());
  EXPECT_EQ(kind_of("keys.hg"), "evaluation-keys");
  EXPECT_TRUE(holds(inspect("x.hg"), "heliograph.bgv.ciphertext"));

  const ckks::SecretKey numbers_key = ckks::SecretKey::generate(ckks::Parameters(ckks_spec()));
  numbers_key.save("numbers-secret.hg");
  numbers_key.encrypt(numbers(), 0).save("numbers.hg");
  const ckks::Values back = ckks::SecretKey::load("numbers-secret.hg").decrypt(ckks::Ciphertext::load("numbers.hg"));
  ASSERT_EQ(back.data.size(), 3 * kSlots);
  EXPECT_LT(std::abs(back.data[5] - std::complex<double>(std::sin(5), std::cos(5))), 0x1p-8);

  const tfhe::SecretKey bits_key = tfhe::SecretKey::generate(tfhe::Parameters(small_tfhe()));
  bits_key.save("bits-secret.hg");
  bits_key.evaluation_keys().save("bits-keys.hg");
  bits_key.encrypt(bits(), {5}, {}).save("bits.hg");
  const tfhe::SecretKey bits_again = tfhe::SecretKey::load("bits-secret.hg");
  EXPECT_EQ(bits_again.data().key.wide.empty(), !first_rank());
  const tfhe::Ciphertext read = tfhe::Ciphertext::load("bits.hg");
  EXPECT_EQ(bits_again.decrypt(tfhe::compute(tfhe::EvaluationKeys::load("bits-keys.hg"), {.name = "and"}, {read, read})[0]),
            (std::vector<std::uint64_t>{1, 0, 0, 1, 1}));
  for (const char* name : {"numbers-secret.hg", "numbers.hg", "bits-secret.hg", "bits.hg"})
    EXPECT_EQ(there(name), first_rank()) << name;

  // Errors of rank 0 are raised on all ranks.
  const auto missing = message_of<FileError>([&] { bfv::Ciphertext::load("nowhere.hg"); });
  EXPECT_TRUE(holds(missing, "cannot read 'nowhere.hg'")) << missing;
  EXPECT_TRUE(holds(message_of<FileError>([&] { bfv::SecretKey::load("nowhere.hg"); }), "nowhere.hg"));
  EXPECT_TRUE(holds(message_of<FileError>([&] { x.save("no/folder/x.hg"); }), "no/folder/x.hg"));
  if (first_rank()) std::filesystem::resize_file("x.hg", 5000);
  EXPECT_TRUE(holds(message_of<DamagedFileError>([&] { bfv::Ciphertext::load("x.hg"); }), "x.hg"));
  EXPECT_THROW(bfv::SecretKey::load("keys.hg"), FormatError);
}

TEST(RankBody, DISABLED_DetectsDifferentArguments) {
  const std::string last = "rank " + std::to_string(std::stoul(given("HELIOGRAPH_RANKS")) - 1);
  const bool other = last == "rank " + std::to_string(own_rank());
  const auto said = [&](const auto& call) { return message_of<MismatchError>(call); };
  for (const std::string scheme : {"bfv", "bgv"}) {
    bfv::Spec spec = exact_spec(scheme);
    if (other) spec.plain_moduli[0] = 40961;
    const std::string text = said([&] { bfv::Parameters p(spec); });
    EXPECT_TRUE(holds(text, last + " has the parameters " + scheme + " of N = 2048, hash ")) << text;
  }
  ckks::Spec numbers_spec = ckks_spec();
  if (other) numbers_spec.slots = kN;  // invalid: if one rank refuses the set, the other ranks must not hang
  EXPECT_TRUE(holds(said([&] { ckks::Parameters p(numbers_spec); }), last));
  tfhe::Spec bits_spec = small_tfhe();
  if (other) bits_spec.lwe_noise.value = -23;
  EXPECT_TRUE(holds(said([&] { tfhe::Parameters p(bits_spec); }), last));

  // The mesh still works afterwards.
  const bfv::SecretKey secret = bfv::SecretKey::generate(bfv::Parameters(exact_spec("bfv")));
  const bfv::EvaluationKeys a = secret.evaluation_keys(true, {}, false), b = secret.evaluation_keys(true, {}, false);
  const Bytes mine = (other ? b : a).to_bytes(), theirs = (other ? a : b).to_bytes();
  const std::string text = said([&] { bfv::EvaluationKeys::from_bytes(mine); });
  EXPECT_TRUE(holds(text, last + " has bytes of digest ")) << text;
  EXPECT_EQ(bfv::EvaluationKeys::from_bytes(a.to_bytes()).key_id(), secret.key_id());
}

// ---- Tests

TEST(Secrets, RanksComputeAsOneProcess) {
  const auto one = run_ranks("ComputesAsOneProcess", 1);
  expect_passed(one);
  for (const auto& [ranks, device] : std::vector<std::pair<std::size_t, const char*>>{
           {2, "cpu/limb/uncalibrated"}, {2, "cpu/batch/uncalibrated"}, {3, "2*cpu/uncalibrated"}}) {
    SCOPED_TRACE(device);
    const auto outcomes = run_ranks("ComputesAsOneProcess", ranks, [&](std::size_t) {
      return Environment{{"HELIOGRAPH_DEVICE", device}};
    });
    expect_passed(outcomes);
    for (const char* mark : {"bfv: ", "bgv: ", "bfv noise: ", "bgv noise: ", "ckks: ", "tfhe: "}) {
      const std::string expected = lines_after(one, mark)[0];
      EXPECT_FALSE(expected.empty()) << mark;
      for (const std::string& line : lines_after(outcomes, mark)) EXPECT_EQ(line, expected);
    }
    const auto random = lines_after(outcomes, "same random bytes: ");
    for (const std::string& line : random) EXPECT_EQ(line, random[0]);
    EXPECT_NE(random[0], lines_after(one, "same random bytes: ")[0]);
  }
}

TEST(Secrets, StayOnRank0) {
  expect_passed(run_ranks("KeepsSecretsOnRank0", 2));
  expect_passed(run_ranks("KeepsSecretsOnRank0", 3, [](std::size_t) {
    return Environment{{"HELIOGRAPH_DEVICE", "2*cpu/uncalibrated"}};
  }));
}

TEST(Secrets, AreInFilesOfRank0) {
  for (const std::size_t ranks : {2, 3}) {
    const Folders folders;
    expect_passed(run_ranks("ReadsAndWritesFilesOnRank0", ranks, folders.with("cpu/limb/uncalibrated")));
  }
}

TEST(Secrets, RanksWithDifferentArgumentsAreRefused) {
  for (const std::size_t ranks : {2, 3}) expect_passed(run_ranks("DetectsDifferentArguments", ranks));
}

}  // namespace heliograph::test
