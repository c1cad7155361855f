// Programs as data: saved on one device, loaded on another; what is damaged is told, and names no memory but its own.
#include <gtest/gtest.h>

#include <random>

#include "mesh/mesh.h"
#include "op_rig.h"
#include "program/file.h"
#include "program/tape.h"
#include "ring/tensor.h"

namespace heliograph {
namespace {

using device::PrimeList;
using device::View;
using program::Program;
using program::Tape;
using ring::RnsTensor;

constexpr std::size_t kN = 64;

/// One set of keys.
class Keys final : public program::KeySource {
 public:
  explicit Keys(RnsTensor key) : key_(std::move(key)) {}
  std::optional<math::u64> find(const device::Memory& memory) const override {
    return &memory == key_.view().memory.get() ? std::optional<math::u64>(5) : std::nullopt;
  }
  device::Buffer at(math::u64 which) const override {
    require<MissingKeyError>(which == 5, "no such key");
    return key_.view().memory;
  }
  using KeySource::at;

 private:
  RnsTensor key_;
};

/// A ring of five primes on a device, with a key switch and a conversion on it.
struct Place {
  explicit Place(const std::string& name)
      : device(name.find('*') == std::string::npos ? device::open_device(name) : mesh::open_device(name)),
        engine(std::make_shared<ring::Engine>(*device, test::ring_of(test::kField50, kN, 5))) {}

  RnsTensor tensor(math::u64 first, std::size_t components, std::size_t limbs, std::size_t items = 3) {
    RnsTensor t(engine, {items}, components, PrimeList::range(0, limbs), math::Domain::ntt);
    std::vector<math::u64> words(t.view().words());
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = first + i * 977;
    ring::upload(t, std::as_bytes(std::span(words)));
    return t;
  }
  RnsTensor key() {
    RnsTensor t(engine, {}, 4, PrimeList::range(0, 5), math::Domain::ntt);
    std::vector<math::u64> words(t.view().words());
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = 3 + i * 31;
    ring::upload(t, std::as_bytes(std::span(words)));
    return t;
  }

  std::unique_ptr<device::Device> device;
  std::shared_ptr<ring::Engine> engine;
};

/// Two digits of two primes, one special prime.
std::shared_ptr<const device::KeySwitchPlan> plan_on(Place& at) {
  auto plan = std::make_shared<device::KeySwitchPlan>();
  const auto moduli = [&](std::initializer_list<int> limbs) {
    std::vector<math::u64> list;
    for (const int l : limbs) list.push_back(at.engine->ring().prime(static_cast<math::PrimeIndex>(l)));
    return list;
  };
  device::Kernels& k = at.device->kernels();
  plan->ring = at.engine->prepared();
  plan->chain = PrimeList::range(0, 4), plan->special = {4};
  plan->extended = plan->key_limbs = PrimeList::range(0, 5);
  plan->digits = {{0, 2, {2, 3, 4}, k.prepare(math::extend_base(moduli({0, 1}), moduli({2, 3, 4})))},
                  {2, 2, {0, 1, 4}, k.prepare(math::extend_base(moduli({2, 3}), moduli({0, 1, 4})))}};
  plan->mod_down = k.prepare(math::divide_and_round(moduli({4}), moduli({0, 1, 2, 3})));
  return plan;
}

/// Constants of every kind: a ring, a permutation, a conversion, a plan with its division, factors, a matrix, other words.
RnsTensor function(Place& at, const RnsTensor& x, const RnsTensor& key, const RnsTensor& fixed,
                   const std::shared_ptr<const device::KeySwitchPlan>& plan) {
  ring::Engine& e = *at.engine;
  RnsTensor y = ring::multiply_polynomial(ring::add(x, x), fixed);
  const RnsTensor low = ring::to_domain(y, math::Domain::coefficient);
  RnsTensor switched(at.engine, x.shape(), 2, plan->chain, math::Domain::coefficient);
  e.enqueue(device::KeySwitch{plan, math::Domain::coefficient, low.view(), key.view(), std::nullopt, switched.view(), {}});
  device::LimbConstants three{};
  three.fill(3);
  e.enqueue(device::MulConstants{e.prepared(), plan->chain, switched.view(), three, switched.view()});
  std::vector<device::LimbConstants> weights(2, three);
  weights[1].fill(7);
  e.enqueue(
      device::WeightedSum{e.prepared(), plan->chain, {switched.view(), switched.view()}, weights, three, switched.view()});
  const RnsTensor sums(at.engine, x.shape(), 2, plan->chain, math::Domain::ntt);
  e.enqueue(device::InnerProduct{e.prepared(),
                                 plan->chain,
                                 y.view(),
                                 key.view(),
                                 plan->chain,
                                 sums.view(),
                                 {nullptr, e.automorphism(5, math::Domain::ntt)}});
  const RnsTensor turned = ring::add(ring::automorphism(ring::to_domain(switched, math::Domain::ntt), 5), sums);
  return ring::gathered_product(
      turned,
      e.product(
          {.groups = 1, .outputs = 1, .positions = 2, .terms = 2, .inputs = 3, .weights = {2, -1}, .index = {0, 1, 1, 2}}),
      {2}, {});
}

struct Recorded {
  RnsTensor x, key, fixed, result;
  std::shared_ptr<Program> program;
};

Recorded recorded(Place& at) {
  Recorded r{.x = at.tensor(1, 1, 4), .key = at.key(), .fixed = at.tensor(40, 1, 4, 1), .result = {}, .program = nullptr};
  const auto plan = plan_on(at);
  const Keys keys(r.key);
  Tape tape({r.x.view()}, {&keys});
  const device::Observing observing(tape);
  r.result = function(at, r.x, r.key, r.fixed, plan);
  r.program = tape.finish({r.result.view()});
  return r;
}

io::Container saved(const Recorded& r, Place& at) {
  io::Container file;
  file.type = "a program";
  program::write(r.program->parts(), {at.engine.get()}, file);
  return file;
}

TEST(ProgramFile, GivesTheSameBitsOnEveryDevice) {
  Place ref("ref");
  const Recorded r = recorded(ref);
  const std::vector<std::byte> bytes = io::to_bytes(saved(r, ref));
  for (const std::string name : {"ref", "cpu", "cpu:scalar", "2*cpu/uncalibrated", "2*cpu/limb/uncalibrated"}) {
    Place other(name);
    io::Container read = io::from_bytes(bytes);
    const Program loaded(program::read(read, {other.engine.get()}, 1));
    EXPECT_EQ(loaded.steps().size(), r.program->steps().size()) << name;
    EXPECT_EQ(loaded.work().products, r.program->work().products) << name;
    for (const math::u64 first : {1, 700}) {
      const RnsTensor x = other.tensor(first, 1, 4), here = ref.tensor(first, 1, 4);
      const Keys keys(other.key()), keys_here(r.key);
      const View result = loaded.replay({x.view()}, {&keys}).front();
      const View expected = r.program->replay({here.view()}, {&keys_here}).front();
      const RnsTensor like(other.engine, {2}, 2, r.result.primes(), r.result.domain());
      EXPECT_EQ(ring::download(like.over(result)), ring::download(r.result.over(expected))) << name << ' ' << first;
    }
    // What was loaded is saved as it was.
    io::Container again;
    again.type = "a program";
    program::write(loaded.parts(), {other.engine.get()}, again);
    EXPECT_EQ(io::to_bytes(again), bytes) << name;
  }
}

TEST(ProgramFile, AKeyThatIsTooSmallIsRefused) {
  Place ref("ref");
  const Recorded r = recorded(ref);
  io::Container file = saved(r, ref);
  const Program loaded(program::read(file, {ref.engine.get()}, 1));
  const Keys small(ref.tensor(1, 1, 1));
  EXPECT_THROW(loaded.replay({r.x.view()}, {&small}), MismatchError);
}

TEST(ProgramFile, WhatIsDamagedIsTold) {
  Place ref("ref");
  const Recorded r = recorded(ref);
  io::Container file = saved(r, ref);
  const auto calls = file.array("calls", "u64", {file.arrays[0].shape[0]}).values<math::u64>();
  std::mt19937_64 random(7);
  std::size_t refused = 0, taken = 0;
  const Keys keys(r.key);
  const auto attempt = [&](std::vector<math::u64> words) {
    io::Container damaged = file;
    damaged.arrays[0] = io::Array::of<math::u64>("calls", {words.size()}, words);
    try {
      const Program loaded(program::read(damaged, {ref.engine.get()}, 1));
      ++taken;
      if (loaded.places().size() > 100 || loaded.peak_bytes() > 1 << 22) return;
      bool fits = true;
      for (const auto& place : loaded.places())
        fits = fits && (place.kind != program::Place::Kind::input ||
                        (place.number == 0 && device::form_of(place.shape) == device::form_of(r.x.view().lent())));
      if (fits) loaded.replay({r.x.view()}, {&keys});
    } catch (const Error&) {
      ++refused;
    }
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (const math::u64 value :
         {math::u64{0}, calls[i] + 1, calls[i] + 8, calls[i] - 1, ~math::u64{0}, math::u64{1} << 33, math::u64{1} << 45}) {
      std::vector<math::u64> words(calls.begin(), calls.end());
      words[i] = value;
      attempt(words);
    }
  }
  for (int i = 0; i < 500; ++i) {
    std::vector<math::u64> words(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(random() % calls.size()));
    attempt(words);
  }
  EXPECT_GT(refused, calls.size());
  EXPECT_GT(taken, 0U);
  EXPECT_THROW(program::read(file, {ref.engine.get()}, 0), DamagedFileError) << "a key of nobody";
}

TEST(ProgramFile, ShowsNothingOfWhatLayThereBefore) {
  Place ref("ref");
  const RnsTensor x = ref.tensor(1, 1, 2);
  Tape tape({x.view()}, {});
  RnsTensor half;
  {
    const device::Observing observing(tape);
    half = RnsTensor(ref.engine, {6}, 1, x.primes(), x.domain());
    ref.engine->enqueue(device::Copy{x.view(), half.view().with_leading(2, 3)});  // the others are written by nobody
  }
  const auto made = tape.finish({half.view()});
  io::Container file;
  file.type = "a program";
  program::write(made->parts(), {ref.engine.get()}, file);
  const Program loaded(program::read(file, {ref.engine.get()}, 0));
  const std::vector<std::byte> words = ring::download(half.over(loaded.replay({x.view()}, {}).front()));
  const std::size_t item = words.size() / 6;
  EXPECT_TRUE(std::all_of(words.begin(), words.begin() + 2 * item, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_TRUE(std::all_of(words.end() - item, words.end(), [](std::byte b) { return b == std::byte{0}; }));
  const std::vector<std::byte> mine = ring::download(x);
  EXPECT_TRUE(std::equal(mine.begin(), mine.end(), words.begin() + 2 * item));
}

}  // namespace
}  // namespace heliograph
