// No copy of a secret remains in the process's memory after its owner is destroyed, and secrets are excluded from core
// dumps.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "heliograph/bfv.h"
#include "heliograph/bgv.h"
#include "mesh/mesh.h"
#include "schemes/ckks/context.h"
#include "schemes/exact/context.h"
#include "schemes/tfhe/context.h"
#include "tfhe_rig.h"

namespace heliograph::test {
namespace {

using math::u64;

const std::string kSeed = "thirty-two bytes of a known seed";
constexpr std::size_t kN = 2048;

/// Searches all writable memory of this process for byte strings. The strings and the search buffer are in a mapping that is
/// not searched.
class Search {
 public:
  Search()
      : hideout_(
            static_cast<std::byte*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Search() { ::munmap(hideout_, kBytes); }

  /// Returns memory for a byte string that a search is to find. The caller writes the string.
  std::span<std::byte> needle(const std::string& name, std::size_t bytes) {
    names_.push_back(name);
    needles_.emplace_back(hideout_ + used_, bytes);
    used_ += bytes;
    return needles_.back();
  }
  template <class T>
  void add(const std::string& name, const T* from, std::size_t count) {
    std::memcpy(needle(name, count * sizeof(T)).data(), from, count * sizeof(T));
  }
  std::size_t count() const { return needles_.size(); }

  /// Returns the names of the byte strings that were found.
  std::vector<std::string> found() {
    std::vector<bool> there(needles_.size());
    std::ifstream maps("/proc/self/maps");
    const int memory = ::open("/proc/self/mem", O_RDONLY);
    for (std::string line; std::getline(maps, line);) {
      std::uintptr_t begin = 0, end = 0;
      char access[5] = {};
      if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access) != 3 || access[1] != 'w') continue;
      const auto own = reinterpret_cast<std::uintptr_t>(hideout_);
      if (begin < own + kBytes && own < end) {  // the kernel may have merged neighbouring mappings with this one
        look(memory, begin, std::min(end, own), there);
        look(memory, std::max(begin, own + kBytes), end, there);
      } else {
        look(memory, begin, end, there);
      }
    }
    ::close(memory);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < there.size(); ++i) {
      if (there[i]) names.push_back(names_[i]);
    }
    return names;
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{4} << 20, kKept = std::size_t{1} << 16, kOverlap = 256;

  void look(int memory, std::uintptr_t begin, std::uintptr_t end, std::vector<bool>& there) {
    std::byte* const room = hideout_ + kKept;
    for (std::uintptr_t at = begin; at < end;) {
      const ssize_t got = ::pread(memory, room, std::min<std::size_t>(kBytes - kKept, end - at), static_cast<off_t>(at));
      if (got <= 0) return;
      for (std::size_t i = 0; i < needles_.size(); ++i) {
        there[i] = there[i] || ::memmem(room, static_cast<std::size_t>(got), needles_[i].data(), needles_[i].size());
      }
      if (at + static_cast<std::size_t>(got) >= end) return;
      at += static_cast<std::size_t>(got) - kOverlap;
    }
  }

  std::byte* hideout_;
  std::size_t used_ = 0;
  std::vector<std::string> names_;
  std::vector<std::span<std::byte>> needles_;
};

/// Overwrites the part of the stack that earlier calls used. The test does not cover secrets on the stack.
[[gnu::noinline]] void clear_stack() {
  volatile char room[1 << 16];
  for (volatile char& c : room) c = 0;
}

/// Adds seed number `count` of the seeds that generate_for_test draws.
void add_seed(Search& search, const std::string& name, math::u32 count) {
  const auto block = math::chacha20_block(ring::test_seed(kSeed), count, {0, 0, 0});
  search.add(name, reinterpret_cast<const unsigned char*>(block.data()), sizeof(math::Key256));
}

/// Adds the first residues modulo q of the first ciphertext's error polynomial, drawn from error seed number `count`.
template <class Word>
void add_error(Search& search, math::u32 count, u64 q) {
  const auto seed = math::chacha20_block(ring::test_seed(kSeed), count, {0, 0, 0});
  math::Key256 key;
  std::memcpy(key.data(), seed.data(), key.size());
  const auto nonce = math::draw_nonce(rlwe::kError, 0, math::kSmallPolynomial, 0, 0);
  const auto out = search.needle("an error polynomial", 16 * sizeof(Word));
  for (std::size_t i = 0; i < 16; ++i) {
    const auto block = math::chacha20_block(key, static_cast<math::u32>(i / 8), nonce);
    const u64 draw = u64{block[i % 8 * 2 + 1]} << 32 | block[i % 8 * 2];
    const auto word = static_cast<Word>(math::signed_mod(math::gaussian_from(draw), q));
    std::memcpy(out.data() + i * sizeof(Word), &word, sizeof(Word));
  }
}

template <class Word>
void add_ternary_key(Search& search, const rlwe::SecretKey& key) {
  search.add("coefficients", key.coefficients().data() + 100, 64);
  const auto residues = search.needle("residues", 16 * sizeof(Word));
  for (std::size_t i = 0; i < 16; ++i) {
    const auto word = static_cast<Word>(math::signed_mod(key.coefficients()[i + 100], key.context()->parameters().chain[0]));
    std::memcpy(residues.data() + i * sizeof(Word), &word, sizeof(Word));
  }
  search.add("the NTT domain", ring::download_secret(key.transformed()).data() + 800, 64);
}

/// Returns whether the mapping around `address` has this flag in /proc/self/smaps.
bool has_flag(const void* address, const std::string& flag) {
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2 && line.find(':') > line.find(' ')) {
      const auto at = reinterpret_cast<std::uintptr_t>(address);
      inside = begin <= at && at < end;
    }
    if (!inside || !line.starts_with("VmFlags:")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word == flag) return true;
    }
  }
  return false;
}

class SecretMemory : public testing::Test {
 protected:
  void SetUp() override {
    file_ = (std::filesystem::temp_directory_path() / ("heliograph-secret-" + std::to_string(getpid()) + ".hg")).string();
  }
  void TearDown() override { std::filesystem::remove(file_); }
  /// Checks that memory is excluded from core dumps.
  static void expect_kept_apart(const void* address) { EXPECT_TRUE(has_flag(address, "dd")); }
  void expect_nothing_left() {
    // Meshes wipe memory on the queues of their members, so the test waits, at most a second.
    std::vector<std::string> left;
    for (int wait = 0; wait < 50 && !(left = search_.found()).empty(); ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::string text;
    for (const std::string& name : left) text += name + "; ";
    EXPECT_EQ(text, "");
  }
  std::string file_;
  Search search_;
};

template <class Word>
void exact_life(const std::string& scheme, int word_size, const std::string& file, Search& search,
                void (*kept)(const void*)) {
  const auto make = scheme == "bgv" ? bgv::make_spec : bfv::make_spec;
  const bfv::Parameters set(make(kN, 150, 1, {12289}, word_size, 0, true));
  add_seed(search, "the key's seed", 0);
  add_seed(search, "the error seed", 3);
  clear_stack();
  std::optional<bfv::SecretKey> secret = bfv::SecretKey::generate_for_test(set, kSeed);
  add_ternary_key<Word>(search, secret->data().key);
  add_error<Word>(search, 3, secret->data().key.context()->parameters().chain[0]);
  clear_stack();
  kept(secret->data().key.coefficients().data());
  if (mesh::default_device().in_host_memory()) kept(secret->data().key.transformed().view().data);
  EXPECT_GE(search.found().size(), 2u) << "the search does not find existing secrets";

  const bfv::Values values{.data = std::vector<std::int64_t>(3 * kN, 5), .shape = {3}, .width = kN};
  const bfv::Ciphertext x = secret->encrypt(values, bfv::Packing::slots);
  const bfv::Ciphertext y = secret->public_key().encrypt(values, bfv::Packing::slots);
  secret->evaluation_keys(true, {1}, false);
  secret->save(file);
  EXPECT_EQ(secret->decrypt(x), secret->decrypt(y));
  secret.reset();
  secret = bfv::SecretKey::load(file);
  EXPECT_EQ(secret->decrypt(x), std::vector<std::uint64_t>(3 * kN, 5));
  secret.reset();
}

TEST_F(SecretMemory, NoSecretIsLeftOfBfv) {
  exact_life<u64>("bfv", 64, file_, search_, expect_kept_apart);
  expect_nothing_left();
}

TEST_F(SecretMemory, NoSecretIsLeftOfBgvInShortWords) {
  exact_life<math::u32>("bgv", 32, file_, search_, expect_kept_apart);
  expect_nothing_left();
}

TEST_F(SecretMemory, NoSecretIsLeftOfCkks) {
  {
    const ckks::Parameters set(ckks::make_spec(kN, 3, 30, 45, 1, 64, 0, true));
    add_seed(search_, "the key's seed", 0);
    clear_stack();
    const ckks::SecretKey secret = ckks::SecretKey::generate_for_test(set, kSeed);
    add_ternary_key<u64>(search_, secret.data().key);
    clear_stack();
    expect_kept_apart(secret.data().key.coefficients().data());
    const ckks::Values values{.data = std::vector<std::complex<double>>(kN / 2, 1.5), .shape = {}, .width = kN / 2};
    secret.evaluation_keys(true, {1}, true);
    secret.save(file_);
    ckks::SecretKey::load(file_).decrypt(secret.encrypt(values, 0));
    EXPECT_GE(search_.found().size(), 2u) << "the search does not find existing secrets";
  }
  expect_nothing_left();
}

TEST_F(SecretMemory, NoSecretIsLeftOfTfhe) {
  {
    tfhe::Spec spec = small_tfhe();
    spec.n = 64;
    const tfhe::Parameters set(spec);
    add_seed(search_, "the key's seed", 0);
    clear_stack();
    const tfhe::SecretKey secret = tfhe::SecretKey::generate_for_test(set, kSeed);
    search_.add("the narrow key", secret.data().key.narrow.data(), 64);
    search_.add("the wide key", secret.data().key.wide.data() + 100, 64);
    search_.add("the wide key as masks", secret.data().masks.data() + 100, 32);
    const auto reals = search_.needle("the wide key as numbers", 32 * sizeof(double));
    for (std::size_t i = 0; i < 32; ++i) {
      const double bit = secret.data().key.wide[100 + i];
      std::memcpy(reals.data() + i * sizeof bit, &bit, sizeof bit);
    }
    clear_stack();
    expect_kept_apart(secret.data().key.wide.data());
    expect_kept_apart(secret.data().masks.data());
    secret.evaluation_keys();
    secret.save(file_);
    EXPECT_EQ(tfhe::SecretKey::load(file_).decrypt(secret.encrypt({1, 0, 1}, {3}, {})),
              (std::vector<std::uint64_t>{1, 0, 1}));
    EXPECT_GE(search_.found().size(), 3u) << "the search does not find existing secrets";
  }
  expect_nothing_left();
}

}  // namespace
}  // namespace heliograph::test
