// Every declared case on a mesh has the bits of `ref`, in every layout, for any kind and number of members, any weights and
// any links.
#include <gtest/gtest.h>
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backend/cpu/cpu.h"
#include "mesh/costs.h"
#include "mesh/mesh.h"
#include "op_cases.h"
#include "op_plans.h"

namespace heliograph::test {

namespace {

Target open_mesh(const std::string& name) {
  setenv("HELIOGRAPH_THREADS", "1", 1);
  return {name, mesh::open_device(name), {}};
}

class MeshOperation : public testing::TestWithParam<std::string> {
 protected:
  void check(const std::vector<const OpCase*>& cases) {
    Target target;
    try {
      target = open_mesh(GetParam() + "/uncalibrated");
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
    for (const OpCase* c : cases) {
      Results got;
      ASSERT_NO_THROW(got = run_case(target, *c)) << c->kernel << "/" << c->name;
      EXPECT_EQ(fault_in(*c, got), "");
    }
  }
};

class FullMeshOperation : public MeshOperation {};

// Meshes of one kind are consecutive: together they run all cases, each mesh a part.
const std::vector<std::string> kMeshes = {
    // the mesh chooses the layout by its cost model
    "1*cpu", "2*cpu", "3*cpu",
    // distributed by items
    "3*cpu/batch", "3*cpu/costs=1e3:300e9:12e-6:1e-6:8e-6", "6*cpu/batch/weights=1:5:1:2:1:1", "3*cpu/batch/staged",
    // distributed by limbs
    "2*cpu/limb/broadcast", "3*cpu/limb/transpose", "4*cpu/limb/output", "5*cpu/limb/weights=1:2:3:1:1", "8*cpu/limb",
    "2*cpu/limb/staged", "cpu,ref,cpu:scalar/limb", "4*cpu/limb/hosts=0:1:1:2/uncalibrated",
    // distributed by coefficients
    "2*cpu/coefficient", "7*cpu/coefficient", "2*cpu/coefficient/staged", "5*cpu/coefficient/hosts=0:1:1:0:1/uncalibrated",
    // meshes of GPUs, each of which runs all cases
    "cuda:0,cuda:1", "cuda:0,cuda:1/limb/broadcast", "cuda:0,cuda:1/limb/transpose/output", "cuda:0,cuda:1/coefficient",
    "cuda:0,cuda:1/limb/staged", "cuda:0,cuda:0,cuda:0/limb", "cuda:0,cpu/batch", "cuda:0,cpu,cuda:0/limb/weights=3:1:2"};

std::string name_of(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

}  // namespace

TEST_P(MeshOperation, HasTheBitsOfRef) {
  const auto mesh = static_cast<std::size_t>(std::find(kMeshes.begin(), kMeshes.end(), GetParam()) - kMeshes.begin());
  check(GetParam().find("cuda") != std::string::npos ? all_mesh_cases() : mesh_cases(mesh));
}
TEST_P(FullMeshOperation, HasTheBitsOfRef) { check(all_mesh_cases()); }

INSTANTIATE_TEST_SUITE_P(All, MeshOperation, testing::ValuesIn(kMeshes), name_of);
INSTANTIATE_TEST_SUITE_P(All, FullMeshOperation, testing::ValuesIn(kMeshes), name_of);

namespace {

/// A temporary folder for a mesh's cache of measurements.
class Cache {
 public:
  Cache() {
    std::string name = testing::TempDir() + "mesh-cache-XXXXXX";
    path_ = mkdtemp(name.data());
    setenv("XDG_CACHE_HOME", path_.c_str(), 1);
  }
  ~Cache() {
    unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(path_);
  }
  std::string file() const { return path_ + "/heliograph/mesh.json"; }

 private:
  std::string path_;
};

struct Words {
  device::Buffer buffer;
  View view;
};

Words words(device::Device& d, device::Queue& q, std::size_t items, std::size_t limbs, std::size_t n, u64 first) {
  Words w{nullptr, View::dense(nullptr, Word::w64, {items}, 1, limbs, n)};
  w.buffer = d.allocate(w.view, PrimeList::range(0, limbs), q);
  w.view.data = w.buffer->address();
  std::vector<u64> values(items * limbs * n);
  for (u64& v : values) v = first++;
  d.upload(q, std::as_bytes(std::span(values)), w.view.data);
  return w;
}

std::vector<u64> read(device::Device& d, device::Queue& q, const View& v, std::size_t first, std::size_t count) {
  std::vector<u64> values(count);
  d.download(q, v.data + 8 * first, std::as_writable_bytes(std::span(values)));
  return values;
}

std::unique_ptr<mesh::Mesh> mesh_of(const std::string& name) {
  setenv("HELIOGRAPH_THREADS", "1", 1);
  auto d = mesh::open_device(name);
  auto* const m = dynamic_cast<mesh::Mesh*>(d.get());
  if (m == nullptr) return nullptr;
  d.release();
  return std::unique_ptr<mesh::Mesh>(m);
}

}  // namespace

TEST(Mesh, OperationsOnWholeItemsMoveNothing) {
  const auto m = mesh_of("3*cpu/batch/uncalibrated");
  const auto q = m->make_queue();
  const auto ring = m->kernels().prepare(ring_of(kField50, 1024, 2));
  const Words a = words(*m, *q, 7, 2, 1024, 0), b = words(*m, *q, 7, 2, 1024, 5);
  const Words out = words(*m, *q, 7, 2, 1024, 0);
  q->enqueue(device::Add{ring, PrimeList::range(0, 2), a.view, b.view, out.view});
  q->wait();
  EXPECT_EQ(m->moved().exchanges, 0u);
  // Each member that lacks the broadcast item fetches it once, and keeps it until the item changes.
  View one = b.view;
  one.stride[0] = 0;
  for (int i = 0; i < 3; ++i) q->enqueue(device::Add{ring, PrimeList::range(0, 2), a.view, one, out.view});
  q->wait();
  EXPECT_EQ(m->moved().exchanges, 1u);
  EXPECT_EQ(m->moved().bytes, 2u * 2 * 1024 * 8);
  q->enqueue(device::Neg{ring, PrimeList::range(0, 2), b.view, b.view});
  q->enqueue(device::Add{ring, PrimeList::range(0, 2), a.view, one, out.view});
  q->wait();
  EXPECT_EQ(m->moved().exchanges, 2u);
}

TEST(Mesh, ADivisionByLimbsMovesOnlyTheDroppedLimbs) {
  Target target = open_mesh("3*cpu/limb/broadcast/uncalibrated");
  const auto& m = dynamic_cast<const mesh::Mesh&>(*target.device);
  const auto ring = switch_ring(kField50, 1024);
  constexpr u64 kItems = 5, kLimb = kItems * 1024 * 8;
  Rig rig(target);
  {
    const device::DividePlan plan = divide_plan(rig, ring, PrimeList::range(0, 6), PrimeList::range(0, 4));
    const View x = rig.input(*ring, plan.primes, {{kItems}, 2}), out = rig.output(*ring, plan.out, {{kItems}, 2});
    rig.queue().enqueue(device::Divide{held(plan), x, out});
    rig.queue().wait();
    EXPECT_EQ(m.moved().exchanges, 1u);
    EXPECT_EQ(m.moved().bytes, 2 * 2 * 2 * kLimb);  // two limbs of two components are sent to two members
  }
  const auto plan = ntt_switch_plan(rig, ring, {"", {0, 1, 2}, {6}, {1, 1, 1}}, PrimeList::range(0, 3));
  const View x = rig.input(*ring, plan->chain, {{kItems}, 1}), add = rig.input(*ring, plan->chain, {{kItems}, 2});
  const View key = rig.input(*ring, PrimeList::range(0, 9), {{}, 6}), out = rig.output(*ring, plan->chain, {{kItems}, 2});
  rig.queue().enqueue(device::KeySwitch{plan, math::Domain::ntt, x, key, add, out});
  rig.queue().wait();
  // Every member computes the special primes' limbs of the sums and keeps those limbs of the key. Only the input is moved
  // again.
  const auto before = m.moved();
  rig.queue().enqueue(device::KeySwitch{plan, math::Domain::ntt, x, key, add, out});
  rig.queue().wait();
  EXPECT_EQ(m.moved().exchanges - before.exchanges, 1u);
  EXPECT_EQ(m.moved().bytes - before.bytes, 3 * 2 * kLimb);
}

TEST(Mesh, LayoutsHoldTheSameWords) {
  for (const char* name : {"1*cpu", "2*cpu", "5*cpu", "8*cpu", "3*cpu/staged", "4*cpu/weights=1:7:2:3"}) {
    const auto m = mesh_of(std::string(name) + "/uncalibrated");
    const auto q = m->make_queue();
    const Words a = words(*m, *q, 3, 5, 1024, 1000);
    View from = a.view;
    std::vector<device::Buffer> kept;
    for (mesh::Layout to : {mesh::Layout::limb, mesh::Layout::coefficient, mesh::Layout::batch, mesh::Layout::coefficient,
                            mesh::Layout::limb, mesh::Layout::batch}) {
      kept.push_back(m->reshard(from, PrimeList::range(0, 5), to, *q));
      from.data = kept.back()->address();
      const std::vector<u64> all = read(*m, *q, from, 0, 3 * 5 * 1024);
      for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], 1000 + i) << name << " as " << to_string(to);
      // A copy may read any range of words.
      for (const auto& [first, count] : {std::pair{0, 1}, {1023, 2}, {700, 3000}, {5 * 1024 - 1, 5 * 1024 + 2}}) {
        const std::vector<u64> some = read(*m, *q, from, static_cast<std::size_t>(first), static_cast<std::size_t>(count));
        EXPECT_EQ(some.front(), 1000u + static_cast<u64>(first));
        EXPECT_EQ(some.back(), 1000u + static_cast<u64>(first + count - 1));
      }
    }
  }
}

TEST(Mesh, MembersOfOneKindHaveEqualShares) {
  const Cache cache;
  mesh_of("2*cpu");
  std::string text;
  std::getline(std::ifstream(cache.file()), text, '\0');
  const std::string name = "\"limbs_a_second\":[";
  const std::size_t begin = text.find(name) + name.size(), end = text.find(']', begin);
  ASSERT_LT(end, text.size());
  text.replace(begin, end - begin, "4e6,1e6");  // as if the second member had been busy during the measurement
  std::ofstream(cache.file()) << text;
  const auto lines = mesh_of("2*cpu")->report();
  for (std::size_t m = 0; m < 2; ++m) EXPECT_NE(lines[m].find("share 1.00, 4e+06"), std::string::npos) << lines[m];
}

TEST(Mesh, LimbsStayOnOneHostIfLinksBetweenHostsAreSlow) {
  mesh::Costs costs;
  costs.weights = {1, 1, 1, 1, 1};
  costs.limbs_a_second.assign(5, 7e6);
  costs.group = {1, 2, 4};
  costs.step_seconds = 1e-6;
  costs.inside = mesh::Links{.bytes_a_second = 300e9, .exchange_seconds = 12e-6};
  costs.all = {.bytes_a_second = 1e9, .exchange_seconds = 50e-6};
  EXPECT_EQ(costs.limb_weights(), (std::vector<double>{0, 1, 1, 0, 1}));
  EXPECT_EQ(costs.limb_members(), 3U);
  costs.all = {.bytes_a_second = 250e9, .exchange_seconds = 13e-6};
  EXPECT_EQ(costs.limb_weights(), costs.weights);
  EXPECT_EQ(costs.limb_members(), 5U);

  // A tensor of one item and many limbs is distributed over the three members of host 1.
  const auto mesh = mesh_of("5*cpu/limb/hosts=0:1:1:2:1/uncalibrated");
  const auto queue = mesh->make_queue();
  constexpr std::size_t kLimbs = 32, kN = std::size_t{1} << 16;
  const Words w = words(*mesh, *queue, 1, kLimbs, kN, 5);
  const device::u64 before = mesh->moved().bytes;
  View v = View::dense(nullptr, Word::w64, {1}, 1, kLimbs, kN);
  const device::Buffer whole = mesh->reshard(w.view, PrimeList::range(0, kLimbs), mesh::Layout::batch, *queue);
  v.data = whole->address();
  EXPECT_EQ(read(*mesh, *queue, v, 0, 3), (std::vector<u64>{5, 6, 7}));
  EXPECT_EQ(mesh->moved().bytes - before, kLimbs * kN * 8);  // the complete tensor is moved: member 0 had no part
}

TEST(Mesh, SlowMembersGetSmallerShares) {
  const Cache cache;
  const auto start = [&] { return mesh_of("2*cpu/slowdown=1:6"); };
  const auto m = start();
  ASSERT_EQ(m->report().size(), 3u);
  const auto share = [](const std::string& line) { return std::stod(line.substr(line.find("share ") + 6)); };
  EXPECT_GT(share(m->report()[0]), 2 * share(m->report()[1])) << m->report()[0] << "\n" << m->report()[1];
  ASSERT_TRUE(std::filesystem::exists(cache.file()));
  // The measurement is cached: another mesh reports exactly the same numbers.
  EXPECT_EQ(start()->report().back(), m->report().back());
  // A new measurement replaces a damaged cache file.
  std::ofstream(cache.file()) << "{\"format\":1,\"meshes\":[";
  EXPECT_EQ(start()->report().size(), 3u);
  EXPECT_GT(std::filesystem::file_size(cache.file()), 100u);
}

TEST(Mesh, MembersThatAreTooSlowGetNoShare) {
  const Cache cache;
  for (const char* name : {"3*cpu/slowdown=1:80:1", "3*cpu/slowdown=80:1:1"}) {
    const auto m = mesh_of(name);
    const std::size_t slow = name[15] == '8' ? 0 : 1;
    EXPECT_NE(m->report()[slow].find("no share"), std::string::npos) << m->report()[slow];
    const auto q = m->make_queue();
    backend::cpu::fail_allocation(m->member(slow), 1000);  // an allocation there is an error
    for (const std::size_t items : {1, 2, 3, 40}) {
      const Words a = words(*m, *q, items, 2, 1024, 3);
      EXPECT_EQ(read(*m, *q, a.view, 2 * 1024 * items - 2, 2), (std::vector<u64>{2048 * items + 1, 2048 * items + 2}));
    }
  }
}

TEST(Mesh, AnOldOrDisturbedMeasurementIsRepeated) {
  const Cache cache;
  mesh_of("2*cpu/slowdown=1:6");
  const auto read_file = [&] {
    std::string text;
    std::getline(std::ifstream(cache.file()), text, '\0');
    return text;
  };
  const auto with = [](std::string text, const std::string& name, const std::string& value) {
    const std::size_t begin = text.find("\"" + name + "\":") + name.size() + 3;
    return text.replace(begin, text.find_first_of(",}", begin) - begin, value);
  };
  // Marks the cached measurement with a value that a new measurement would replace.
  const std::string marked = with(with(read_file(), "spread_seconds", "0.123"), "load", "0");
  const auto is_kept = [&](const std::string& text) {
    std::ofstream(cache.file()) << text;
    mesh_of("2*cpu/slowdown=1:6");
    return read_file().find("0.123") != std::string::npos;
  };
  EXPECT_TRUE(is_kept(marked));
  EXPECT_FALSE(is_kept(with(marked, "measured_at", "1700000000")));  // a measurement of 2023 is too old
  EXPECT_FALSE(is_kept(with(marked, "measured_at", "9e9")));         // a time in the future, from a clock that was wrong
  EXPECT_FALSE(is_kept(with(marked, "load", "1e6")));                // the load was higher than it can be now
}

TEST(Mesh, HostsOfOneMemberHaveNoInternalLinks) {
  const Cache cache;
  const auto report = [] { return mesh_of("2*cpu/hosts=0:1")->report(); };
  const std::vector<std::string> first = report();
  ASSERT_EQ(first.size(), 3U);  // lines: two members, and the links between hosts
  EXPECT_EQ(first.back().find("inside"), std::string::npos) << first.back();
  EXPECT_EQ(report().back(), first.back());  // the cached report has exactly the same numbers
}

TEST(Mesh, OutOfMemoryOfAMemberIsAnErrorOrRetried) {
  const auto m = mesh_of("3*cpu/batch/uncalibrated");
  const auto q = m->make_queue();
  const View huge = View::dense(nullptr, Word::w64, {std::size_t{1} << 30}, 1, 2, 1 << 16);
  EXPECT_THROW(m->allocate(huge, PrimeList::range(0, 2), *q), OutOfMemoryError);
  backend::cpu::fail_allocation(m->member(1), 1);  // fails once; the retry succeeds after pending releases
  const Words a = words(*m, *q, 9, 2, 1024, 3);
  EXPECT_EQ(read(*m, *q, a.view, 0, 1)[0], 3u);
}

TEST(Mesh, TensorsBeyondAMembersMemoryGoToTheNextMember) {
  const auto m = mesh_of("3*cpu/batch/uncalibrated");
  const auto q = m->make_queue();
  const auto ring = m->kernels().prepare(ring_of(kField50, 1024, 2));
  const Words a = words(*m, *q, 1, 2, 1024, 7);
  backend::cpu::fail_allocation(m->member(0), 1);
  const Words b = words(*m, *q, 1, 2, 1024, 40);
  // The operands are moved to the member of the result.
  q->enqueue(device::Add{ring, PrimeList::range(0, 2), a.view, b.view, a.view});
  EXPECT_EQ(read(*m, *q, a.view, 1, 1)[0], 8u + 41u);
  EXPECT_EQ(m->moved().bytes, 2u * 1024 * 8);
}

TEST(Mesh, RefusesInvalidMeshNames) {
  for (const char* name :
       {"2*cpu/diagonal", "0*cpu", "65*cpu", "x*cpu", "cpu,abacus", "2*cpu/weights=1", "2*cpu/weights=1:0",
        "2*cpu/weights=1:b", "2*cpu/costs=1:2:3", "2*cpu/costs=1:2:3:4:0", "2*cpu/slowdown=1:2:3"}) {
    EXPECT_THROW(mesh::open_device(name), ParameterError) << name;
  }
}

TEST(Mesh, ThreadsMayShareAMesh) {
  const auto m = mesh_of("3*cpu/limb/uncalibrated");
  const auto ring = m->kernels().prepare(ring_of(kField50, 1024, 3));
  const PrimeList primes = PrimeList::range(0, 3);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto q = m->make_queue();
      const auto first = static_cast<u64>(t) * 100000;
      const Words a = words(*m, *q, 2, 3, 1024, first);
      for (int i = 0; i < 20; ++i) {
        const device::Buffer moved = m->reshard(a.view, primes, mesh::Layout::coefficient, *q);
        View v = a.view;
        v.data = moved->address();
        q->enqueue(device::Neg{ring, primes, v, v});
        q->enqueue(device::Neg{ring, primes, v, a.view});
      }
      const std::vector<u64> got = read(*m, *q, a.view, 0, 2 * 3 * 1024);
      right += got.front() == first && got.back() == first + got.size() - 1;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 4);
}

}  // namespace heliograph::test
