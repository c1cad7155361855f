// If a device's memory runs out, evaluation keys are evicted and reloaded when they are next used, with the same bits.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <limits>
#include <thread>

#include "backend/cpu/cpu.h"
#include "backend/cuda/cuda.h"
#include "fake_driver.h"
#include "heliograph/bfv.h"
#include "schemes/exact/context.h"

namespace heliograph {
namespace {

using bfv::Ciphertext;
using bfv::EvaluationKeys;
using bfv::Packing;
using bfv::Parameters;
using bfv::SecretKey;
using bfv::Values;

constexpr std::uint64_t kPlain = 12289;
constexpr std::size_t kN = 2048;

/// A cpu device with a memory limit; the device counts its copies.
class SmallDevice final : public device::Device, private device::TransferCounter {
 public:
  std::string name() const override { return "small"; }
  std::string description() const override { return inner_->description(); }
  device::MemoryState memory() const override {
    const std::size_t limit = limit_, live = *live_;
    return {.total = limit, .available = limit - std::min(limit, live)};
  }
  device::Buffer allocate(std::size_t bytes, device::Queue& queue) override {
    ++traffic_.allocations;
    if ((*live_ += bytes) > limit_) {
      *live_ -= bytes;
      throw OutOfMemoryError("the small device is full");
    }
    return std::make_shared<Part>(inner_->allocate(bytes, queue), live_);
  }
  std::unique_ptr<device::Queue> make_queue() override { return inner_->make_queue(); }
  void upload(device::Queue& queue, std::span<const std::byte> from, std::byte* to) override {
    ++traffic_.uploads, traffic_.upload_bytes += from.size();
    inner_->upload(queue, from, to);
  }
  void download(device::Queue& queue, const std::byte* from, std::span<std::byte> to) override {
    ++traffic_.downloads, traffic_.download_bytes += to.size();
    inner_->download(queue, from, to);
  }
  bool in_host_memory() const override { return in_host; }
  device::Kernels& kernels() override { return inner_->kernels(); }
  device::Capabilities capabilities() override { return {.transfers = this}; }
  device::Traffic traffic() const override {
    return {.uploads = traffic_.uploads,
            .upload_bytes = traffic_.upload_bytes,
            .downloads = traffic_.downloads,
            .download_bytes = traffic_.download_bytes,
            .allocations = traffic_.allocations};
  }

  std::size_t live() const { return *live_; }
  void limit(std::size_t bytes) { limit_ = bytes; }
  void no_limit() { limit_ = std::size_t{1} << 50; }
  bool in_host = false;

 private:
  using Live = std::shared_ptr<std::atomic<std::size_t>>;
  class Part final : public device::Memory {
   public:
    Part(device::Buffer inner, Live live)
        : Memory(inner->address(), inner->bytes()), inner_(std::move(inner)), live_(live) {}
    ~Part() override { *live_ -= bytes_; }

   private:
    device::Buffer inner_;
    Live live_;
  };

  std::unique_ptr<device::Device> inner_ = backend::cpu::make_device("", 1);
  Live live_ = std::make_shared<std::atomic<std::size_t>>(0);
  std::atomic<std::size_t> limit_{std::size_t{1} << 50};
  struct {
    std::atomic<device::u64> uploads{0}, upload_bytes{0}, downloads{0}, download_bytes{0}, allocations{0};
  } traffic_;
};

bfv::Spec spec_of(int word_size, std::size_t special) {
  return bfv::make_spec(kN, 150, special, {kPlain}, word_size, 0, true);
}

/// A secret key on its own device, with keys for three rotations, for the column rotation and for relinearization.
struct Party {
  explicit Party(std::shared_ptr<device::Device> on, int word_size = 64, std::size_t special = 1)
      : device(std::move(on)), parameters(std::make_shared<bfv::Context>(spec_of(word_size, special), device)) {}

  device::Residents& residents() const { return device->residents(); }
  /// Evicts keys as if the memory had run out; returns the number of released bytes.
  std::size_t evict(std::size_t bytes = std::numeric_limits<std::size_t>::max()) const {
    const std::uint64_t before = residents().evicted_bytes();
    residents().make_room(bytes, before);
    return residents().evicted_bytes() - before;
  }
  Values values() const {
    Values v{.shape = {2}, .width = kN};
    for (std::size_t i = 0; i < 2 * kN; ++i) v.data.push_back(static_cast<std::int64_t>(i % 201) - 100);
    return v;
  }
  Ciphertext relinearized() const { return relinearize(product, keys); }
  Ciphertext turned(const std::vector<std::int64_t>& steps) const { return rotate_rows(x, steps, keys); }
  std::vector<Bytes> results() const {
    return {relinearized().to_bytes(), turned({1, 2, 7}).to_bytes(), rotate_columns(x, keys).to_bytes()};
  }
  /// Returns the keys as if loaded from a file, not on the device yet.
  EvaluationKeys from_file() const {
    rlwe::Context& c = parameters.context()->rlwe();
    return again([&](const rlwe::SwitchKey& key) { return rlwe::SwitchKey(c, key.layout(), key.seed(), key.bodies()); });
  }
  /// Returns the keys as if loaded from a file that is larger than this memory limit.
  EvaluationKeys in_file(std::size_t bytes) const {
    const auto room = std::make_shared<rlwe::KeyRoom>(bytes);
    rlwe::Context& c = parameters.context()->rlwe();
    return again([&](const rlwe::SwitchKey& key) {
      const auto read = [this, held = key.bodies()] {
        require<DamagedFileError>(readable, "a file was changed");
        return held;
      };
      return rlwe::SwitchKey(c, key.layout(), key.seed(), read, room);
    });
  }
  template <class Again>
  EvaluationKeys again(Again again) const {
    auto data = std::make_shared<bfv::EvaluationKeysData>(keys.data());
    for (auto& [galois, key] : data->keys.rotations) key = again(key);
    data->keys.relinearization = again(*data->keys.relinearization);
    return EvaluationKeys(std::move(data));
  }

  static constexpr std::size_t kKeys = 5;
  std::shared_ptr<device::Device> device;
  Parameters parameters;
  SecretKey secret = SecretKey::generate_for_test(parameters, std::string(32, 'k'));
  EvaluationKeys keys = secret.evaluation_keys(true, {1, 2, 7}, true);
  Ciphertext x = secret.encrypt(values(), Packing::slots), product = square(x, nullptr);
  std::size_t each = parameters.switch_key_bytes();
  mutable bool readable = true;
};

struct SmallParty : Party {
  explicit SmallParty(int word_size = 64, std::size_t special = 1)
      : Party(std::make_shared<SmallDevice>(), word_size, special) {}
  SmallDevice& small() const { return static_cast<SmallDevice&>(*device); }
  template <class Work>
  device::Traffic during(Work work) const {
    const device::Traffic a = small().traffic();
    work();
    const device::Traffic b = small().traffic();
    return {.uploads = b.uploads - a.uploads,
            .upload_bytes = b.upload_bytes - a.upload_bytes,
            .downloads = b.downloads - a.downloads,
            .download_bytes = b.download_bytes - a.download_bytes};
  }
};

void expect_same_bits(const Party& p) {
  const std::vector<Bytes> before = p.results();
  const Bytes file = p.keys.to_bytes();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(p.evict(), Party::kKeys * p.each);
    EXPECT_EQ(p.evict(), 0u);
    EXPECT_EQ(p.keys.bytes(), Party::kKeys * p.each);
    EXPECT_TRUE(p.keys.to_bytes() == file);
    ASSERT_TRUE(p.results() == before) << "round " << round;
    EXPECT_TRUE(p.keys.to_bytes() == file);
  }
}

TEST(Eviction, ReloadedKeysHaveTheSameBits) {
  for (const auto& [word_size, special] : {std::pair{64, 0}, {64, 1}, {32, 0}, {32, 2}}) {
    SCOPED_TRACE(std::to_string(word_size) + " special " + std::to_string(special));
    for (const char* name : {"cpu", "ref"}) expect_same_bits(Party(device::open_device(name), word_size, special));
  }
}

TEST(Eviction, ReloadedKeysHaveTheSameBitsOnAGpu) {
  std::string reason;
  if (backend::cuda::count(&reason) == 0) GTEST_SKIP() << reason;
  for (int word_size : {64, 32}) expect_same_bits(Party(device::open_device("cuda"), word_size, 1));
}

TEST(Eviction, ReloadsKeysFromFiles) {
  const SecretKey secret = SecretKey::generate(Parameters(spec_of(64, 1)));
  const EvaluationKeys keys = secret.evaluation_keys(true, {1}, false);
  const Bytes file = keys.to_bytes();
  const EvaluationKeys loaded = EvaluationKeys::from_bytes(file);
  EXPECT_EQ(loaded.bytes(), keys.bytes());
  EXPECT_TRUE(loaded.to_bytes() == file);
  const Ciphertext x = secret.encrypt({.data = {1, 2, 3}, .shape = {}, .width = 3}, Packing::slots);
  const Bytes turned = rotate_rows(x, {1}, keys).to_bytes();
  EXPECT_TRUE(rotate_rows(x, {1}, loaded).to_bytes() == turned);
  device::Residents& residents = loaded.parameters().context()->engine().device().residents();
  residents.make_room(std::numeric_limits<std::size_t>::max(), residents.evicted_bytes());
  EXPECT_TRUE(loaded.to_bytes() == file);
  EXPECT_TRUE(rotate_rows(x, {1}, loaded).to_bytes() == turned);
}

// ---- Keys in a file

TEST(Eviction, KeysInAFileStayWithinTheirLimit) {
  const SmallParty p;
  p.small().in_host = true;
  const std::vector<Bytes> expected = p.results();
  const Bytes file = p.keys.to_bytes();
  p.evict();
  for (const std::size_t keys : {2, 3, 4}) {
    const EvaluationKeys stored = p.in_file(keys * p.each);
    for (int round = 0; round < 2; ++round) {
      EXPECT_TRUE(relinearize(p.product, stored).to_bytes() == expected[0]);
      for (const std::int64_t step : {1, 2, 7}) {
        rotate_rows(p.x, {step}, stored);
        EXPECT_LE(p.residents().evictable_bytes(), keys * p.each);
        EXPECT_GE(p.residents().evictable_bytes(), p.each);  // keys stay on the device up to the limit
      }
      EXPECT_TRUE(rotate_columns(p.x, stored).to_bytes() == expected[2]);
      EXPECT_TRUE(stored.to_bytes() == file);
    }
  }
  EXPECT_EQ(p.residents().evictable_bytes(), 0u);  // the keys' memory is released together with the evaluation keys
}

TEST(Eviction, MoreKeysAtOnceThanTheLimitHoldsAreRefused) {
  const SmallParty p;
  p.small().in_host = true;
  const EvaluationKeys stored = p.in_file(2 * p.each);
  const auto& rotations = stored.data().keys.rotations;
  const auto hold_two = [&](const auto& keys) {
    const ring::RnsTensor first = keys.begin()->second.pairs();
    keys.rbegin()->second.pairs();
  };
  EXPECT_THROW(hold_two(rotations), LimitError);
  // An operation that needs more keys than fit uses them in groups.
  EXPECT_TRUE(rotate_rows(p.x, {1, 2, 7}, stored).to_bytes() == p.turned({1, 2, 7}).to_bytes());
  p.small().in_host = false;  // on a device with its own memory, keys take no host memory
  EXPECT_NO_THROW(hold_two(p.in_file(p.each).data().keys.rotations));
}

TEST(Eviction, AKeyThatCannotBeReadLeavesNoMemoryAllocated) {
  const SmallParty p;
  p.small().in_host = true;
  const EvaluationKeys stored = p.in_file(2 * p.each);
  p.evict();
  p.readable = false;
  for (int round = 0; round < 3; ++round) EXPECT_THROW(relinearize(p.product, stored), DamagedFileError);
  EXPECT_EQ(p.residents().evictable_bytes(), 0u);
  p.readable = true;
  EXPECT_TRUE(relinearize(p.product, stored).to_bytes() == p.relinearized().to_bytes());
}

TEST(Eviction, ThreadsShareTheLimit) {
  const SmallParty p;
  p.small().in_host = true;
  const EvaluationKeys stored = p.in_file(6 * p.each);  // the limit is one and a half keys per thread
  const std::vector<Bytes> expected = {p.turned({1}).to_bytes(), p.turned({2}).to_bytes(), p.turned({7}).to_bytes()};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 30; ++i) {
        const std::size_t which = (i + t) % 3;
        const std::int64_t step = std::array<std::int64_t, 3>{1, 2, 7}[which];
        if (rotate_rows(p.x, {step}, stored).to_bytes() != expected[which]) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// ---- Traffic

TEST(Eviction, KeysAreUploadedOnce) {
  const SmallParty p;
  const auto use = [&](const EvaluationKeys& keys) { relinearize(p.product, keys), rotate_rows(p.x, {1, 2, 7}, keys); };
  device::Traffic t = p.during([&] { use(p.keys), use(p.keys); });
  EXPECT_EQ(t.uploads + t.downloads, 0u);  // keys generated on the device need no copy

  const std::size_t live = p.small().live();
  const EvaluationKeys loaded = p.from_file();
  EXPECT_EQ(p.small().live(), live);
  t = p.during([&] { use(loaded); });
  EXPECT_EQ(t.upload_bytes, 4 * p.each / 2);  // the unused key of the column rotation is not uploaded
  EXPECT_EQ(p.small().live(), live + 4 * p.each);
  t = p.during([&] { use(loaded), use(loaded); });
  EXPECT_EQ(t.uploads + t.downloads, 0u);
}

TEST(Eviction, BodiesAreDownloadedOnceAndMasksNever) {
  const SmallParty p;
  const Bytes expected = p.relinearized().to_bytes();
  const std::size_t live = p.small().live();
  device::Traffic t = p.during([&] { EXPECT_EQ(p.evict(), Party::kKeys * p.each); });
  EXPECT_EQ(t.download_bytes, Party::kKeys * p.each / 2);
  EXPECT_EQ(p.small().live(), live - Party::kKeys * p.each);
  t = p.during([&] { p.keys.to_bytes(); });
  EXPECT_EQ(t.uploads + t.downloads, 0u);  // the host already has the bodies
  for (int round = 0; round < 2; ++round) {
    t = p.during([&] { p.relinearized(), p.relinearized(); });
    EXPECT_EQ(t.upload_bytes, p.each / 2);
    EXPECT_EQ(t.downloads, 0u);
    t = p.during([&] { EXPECT_EQ(p.evict(), p.each); });
    EXPECT_EQ(t.uploads + t.downloads, 0u);
  }
  EXPECT_TRUE(p.relinearized().to_bytes() == expected);
}

// ---- Eviction order

TEST(Eviction, TheLeastRecentlyUsedKeyIsEvictedFirst) {
  const SmallParty p;
  p.relinearized(), p.turned({1}), p.turned({2}), p.turned({7}), rotate_columns(p.x, p.keys), p.turned({1});
  EXPECT_EQ(p.evict(2 * p.each), 2 * p.each);
  device::Traffic t = p.during([&] { p.turned({1}), p.turned({7}), rotate_columns(p.x, p.keys); });
  EXPECT_EQ(t.uploads, 0u);
  t = p.during([&] { p.relinearized(), p.turned({2}); });
  EXPECT_EQ(t.upload_bytes, 2 * p.each / 2);
}

TEST(Eviction, ASecondRequestEvictsNothingMore) {
  const SmallParty p;
  const std::uint64_t seen = p.residents().evicted_bytes();  // the state that two threads read when their allocations failed
  EXPECT_TRUE(p.residents().make_room(p.each, seen));
  EXPECT_TRUE(p.residents().make_room(p.each, seen));
  EXPECT_EQ(p.residents().evicted_bytes(), seen + p.each);
  p.evict();
  EXPECT_FALSE(p.residents().make_room(p.each, p.residents().evicted_bytes()));
}

TEST(Eviction, AKeyInUseIsNotEvicted) {
  const SmallParty p;
  const rlwe::SwitchKey key = *p.keys.data().keys.relinearization;
  {
    const ring::RnsTensor held = key.pairs();
    EXPECT_EQ(p.residents().evictable_bytes(), (Party::kKeys - 1) * p.each);
    EXPECT_EQ(p.evict(), (Party::kKeys - 1) * p.each);
  }
  EXPECT_EQ(p.evict(), p.each);
}

TEST(Eviction, KeysOfAnotherSetAreEvictedToo) {
  const SmallParty p;
  const Parameters other(std::make_shared<bfv::Context>(spec_of(32, 2), p.device));
  const std::vector<Bytes> expected = p.results();
  p.small().limit(p.small().live());
  const SecretKey secret = SecretKey::generate(other);
  const EvaluationKeys keys = secret.evaluation_keys(true, {}, false);
  const Ciphertext y = secret.encrypt(p.values(), Packing::slots);
  EXPECT_NO_THROW(relinearize(square(y, nullptr), keys));
  EXPECT_GT(p.residents().evicted_bytes(), 0u);
  p.small().no_limit();
  EXPECT_TRUE(p.results() == expected);
}

TEST(Eviction, DestroyedKeysAreForgotten) {
  SmallParty p;
  const Bytes expected = p.relinearized().to_bytes();
  p.keys = p.secret.evaluation_keys(true, {}, false);
  EXPECT_EQ(p.residents().evictable_bytes(), p.each);
  EXPECT_EQ(p.evict(), p.each);
  EXPECT_EQ(p.secret.decrypt(p.relinearized()), p.secret.decrypt(p.product));
}

// ---- Triggers of eviction

TEST(Eviction, AnyFailedAllocationIsRetriedAfterAnEviction) {
  const auto device = std::shared_ptr<device::Device>(backend::cpu::make_device("", 1));
  const Party p(device);
  const std::vector<Bytes> expected = p.results();
  const auto run = [&](std::size_t k) {
    backend::cpu::fail_allocation(*device, k);
    std::vector<Bytes> got = p.results();
    backend::cpu::fail_allocation(*device, 0);
    return got;
  };
  std::size_t k = 0;
  for (bool struck = true; struck;) {
    const std::uint64_t before = p.residents().evicted_bytes();
    ASSERT_TRUE(run(++k) == expected) << k;
    struck = p.residents().evicted_bytes() != before;
  }
  EXPECT_GT(k, 8u);  // the allocations include results and workspaces
}

TEST(Eviction, WithNoKeyToEvictAllocationFails) {
  const auto device = std::shared_ptr<device::Device>(backend::cpu::make_device("", 1));
  const Party p(device);
  const Bytes expected = p.relinearized().to_bytes();
  p.evict();
  backend::cpu::fail_allocation(*device, 1);
  EXPECT_THROW(p.relinearized(), OutOfMemoryError);  // the allocation of the key's memory fails
  backend::cpu::fail_allocation(*device, 2);
  EXPECT_THROW(p.relinearized(), OutOfMemoryError);  // the reloaded key is in use, so it cannot be evicted
  EXPECT_TRUE(p.relinearized().to_bytes() == expected);
}

TEST(Eviction, WorksWithMoreKeysThanMemory) {
  for (int word_size : {64, 32}) {
    const SmallParty p(word_size);
    const std::vector<Bytes> expected = p.results();
    p.evict();
    const std::size_t bare = p.small().live();
    std::size_t limit = bare;  // the smallest limit under which the operation succeeds
    for (;; limit += p.each / 4) {
      p.small().limit(limit);
      try {
        if (p.results() == expected) break;
        FAIL() << "wrong bits with " << limit - bare << " bytes";
      } catch (const OutOfMemoryError&) {
      }
    }
    EXPECT_GT(p.residents().evicted_bytes(), Party::kKeys * p.each);
    const device::Traffic t = p.during([&] { EXPECT_TRUE(p.results() == expected); });
    EXPECT_GE(t.uploads, 1u);
    p.small().limit(limit + Party::kKeys * p.each);
    p.results();
    EXPECT_EQ(p.during([&] { p.results(); }).uploads, 0u) << "keys that fit were evicted";
  }
}

/// A simulated GPU that stores copies and runs no kernels, so only the keys' bodies can be compared.
TEST(Eviction, WorksWithMoreKeysThanAGpuHolds) {
  std::string reason;
  backend::cuda::count(&reason);
  if (!backend::cuda::is_built()) GTEST_SKIP() << reason;
  const auto driver = std::make_shared<test::FakeDriver>();
  {
    const std::shared_ptr<device::Device> device = backend::cuda::make_device(driver);
    const auto context = std::make_shared<bfv::Context>(spec_of(64, 1), device);
    const std::size_t each = Parameters(context).switch_key_bytes();
    // Seven eighths of the memory are already allocated; at most 3 of the 4 keys fit in the rest.
    const device::Buffer ballast = context->engine().allocate(test::FakeDriver::kMemory / 8 * 7);
    const std::size_t count = test::FakeDriver::kMemory / 8 / each * 4 / 3;
    std::vector<rlwe::SwitchKey> keys;
    for (std::size_t i = 0; i < count; ++i)
      keys.emplace_back(context->rlwe(), rlwe::KeyLayout::of(context->rlwe()), rlwe::Key256{},
                        io::Held::of(Bytes(each / 2, static_cast<std::byte>(i))));
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < count; ++i) {
        const ring::RnsTensor pairs = keys[i].pairs();
        const Bytes body = ring::download(pairs.with_components(pairs.components() - 2, 1));
        ASSERT_EQ(body, Bytes(body.size(), static_cast<std::byte>(i))) << i;
      }
    }
    const std::uint64_t evicted = device->residents().evicted_bytes();
    EXPECT_GT(evicted, count * each);
    // Each key was uploaded once, and again after each eviction; the other uploads are tables.
    EXPECT_LE(device->traffic().upload_bytes, count * each / 2 + evicted / 2 + (std::size_t{8} << 20));
    for (std::size_t i = 0; i < count; ++i) {
      const io::Held held = keys[i].bodies();
      ASSERT_EQ(Bytes(held.bytes.begin(), held.bytes.end()), Bytes(each / 2, static_cast<std::byte>(i))) << i;
    }
    EXPECT_THROW(context->engine().allocate(test::FakeDriver::kMemory / 4), OutOfMemoryError);
    EXPECT_EQ(device->residents().evicted_bytes(), evicted);
  }
  EXPECT_EQ(driver->misuse(), "");
  EXPECT_EQ(driver->left(), "");
}

TEST(Eviction, AnImpossibleRequestEvictsNothing) {
  const SmallParty p;
  p.small().limit(p.small().live() + p.each);
  const ring::Engine& e = p.parameters.context()->engine();
  EXPECT_THROW(e.allocate(7 * p.each), OutOfMemoryError);
  EXPECT_THROW(e.require_memory(7 * p.each, "this"), OutOfMemoryError);
  EXPECT_THROW(e.require_memory(std::numeric_limits<std::size_t>::max(), "this"), OutOfMemoryError);
  EXPECT_EQ(p.residents().evicted_bytes(), 0u);
  e.require_memory(p.each, "this");
  EXPECT_EQ(p.residents().evicted_bytes(), 0u);
  e.require_memory(2 * p.each, "this");
  EXPECT_EQ(p.residents().evicted_bytes(), p.each);
  EXPECT_NO_THROW(e.allocate(6 * p.each));
  EXPECT_EQ(p.residents().evicted_bytes(), Party::kKeys * p.each);
}

TEST(Eviction, ThreadsShareEvictedKeys) {
  constexpr int kThreads = 4, kRounds = 25;
  const SmallParty p;
  const std::vector<Bytes> expected = p.results();
  const std::vector<Bytes> single = {p.turned({1}).to_bytes(), p.turned({2}).to_bytes(), p.turned({7}).to_bytes()};
  p.evict();
  // The key and the workspace of each thread fit in the memory; all keys together do not.
  const std::size_t bare = p.small().live();
  p.relinearized();
  p.evict();
  p.small().limit(bare + kThreads * (p.each + (std::size_t{8} << 20)));
  std::atomic<int> wrong{0}, running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      try {
        for (int i = 0; i < kRounds; ++i) {
          const std::size_t k = static_cast<std::size_t>(t + i) % 4;
          const Bytes got = k == 3 ? p.relinearized().to_bytes() : p.turned({k == 0 ? 1 : k == 1 ? 2 : 7}).to_bytes();
          wrong += got != (k == 3 ? expected[0] : single[k]);
        }
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
      --running;
    });
  }
  while (running > 0) p.evict(p.each);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace heliograph
