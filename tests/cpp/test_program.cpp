// Tests of recorded programs of kernel calls: memory, constants, lifetimes, layers, batching, dry runs, and graphs on a
// simulated GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <list>

#include "device/kernels.h"
#include "heliograph/program.h"
#include "mesh/mesh.h"
#include "mesh/transport/transport.h"
#include "op_rig.h"
#include "program/compare.h"
#include "program/schedule.h"
#include "program/tape.h"
#include "ring/tensor.h"

namespace heliograph {
namespace {

using device::Buffer;
using device::View;
using program::Program;
using program::Tape;
using ring::RnsTensor;

constexpr std::size_t kN = 64;

class Programs : public testing::TestWithParam<const char*> {
 protected:
  Programs()
      : device_(device::open_device(GetParam())),
        engine_(std::make_shared<ring::Engine>(*device_, test::ring_of(test::kField50, kN, 2))) {}

  RnsTensor tensor(math::u64 first) {
    RnsTensor t(engine_, {3}, 1, device::PrimeList::range(0, 2), math::Domain::ntt);
    std::vector<math::u64> words(t.view().words());
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = first + i;
    ring::upload(t, std::as_bytes(std::span(words)));
    return t;
  }
  RnsTensor times(const RnsTensor& a, const RnsTensor& b) { return ring::multiply_polynomial(a, b); }

  std::unique_ptr<device::Device> device_;
  std::shared_ptr<ring::Engine> engine_;
};

TEST_P(Programs, AReplayComputesFromNewInputs) {
  const RnsTensor a = tensor(1), b = tensor(500), c = tensor(77), d = tensor(9000), fixed = tensor(40);
  const auto function = [&](const RnsTensor& x, const RnsTensor& y) {
    const RnsTensor shift = ring::add(fixed, fixed);  // this sum depends on no input
    const RnsTensor unused = times(y, y);
    return ring::add(times(ring::subtract(x, y), y), shift);
  };
  Tape tape({a.view(), b.view()}, {});
  std::optional<device::Observing> observing(tape);
  const RnsTensor first = function(a, b);
  observing.reset();
  const auto made = tape.finish({first.view()});
  EXPECT_EQ(made->steps().size(), 3U);  // the program omits the constant shift and the unused product
  EXPECT_EQ(made->depth(), 3U);
  for (const auto& [x, y] : {std::pair(a, b), std::pair(c, d), std::pair(d, a)}) {
    const std::vector<View> results = made->replay({x.view(), y.view()}, {});
    ASSERT_EQ(results.size(), 1U);
    EXPECT_EQ(ring::download(first.over(results[0])), ring::download(function(x, y)));
  }
}

TEST_P(Programs, TwoReplaysHaveSeparateResults) {
  const RnsTensor a = tensor(1), b = tensor(2);
  Tape tape({a.view()}, {});
  std::optional<device::Observing> observing(tape);
  const RnsTensor sum = ring::add(a, a);
  observing.reset();
  const auto made = tape.finish({sum.view(), a.view()});
  const auto one = made->replay({a.view()}, {}), two = made->replay({b.view()}, {});
  EXPECT_NE(one[0].memory, two[0].memory);
  EXPECT_EQ(one[1].memory, a.view().memory);  // the result is the input itself
  EXPECT_EQ(two[1].memory, b.view().memory);
  EXPECT_EQ(ring::download(sum.over(one[0])), ring::download(sum));
  EXPECT_EQ(ring::download(sum.over(two[0])), ring::download(ring::add(b, b)));
}

TEST_P(Programs, DevicesWithoutGraphsReserveNoMemory) {
  const RnsTensor a = tensor(1);
  Tape tape({a.view()}, {});
  std::optional<device::Observing> observing(tape);
  const RnsTensor sum = ring::add(a, a);
  observing.reset();
  const auto made = tape.finish({sum.view()});
  ASSERT_EQ(made->launches(), 0U);
  EXPECT_GT(engine_->free_memory(), 0U);  // this call visits all evictable tensors
  EXPECT_EQ(device_->residents().evictable_bytes(), 0U);
}

TEST_P(Programs, ProgramsDoNotHoldTheirInputs) {
  RnsTensor a = tensor(1);
  std::weak_ptr<device::Memory> input = a.view().memory, output;
  std::shared_ptr<Program> made;
  {
    Tape tape({a.view()}, {});
    std::optional<device::Observing> observing(tape);
    const RnsTensor sum = ring::add(a, a);
    observing.reset();
    output = sum.view().memory;
    made = tape.finish({sum.view()});
  }
  a = RnsTensor();
  EXPECT_TRUE(input.expired());
  EXPECT_TRUE(output.expired());
}

TEST_P(Programs, RecordingRefusesReadsOfVariableValues) {
  const RnsTensor a = tensor(1), fixed = tensor(2);
  Tape tape({a.view()}, {});
  const device::Observing observing(tape);
  const RnsTensor sum = ring::add(a, a);
  EXPECT_THROW(ring::download(sum), RecordingError);
  EXPECT_EQ(ring::download(fixed).size(), fixed.bytes());
  {
    const device::Unobserved alone;
    EXPECT_EQ(ring::download(sum).size(), sum.bytes());
  }
  std::vector<std::byte> words(sum.bytes());
  EXPECT_THROW(ring::upload(sum, words), RecordingError);
  device::Draw draw{.distribution = device::Distribution::uniform};
  EXPECT_THROW(engine_->enqueue(device::Sample{engine_->prepared(), fixed.primes(), Secret(draw), tensor(3).view()}),
               RecordingError);
}

TEST_P(Programs, EqualCallsOnIndependentDataAreBatched) {
  const RnsTensor a = tensor(1), b = tensor(500), shared = tensor(3);
  Tape tape({a.view(), b.view()}, {});
  std::optional<device::Observing> observing(tape);
  std::vector<RnsTensor> branch = {a, b};
  for (int i = 0; i < 3; ++i) {
    for (RnsTensor& x : branch) x = times(ring::add(x, x), shared);
  }
  const RnsTensor alone = ring::negate(branch[0]);
  observing.reset();
  const auto made = tape.finish({branch[0].view(), branch[1].view(), alone.view()});
  const auto plan = program::schedule({made->places(), made->steps(), {}});
  ASSERT_NE(plan, nullptr);
  ASSERT_EQ(plan->layers.size(), 7U);
  EXPECT_EQ(plan->launches(), 7U);  // without batching there are thirteen launches
  for (std::size_t l = 0; l < 6; ++l) {
    EXPECT_EQ(device::items_of(plan->layers[l].front().step.call), 6U) << l;
  }
  // Memory areas whose lifetimes overlap must not overlap.
  for (const program::Area& x : plan->areas) {
    for (const program::Area& y : plan->areas) {
      if (&x == &y || x.result || y.result || x.bytes == 0 || y.bytes == 0 || x.last < y.first || y.last < x.first) continue;
      EXPECT_TRUE(x.offset + x.bytes <= y.offset || y.offset + y.bytes <= x.offset);
    }
  }
}

TEST_P(Programs, DependentCallsAreNotBatched) {
  const RnsTensor a = tensor(1);
  Tape tape({a.view()}, {});
  std::optional<device::Observing> observing(tape);
  const RnsTensor twice = ring::add(a, a), more = ring::add(twice, twice);
  observing.reset();
  const auto made = tape.finish({more.view()});
  const auto plan = program::schedule({made->places(), made->steps(), {}});
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->layers.size(), 2U);
}

TEST_P(Programs, ADryRunComputesOnlyConstants) {
  const RnsTensor a = tensor(1), b = tensor(500), fixed = tensor(40);
  std::vector<RnsTensor> seen;
  const auto function = [&](const RnsTensor& x, math::u64 first) {
    RnsTensor constant(engine_, {3}, 1, device::PrimeList::range(0, 2), math::Domain::ntt);
    ring::upload(constant, std::vector<std::byte>(constant.bytes(), std::byte(first)));
    seen = {ring::add(constant, fixed), ring::add(x, x)};
    return ring::add(times(seen[1], x), times(seen[0], x));
  };
  const auto parts_of = [&](const RnsTensor& x, math::u64 first, bool dry) {
    Tape tape({x.view()}, {}, dry);
    std::optional<device::Observing> observing(tape);
    const RnsTensor result = function(x, first);
    observing.reset();
    EXPECT_EQ(result.view().memory->blank(), dry);
    return tape.parts({result.view()});
  };
  const Program::Parts performed = parts_of(a, 3, false), dry = parts_of(b, 3, true);
  EXPECT_TRUE(program::same_calls(performed, dry));
  EXPECT_TRUE(program::same_calls(dry, performed));
  EXPECT_EQ(ring::download(seen[0]).size(), seen[0].bytes());
  EXPECT_THROW(ring::download(seen[1]), RecordingError);
  EXPECT_THROW(ring::add(seen[1], a), RecordingError);
  EXPECT_FALSE(program::same_calls(performed, parts_of(b, 4, true)));  // a call with another constant is a different call
  // The recording of a dry run is a valid program.
  const RnsTensor expected = function(a, 3);
  const auto results = Program(Program::Parts(dry)).replay({a.view()}, {});
  EXPECT_EQ(ring::download(expected.over(results[0])), ring::download(expected));
}

/// The operands are equal, so only weights and constants differ.
TEST_P(Programs, WeightedSumsWithOtherWeightsAreDistinguished) {
  const RnsTensor a = tensor(1);
  const auto sum = [&](math::u64 weight, std::optional<math::u64> constant) {
    const RnsTensor out(engine_, a.shape(), a.components(), a.primes(), a.domain());
    std::vector<device::LimbConstants> weights(2, device::LimbConstants{});
    weights[0].fill(3), weights[1].fill(weight);
    device::WeightedSum call{engine_->prepared(), a.primes(), {a.view(), a.view()}, weights, {}, out.view()};
    if (constant) call.constant.emplace(device::LimbConstants{*constant, *constant});
    engine_->enqueue(call);
    return out;
  };
  const std::vector<std::function<RnsTensor()>> functions = {[&] { return sum(5, {}); }, [&] { return sum(6, {}); },
                                                             [&] { return sum(5, 0); }, [&] { return sum(5, 1); }};
  const auto recorded = [&](const std::vector<std::function<RnsTensor()>>& list) {
    Tape tape({a.view()}, {});
    std::optional<device::Observing> observing(tape);
    std::vector<View> results;
    std::vector<RnsTensor> held;
    for (const auto& f : list) held.push_back(f()), results.push_back(held.back().view());
    observing.reset();
    return tape.parts(results);
  };
  for (std::size_t i = 0; i < functions.size(); ++i) {
    for (std::size_t j = 0; j < functions.size(); ++j)
      EXPECT_EQ(program::same_calls(recorded({functions[i]}), recorded({functions[j]})), i == j) << i << " " << j;
  }
  // Sums with different weights are not merged into one launch; two equal sums are merged.
  const auto launches = [&](std::vector<std::function<RnsTensor()>> list) {
    return program::schedule(recorded(list))->launches();
  };
  EXPECT_EQ(launches(functions), functions.size());
  EXPECT_EQ(launches({functions[3], functions[3]}), 1U);
  std::vector<std::vector<std::byte>> expected;
  for (const auto& f : functions) expected.push_back(ring::download(f()));
  const auto results = Program(recorded(functions)).replay({a.view()}, {});
  for (std::size_t i = 0; i < functions.size(); ++i) EXPECT_EQ(ring::download(a.over(results[i])), expected[i]) << i;
}

TEST_P(Programs, DifferentCallsAreDistinguished) {
  const RnsTensor a = tensor(1), fixed = tensor(40), other = tensor(40);
  const auto parts_of = [&](const std::function<RnsTensor(const RnsTensor&)>& function) {
    Tape tape({a.view()}, {}, true);
    std::optional<device::Observing> observing(tape);
    const RnsTensor result = function(a);
    observing.reset();
    return tape.parts({result.view()});
  };
  const std::vector<std::function<RnsTensor(const RnsTensor&)>> functions = {
      [&](const RnsTensor& x) { return ring::add(x, fixed); },
      [&](const RnsTensor& x) { return ring::add(x, other); },  // the operand has the same words in other memory
      [&](const RnsTensor& x) { return ring::subtract(x, fixed); },
      [&](const RnsTensor& x) { return ring::add(x, x); },
      [&](const RnsTensor& x) { return ring::add(ring::add(x, fixed), fixed); },
      [&](const RnsTensor&) { return ring::add(fixed, fixed); },
      [&](const RnsTensor& x) { return x; },
      [&](const RnsTensor& x) { return x.with_limbs(0, 1); },
      [&](const RnsTensor& x) { return ring::add(x.with_limbs(0, 1), fixed.with_limbs(0, 1)); },
      [&](const RnsTensor& x) { return ring::add(x.with_limbs(1, 1), fixed.with_limbs(1, 1)); },
  };
  for (std::size_t i = 0; i < functions.size(); ++i) {
    for (std::size_t j = 0; j < functions.size(); ++j)
      EXPECT_EQ(program::same_calls(parts_of(functions[i]), parts_of(functions[j])), i == j) << i << " " << j;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Programs, testing::Values("ref", "cpu"));

/// Executes a call only when something waits for it, as a slow asynchronous device would.
class LateQueue final : public device::Queue {
 public:
  explicit LateQueue(std::unique_ptr<Queue> inner) : inner_(std::move(inner)) {}
  bool supports(const device::Call& call) const override { return inner_->supports(call); }
  std::shared_ptr<device::Event> record() override { return std::make_shared<Point>(*this, done_ + waiting_.size()); }
  void after(const device::Event& event) override {
    waiting_.emplace_back([point = dynamic_cast<const Point&>(event)] { point.reach(); });
  }
  void uses(const Buffer& buffer) override { used.push_back(buffer.get()); }
  void wait() override { execute(done_ + waiting_.size()); }

  std::vector<const device::Memory*> used;

 protected:
  void perform(const device::Call& call) override {
    waiting_.emplace_back([this, call] { inner_->enqueue(call); });
  }

 private:
  struct Point final : device::Event {
    Point(LateQueue& queue, std::size_t count) : queue(&queue), count(count) {}
    void wait() override { reach(); }
    void reach() const { queue->execute(count); }
    LateQueue* queue;
    std::size_t count;
  };
  /// Executes the work up to the entry with this number since the queue's start.
  void execute(std::size_t count) {
    while (done_ < count) {
      const std::function<void()> next = std::move(waiting_.front());
      waiting_.pop_front(), ++done_;
      next();
    }
  }

  std::unique_ptr<Queue> inner_;
  std::deque<std::function<void()>> waiting_;
  std::size_t done_ = 0;
};

class LateDevice final : public device::Device {
 public:
  std::string name() const override { return "late"; }
  std::string description() const override { return "a processor that executes calls as late as possible"; }
  device::MemoryState memory() const override { return inner_->memory(); }
  Buffer allocate(std::size_t bytes, device::Queue& queue) override { return inner_->allocate(bytes, queue); }
  std::unique_ptr<device::Queue> make_queue() override { return std::make_unique<LateQueue>(inner_->make_queue()); }
  void upload(device::Queue& queue, std::span<const std::byte> from, std::byte* to) override {
    queue.wait();
    inner_->upload(queue, from, to);
  }
  void download(device::Queue& queue, const std::byte* from, std::span<std::byte> to) override {
    queue.wait();
    inner_->download(queue, from, to);
  }
  device::Kernels& kernels() override { return inner_->kernels(); }
  bool in_host_memory() const override { return true; }

 private:
  std::unique_ptr<device::Device> inner_ = device::open_device("cpu");
};

/// A function that computes in two rings orders their queues itself. A recording has only the calls that the function makes.
TEST(ProgramQueues, AReplayOrdersTheQueuesOfItsCalls) {
  LateDevice device;
  const auto made_engine = [&] { return std::make_shared<ring::Engine>(device, test::ring_of(test::kField50, kN, 2)); };
  const std::shared_ptr<ring::Engine> first = made_engine(), second = made_engine();
  const auto tensor = [&](const std::shared_ptr<ring::Engine>& engine, math::u64 from) {
    RnsTensor t(engine, {3}, 1, device::PrimeList::range(0, 2), math::Domain::ntt);
    std::vector<math::u64> words(t.view().words());
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = from + i;
    ring::upload(t, std::as_bytes(std::span(words)));
    return t;
  };
  const auto moved = [&](const RnsTensor& x, const std::shared_ptr<ring::Engine>& to) {
    to->queue().after(*x.engine()->queue().record());
    to->queue().uses(x.view().memory);
    return RnsTensor(to, {0}, 1, x.primes(), x.domain()).over(x.view());
  };
  const auto function = [&](const RnsTensor& x) {  // the operand and the result belong to the first ring
    const RnsTensor there = moved(x, second), twice = ring::add(there, there), back = moved(twice, first);
    const RnsTensor more = moved(ring::multiply_polynomial(back, back), second);
    return moved(ring::add(more, more), first);
  };
  const RnsTensor a = tensor(first, 1);
  Tape tape({a.view()}, {});
  std::optional<device::Observing> observing(tape);
  const RnsTensor result = function(a);
  observing.reset();
  const auto made = tape.finish({result.view()});
  ASSERT_EQ(made->steps().size(), 3U);
  for (const math::u64 from : {5U, 900U}) {
    const RnsTensor b = tensor(first, from), x = ring::add(b, b);  // not computed before the replay needs it
    auto& queue = dynamic_cast<LateQueue&>(second->queue());
    queue.used.clear();
    const std::vector<View> results = made->replay({x.view()}, {});
    EXPECT_NE(std::find(queue.used.begin(), queue.used.end(), x.view().memory.get()), queue.used.end());
    if (from == 5U) queue.wait();  // executes this queue's steps, and before them only work for which they wait
    const std::vector<std::byte> found = ring::download(result.over(results[0]));
    EXPECT_EQ(found, ring::download(function(x)));
  }
}

/// Captures the calls of a cpu queue and counts the captures.
class CapturingQueue final : public device::Queue {
 public:
  CapturingQueue(std::shared_ptr<Queue> inner, int& captured) : inner_(std::move(inner)), captured_(captured) {}
  bool supports(const device::Call& call) const override { return inner_->supports(call); }
  std::shared_ptr<device::Event> record() override { return inner_->record(); }
  void after(const device::Event& event) override { inner_->after(event); }
  void uses(const Buffer& buffer) override { inner_->uses(buffer); }
  void wait() override { inner_->wait(); }
  bool captures() const override { return true; }
  std::unique_ptr<device::Graph> capture(const std::function<void()>& body, const std::vector<device::Queue*>&) override {
    ++captured_;
    auto graph = std::make_unique<Captured>(inner_);
    taken_ = &graph->calls;
    body();
    taken_ = nullptr;
    return graph;
  }

 protected:
  void perform(const device::Call& call) override { taken_ != nullptr ? taken_->push_back(call) : inner_->enqueue(call); }

 private:
  struct Captured final : device::Graph {
    explicit Captured(std::shared_ptr<Queue> queue) : queue(std::move(queue)) {}
    void replay() override {
      for (const device::Call& call : calls) queue->enqueue(call);
    }
    std::shared_ptr<Queue> queue;
    std::vector<device::Call> calls;
  };
  std::shared_ptr<Queue> inner_;
  int& captured_;
  std::vector<device::Call>* taken_ = nullptr;
};

class CapturingDevice final : public device::Device, private device::Peers {
 public:
  /// `launches`: whether calls are asynchronous launches as on a GPU.
  explicit CapturingDevice(bool launches = false) : launches_(launches) {}
  std::string name() const override { return "capturing"; }
  std::string description() const override { return "a processor whose queues capture graphs"; }
  device::MemoryState memory() const override { return inner_->memory(); }
  Buffer allocate(std::size_t bytes, device::Queue& queue) override {
    require<OutOfMemoryError>(!full, "this device is full");
    return inner_->allocate(bytes, queue);
  }
  std::unique_ptr<device::Queue> make_queue() override {
    return std::make_unique<CapturingQueue>(inner_->make_queue(), captured);
  }
  void upload(device::Queue& queue, std::span<const std::byte> from, std::byte* to) override {
    inner_->upload(queue, from, to);
  }
  void download(device::Queue& queue, const std::byte* from, std::span<std::byte> to) override {
    inner_->download(queue, from, to);
  }
  device::Kernels& kernels() override { return inner_->kernels(); }
  bool in_host_memory() const override { return !launches_; }
  device::Capabilities capabilities() override { return {.peers = this}; }
  bool reaches(const device::Device& other) const override {
    return dynamic_cast<const CapturingDevice*>(&other) != nullptr;
  }

  int captured = 0;
  bool full = false;

 private:
  const bool launches_;
  std::unique_ptr<device::Device> inner_ = device::open_device("cpu");
};

/// An owner of one key. The key may be evicted and reloaded at another address.
class Owner final : public program::KeySource {
 public:
  explicit Owner(RnsTensor key) : key(std::move(key)) {}
  std::optional<math::u64> find(const device::Memory& memory) const override {
    return &memory == key.view().memory.get() ? std::optional<math::u64>(7) : std::nullopt;
  }
  Buffer at(math::u64) const override { return key.view().memory; }
  KeyForm form(math::u64) const override { return {}; }
  RnsTensor key;
};

TEST(ProgramGraphs, AlternatingOwnersKeepTheirGraphs) {
  CapturingDevice device;
  const auto engine = std::make_shared<ring::Engine>(device, test::ring_of(test::kField50, kN, 2));
  const auto tensor = [&](math::u64 first) {
    RnsTensor t(engine, {3}, 1, device::PrimeList::range(0, 2), math::Domain::ntt);
    std::vector<math::u64> words(t.view().words());
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = first + i;
    ring::upload(t, std::as_bytes(std::span(words)));
    return t;
  };
  const auto function = [&](RnsTensor x, const Owner& owner) {
    for (int i = 0; i < 12; ++i) x = ring::add(ring::multiply_polynomial(x, owner.key), x);
    return x;
  };
  std::list<Owner> owners;
  for (math::u64 i = 0; i < 10; ++i) owners.emplace_back(tensor(100 * i + 3));
  Owner &one = owners.front(), &two = *std::next(owners.begin());
  const RnsTensor a = tensor(5), b = tensor(77);
  Tape tape({a.view()}, {&one});
  std::optional<device::Observing> observing(tape);
  const RnsTensor first = function(a, one);
  observing.reset();
  const auto made = tape.finish({first.view()});
  const auto replayed = [&](const RnsTensor& x, const Owner& owner) {
    const RnsTensor found = first.over(made->replay({x.view()}, {&owner})[0]);
    EXPECT_EQ(ring::download(found), ring::download(function(x, owner)));
    return found;
  };
  for (int turn = 0; turn < 5; ++turn) {
    replayed(a, one);
    replayed(b, two);
  }
  EXPECT_EQ(device.captured, 2);
  EXPECT_EQ(made->replays().graphs, 10U);
  {  // while results are held, later results get other memory, and each owner another graph
    const RnsTensor kept = replayed(a, one), too = replayed(b, two);
    EXPECT_EQ(device.captured, 3);
    replayed(b, one);
    EXPECT_EQ(device.captured, 4);
  }
  one.key = tensor(9);  // the key moves to other memory
  replayed(a, one);
  const int before = device.captured;
  for (const Owner& owner : owners) replayed(b, owner);
  const int after = device.captured;
  EXPECT_GE(after - before, 8);
  replayed(a, owners.back());  // the cache still has the last graphs, but no longer the first
  EXPECT_EQ(device.captured, after);
  replayed(a, one);
  EXPECT_GT(device.captured, after);
}

TEST(ProgramGraphs, ObservedReplaysUseNoGraphs) {
  CapturingDevice device;
  const auto engine = std::make_shared<ring::Engine>(device, test::ring_of(test::kField50, kN, 2));
  const auto function = [](RnsTensor x) {
    for (int i = 0; i < 12; ++i) x = ring::add(x, x);
    return x;
  };
  const auto recorded = [](const RnsTensor& x, const std::function<RnsTensor(const RnsTensor&)>& f) {
    Tape tape({x.view()}, {});
    std::optional<device::Observing> observing(tape);
    const RnsTensor result = f(x);
    observing.reset();
    return tape.finish({result.view()});
  };
  RnsTensor a(engine, {3}, 1, device::PrimeList::range(0, 2), math::Domain::ntt);
  ring::upload(a, std::vector<std::byte>(a.bytes(), std::byte{0}));
  const auto inner = recorded(a, function);
  const auto outer = recorded(a, [&](const RnsTensor& x) { return ring::add(x.over(inner->replay({x.view()}, {})[0]), x); });
  EXPECT_EQ(device.captured, 0);
  EXPECT_EQ(outer->steps().size(), 13U);
}

/// A mesh of simulated GPUs that are so slow that the mesh distributes all independent work.
class ProgramMembers : public testing::TestWithParam<std::size_t> {
 protected:
  ProgramMembers() {
    std::vector<std::shared_ptr<device::Device>> devices;
    for (std::size_t m = 0; m < GetParam(); ++m) {
      members_.push_back(std::make_shared<CapturingDevice>(true));
      devices.push_back(members_.back());
    }
    mesh::Options options;
    options.costs = {1e3, 300e9, 12e-6, 1e-6, 8e-6};
    mesh_ = mesh::make_mesh(devices, options);
    engine_ = std::make_shared<ring::Engine>(*mesh_, test::ring_of(test::kField50, kN, 2));
  }
  RnsTensor tensor(math::u64 first, std::size_t items = 1) {
    RnsTensor t(engine_, {items}, 1, device::PrimeList::range(0, 2), math::Domain::ntt);
    std::vector<math::u64> words(t.view().words());
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = first + i;
    ring::upload(t, std::as_bytes(std::span(words)));
    return t;
  }
  using Function = std::function<std::vector<RnsTensor>(const std::vector<RnsTensor>&, const Owner&)>;
  std::shared_ptr<Program> recorded(const Function& f, const std::vector<RnsTensor>& inputs, const Owner& owner) {
    std::vector<View> views, results;
    for (const RnsTensor& x : inputs) views.push_back(x.view());
    Tape tape(views, {&owner});
    std::optional<device::Observing> observing(tape);
    const std::vector<RnsTensor> made = f(inputs, owner);
    observing.reset();
    for (const RnsTensor& x : made) results.push_back(x.view());
    return tape.finish(results);
  }
  static std::vector<RnsTensor> replayed(const Program& program, const std::vector<RnsTensor>& inputs, const Owner& owner,
                                         const std::vector<RnsTensor>& like) {
    std::vector<View> views;
    for (const RnsTensor& x : inputs) views.push_back(x.view());
    const std::vector<View> found = program.replay(views, {&owner});
    std::vector<RnsTensor> results;
    for (std::size_t i = 0; i < found.size(); ++i) results.push_back(like[i].over(found[i]));
    return results;
  }
  int captured() const {
    int sum = 0;
    for (const auto& m : members_) sum += m->captured;
    return sum;
  }

  std::vector<std::shared_ptr<CapturingDevice>> members_;
  std::unique_ptr<mesh::Mesh> mesh_;
  std::shared_ptr<ring::Engine> engine_;
};

RnsTensor long_chain(RnsTensor x, const RnsTensor& by, int steps) {
  for (int i = 0; i < steps; ++i) x = ring::add(ring::multiply_polynomial(x, by), x);
  return x;
}

TEST_P(ProgramMembers, EachBranchIsAGraphOnItsMember) {
  Owner one(tensor(9)), two(tensor(33));
  const RnsTensor fixed = tensor(4);
  const Function f = [&](const std::vector<RnsTensor>& x, const Owner& owner) {
    std::vector<RnsTensor> made;
    for (int b = 0; b < 6; ++b)
      made.push_back(long_chain(x[static_cast<std::size_t>(b) % 2], b % 3 ? owner.key : fixed, 8 + b));
    // The branches join in a sum and then separate again.
    const RnsTensor sum = ring::add(ring::add(made[0], made[3]), made[5]);
    made.push_back(long_chain(sum, made[1], 6)), made.push_back(long_chain(sum, made[2], 7));
    return made;
  };
  std::vector<RnsTensor> inputs = {tensor(1), tensor(100)};
  const auto program = recorded(f, inputs, one);
  const Program::Timeline timeline = program->timeline();
  ASSERT_EQ(timeline.lanes.size(), GetParam());
  for (const Program::Lane& lane : timeline.lanes) EXPECT_FALSE(lane.events.empty());
  const std::vector<RnsTensor> like = f(inputs, one);
  for (int turn = 0; turn < 6; ++turn) {
    const Owner& owner = turn % 2 ? two : one;
    inputs[1] = tensor(50 + static_cast<math::u64>(turn));
    const auto found = replayed(*program, inputs, owner, like);
    const auto right = f(inputs, owner);
    for (std::size_t i = 0; i < right.size(); ++i) EXPECT_EQ(ring::download(found[i]), ring::download(right[i])) << i;
    // A replay's result is a valid input, on whichever member it is stored.
    inputs[0] = found.back();
  }
  EXPECT_GE(program->replays().graphs, 5U);
  for (const auto& m : members_) EXPECT_GT(m->captured, 0);
  const int before = captured();
  const auto again = replayed(*program, inputs, two, like);
  const auto held = replayed(*program, inputs, two, like);  // the earlier results are still held
  for (std::size_t i = 0; i < again.size(); ++i) EXPECT_EQ(ring::download(again[i]), ring::download(held[i])) << i;
  EXPECT_LE(captured(), before + 40);
}

TEST_P(ProgramMembers, AChainIsOneGraphOnTheMemberOfItsInput) {
  Owner owner(tensor(9));
  const Function f = [](const std::vector<RnsTensor>& x, const Owner& o) {
    return std::vector<RnsTensor>{long_chain(x[0], o.key, 20)};
  };
  const std::vector<RnsTensor> inputs = {tensor(5)};
  const auto program = recorded(f, inputs, owner);
  const auto like = f(inputs, owner);
  const math::u64 moved = mesh_->moved().bytes;
  for (int turn = 0; turn < 3; ++turn)
    EXPECT_EQ(ring::download(replayed(*program, inputs, owner, like)[0]), ring::download(like[0]));
  EXPECT_EQ(program->replays().graphs, 3U);
  EXPECT_EQ(captured(), 1);
  EXPECT_EQ(mesh_->moved().bytes, moved);
}

TEST_P(ProgramMembers, ShortPartsAreGraphsIfTheHostServesSeveralMembers) {
  Owner owner(tensor(9));
  const Function f = [](const std::vector<RnsTensor>& x, const Owner& o) {
    return std::vector<RnsTensor>{long_chain(x[0], o.key, 1), long_chain(x[1], o.key, 1)};
  };
  const std::vector<RnsTensor> inputs = {tensor(5), tensor(7)};
  const auto replays = [&](const std::shared_ptr<Program>& program, const std::vector<RnsTensor>& like) {
    for (int turn = 0; turn < 3; ++turn) {
      const auto found = replayed(*program, inputs, owner, like);
      for (std::size_t i = 0; i < like.size(); ++i) EXPECT_EQ(ring::download(found[i]), ring::download(like[i])) << i;
    }
    return program->replays().graphs;
  };
  EXPECT_EQ(replays(recorded(f, inputs, owner), f(inputs, owner)), 3U);
  // One branch has two calls, and launching them takes the host less time than launching a graph.
  const Function one = [](const std::vector<RnsTensor>& x, const Owner& o) {
    return std::vector<RnsTensor>{long_chain(x[0], o.key, 1)};
  };
  EXPECT_EQ(replays(recorded(one, inputs, owner), one(inputs, owner)), 0U);
}

TEST_P(ProgramMembers, AMemberWithoutFreeMemoryIsSkipped) {
  Owner owner(tensor(9));
  const RnsTensor fixed = tensor(4);
  const Function f = [&](const std::vector<RnsTensor>& x, const Owner& o) {
    const RnsTensor a = long_chain(x[0], o.key, 9), b = long_chain(x[1], fixed, 12);
    return std::vector<RnsTensor>{long_chain(ring::add(a, b), a, 8), long_chain(b, o.key, 8)};
  };
  const std::vector<RnsTensor> inputs = {tensor(1), tensor(100)};
  const auto like = f(inputs, owner);
  const auto program = recorded(f, inputs, owner), other = recorded(f, inputs, owner);
  const auto compare = [&](const Program& p) {
    const auto found = replayed(p, inputs, owner, like);
    for (std::size_t i = 0; i < like.size(); ++i) EXPECT_EQ(ring::download(found[i]), ring::download(like[i])) << i;
  };
  compare(*program);
  for (std::size_t m = 1; m < members_.size(); ++m) members_[m]->full = true;
  for (int turn = 0; turn < 3; ++turn) compare(*program);
  for (int turn = 0; turn < 3; ++turn) compare(*other);  // the other program uses this member for the first time
  for (std::size_t m = 1; m < members_.size(); ++m) members_[m]->full = false;
  compare(*program), compare(*other);
}

TEST(ProgramMembersMemory, IsFreedAtTheEndOfLifetimes) {
  for (const char* const name : {"2*null/costs=1e3:300e9:12e-6:1e-6:1e-6", "3*null/costs=1e3:300e9:12e-6:1e-6:1e-6"}) {
    const auto device = mesh::open_device(name);
    auto& members = dynamic_cast<mesh::Mesh&>(*device);
    const auto engine = std::make_shared<ring::Engine>(*device, test::ring_of(test::kField50, kN, 2));
    const auto tensor = [&] {
      RnsTensor t(engine, {1}, 1, device::PrimeList::range(0, 2), math::Domain::ntt);
      ring::upload(t, std::vector<std::byte>(t.bytes()));
      return t;
    };
    const RnsTensor a = tensor(), b = tensor();
    constexpr int kSteps = 60;
    Tape tape({a.view(), b.view()}, {});
    std::optional<device::Observing> observing(tape);
    RnsTensor x = long_chain(a, b, kSteps), y = long_chain(b, a, kSteps);
    RnsTensor sum = long_chain(ring::add(x, y), x, kSteps);
    observing.reset();
    const auto made = tape.finish({sum.view(), y.view()});
    x = y = sum = RnsTensor();
    const auto live = [&] {
      std::size_t bytes = 0;
      engine->queue().wait();
      for (std::size_t m = 0; m < members.size(); ++m) bytes += members.member(m).counter()->live_bytes();
      return bytes;
    };
    made->replay({a.view(), b.view()}, {});
    const std::size_t before = live();
    for (std::size_t m = 0; m < members.size(); ++m) members.member(m).counter()->reset();
    for (int turn = 0; turn < 3; ++turn) made->replay({a.view(), b.view()}, {});
    EXPECT_EQ(live(), before) << name;
    std::size_t busy = 0;
    for (std::size_t m = 0; m < members.size(); ++m) {
      if (members.member(m).counter()->total().calls == 0) continue;
      ++busy;
      // The peak memory is less than one tensor per step.
      EXPECT_LT(members.member(m).counter()->peak_bytes(), before + 12 * a.bytes()) << name;
    }
    EXPECT_GT(busy, 1U) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Members, ProgramMembers, testing::Values(std::size_t{2}, std::size_t{3}, std::size_t{4}));

}  // namespace
}  // namespace heliograph
