// The counts of the null backend are correct for calls that are small enough to count by hand.
#include <gtest/gtest.h>

#include "backend/null/null.h"
#include "op_cases.h"

namespace heliograph::test {

namespace {

using device::Count;

/// A null device with a ring of four primes, n = 1024, 32-bit words: a limb has 4096 bytes.
class Null : public testing::Test {
 protected:
  static constexpr u64 kLimb = 4096;

  View view(const std::vector<std::size_t>& batch, std::size_t components, std::size_t limbs) {
    View v = View::dense(nullptr, Word::w32, batch, components, limbs, 1024);
    held_.push_back(device_->allocate(v.words() * 4, *queue_));
    v.data = held_.back()->address();
    return v;
  }
  Kernels& kernels() { return device_->kernels(); }
  /// Returns the counts of the only kernel that was called since the last call of this function.
  Count count(const std::string& kernel) {
    const auto counts = device_->counts();
    EXPECT_TRUE(counts.size() == 1 && counts.contains(kernel)) << kernel;
    device_->reset();
    return counts.contains(kernel) ? counts.at(kernel) : Count{};
  }
  static void expect(const Count& c, u64 read, u64 written, u64 products) {
    EXPECT_EQ(c.calls, 1u);
    EXPECT_EQ(c.bytes_read, read);
    EXPECT_EQ(c.bytes_written, written);
    EXPECT_EQ(c.products, products);
  }

  std::unique_ptr<backend::null::NullDevice> device_ = backend::null::make_device();
  std::unique_ptr<device::Queue> queue_ = device_->make_queue();
  std::shared_ptr<const math::Ring> ring_ = ring_of(kField32, 1024, 4);
  std::shared_ptr<const device::RingConstant> prepared_ = device_->kernels().prepare(ring_);
  std::vector<device::Buffer> held_;
};

TEST_F(Null, ElementWise) {
  const PrimeList primes{0, 1};
  const View a = view({3}, 2, 2), b = view({3}, 2, 2), out = view({3}, 2, 2);
  View shared = view({}, 2, 2);  // one item, broadcast to all three
  shared.axes = 1, shared.shape[0] = 3;
  queue_->enqueue(device::Add{prepared_, primes, a, b, out});
  expect(count("add"), 24 * kLimb, 12 * kLimb, 0);
  queue_->enqueue(device::Mul{prepared_, primes, a, shared, out});
  expect(count("mul"), 16 * kLimb, 12 * kLimb, 12 * 1024);
  queue_->enqueue(device::Mul{prepared_, primes, a, a, out});
  expect(count("mul"), 12 * kLimb, 12 * kLimb, 12 * 1024);
  queue_->enqueue(device::MulAccumulate{prepared_, primes, a, b, out});
  expect(count("mul_accumulate"), 36 * kLimb, 12 * kLimb, 12 * 1024);
  View runs = b;  // one word for each run of four coefficients
  runs.n = 256;
  queue_->enqueue(device::Mul{prepared_, primes, a, runs, out});
  expect(count("mul"), 12 * kLimb + 12 * kLimb / 4, 12 * kLimb, 12 * 1024);
  queue_->enqueue(device::Zero{out});
  expect(count("zero"), 0, 12 * kLimb, 0);
}

TEST_F(Null, Transforms) {
  const View a = view({3}, 1, 4);
  queue_->enqueue(device::ForwardNtt{prepared_, PrimeList::range(0, 4), a, a});
  expect(count("forward_ntt"), 12 * kLimb, 12 * kLimb, 12 * 512 * 10);
}

TEST_F(Null, Conversions) {
  const auto& p = ring_->primes();
  const View x = view({5}, 2, 2), out = view({5}, 2, 2), own = view({5}, 2, 2);
  const auto raise = kernels().prepare(math::extend_base({p[0], p[1]}, {p[2], p[3]}));
  queue_->enqueue(device::Convert{raise, x, std::nullopt, out});
  expect(count("convert"), 20 * kLimb, 20 * kLimb, 10 * 1024 * (2 + 4));
  const auto divide = kernels().prepare(math::divide_and_round({p[0], p[1]}, {p[2], p[3]}));
  queue_->enqueue(device::Convert{divide, x, own, out});
  expect(count("convert"), 40 * kLimb, 20 * kLimb, 10 * 1024 * (2 + 4 + 2));
}

TEST_F(Null, Products) {
  const PrimeList primes{0, 3};
  const View digits = view({5}, 3, 2), key = view({}, 6, 4), out = view({5}, 2, 2);
  queue_->enqueue(device::InnerProduct{prepared_, primes, digits, key, primes, out});
  expect(count("inner_product"), (30 + 12) * kLimb, 20 * kLimb, 3 * 20 * 1024);
  const std::vector<device::PermutationHandle> turns(3, nullptr);
  queue_->enqueue(device::InnerProduct{prepared_, primes, digits.with_components(0, 1), key, primes, out, turns});
  expect(count("inner_product"), (10 + 12) * kLimb, 20 * kLimb, 3 * 20 * 1024);

  const View a = view({5}, 2, 2), b = view({5}, 2, 2), product = view({5}, 3, 2);
  queue_->enqueue(device::Tensor{prepared_, primes, a, b, product});
  expect(count("tensor"), 40 * kLimb, 30 * kLimb, 4 * 10 * 1024);

  constexpr u32 kNone = device::GatheredProduct::kNone;
  const auto matrix = kernels().prepare(device::GatheredProduct{.groups = 1,
                                                                .outputs = 4,
                                                                .positions = 2,
                                                                .terms = 3,
                                                                .inputs = 5,
                                                                .weights = std::vector<math::i64>(12, 1),
                                                                .index = {0, 1, kNone, 2, 3, 4}});
  const View results = view({8}, 2, 2);
  queue_->enqueue(device::Product{prepared_, primes, matrix, a, results});
  expect(count("product"), 20 * kLimb, 32 * kLimb, 4 * 5 * 4 * 1024);
}

TEST_F(Null, CompositesCountTheirExpansion) {
  for (const OpCase& c : op_cases()) {
    if (c.kernel != "key_switch" || c.name != "w32 n=1024 two special, digits of two, added 0") continue;
    Target target = open_target("null");
    run_case(target, c);
    auto counts = target.device->counter()->counts();
    EXPECT_EQ(counts["copy"].calls, 2u);
    EXPECT_EQ(counts["convert"].calls, 3u);  // two digits are raised, and one mod down is made
    EXPECT_EQ(counts["forward_ntt"].products, 3u * 2 * 6 * 512 * 10);
    EXPECT_EQ(counts["inverse_ntt"].products, 3u * 2 * 6 * 512 * 10);
    EXPECT_EQ(counts["inner_product"].products, 3u * 2 * 2 * 6 * 1024);
    return;
  }
  FAIL() << "the case was renamed";
}

TEST_F(Null, MemoryIsCountedAndNotAllocated) {
  const std::size_t huge = std::size_t{1} << 50;
  {
    const device::Buffer a = device_->allocate(huge, *queue_);
    const device::Buffer b = device_->allocate(100, *queue_);
    EXPECT_NE(a->address(), nullptr);
    EXPECT_GE(b->address() - a->address(), static_cast<std::ptrdiff_t>(huge));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b->address()) % 64, 0u);
    EXPECT_EQ(device_->live_bytes(), huge + 100);
  }
  EXPECT_EQ(device_->live_bytes(), 0u);
  EXPECT_EQ(device_->peak_bytes(), huge + 100);
  device_->reset();
  EXPECT_EQ(device_->peak_bytes(), 0u);
  EXPECT_THROW(device_->allocate(~std::size_t{0}, *queue_), OutOfMemoryError);
  EXPECT_THROW(device_->allocate(std::size_t{1} << 63, *queue_), OutOfMemoryError);
}

TEST_F(Null, TransfersAreCountedAndDownloadsAreZero) {
  std::vector<std::byte> bytes(1000, std::byte{7});
  const device::Buffer buffer = device_->allocate(1000, *queue_);
  device_->upload(*queue_, bytes, buffer->address());
  expect(count("upload"), 0, 1000, 0);
  device_->download(*queue_, buffer->address(), bytes);
  EXPECT_EQ(bytes, std::vector<std::byte>(1000, std::byte{0}));
  expect(count("download"), 1000, 0, 0);
}

TEST_F(Null, BuffersMayOutliveTheDevice) {
  const device::Buffer buffer = device_->allocate(1000, *queue_);
  queue_.reset();
  device_.reset();
  EXPECT_EQ(buffer->bytes(), 1000u);
}

TEST_F(Null, TotalIsTheSum) {
  const View a = view({3}, 2, 2);
  queue_->enqueue(device::Zero{a});
  queue_->enqueue(device::Neg{prepared_, {0, 1}, a, a});
  const Count total = device_->total();
  EXPECT_EQ(total.calls, 2u);
  EXPECT_EQ(total.bytes_read, 12 * kLimb);
  EXPECT_EQ(total.bytes_written, 24 * kLimb);
}

}  // namespace

}  // namespace heliograph::test
