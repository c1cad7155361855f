// Programs are saved on one device and loaded on another. A damaged file is refused, or else the loaded program accesses
// only its own memory.
#include <gtest/gtest.h>

#include <cstring>
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

/// A key source with one key.
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
  KeyForm form(math::u64) const override {
    KeyForm form{.n = key_.view().n, .moduli = {}};
    for (const math::PrimeIndex p : key_.primes()) form.moduli.push_back(key_.engine()->ring().prime(p));
    return form;
  }

 private:
  RnsTensor key_;
};

/// A ring of five primes on a device, with a key switch and a conversion.
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

/// Returns the context for reading a program's file: parameter sets, inputs and the number of key sources.
program::Surroundings around(Place& at, const std::vector<RnsTensor>& inputs, std::size_t sources) {
  program::Surroundings s{
      .sets = {{.session = at.engine.get(), .rings = {at.engine->prepared()}, .bootstrap_key = {}, .switch_key = {}}},
      .inputs = {},
      .sources = sources};
  for (const RnsTensor& x : inputs) {
    s.inputs.push_back({device::form_of(x.view()), {}});
    for (const math::PrimeIndex p : x.primes()) s.inputs.back().moduli.push_back(at.engine->ring().prime(p));
  }
  return s;
}
program::Program::Parts read(io::Container& file, Place& at, const std::vector<RnsTensor>& inputs, std::size_t sources) {
  return program::read(file, around(at, inputs, sources), {}).parts;
}

/// Fills memory with this byte and frees it, so that later allocations contain it.
void leave(Place& at, std::byte byte) {
  std::vector<device::Buffer> held;
  std::vector<std::byte> words(1 << 14, byte);
  for (std::size_t bytes = 512; bytes <= words.size(); bytes += 512) {
    held.push_back(at.engine->allocate(bytes));
    View all = View::dense(held.back()->address(), math::Word::w64, {}, 1, 1, bytes / 8);
    all.memory = held.back();
    at.engine->upload(std::span(words).first(bytes), all);
  }
}

/// Returns a plan with two digits of two primes each and one special prime.
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

/// Records a program with constants of every kind: a ring, a permutation, a conversion, a plan with its division, factors, a
/// matrix, words.
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
      {2});
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

io::Container saved(const Program& program, Place& at) {
  io::Container file;
  file.type = "a program";
  program::write(program.parts(), {at.engine.get()}, {at.engine.get()}, file);
  return io::from_bytes(io::to_bytes(file));  // the copy also has the arrays' words
}

TEST(ProgramFile, HasTheSameBitsOnEveryDevice) {
  Place ref("ref");
  const Recorded r = recorded(ref);
  const std::vector<std::byte> bytes = io::to_bytes(saved(*r.program, ref));
  for (const std::string name : {"ref", "cpu", "cpu:scalar", "2*cpu/uncalibrated", "2*cpu/limb/uncalibrated"}) {
    Place other(name);
    io::Container file = io::from_bytes(bytes);
    const Program loaded(read(file, other, {other.tensor(1, 1, 4)}, 1));
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
    // Saving a loaded program again gives the same bytes.
    EXPECT_EQ(io::to_bytes(saved(loaded, other)), bytes) << name;
  }
}

TEST(ProgramFile, AKeyThatIsTooSmallIsRefused) {
  Place ref("ref");
  const Recorded r = recorded(ref);
  io::Container file = saved(*r.program, ref);
  const Program loaded(read(file, ref, {r.x}, 1));
  for (const auto& [components, limbs] :
       {std::pair<std::size_t, std::size_t>{1, 1}, {8, 4}}) {  // the second key has the same number of words but other limbs
    const Keys other(ref.tensor(1, components, limbs));
    EXPECT_THROW(loaded.replay({r.x.view()}, {&other}), MismatchError) << limbs;
  }
}

TEST(ProgramFile, DamageIsDetected) {
  Place ref("ref");
  const Recorded r = recorded(ref);
  io::Container file = saved(*r.program, ref);
  const auto calls = file.array("calls", "u64", {file.arrays[0].shape[0]}).values<math::u64>();
  std::mt19937_64 random(7);
  std::size_t refused = 0, taken = 0;
  const Keys keys(r.key);
  const program::Surroundings given = around(ref, {r.x}, 1);
  const auto attempt = [&](std::vector<math::u64> words) {
    io::Container damaged = file;
    damaged.arrays[0] = io::Array::of<math::u64>("calls", {words.size()}, words);
    try {
      program::Loaded read = program::read(damaged, given, {.bytes = 1 << 22, .products = 1 << 22});
      const Program loaded(std::move(read.parts));
      ++taken;
      if (taken % 16 != 1) {
        loaded.replay({r.x.view()}, {&keys});
        return;
      }
      // Results are residues, and do not depend on what the memory contained before.
      std::vector<std::vector<std::byte>> shown;
      for (const std::byte before : {std::byte{0xa5}, std::byte{0x3c}}) {
        leave(ref, before);
        const View result = loaded.replay({r.x.view()}, {&keys}).at(0);
        if (!device::is_dense(result)) return;
        shown.emplace_back(result.bytes());
        ref.engine->download(result, shown.back());
      }
      EXPECT_EQ(shown[0], shown[1]) << "the result contains memory that the program did not write";
      const View& v = loaded.parts().results.at(0).view;
      bool reduced = true;
      for (std::size_t i = 0; v.word == math::Word::w64 && i < shown[0].size() / 8; ++i) {
        math::u64 word = 0;
        std::memcpy(&word, shown[0].data() + 8 * i, 8);
        reduced = reduced && word < read.below[0][i / v.n % v.limbs];
      }
      EXPECT_TRUE(reduced);
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
  EXPECT_THROW(read(file, ref, {r.x}, 0), DamagedFileError) << "the program uses a key of no owner";
}

TEST(ProgramFile, ResultsContainNoOldMemory) {
  Place ref("ref");
  const RnsTensor x = ref.tensor(1, 1, 2);
  Tape tape({x.view()}, {});
  RnsTensor half;
  {
    const device::Observing observing(tape);
    half = RnsTensor(ref.engine, {6}, 1, x.primes(), x.domain());
    ref.engine->enqueue(device::Copy{x.view(), half.view().with_leading(2, 3)});  // no call writes the other items
  }
  const auto made = tape.finish({half.view()});
  io::Container file = saved(*made, ref);
  const Program loaded(read(file, ref, {x}, 0));
  const std::vector<std::byte> words = ring::download(half.over(loaded.replay({x.view()}, {}).front()));
  const std::size_t item = words.size() / 6;
  EXPECT_TRUE(std::all_of(words.begin(), words.begin() + 2 * item, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_TRUE(std::all_of(words.end() - item, words.end(), [](std::byte b) { return b == std::byte{0}; }));
  const std::vector<std::byte> mine = ring::download(x);
  EXPECT_TRUE(std::equal(mine.begin(), mine.end(), words.begin() + 2 * item));
}

}  // namespace
}  // namespace heliograph
