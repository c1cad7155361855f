// Tests of the CUDA backend, first on a simulated driver (no GPU needed), then on a GPU. test_ops.cpp compares the bits of
// all operations with `ref`.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <numeric>
#include <set>
#include <thread>

#include "backend/cuda/cuda.h"
#include "fake_driver.h"
#include "op_cases.h"
#include "said.h"

namespace heliograph::test {

namespace {

namespace cuda = backend::cuda;
using Bytes = std::vector<std::byte>;

TEST(Cuda, OpensOrStatesTheReason) {
  std::string reason;
  if (cuda::count(&reason) > 0) {
    EXPECT_EQ(device::open_device("cuda")->name(), "cuda");
    expect_in("multiprocessors", device::open_device("cuda")->description());
    return;
  }
  ASSERT_FALSE(reason.empty());
  if (cuda::is_built()) {
    expect_in(reason, message_of<DeviceError>([] { device::open_device("cuda"); }));
  } else {
    expect_in("docs/gpu.md", message_of<ParameterError>([] { device::open_device("cuda"); }));
  }
}

// ---- On a simulated driver

/// A queue, constants and an operand of a small ring.
struct Work {
  explicit Work(device::Device& d)
      : device(d),
        queue(d.make_queue()),
        ring(d.kernels().prepare(ring_of(kField50, 64, 3))),
        x(View::dense(nullptr, Word::w64, {2}, 2, 3, 64)) {
    memory = d.allocate(x.words() * 8, *queue);
    x.data = memory->address();
  }
  void add() { queue->enqueue(device::Add{ring, {0, 1, 2}, x, x, x}); }
  void mul() { queue->enqueue(device::Mul{ring, {0, 1, 2}, x, x, x}); }
  void neg() { queue->enqueue(device::Neg{ring, {0, 1, 2}, x, x}); }

  device::Device& device;
  std::unique_ptr<device::Queue> queue;
  std::shared_ptr<const device::RingConstant> ring;
  View x;
  device::Buffer memory;
};

/// Uses every kind of device function.
void everything(device::Device& d) {
  device::Kernels& k = d.kernels();
  Work w(d);
  const std::vector<u64>& p = w.ring->ring().primes();
  const auto raise = k.prepare(math::extend_base({p[0], p[1]}, {p[2]}));
  device::Permutation reverse{.source = std::vector<u32>(64)};
  for (u32 i = 0; i < 64; ++i) reverse.source[i] = 63 - i;
  const auto permutation = k.prepare(std::move(reverse));
  const auto product = k.prepare(device::GatheredProduct{
      .groups = 1, .outputs = 2, .positions = 1, .terms = 2, .inputs = 2, .weights = {1, -2, 300, 4}, .index = {0, 1}});
  const auto other = d.make_queue();
  device::Buffer second = d.allocate(w.memory->bytes(), *other);
  View y = w.x;
  y.data = second->address();
  Bytes bytes(second->bytes());
  d.upload(*other, bytes, y.data);
  w.queue->after(*other->record());
  w.queue->uses(second);
  w.add();
  w.queue->enqueue(device::Permute{w.ring, {0, 1, 2}, permutation, w.x, y});
  w.queue->enqueue(device::Convert{raise, w.x.with_limbs(0, 2), std::nullopt, y.with_limbs(2, 1)});
  w.queue->enqueue(device::Product{w.ring, {0, 1, 2}, product, w.x, y});
  w.queue->record()->wait();
  d.memory();
  d.download(*w.queue, y.data, bytes);
  w.queue->capture([&] { w.mul(); })->replay();
  w.queue->wait();
}

class FakeGpu : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    cuda::count(&reason);
    if (!cuda::is_built()) GTEST_SKIP() << reason;
    open();
  }
  void TearDown() override {
    device_.reset();
    EXPECT_EQ(driver_ ? driver_->misuse() : "", "");
  }
  void open() {
    device_.reset();
    driver_ = std::make_shared<FakeDriver>();
    device_ = cuda::make_device(driver_);
  }

  /// For each call of the driver function `what`, opens a new device and makes only this call fail. The error must be of
  /// type E, nothing may leak, and the device must work afterwards.
  template <class E>
  void each_may_fail(const std::string& what, FakeDriver::Status status, bool ever_after = false) {
    std::size_t errors = 0;
    for (std::size_t k = 1;; ++k) {
      SCOPED_TRACE(what + " " + std::to_string(k));
      device_.reset();
      driver_ = std::make_shared<FakeDriver>();
      driver_->fail(what, k, status, ever_after);
      try {
        device_ = cuda::make_device(driver_);
        everything(*device_);
      } catch (const E& e) {
        ++errors;
        EXPECT_FALSE(std::string(e.what()).empty());
      }
      if (!driver_->struck()) break;
      driver_->heal();
      if (!device_) device_ = cuda::make_device(driver_);
      EXPECT_NO_THROW(everything(*device_));
      device_.reset();
      EXPECT_EQ(driver_->left(), "");
      EXPECT_EQ(driver_->misuse(), "");
      ASSERT_LT(k, 1000u);
    }
    EXPECT_GT(errors, 0u) << "no call failed of " << what << " was reported";
  }

  Variable sync_{"HELIOGRAPH_GPU_SYNC", "0"};
  std::shared_ptr<FakeDriver> driver_;
  std::unique_ptr<device::Device> device_;
};

TEST_F(FakeGpu, DescribesItself) {
  EXPECT_EQ(device_->name(), "cuda");
  EXPECT_EQ(device_->description(), "a simulated GPU, 1 GiB, 132 multiprocessors");
  const auto queue = device_->make_queue();
  const device::MemoryState before = device_->memory();
  const device::Buffer buffer = device_->allocate(1 << 20, *queue);
  EXPECT_EQ(before.total, FakeDriver::kMemory);
  EXPECT_EQ(device_->memory().available, before.available - (1 << 20));
}

TEST_F(FakeGpu, ClosingReleasesAllObjects) {
  everything(*device_);
  device_.reset();
  EXPECT_EQ(driver_->left(), "");
}

// Memory

TEST_F(FakeGpu, AnyFailedAllocationIsOutOfMemory) {
  each_may_fail<OutOfMemoryError>("allocate", FakeDriver::kOutOfMemory, true);
}

TEST_F(FakeGpu, FreedMemoryIsReused) {
  const auto queue = device_->make_queue();
  const device::MemoryState before = device_->memory();
  for (int i = 0; i < 1000; ++i) device_->allocate(2 << 20, *queue);
  const device::MemoryState after = device_->memory();
  EXPECT_EQ(after.available + after.pooled, before.available + before.pooled);
}

// The freed memory of each queue is pooled by size. An allocation for another queue or of another size can still get this
// memory.
TEST_F(FakeGpu, PooledMemoryServesEveryRequest) {
  const auto first = device_->make_queue(), second = device_->make_queue();
  for (std::size_t part = 2; part < 12; ++part) EXPECT_NO_THROW(device_->allocate(FakeDriver::kMemory / part, *first));
  EXPECT_NO_THROW(device_->allocate(FakeDriver::kMemory, *second));
  EXPECT_NO_THROW(device_->kernels().prepare(ring_of(kField32, 64, 1)));
  EXPECT_NO_THROW(device_->allocate(FakeDriver::kMemory / 2, *first));
  EXPECT_GT(driver_->count("trim"), 0u);
}

// If a request cannot be satisfied, the pooled memory is kept, so the driver need not map it again.
TEST_F(FakeGpu, AnImpossibleRequestReleasesNothing) {
  const auto queue = device_->make_queue();
  const device::Buffer held = device_->allocate(FakeDriver::kMemory / 2, *queue);
  device_->allocate(1 << 20, *queue);  // the block returns to the pool immediately
  const auto calls = [&] { return std::tuple(driver_->count("free"), driver_->count("trim")); };
  const auto before = calls();
  EXPECT_THROW(device_->allocate(FakeDriver::kMemory / 4 * 3, *queue), OutOfMemoryError);
  EXPECT_EQ(calls(), before);
  const std::size_t allocations = driver_->count("allocate");
  device_->allocate(1 << 20, *queue);
  EXPECT_EQ(driver_->count("allocate"), allocations);
}

// The driver first releases only as many bytes as are missing. The driver releases all pooled memory only if these bytes are
// not enough.
TEST_F(FakeGpu, OnlyTheMissingMemoryIsReleased) {
  const auto queue = device_->make_queue();
  const device::Buffer held = device_->allocate(FakeDriver::kMemory / 2, *queue);
  device_->allocate(FakeDriver::kMemory / 4, *queue);
  device_->allocate(FakeDriver::kMemory / 2, *queue);
  EXPECT_EQ(driver_->count("trim"), 1u);
  EXPECT_LT(driver_->trimmed(), FakeDriver::kMemory / 2);
}

TEST_F(FakeGpu, RequestsBeyondTheMemoryAreRefused) {
  Work w(*device_);
  for (const std::size_t bytes : {FakeDriver::kMemory + 1, ~std::size_t{0} / 2, ~std::size_t{0}}) {
    EXPECT_THROW(device_->allocate(bytes, *w.queue), OutOfMemoryError) << bytes;
  }
  EXPECT_EQ(device_->allocate(100, *w.queue)->bytes(), 100u);
  w.add();
  EXPECT_NO_THROW(w.queue->wait());
}

/// Returns the index of the first call named `what` in `calls` from index `first` on, or calls.size().
std::size_t place_of(const std::vector<FakeDriver::Call>& calls, std::size_t first, const std::string& what) {
  while (first < calls.size() && calls[first].what != what) ++first;
  return first;
}

TEST_F(FakeGpu, MemoryIsReusedAfterAllQueuesThatUseIt) {
  const auto own = device_->make_queue(), other = device_->make_queue();
  device::Buffer buffer = device_->allocate(100, *own);
  own->record(), other->record();  // the recorded events identify the two streams
  std::vector<FakeDriver::Call> calls = driver_->calls();
  const std::size_t first = place_of(calls, 0, "record");
  const auto own_stream = calls[first].stream, other_stream = calls[place_of(calls, first + 1, "record")].stream;
  own->uses(buffer);  // the buffer's own queue needs no event
  other->uses(buffer), other->uses(buffer);
  const std::size_t before = calls.size();
  buffer.reset();
  device_->allocate(100, *own);
  calls = driver_->calls();
  const std::size_t recorded = place_of(calls, before, "record"), waited = place_of(calls, before, "wait_event");
  ASSERT_LT(recorded, waited);
  ASSERT_LT(waited, calls.size());
  EXPECT_LT(waited, place_of(calls, before, "allocate"));
  EXPECT_LT(waited, place_of(calls, before, "free"));
  EXPECT_EQ(calls[recorded].stream, other_stream);
  EXPECT_EQ(calls[waited].stream, own_stream);
  EXPECT_EQ(calls[recorded].subject, calls[waited].subject);
  EXPECT_EQ(place_of(calls, recorded + 1, "record"), calls.size()) << "one event is sufficient";
}

TEST_F(FakeGpu, MemoryIsReusedAfterItsUsersEvenWithoutAnEvent) {
  for (const char* failing : {"make_event", "record", "wait_event"}) {
    SCOPED_TRACE(failing);
    const auto own = device_->make_queue(), other = device_->make_queue();
    device::Buffer buffer = device_->allocate(100, *own);
    other->uses(buffer);
    driver_->fail(failing, 1, FakeDriver::kInvalid);
    const std::size_t before = driver_->calls().size();
    buffer.reset();
    ASSERT_TRUE(driver_->struck());
    const std::vector<FakeDriver::Call> calls = driver_->calls();
    const std::size_t waited = place_of(calls, before, "synchronize");
    EXPECT_LT(waited, calls.size()) << "memory was freed while another queue used it";
    EXPECT_LE(waited, place_of(calls, before, "free"));
  }
}

TEST_F(FakeGpu, MemoryOutlivesItsQueuesAndItsDevice) {
  auto own = device_->make_queue(), other = device_->make_queue();
  device::Buffer first = device_->allocate(100, *own), second = device_->allocate(100, *own);
  other->uses(first), other->uses(second);
  own.reset(), other.reset();
  first.reset();
  EXPECT_EQ(driver_->misuse(), "");
  device_.reset();
  EXPECT_NE(driver_->left(), "");
  second.reset();
  EXPECT_EQ(driver_->left(), "");
}

TEST_F(FakeGpu, QueuesWaitForEachOthersEvents) {
  const auto first = device_->make_queue(), second = device_->make_queue();
  const auto event = first->record();
  second->after(*event);
  std::vector<FakeDriver::Call> calls = driver_->calls();
  const FakeDriver::Call waited = calls[calls.size() - 1], recorded = calls[calls.size() - 2];
  EXPECT_EQ(recorded.what, "record");
  EXPECT_EQ(waited.what, "wait_event");
  EXPECT_EQ(recorded.subject, waited.subject);
  EXPECT_NE(recorded.stream, waited.stream);
}

TEST_F(FakeGpu, ObjectsOfAnotherDeviceAreRefused) {
  Work w(*device_);
  const auto ref = device::open_device("ref");
  Work theirs(*ref);
  EXPECT_THROW(device_->allocate(100, *theirs.queue), MismatchError);
  EXPECT_THROW(w.queue->uses(theirs.memory), MismatchError);
  EXPECT_THROW(w.queue->after(*theirs.queue->record()), MismatchError);
  EXPECT_THROW(w.queue->enqueue(device::Add{theirs.ring, {0, 1, 2}, w.x, w.x, w.x}), MismatchError);
  EXPECT_EQ(driver_->count("launch"), 0u);
}

// ---- Large copies

/// Returns bytes that depend on their position.
Bytes pattern(std::size_t bytes) {
  Bytes some(bytes);
  for (std::size_t i = 0; i < bytes; ++i) some[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  return some;
}

/// Uploads and downloads bytes and returns the result.
Bytes there_and_back(device::Device& d, const Bytes& from) {
  const auto queue = d.make_queue();
  const device::Buffer memory = d.allocate(from.size(), *queue);
  d.upload(*queue, from, memory->address());
  Bytes to(from.size());
  d.download(*queue, memory->address(), to);
  return to;
}

TEST_F(FakeGpu, LargeCopiesGoThroughPinnedMemory) {
  const Bytes from = pattern((std::size_t{40} << 20) + 3);
  EXPECT_EQ(there_and_back(*device_, from), from);
  EXPECT_EQ(driver_->count("upload"), 41u);
  EXPECT_GT(driver_->count("pin"), 0u);
  EXPECT_LE(driver_->count("pin"), 32u);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) threads.emplace_back([&] { wrong += there_and_back(*device_, from) != from; });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(driver_->count("pin"), 32u);
  device_.reset();
  EXPECT_EQ(driver_->left(), "");
}

TEST_F(FakeGpu, LargeCopiesWorkWithoutPinnedMemory) {
  const Bytes from = pattern(std::size_t{9} << 20);
  for (std::size_t locked = 0; locked < 4; ++locked) {
    SCOPED_TRACE(locked);
    open();
    driver_->fail("pin", locked + 1, FakeDriver::kOutOfMemory, true);
    EXPECT_EQ(there_and_back(*device_, from), from);
    device_.reset();
    EXPECT_EQ(driver_->left(), "");
  }
}

TEST_F(FakeGpu, AFailedDriverCallOfALargeCopyIsAnError) {
  const Bytes from = pattern(std::size_t{5} << 20);
  for (const char* what : {"upload", "download", "record", "synchronize_event", "synchronize"}) {
    for (std::size_t k = 1; k < 100; ++k) {
      SCOPED_TRACE(what + (" " + std::to_string(k)));
      open();
      driver_->fail(what, k, FakeDriver::kInvalid);
      try {
        EXPECT_EQ(there_and_back(*device_, from), from);
      } catch (const DeviceError&) {
      }
      if (!driver_->struck()) break;
      EXPECT_LT(k, 99u);
      EXPECT_EQ(there_and_back(*device_, from), from);
      device_.reset();
      EXPECT_EQ(driver_->left() + driver_->misuse(), "");
    }
  }
}

// Failures

TEST_F(FakeGpu, AnyFailedDriverCallIsAnError) {
  for (const char* what : {"make_stream", "make_event", "record", "wait_event", "synchronize_event", "synchronize",
                           "allocate", "upload", "download", "launch", "memory", "begin_capture", "end_capture", "replay"}) {
    each_may_fail<DeviceError>(what, FakeDriver::kInvalid);
  }
}

/// Checks that after a fault every use of a device throws an error that names the kernel.
void expect_poisoned(Work& w, const std::string& kernel) {
  device::Device& d = w.device;
  Bytes bytes(16);
  const std::vector<std::pair<const char*, std::function<void()>>> uses = {
      {"allocate", [&] { d.allocate(100, *w.queue); }},
      {"make_queue", [&] { d.make_queue(); }},
      {"upload", [&] { d.upload(*w.queue, bytes, w.x.data); }},
      {"download", [&] { d.download(*w.queue, w.x.data, bytes); }},
      {"kernel", [&] { w.neg(); }},
      {"wait", [&] { w.queue->wait(); }},
      {"record", [&] { w.queue->record(); }},
      {"prepare", [&] { d.kernels().prepare(ring_of(kField32, 64, 1)); }},
      {"capture", [&] { w.queue->capture([&] { w.neg(); }); }},
  };
  for (const auto& [name, use] : uses) {
    SCOPED_TRACE(name);
    const std::string text = message_of<DeviceError>(use);
    expect_in("earlier", text);
    expect_in(kernel, text);
  }
}

TEST_F(FakeGpu, AFaultNamesTheEnqueuedKernelsAndDisablesTheDevice) {
  {
    Work w(*device_);
    const auto before = w.queue->record();
    w.neg();
    w.queue->wait();  // the error must not name these finished kernels
    driver_->fault(1);
    w.add(), w.mul();
    const auto event = w.queue->record();
    const std::string text = message_of<DeviceError>([&] { w.queue->wait(); });
    expect_in("add", text), expect_in("mul", text), expect_in("illegal memory access", text);
    EXPECT_EQ(text.find("neg"), std::string::npos) << text;
    expect_in("earlier", message_of<DeviceError>([&] { event->wait(); }));
    expect_in("earlier", message_of<DeviceError>([&] { w.queue->after(*before); }));
    expect_poisoned(w, "add");
  }
  device_.reset();
  EXPECT_EQ(driver_->left(), "");
}

TEST_F(FakeGpu, OneKernelAloneIsNamedExactly) {
  Work w(*device_);
  driver_->fault(1);
  w.mul();
  expect_in("kernel mul: ", message_of<DeviceError>([&] { w.queue->wait(); }));
}

TEST_F(FakeGpu, AnEventNamesTheKernelsBeforeIt) {
  Work w(*device_);
  driver_->fault(1);
  w.mul();
  const auto event = w.queue->record();
  w.add();
  const std::string text = message_of<DeviceError>([&] { event->wait(); });
  expect_in("mul", text);
  EXPECT_EQ(text.find("add"), std::string::npos) << text;
}

TEST_F(FakeGpu, AFaultDisablesTheDeviceForGood) {
  Work w(*device_);
  w.add();
  driver_->fail("synchronize", 1, FakeDriver::kFault);
  expect_in("add", message_of<DeviceError>([&] { w.queue->wait(); }));
  expect_poisoned(w, "add");
}

// CUDA may report a fault at any later call, usually at a download. The error must not name this later call as the cause.
TEST_F(FakeGpu, AFaultSeenByALaterCallNamesTheKernelsBefore) {
  Bytes bytes(16);
  const std::vector<std::pair<const char*, std::function<void(Work&)>>> later = {
      {"download", [&](Work& w) { w.device.download(*w.queue, w.x.data, bytes); }},
      {"kernel", [&](Work& w) { w.mul(); }},
      {"upload", [&](Work& w) { w.device.upload(*w.queue, bytes, w.x.data); }},
      {"allocate", [&](Work& w) { w.device.allocate(100, *w.queue); }},
      {"record", [&](Work& w) { w.queue->record(); }},
  };
  for (const auto& [name, call] : later) {
    SCOPED_TRACE(name);
    open();
    Work w(*device_);
    driver_->fault(1, true);
    w.add();
    expect_in("add", message_of<DeviceError>([&] { call(w); }));
    expect_poisoned(w, "add");
  }
}

TEST_F(FakeGpu, WaitingForEachKernelNamesTheOneThatFailed) {
  const Variable sync("HELIOGRAPH_GPU_SYNC", "1");
  open();
  Work w(*device_);
  driver_->fault(2);
  EXPECT_NO_THROW(w.add());
  const std::string text = message_of<DeviceError>([&] { w.mul(); });
  expect_in("kernel mul: ", text);
  EXPECT_EQ(text.find("add"), std::string::npos) << text;
  expect_poisoned(w, "mul");
}

TEST_F(FakeGpu, ARefusedLaunchNamesItsKernelAndTheDeviceWorks) {
  Work w(*device_);
  driver_->fail("launch", 2, FakeDriver::kInvalid);
  w.add();
  expect_in("kernel mul: ", message_of<DeviceError>([&] { w.mul(); }));
  EXPECT_NO_THROW(w.mul());
  EXPECT_NO_THROW(w.queue->wait());
  EXPECT_NO_THROW(everything(*device_));
}

// Traffic

/// Returns the counts of the driver now minus the counts `before`.
std::map<std::string, std::size_t> since(const FakeDriver& driver, const std::map<std::string, std::size_t>& before) {
  std::map<std::string, std::size_t> counts = driver.counts();
  for (const auto& [what, count] : before) counts[what] -= count;
  std::erase_if(counts, [](const auto& entry) { return entry.second == 0; });
  return counts;
}

TEST_F(FakeGpu, EveryCaseTakesLaunchesAndNoOtherDriverCall) {
  Target target{"fake", cuda::make_device(driver_), {}};
  const std::vector<std::string> list = contract_kernels();
  const std::set<std::string> kernels(list.begin(), list.end());
  for (const OpCase& c : op_cases()) {
    SCOPED_TRACE(c.kernel + "/" + c.name);
    Rig rig(target);
    const std::function<void()> call = c.declare(rig);
    const std::map<std::string, std::size_t> before = driver_->counts();
    const std::size_t launched = driver_->launches().size();
    call();
    const std::map<std::string, std::size_t> asked = since(*driver_, before);
    const bool empty = c.name.find("empty batch") != std::string::npos;
    ASSERT_EQ(asked.contains("launch"), !empty);
    for (const auto& [what, count] : asked) ASSERT_EQ(what, "launch") << count << " calls";
    const std::vector<std::string> names = driver_->launches();
    for (std::size_t i = launched; i < names.size(); ++i)
      ASSERT_TRUE(kernels.contains(names[i])) << "an error message would name " << names[i];
  }
}

TEST_F(FakeGpu, TrafficEqualsTheDriversCounts) {
  device_.reset();
  driver_ = std::make_shared<FakeDriver>();
  {
    Target target{"fake", cuda::make_device(driver_), {}};
    std::set<std::string> seen;
    for (const OpCase& c : op_cases()) {  // one case per kernel
      if (seen.insert(c.kernel).second) run_case(target, c);
    }
    everything(*target.device);
    const device::Traffic t = target.device->traffic();
    EXPECT_LE(t.uploads, driver_->count("upload"));  // a large upload is split into several copies
    EXPECT_EQ(t.upload_bytes, driver_->uploaded_bytes());
    EXPECT_LE(t.downloads, driver_->count("download"));
    EXPECT_EQ(t.download_bytes, driver_->downloaded_bytes());
    EXPECT_EQ(t.launches, driver_->count("launch"));
    EXPECT_EQ(t.allocations, driver_->count("allocate"));
    EXPECT_EQ(t.waits, driver_->count("synchronize") + driver_->count("synchronize_event"));
    EXPECT_GT(t.downloads, seen.size());
  }
  open();  // uploads and downloads whose lengths are known
  const auto queue = device_->make_queue();
  const device::Buffer buffer = device_->allocate(1000, *queue);
  const device::Traffic before = device_->traffic();
  Bytes up(1000), down(300);
  std::fill(up.begin(), up.end(), std::byte{7});
  device_->upload(*queue, up, buffer->address());
  device_->upload(*queue, {}, buffer->address());
  device_->download(*queue, buffer->address() + 500, down);
  const device::Traffic after = device_->traffic();
  EXPECT_EQ(after.uploads - before.uploads, 1u);
  EXPECT_EQ(after.upload_bytes - before.upload_bytes, 1000u);
  EXPECT_EQ(after.downloads - before.downloads, 1u);
  EXPECT_EQ(after.download_bytes - before.download_bytes, 300u);
  EXPECT_EQ(after.launches, before.launches);
  EXPECT_EQ(down, Bytes(300, std::byte{7}));
}

// Graphs

TEST_F(FakeGpu, UncapturableCallsAreErrorsAndTheQueueContinues) {
  {
    Work w(*device_);
    Bytes bytes(16);
    EXPECT_THROW(w.queue->capture([&] { w.add(), w.queue->wait(); }), DeviceError);
    EXPECT_THROW(w.queue->capture([&] { device_->upload(*w.queue, bytes, w.x.data); }), DeviceError);
    EXPECT_THROW(w.queue->capture([&] { throw ShapeError("no"); }), ShapeError);
    EXPECT_EQ(device::open_device("ref")->make_queue()->capture([] {}), nullptr);
    const auto graph = w.queue->capture([&] { w.add(); });
    graph->replay();
    graph->replay();
    EXPECT_EQ(driver_->count("replay"), 2u);
    EXPECT_NO_THROW(w.queue->wait());
  }
  device_.reset();
  EXPECT_EQ(driver_->left(), "");
}

TEST_F(FakeGpu, TablesFreedDuringACaptureAreFreedAfterIt) {
  Work w(*device_);
  const auto other = device_->make_queue();
  const std::size_t freed = driver_->count("free"), recorded = driver_->count("record");
  w.queue->capture([&] {
    w.add();
    device_->kernels().prepare(ring_of(kField50, 64, 1)).reset();
    EXPECT_EQ(driver_->count("free"), freed);
    EXPECT_EQ(driver_->count("record"), recorded);
  });
  EXPECT_EQ(driver_->count("free"), freed + 4);  // the ring has four buffers
  EXPECT_GE(driver_->count("record"), recorded + 8);
}

TEST_F(FakeGpu, AGatherIsOneLaunch) {
  const auto queue = device_->make_queue();
  const device::Buffer from = device_->allocate(1 << 20, *queue), to = device_->allocate(1 << 20, *queue);
  const auto launches = [&](std::size_t pieces, std::size_t n, std::size_t axes = 1) {
    std::vector<device::Piece> list;
    for (std::size_t i = 0; i < pieces; ++i) {
      const std::vector<std::size_t> batch(axes, 2);
      list.push_back(
          {View::dense(from->address(), Word::w64, batch, 2, 3, n), View::dense(to->address(), Word::w64, batch, 2, 3, n)});
    }
    const std::size_t before = driver_->count("launch");
    queue->enqueue(device::Gather{list});
    return driver_->count("launch") - before;
  };
  EXPECT_EQ(launches(0, 64), 0u);
  EXPECT_EQ(launches(1, 64), 1u);
  EXPECT_EQ(launches(16, 64), 1u);
  EXPECT_EQ(launches(17, 64), 2u);
  EXPECT_EQ(launches(16, 3), 1u);
  EXPECT_EQ(launches(16, 64, 6), 1u);
}

// ---- On a GPU

/// Returns the GPU of the tests below. The GPU is never closed, because the CUDA runtime may end before static objects are
/// destroyed.
Target& gpu() {
  static Target& opened = *new Target(open_target("cuda"));
  return opened;
}
Target& ref() {
  static Target& opened = *new Target(open_target("ref"));
  return opened;
}

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    if (cuda::count(&reason) == 0) GTEST_SKIP() << reason;
  }
  Variable sync_{"HELIOGRAPH_GPU_SYNC", "0"};
};

TEST_F(Gpu, EveryCaseReplaysFromAGraph) {
  for (const OpCase& c : op_cases()) {
    SCOPED_TRACE(c.kernel + "/" + c.name);
    run_case(gpu(), c);  // the first call loads the kernel, which is not allowed in a capture
    Rig rig(gpu());      // new operands, because a case may change its operands
    const std::function<void()> call = c.declare(rig);
    rig.queue().wait();
    const auto graph = rig.queue().capture(call);
    graph->replay();  // replays only once: accumulated results show whether the capture also ran the call
    ASSERT_EQ(fault_in(c, rig.results()), "");
  }
}

TEST_F(Gpu, ThreadsShareADevice) {
  std::vector<const OpCase*> cases;
  for (std::size_t i = 0; i < op_cases().size(); i += 5) {
    if (!op_cases()[i].large) cases.push_back(&op_cases()[i]);
  }
  constexpr std::size_t kThreads = 6;
  const auto ring = ring_of(kField50, 64, 3);
  std::vector<std::unique_ptr<Rig>> rigs;
  std::vector<std::function<void()>> calls;
  std::vector<std::vector<Bytes>> expected;
  for (const OpCase* c : cases) {
    expected.push_back(run_case(gpu(), *c));
    rigs.push_back(std::make_unique<Rig>(gpu()));
    calls.push_back(c->declare(*rigs.back()));
  }
  std::vector<std::string> wrong(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      try {
        device::Device& d = *gpu().device;
        for (std::size_t i = t; i < calls.size(); i += kThreads) {
          d.kernels().prepare(ring);
          const device::Buffer passing = d.allocate(i * 1000 + 1, rigs[i]->queue());
          calls[i]();
          if (rigs[i]->results() != expected[i]) wrong[t] += cases[i]->kernel + "/" + cases[i]->name + "; ";
        }
      } catch (const std::exception& e) {
        wrong[t] += e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(std::accumulate(wrong.begin(), wrong.end(), std::string()), "");
}

TEST_F(Gpu, FreedMemoryReturnsToThePool) {
  constexpr std::size_t kBlock = std::size_t{256} << 20;
  device::Device& d = *gpu().device;
  const auto queue = d.make_queue();
  d.allocate(kBlock, *queue).reset();
  queue->wait();
  const device::MemoryState before = d.memory();
  for (int i = 0; i < 1000; ++i) d.allocate(kBlock, *queue).reset();
  queue->wait();
  const device::MemoryState after = d.memory();
  EXPECT_GE(before.pooled, kBlock);
  EXPECT_LE(after.pooled, before.pooled + kBlock);
  // Other processes use the GPU, too.
  EXPECT_GE(after.available + after.pooled + 4 * kBlock, before.available + before.pooled);
}

TEST_F(Gpu, WorkContinuesAfterOutOfMemory) {
  device::Device& d = *gpu().device;
  const auto queue = d.make_queue();
  const std::size_t total = d.memory().total;
  for (const std::size_t bytes : {total + 1, 4 * total, ~std::size_t{0}}) {
    EXPECT_THROW(d.allocate(bytes, *queue), OutOfMemoryError);
    Bytes in(100'000, std::byte{5}), out(in.size());
    const device::Buffer buffer = d.allocate(in.size(), *queue);
    d.upload(*queue, in, buffer->address());
    d.download(*queue, buffer->address(), out);
    EXPECT_EQ(in, out);
    const OpCase& c = op_cases().front();
    EXPECT_TRUE(run_case(gpu(), c) == run_case(ref(), c));  // the failed allocation does not affect the next launch
  }
}

// Without `uses`, the first queue would overwrite the memory while the second still reads it.
TEST_F(Gpu, MemoryWaitsForTheQueuesThatUseIt) {
  constexpr std::size_t kN = 4096, kItems = 256;
  device::Device& d = *gpu().device;
  const auto first = d.make_queue(), second = d.make_queue();
  View x = View::dense(nullptr, Word::w64, {kItems}, 2, 1, kN), y = x;
  const std::size_t bytes = x.words() * 8;
  const Bytes good(bytes, std::byte{1});
  const device::Buffer result = d.allocate(bytes, *second);
  y.data = result->address();
  Bytes got(bytes);
  for (int round = 0; round < 20; ++round) {
    device::Buffer buffer = d.allocate(bytes, *first);
    x.data = buffer->address();
    d.upload(*first, good, x.data);
    second->after(*first->record());
    second->uses(buffer);
    for (int i = 0; i < 50; ++i) second->enqueue(device::Copy{x, y});
    buffer.reset();
    const device::Buffer next = d.allocate(bytes, *first);
    View z = x;
    z.data = next->address();
    first->enqueue(device::Zero{z});
    d.download(*second, y.data, got);
    ASSERT_TRUE(got == good) << "round " << round;
    first->wait();
  }
}

/// Runs a kernel that reads address 0. Ends the process with exit status 0 if the errors are as expected.
[[noreturn]] void fault_on_a_gpu() {
  setenv("HELIOGRAPH_GPU_SYNC", "0", 1);
  const auto d = device::open_device("cuda");
  const auto queue = d->make_queue();
  const auto ring = d->kernels().prepare(ring_of(kField50, 1024, 2));
  const View nowhere = View::dense(nullptr, Word::w64, {3}, 2, 2, 1024);
  std::string said, later;
  said = message_of<DeviceError>([&] {
    queue->enqueue(device::Add{ring, {0, 1}, nowhere, nowhere, nowhere});
    queue->wait();
  });
  later = message_of<DeviceError>([&] { d->allocate(100, *queue); });
  const bool good = said.find("add") != std::string::npos && later.find("earlier") != std::string::npos;
  std::fprintf(stderr, "at the wait: %s\nlater: %s\n", said.c_str(), later.c_str());
  _exit(good ? 0 : 1);
}

// Runs in its own process, because the fault makes CUDA unusable in the process.
using GpuFaultDeathTest = Gpu;
TEST_F(GpuFaultDeathTest, ABadAccessNamesItsKernelAndDisablesTheDevice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // starts a new process image, because CUDA does not work after a fork
  EXPECT_EXIT(fault_on_a_gpu(), testing::ExitedWithCode(0), "at the wait: .*add");
}

}  // namespace

}  // namespace heliograph::test
