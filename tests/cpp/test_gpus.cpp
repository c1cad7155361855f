// Tests of several GPUs in one process, first on simulated drivers (no GPU needed), then on GPUs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "backend/cuda/cuda.h"
#include "fake_driver.h"
#include "op_cases.h"
#include "said.h"

namespace heliograph::test {

namespace {

namespace cuda = backend::cuda;
using Bytes = std::vector<std::byte>;

TEST(Gpus, AreOpenedByTheirNumber) {
  for (const char* name : {"cuda:", "cuda:x", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:1x", "cuda:99999999999"})
    expect_in(name, message_of<ParameterError>([&] { device::open_device(name); }));
  if (!cuda::is_built()) return;
  expect_in("cannot open", message_of<DeviceError>([] { device::open_device("cuda:4096"); }));
  const std::vector<std::string> found = device::found_devices();
  EXPECT_TRUE(cuda::count() > 0 || found == std::vector<std::string>{"cpu"});
  for (const std::string& name : found) EXPECT_NO_THROW(device::open_device(name)) << name;
}

/// A tensor of 64-bit words with two polynomials per item.
struct Operand {
  Operand(device::Device& d, device::Queue& queue, std::size_t items = 2, std::size_t n = 64)
      : view(View::dense(nullptr, Word::w64, {items}, 2, 1, n)), buffer(d.allocate(view.words() * 8, queue)) {
    view.data = buffer->address();
  }
  View view;
  device::Buffer buffer;
};

/// One of several simulated GPUs, with a queue.
struct OneOfSome {
  explicit OneOfSome(bool peers = true) : driver(std::make_shared<FakeDriver>(peers)), device(cuda::make_device(driver)) {
    queue = device->make_queue();
  }
  ~OneOfSome() { EXPECT_EQ(driver->misuse(), ""); }

  std::shared_ptr<FakeDriver> driver;
  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::Queue> queue;
};

class FakeGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::is_built()) GTEST_SKIP() << "no CUDA backend in this build";
  }
};

TEST_F(FakeGpus, ReachTheirPeers) {
  const OneOfSome a, b, apart(false);
  const auto ref = device::open_device("ref");
  EXPECT_TRUE(a.device->reaches(*a.device) && apart.device->reaches(*apart.device));
  EXPECT_TRUE(a.device->reaches(*b.device) && b.device->reaches(*a.device));
  EXPECT_FALSE(a.device->reaches(*apart.device) || apart.device->reaches(*a.device));
  EXPECT_FALSE(a.device->reaches(*ref) || ref->reaches(*a.device) || a.device->in_host_memory());
  setenv("HELIOGRAPH_PEER", "0", 1);
  const OneOfSome alone;
  unsetenv("HELIOGRAPH_PEER");
  EXPECT_TRUE(alone.device->reaches(*alone.device));
  EXPECT_FALSE(alone.device->reaches(*a.device));
  EXPECT_EQ(alone.driver->count("reach"), 0u);
}

TEST_F(FakeGpus, WaitForEachOthersEvents) {
  const OneOfSome a, b;
  const auto event = a.queue->record();
  b.queue->after(*event);
  const FakeDriver::Call recorded = a.driver->calls().back(), waited = b.driver->calls().back();
  EXPECT_EQ(recorded.what, "record");
  EXPECT_EQ(waited.what, "wait_event");
  EXPECT_EQ(recorded.subject, waited.subject);
  EXPECT_EQ(a.driver->count("wait_event"), 0u);
}

TEST_F(FakeGpus, MemoryIsReusedAfterQueuesOfOtherGpusThatUseIt) {
  const OneOfSome a, b;
  for (const char* failing : {"", "make_event", "record"}) {
    SCOPED_TRACE(failing);
    device::Buffer buffer = a.device->allocate(100, *a.queue);
    b.queue->uses(buffer);
    b.driver->fail(failing, 1, FakeDriver::kInvalid);
    const std::size_t waited = a.driver->count("wait_event"), synchronized = b.driver->count("synchronize");
    buffer.reset();
    EXPECT_EQ(a.driver->count("wait_event"), waited + (*failing ? 0 : 1));
    EXPECT_EQ(b.driver->count("synchronize"), synchronized + (*failing ? 1 : 0));
  }
}

TEST_F(FakeGpus, AFaultOfOneGpuDoesNotAffectTheOther) {
  const OneOfSome a, b;
  const Operand x(*a.device, *a.queue);
  a.driver->fault(1);
  a.queue->enqueue(device::Zero{x.view});
  const auto event = a.queue->record();
  EXPECT_THROW(a.queue->wait(), DeviceError);
  expect_in("zero", message_of<DeviceError>([&] { b.queue->after(*event); }));
  EXPECT_THROW(a.device->reaches(*b.device), DeviceError);
  const Operand y(*b.device, *b.queue);
  EXPECT_NO_THROW(b.queue->enqueue(device::Zero{y.view}));
  EXPECT_NO_THROW(b.queue->wait());
}

// Uses the first and the last GPU, or one GPU opened twice. Without `uses` or `after`, the copy would read later contents of
// the memory.
TEST(Gpus, ReadEachOthersMemory) {
  std::string reason;
  if (cuda::count(&reason) == 0) GTEST_SKIP() << reason;
  constexpr std::size_t kN = 4096, kItems = 512;
  const std::vector<std::string> found = device::found_devices();
  const auto near = device::open_device(found.front()), far = device::open_device(found.back());
  EXPECT_EQ(near->reaches(*far), far->reaches(*near));
  if (!near->reaches(*far)) GTEST_SKIP() << "the GPUs cannot read each other's memory";
  const auto here = near->make_queue(), there = far->make_queue();
  const Operand y(*near, *here, kItems, kN);
  Bytes sent(y.buffer->bytes()), got(sent.size());
  for (int round = 0; round < 20; ++round) {
    std::optional<Operand> x(std::in_place, *far, *there, kItems, kN);
    std::fill(sent.begin(), sent.end(), static_cast<std::byte>(round + 1));
    far->upload(*there, sent, x->view.data);
    for (int i = 0; i < 50; ++i) here->enqueue(device::Copy{y.view, y.view});  // this work delays the copy
    here->after(*there->record());
    here->uses(x->buffer);
    here->enqueue(device::Gather{std::vector<device::Piece>{{x->view, y.view}}});
    x.reset();
    const Operand next(*far, *there, kItems, kN);
    there->enqueue(device::Zero{next.view});
    near->download(*here, y.view.data, got);
    ASSERT_TRUE(got == sent) << "round " << round;
    there->wait();
  }
}

}  // namespace

}  // namespace heliograph::test
