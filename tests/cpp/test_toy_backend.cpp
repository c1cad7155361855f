// A backend with two kernels of its own, written only from the headers of device/, runs every call. Composite kernels are
// expanded, and other calls run on the fallback device.
#include <gtest/gtest.h>

#include <mutex>

#include "backend/inline_queue.h"
#include "op_cases.h"

namespace heliograph::test {
namespace {

/// Adds and multiplies, word by word.
class ToyKernels {
 public:
  void run(device::Queue&, const device::Add& c) {
    each(c, [](u64 a, u64 b, u64 q) { return static_cast<u64>((static_cast<math::u128>(a) + b) % q); });
  }
  void run(device::Queue&, const device::Mul& c) {
    each(c, [](u64 a, u64 b, u64 q) { return static_cast<u64>(static_cast<math::u128>(a) * b % q); });
  }

 private:
  static u64 word(const View& v, std::size_t item, std::size_t component, std::size_t limb, std::size_t i) {
    return v.word == Word::w32 ? v.at<u32>(item, component, limb)[i] : v.at<u64>(item, component, limb)[i];
  }
  template <class C, class F>
  static void each(const C& c, F f) {
    const View& out = c.out;
    for (std::size_t item = 0; item < out.items(); ++item) {
      for (std::size_t k = 0; k < out.components; ++k) {
        for (std::size_t l = 0; l < out.limbs; ++l) {
          const u64 q = c.ring->ring().prime(c.primes[l]);
          for (std::size_t i = 0; i < out.n; ++i) {
            const u64 sum = f(word(c.a, item, c.a.components == 1 ? 0 : k, l, i),
                              word(c.b, item, c.b.components == 1 ? 0 : k, l, i / (out.n / c.b.n)), q);
            if (out.word == Word::w32)
              out.at<u32>(item, k, l)[i] = static_cast<u32>(sum);
            else
              out.at<u64>(item, k, l)[i] = sum;
          }
        }
      }
    }
  }
};

struct Nothing {};

/// Prepares constants without a form of its own.
class ToyConstants final : public device::Kernels {
 public:
  using Kernels::Kernels;
  std::size_t preferred_items(std::size_t) const override { return 1; }
};

/// A device in host memory that allocates its memory by `ref`.
class ToyDevice final : public device::Device {
 public:
  explicit ToyDevice(const std::string& other) : fallback_(device::open_device(other)) {}
  std::string name() const override { return "toy"; }
  std::string description() const override { return "two kernels"; }
  std::vector<std::string> report() override {
    std::vector<std::string> lines = Device::report();
    if (const std::string left = fallback_.report(); !left.empty()) lines.push_back(left);
    return lines;
  }
  device::MemoryState memory() const override { return ref_->memory(); }
  device::Buffer allocate(std::size_t bytes, device::Queue& queue) override { return ref_->allocate(bytes, queue); }
  std::unique_ptr<device::Queue> make_queue() override {
    return std::make_unique<backend::InlineQueue<ToyKernels, Nothing>>(kernels_, nothing_, &fallback_);
  }
  void upload(device::Queue& queue, std::span<const std::byte> from, std::byte* to) override {
    ref_->upload(queue, from, to);
  }
  void download(device::Queue& queue, const std::byte* from, std::span<std::byte> to) override {
    ref_->download(queue, from, to);
  }
  device::Kernels& kernels() override { return constants_; }
  bool in_host_memory() const override { return true; }

 private:
  const device::Slot slot_;
  ToyConstants constants_{slot_};
  std::unique_ptr<device::Device> ref_ = device::open_device("ref");
  device::Fallback fallback_;
  ToyKernels kernels_;
  Nothing nothing_;
};

/// Registers the device kind "toy", whose option names the fallback device.
void register_toy() {
  static std::once_flag once;
  std::call_once(once, [] {
    device::register_device("toy", [](const std::string& options) { return std::make_unique<ToyDevice>(options); });
  });
}

class ToyBackend : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Fallback, ToyBackend, testing::Values("ref", "cpu"), [](const auto& i) { return i.param; });

TEST_P(ToyBackend, GivesTheBitsOfRefForEveryKernel) {
  register_toy();
  Target toy{.name = "toy", .device = device::open_device("toy:" + GetParam()), .rings = {}};
  std::size_t cases = 0;
  for (const OpCase& c : op_cases()) {
    if (c.kind != Kind::geometry || c.large) continue;
    EXPECT_EQ(fault_in(c, run_case(toy, c)), "");
    ++cases;
  }
  EXPECT_GT(cases, 100U);
  const std::vector<std::string> lines = toy.device->report();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_TRUE(lines[1].find("ran on the fallback device " + GetParam() + ": ") != std::string::npos) << lines[1];
  for (const char* const own : {" add,", " mul,", " key_switch", " linear_sum", " bfv_multiply"})
    EXPECT_EQ(lines[1].find(own), std::string::npos) << own;
}

TEST(ToyDevices, AreRegisteredOnce) {
  register_toy();
  EXPECT_EQ(device::open_device("toy:ref")->name(), "toy");
  const auto make = [](const std::string&) { return device::open_device("ref"); };
  for (const char* const kind : {"toy", "ref", "", "toy:ref", "2*toy"})
    EXPECT_THROW(device::register_device(kind, make), ParameterError) << kind;
  for (const char* const name : {"toys", "toy:", ":ref", "ref:fast", "cuda:x"})
    EXPECT_THROW(device::open_device(name), ParameterError) << name;
}

TEST(ToyQueue, ReportsItsKernels) {
  ToyDevice toy("ref");
  const auto queue = toy.make_queue(), ref = device::open_device("ref")->make_queue();
  EXPECT_TRUE(queue->supports(device::Add{}));
  EXPECT_FALSE(queue->supports(device::Sub{}));
  EXPECT_FALSE(queue->supports(device::KeySwitch{}));
  EXPECT_TRUE(ref->supports(device::Sub{}));
}

}  // namespace
}  // namespace heliograph::test
