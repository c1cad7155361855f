// TFHE's kernels on a mesh. Linear combinations and key switches have the bits of `ref`, and bootstraps have the bits of one
// of the members. The bits do not depend on the layout, on the number of items or on the order of wires.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

#include "device/kernels.h"
#include "device/tfhe.h"
#include "mesh/mesh.h"
#include "ranks_rig.h"

namespace heliograph::test {

namespace {

using device::PrimeList;
using device::View;
using math::u32;
using math::u64;
using math::Word;

const device::BootstrapShape kBootstrap{.n = 6, .k = 1, .degree = 256, .gadget = {.log_base = 8, .length = 2}, .group = 2};
const device::KeySwitchShape kSwitch{.from = 256, .to = 6, .gadget = {.log_base = 4, .length = 3}};
constexpr std::size_t kInputs = 6;

std::vector<u64> draw(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<u64> words(count);
  for (u64& w : words) w = random();
  return words;
}

/// The order of the results' wires, which follow the wires of the inputs.
enum class Targets { in_order, backward, even };

/// Returns a layer of `rows` rows, each of which is a combination of up to three inputs.
device::GateLayer gates(std::size_t rows, unsigned outputs, Targets targets, bool linear = false) {
  device::GateLayer layer{.first = {0}, .outputs = outputs, .degree = linear ? 0 : kBootstrap.degree};
  const std::vector<u64> words = draw(rows * 8 + 1, 7);
  for (std::size_t r = 0; r < rows; ++r) {
    const u64* const w = words.data() + 8 * r;
    for (std::size_t t = 0; t < w[0] % 4; ++t) {
      layer.source.push_back(static_cast<u32>((w[1] + t) % kInputs));
      layer.weight.push_back(static_cast<std::int32_t>(w[2 + t] % 9) - 4);
    }
    layer.first.push_back(static_cast<u32>(layer.source.size()));
    layer.constant.push_back(w[6]);
    if (!linear) layer.lut.push_back(static_cast<u32>(w[7] % 3));
  }
  for (std::size_t i = 0; i < rows * outputs; ++i) {
    const std::size_t at = targets == Targets::backward ? rows * outputs - 1 - i : targets == Targets::even ? 2 * i : i;
    layer.target.push_back(static_cast<u32>(kInputs + at));
  }
  if (!linear) layer.tables = draw(3 * kBootstrap.degree, 8);
  return layer;
}

enum class Lie { packed, strided, repeated };

/// The words of a tensor after each kernel: [item][component][word], without the words between ciphertexts.
using Words = std::vector<u64>;

struct Tensor {
  device::Buffer buffer;
  View all, view;
};

class Rig {
 public:
  explicit Rig(std::unique_ptr<device::Device> d) : device(std::move(d)), queue(device->make_queue()) {
    const std::vector<u64> words = draw(kSwitch.words(), 2);
    to_wide = device->tfhe().prepare(kBootstrap, draw(kBootstrap.words(), 1));
    to_narrow = device->tfhe().prepare(kSwitch, std::vector<u32>(words.begin(), words.end()));
  }

  /// Allocates a tensor with random words, also in the items and components that the view skips.
  Tensor tensor(Word word, std::size_t items, std::size_t components, std::size_t n, Lie lie, unsigned seed) {
    const bool strided = lie == Lie::strided;
    Tensor t;
    const std::size_t count = strided ? 2 * items + 1 : items;
    t.all = View::dense(nullptr, word, {count}, strided ? 2 * components + 1 : components, 1, n);
    t.buffer = device->allocate(t.all, {}, *queue);
    t.all.data = t.buffer->address();
    const std::vector<u64> wide = draw(t.all.words(), seed);
    const std::vector<u32> slim(wide.begin(), wide.end());
    const auto bytes = word == Word::w64 ? std::as_bytes(std::span(wide)) : std::as_bytes(std::span(slim));
    device->upload(*queue, bytes, t.all.data);
    t.view = t.all;
    if (strided) {
      t.view = t.all.with_leading(1, 2 * items).with_components(1, 2 * components);
      t.view.shape[0] = items, t.view.stride[0] *= 2;
      t.view.components = components, t.view.component_stride *= 2;
    }
    if (lie == Lie::repeated) t.view.stride[0] = 0;
    return t;
  }

  /// Returns the first `length` words of each ciphertext, including ciphertexts that the view skips.
  Words read(const Tensor& t, std::size_t length) {
    std::vector<std::byte> bytes(t.all.words() * t.all.word_size());
    device->download(*queue, t.all.data, bytes);
    Words words;
    for (std::size_t i = 0; i < t.all.words(); ++i) {
      if (i % t.all.n >= length) continue;
      words.push_back(t.all.word == Word::w64 ? reinterpret_cast<const u64*>(bytes.data())[i]
                                              : reinterpret_cast<const u32*>(bytes.data())[i]);
    }
    return words;
  }

  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::Queue> queue;
  std::shared_ptr<const device::BootstrapKey> to_wide;
  std::shared_ptr<const device::LweSwitchKey> to_narrow;
};

Rig& rig(const std::string& name) {
  static std::map<std::string, Rig> rigs;
  setenv("HELIOGRAPH_THREADS", "1", 1);
  const auto found = rigs.find(name);
  return found != rigs.end() ? found->second : rigs.try_emplace(name, mesh::open_device(name)).first->second;
}

struct Case {
  std::size_t items;
  device::GateLayer layer;
  Lie wires = Lie::packed, narrow = Lie::packed;
};

std::string describe(const Case& c) {
  return std::to_string(c.items) + " items, " + std::to_string(c.layer.rows()) + " rows, " +
         std::to_string(c.layer.outputs) + " outputs, wires " + std::to_string(static_cast<int>(c.wires)) + ", narrow " +
         std::to_string(static_cast<int>(c.narrow)) + ", first target " + std::to_string(c.layer.target[0]);
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (std::size_t items : {1, 2, 5, 7}) {
    list.push_back({items, gates(3, 1, Targets::in_order)});
    list.push_back({items, gates(3, 2, Targets::backward), Lie::strided, Lie::strided});
  }
  list.push_back({5, gates(4, 1, Targets::in_order), Lie::packed, Lie::strided});
  list.push_back({2, gates(9, 4, Targets::in_order), Lie::strided});
  list.push_back({1, gates(11, 2, Targets::even)});
  list.push_back({1, gates(20, 1, Targets::backward)});  // the targets are not contiguous, so each wire is sent separately
  return list;
}

const std::size_t kWide = device::lwe_words(kBootstrap.wide()), kNarrow = device::lwe_words(kBootstrap.n);

Tensor wires_of(Rig& r, const Case& c) { return r.tensor(Word::w64, c.items, c.layer.wires() + 1, kWide, c.wires, 3); }
Tensor narrow_of(Rig& r, const Case& c) { return r.tensor(Word::w32, c.items, c.layer.rows() + 1, kNarrow, c.narrow, 4); }

Words combine(Rig& r, const Case& c) {
  const Tensor wires = wires_of(r, c);
  r.queue->enqueue(device::Combine{r.device->tfhe().prepare(c.layer), wires.view});
  return r.read(wires, kSwitch.from + 1);
}
Words key_switch(Rig& r, const Case& c) {
  const Tensor wires = wires_of(r, c), narrow = narrow_of(r, c);
  r.queue->enqueue(device::LweKeySwitch{r.to_narrow, r.device->tfhe().prepare(c.layer), wires.view, narrow.view});
  return r.read(narrow, kSwitch.to + 1);
}
Words bootstrap(Rig& r, const Case& c) {
  const Tensor wires = wires_of(r, c), narrow = narrow_of(r, c);
  r.queue->enqueue(device::Bootstrap{r.to_wide, r.device->tfhe().prepare(c.layer), narrow.view, wires.view});
  return r.read(wires, kSwitch.from + 1);
}
Words evaluate_times(Rig& r, const Case& c, int times) {
  const Tensor wires = wires_of(r, c), narrow = narrow_of(r, c);
  const auto layer = r.device->tfhe().prepare(c.layer);
  for (int i = 0; i < times; ++i) {
    if (i > 0) r.queue->enqueue(device::Copy{wires.view.with_components(kInputs, 2), wires.view.with_components(1, 2)});
    r.queue->enqueue(device::Evaluate{r.to_narrow, r.to_wide, layer, wires.view, narrow.view});
  }
  return r.read(wires, kSwitch.from + 1);
}
Words evaluate_once(Rig& r, const Case& c) { return evaluate_times(r, c, 1); }
/// Evaluates the layer twice, the second time on the results of the first.
Words evaluate(Rig& r, const Case& c) { return evaluate_times(r, c, 2); }

using Call = Words (*)(Rig&, const Case&);

/// Returns the result of a case on one device; results are cached.
const Words& alone(const std::string& device, Call call, const Case& c) {
  static std::map<std::tuple<std::string, Call, std::string>, Words> known;
  auto& words = known[{device, call, describe(c)}];
  if (words.empty()) words = call(rig(device), c);
  return words;
}

/// Checks that each ciphertext of `length` words equals the ciphertext that one of the members computes.
void expect_of_members(const Words& got, const std::vector<const Words*>& want, std::size_t length,
                       const std::string& what) {
  ASSERT_EQ(got.size(), want[0]->size()) << what;
  for (std::size_t i = 0; i < got.size(); i += length) {
    const auto begin = got.begin() + static_cast<std::ptrdiff_t>(i), end = begin + static_cast<std::ptrdiff_t>(length);
    const bool found = std::any_of(want.begin(), want.end(), [&](const Words* w) {
      return std::equal(begin, end, w->begin() + static_cast<std::ptrdiff_t>(i));
    });
    ASSERT_TRUE(found) << what << ": ciphertext " << i / length;
  }
}

void expect_right(Rig& r, const std::vector<std::string>& members) {
  for (const Case& c : cases()) {
    const std::string what = describe(c);
    SCOPED_TRACE(what);
    EXPECT_EQ(combine(r, c), alone("ref", combine, c));
    EXPECT_EQ(key_switch(r, c), alone("ref", key_switch, c));
    // Members of different kinds give different bits, and a second layer would combine the results of both kinds. So a mesh
    // of members of different kinds evaluates only one layer.
    for (Call call : {bootstrap, members.size() > 1 ? evaluate_once : evaluate}) {
      std::vector<const Words*> want;
      for (const std::string& m : members) want.push_back(&alone(m, call, c));
      expect_of_members(call(r, c), want, kSwitch.from + 1, what);
    }
  }
  for (std::size_t items : {1, 5}) {  // operands may broadcast one item; a linear layer needs no keys
    const Case repeated{items, gates(3, 1, Targets::in_order), Lie::repeated, Lie::packed};
    EXPECT_EQ(key_switch(r, repeated), alone("ref", key_switch, repeated));
    const Case linear{items, gates(4, 1, Targets::in_order, true)};
    EXPECT_EQ(evaluate(r, linear), alone("ref", evaluate, linear));
  }
  const Case read_again{5, gates(3, 2, Targets::in_order), Lie::packed, Lie::repeated};
  std::vector<const Words*> want;
  for (const std::string& m : members) want.push_back(&alone(m, bootstrap, read_again));
  expect_of_members(bootstrap(r, read_again), want, kSwitch.from + 1, describe(read_again));
}

std::string name_of(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

class MeshTfhe : public testing::TestWithParam<std::string> {};

mesh::Mesh& mesh_of(Rig& r) { return dynamic_cast<mesh::Mesh&>(*r.device); }

}  // namespace

TEST_P(MeshTfhe, HasTheBitsOfAMember) {
  const bool ref = GetParam().find("ref") != std::string::npos, cpu = GetParam().find("cpu") != std::string::npos;
  std::vector<std::string> members;
  if (cpu) members.emplace_back("cpu");
  if (ref) members.emplace_back("ref");
  expect_right(rig(GetParam() + "/uncalibrated"), members);
}
INSTANTIATE_TEST_SUITE_P(All, MeshTfhe,
                         testing::Values("1*cpu", "2*cpu", "3*cpu/weights=2:1:1", "cpu,ref", "3*ref/staged", "4*ref/events",
                                         "2*cpu/limb", "3*cpu/coefficient", "6*cpu/weights=1:5:1:2:1:1"),
                         name_of);

TEST(MeshTfhe, WholeItemsDoNotMove) {
  for (const char* name : {"3*ref/uncalibrated", "3*ref/limb/uncalibrated", "3*ref/coefficient/uncalibrated"}) {
    Rig& r = rig(name);
    const auto before = mesh_of(r).moved().exchanges;
    for (std::size_t items : {3, 7}) evaluate(r, {items, gates(3, 2, Targets::in_order)});
    EXPECT_EQ(mesh_of(r).moved().exchanges, before) << name;
  }
}

TEST(MeshTfhe, IdleMembersComputeRows) {
  Rig& r = rig("3*ref/uncalibrated");
  const Case one{1, gates(6, 2, Targets::in_order)};
  const auto before = mesh_of(r).moved();
  evaluate(r, one);
  // Twice, two members receive two rows each and return four results each.
  EXPECT_EQ(mesh_of(r).moved().exchanges, before.exchanges + 8);
  EXPECT_EQ(mesh_of(r).moved().bytes, before.bytes + 2 * 2 * (2 + 4) * kWide * 8);
  // The mesh does not distribute a single row. The mesh also does not distribute wires that are so scattered that sending
  // them takes longer than the bootstraps.
  for (const Case& c : {Case{1, gates(1, 1, Targets::in_order)}, Case{1, gates(200, 1, Targets::backward)}})
    EXPECT_EQ(evaluate_once(r, c), alone("ref", evaluate_once, c));
  EXPECT_EQ(mesh_of(r).moved().exchanges, before.exchanges + 8);
}

TEST(MeshTfhe, TakesTheBootstrapsOfAllMembersInParallel) {
  EXPECT_EQ(rig("3*ref/uncalibrated").device->tfhe().parallel_bootstraps(kBootstrap),
            3 * rig("ref").device->tfhe().parallel_bootstraps(kBootstrap));
}

TEST(MeshTfhe, WiresMayLieInAnyLayout) {
  Rig& r = rig("3*ref/uncalibrated");
  for (const Case& c : {Case{5, gates(3, 2, Targets::in_order)}, Case{1, gates(5, 1, Targets::in_order)}}) {
    const auto layer = r.device->tfhe().prepare(c.layer);
    for (mesh::Layout layout : {mesh::Layout::limb, mesh::Layout::coefficient}) {
      for (const bool wide : {true, false}) {
        Tensor wires = wires_of(r, c), narrow = narrow_of(r, c);
        Tensor& moved = wide ? wires : narrow;
        const device::Buffer there = mesh_of(r).reshard(moved.all, PrimeList{0}, layout, *r.queue);
        moved.view.data = moved.all.data = there->address();
        r.queue->enqueue(device::Combine{layer, wires.view});
        r.queue->enqueue(device::LweKeySwitch{r.to_narrow, layer, wires.view, narrow.view});
        r.queue->enqueue(device::Bootstrap{r.to_wide, layer, narrow.view, wires.view});
        r.queue->enqueue(device::Copy{wires.view.with_components(kInputs, 2), wires.view.with_components(1, 2)});
        r.queue->enqueue(device::Evaluate{r.to_narrow, r.to_wide, layer, wires.view, narrow.view});
        EXPECT_EQ(r.read(wires, kSwitch.from + 1), alone("ref", evaluate, c)) << to_string(layout) << wide;
      }
    }
  }
}

TEST(MeshTfhe, RefusesInvalidOperands) {
  Rig &r = rig("3*ref/uncalibrated"), &other = rig("ref");
  const Case c{2, gates(3, 1, Targets::in_order)};
  const Tensor wires = wires_of(r, c), narrow = narrow_of(r, c);
  auto& k = r.device->tfhe();
  const auto layer = k.prepare(c.layer);
  EXPECT_THROW(r.queue->enqueue(device::LweKeySwitch{other.to_narrow, layer, wires.view, narrow.view}), MismatchError);
  EXPECT_THROW(r.queue->enqueue(device::Bootstrap{other.to_wide, layer, narrow.view, wires.view}), MismatchError);
  EXPECT_THROW(r.queue->enqueue(device::LweKeySwitch{nullptr, layer, wires.view, narrow.view}), MismatchError);
  EXPECT_THROW(r.queue->enqueue(device::Bootstrap{nullptr, layer, narrow.view, wires.view}), MismatchError);
  EXPECT_THROW(r.queue->enqueue(device::Evaluate{r.to_narrow, nullptr, layer, wires.view, narrow.view}), MismatchError);
  EXPECT_THROW(k.prepare(kBootstrap, std::vector<u64>(7)), ShapeError);
  EXPECT_THROW(k.prepare(kSwitch, std::vector<u32>(7)), ShapeError);
  EXPECT_THROW(r.queue->enqueue(device::Combine{layer, wires.view.with_components(0, kInputs)}), ShapeError);
  // The device works after all these errors.
  EXPECT_EQ(evaluate(r, c), alone("ref", evaluate, c));
}

TEST(RankBody, DISABLED_EvaluatesTheSameOnEveryRank) {
  for (const std::string name : {"2*ref/uncalibrated", "ref/limb/uncalibrated"}) {
    Rig mesh(mesh::open_device(name));
    EXPECT_GT(mesh_of(mesh).ranks(), 1u);
    Rig one(device::open_device("ref"));
    EXPECT_EQ(mesh.device->tfhe().parallel_bootstraps(kBootstrap), mesh_of(mesh).size());
    for (const Case& c : {Case{1, gates(7, 2, Targets::in_order)}, Case{2, gates(9, 1, Targets::even), Lie::strided},
                          Case{7, gates(2, 1, Targets::in_order)}}) {
      for (Call call : {combine, key_switch, bootstrap, evaluate}) EXPECT_EQ(call(mesh, c), call(one, c)) << describe(c);
    }
  }
}

TEST(MeshTfhe, RunsOverRanks) {
  const std::vector<Outcome> outcomes = run_ranks("EvaluatesTheSameOnEveryRank", 2);
  for (const Outcome& o : outcomes) EXPECT_TRUE(o.passed) << o.text;
}

}  // namespace heliograph::test
