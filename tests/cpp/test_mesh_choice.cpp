// A mesh places tensors by its cost model. By these costs, several devices are never slower than one, after any sequence of
// calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>

#include "mesh/costs.h"
#include "mesh/mesh.h"
#include "mesh/placement.h"
#include "op_cases.h"

namespace heliograph::test {

namespace {

/// Costs that were measured on H200s: NTTs per second, bytes per second; seconds for an exchange, for distributing a call,
/// and for a step.
const std::string kH200 = "/costs=6.45e6:250e9:14e-6:40e-6:8e-6";
/// Costs of members that are so slow that the mesh distributes all work.
const std::string kSlow = "/costs=1e3:300e9:12e-6:1e-6:8e-6";

mesh::Costs h200_costs(std::size_t members) {
  mesh::Costs c;
  c.weights.assign(members, 1);
  c.limbs_a_second.assign(members, 6.45e6);
  c.all = {.bytes_a_second = 250e9, .exchange_seconds = 14e-6};
  return c;
}

struct Words {
  device::Buffer buffer;
  View view;
};

class Opened {
 public:
  explicit Opened(const std::string& name) {
    setenv("HELIOGRAPH_THREADS", "1", 1);
    device_ = mesh::open_device(name);
    mesh_ = dynamic_cast<mesh::Mesh*>(device_.get());
    queue_ = device_->make_queue();
  }
  mesh::Mesh& mesh() { return *mesh_; }
  device::Queue& queue() { return *queue_; }

  Words words(std::size_t items, std::size_t limbs, std::size_t n, std::size_t components = 1) {
    Words w{nullptr, View::dense(nullptr, Word::w64, {items}, components, limbs, n)};
    w.buffer = mesh_->allocate(w.view, PrimeList::range(0, limbs), *queue_);
    w.view.data = w.buffer->address();
    return w;
  }
  /// Allocates a tensor and zeroes it by a call without operands, so the mesh is free to place it.
  Words zeros(std::size_t items, std::size_t limbs, std::size_t n, std::size_t components = 1) {
    Words w = words(items, limbs, n, components);
    queue_->enqueue(device::Zero{w.view});
    queue_->wait();
    return w;
  }
  /// Returns the bytes that the kernel's calls wrote on each null member since the last call of `written`.
  std::vector<u64> written(const std::string& kernel) {
    queue_->wait();
    std::vector<u64> bytes;
    for (std::size_t m = 0; m < mesh_->size(); ++m) {
      device::Counter& counter = *mesh_->member(m).counter();
      const auto counts = counter.counts();
      const auto at = counts.find(kernel);
      bytes.push_back(at == counts.end() ? 0 : at->second.bytes_written);
      counter.reset();
    }
    return bytes;
  }
  std::shared_ptr<const device::RingConstant> ring(std::size_t n, std::size_t limbs) {
    return mesh_->kernels().prepare(ring_of(kField50, n, limbs));
  }

 private:
  std::unique_ptr<device::Device> device_;
  mesh::Mesh* mesh_ = nullptr;
  std::unique_ptr<device::Queue> queue_;
};

std::string members_of(std::size_t count, const std::string& kind, const std::string& options) {
  return std::to_string(count) + "*" + kind + options;
}

View slice(const View& v, std::ptrdiff_t start, std::ptrdiff_t step, std::size_t count) {
  View r = v.with_leading(0, 1);
  r.data += start * v.stride[0] * static_cast<std::ptrdiff_t>(v.word_size());
  r.shape[0] = count, r.stride[0] = v.stride[0] * step;
  return r;
}

struct Sizes {
  std::size_t log_n, limbs;
};
/// (log2 N, limbs) of BGV, BFV, BFV with log q = 1200, and CKKS n16-l28.
const std::vector<Sizes> kSizes = {{14, 6}, {15, 12}, {16, 24}, {16, 28}};

}  // namespace

TEST(MeshChoice, OneCiphertextIsOnOneMemberUnlessSharingLimbsIsFaster) {
  for (std::size_t members : {2, 3, 4, 8}) {
    const mesh::Costs costs = h200_costs(members);
    Opened open(members_of(members, "null", kH200));
    for (const Sizes& s : kSizes) {
      const std::size_t n = std::size_t{1} << s.log_n;
      const Words x = open.zeros(1, s.limbs, n, 2);
      const std::vector<u64> bytes = open.written("zero");
      const auto workers = static_cast<std::size_t>(std::count_if(bytes.begin(), bytes.end(), [](u64 b) { return b > 0; }));
      for (mesh::Work work : {mesh::Work::key_switch, mesh::Work::multiply}) {
        const double alone = costs.alone(work, s.limbs, n);
        const double chosen = workers == 1 ? alone : costs.over_limbs(work, s.limbs, n, workers, costs.all);
        EXPECT_LE(chosen, alone) << members << " members, N=2^" << s.log_n << ", " << s.limbs << " limbs";
      }
      EXPECT_EQ(workers, 1U) << members << " members, N=2^" << s.log_n << ", " << s.limbs << " limbs";
      EXPECT_GT(bytes[0], 0U);  // the complete tensor is on one member
    }
  }
}

TEST(MeshChoice, PredictionsAreNearMeasurements) {
  // Seconds of one call among many, from h200x2-levelled.jsonl, h200x2-mesh.jsonl, h200x4-flags.jsonl and
  // h200-levelled.jsonl.
  struct Measured {
    mesh::Work work;
    std::size_t limbs, members;
    double seconds;
  };
  for (const Measured& m : {Measured{mesh::Work::key_switch, 28, 1, 303.7e-6},
                            {mesh::Work::key_switch, 28, 2, 320.4e-6},
                            {mesh::Work::multiply, 24, 1, 789.9e-6},
                            {mesh::Work::multiply, 24, 2, 818.3e-6},
                            {mesh::Work::multiply, 24, 3, 688.0e-6},
                            {mesh::Work::multiply, 24, 4, 608.1e-6}}) {
    const mesh::Costs costs = h200_costs(m.members);
    const double predicted = m.members == 1 ? costs.alone(m.work, m.limbs, 1 << 16)
                                            : costs.over_limbs(m.work, m.limbs, 1 << 16, m.members, costs.all);
    EXPECT_NEAR(predicted / m.seconds, 1, 0.25) << m.members << " members, " << m.limbs << " limbs";
  }
}

TEST(MeshChoice, LimbsOfLargeCiphertextsAreSharedIfExchangesAreFast) {
  Opened open("4*null/costs=1e6:600e9:2e-6:10e-6:1e-6");
  const Words x = open.zeros(1, 56, std::size_t{1} << 17, 2);
  for (u64 bytes : open.written("zero")) EXPECT_EQ(bytes, u64{56} / 4 * 2 * 8 << 17);
}

TEST(MeshChoice, OneCiphertextIsNotSharedOverASlowNetwork) {
  // Four hosts with one core each, and links as measured in benchmarks/results/xeon167-slow-network.jsonl.
  mesh::Costs costs;
  costs.weights.assign(4, 1);
  costs.limbs_a_second.assign(4, 3.4e4);
  costs.group = {0};
  for (const double bytes : {60e6, 200e6}) {
    costs.all = {.bytes_a_second = bytes, .exchange_seconds = 1.4e-3};
    for (const Sizes& s : {Sizes{13, 8}, Sizes{14, 6}, Sizes{16, 8}})
      EXPECT_FALSE(costs.limbs_pay(s.limbs, std::size_t{1} << s.log_n)) << bytes << ", N=2^" << s.log_n;
  }
  costs.all = {.bytes_a_second = 2e9, .exchange_seconds = 50e-6};
  EXPECT_TRUE(costs.limbs_pay(24, std::size_t{1} << 16));
  EXPECT_EQ(costs.limb_members(), 4U);
}

TEST(MeshChoice, FewSmallItemsStayOnOneMemberMoreAreDistributed) {
  Opened open("8*null" + kH200);
  open.zeros(2, 6, 1 << 14, 2);  // a product takes 15 us, less time than distributing the call
  EXPECT_EQ(open.written("zero"), (std::vector<u64>{u64{2} * 2 * 6 * 8 << 14, 0, 0, 0, 0, 0, 0, 0}));
  open.zeros(16, 6, 1 << 14, 2);
  EXPECT_EQ(open.written("zero"), std::vector<u64>(8, u64{2} * 2 * 6 * 8 << 14));
  open.zeros(2, 28, 1 << 16, 2);
  EXPECT_EQ(open.written("zero"), (std::vector<u64>{u64{2} * 28 * 8 << 16, u64{2} * 28 * 8 << 16, 0, 0, 0, 0, 0, 0}));
}

TEST(MeshChoice, AFewItemsOfManyAreDistributedOverAllMembers) {
  constexpr std::size_t kLimbs = 12, kN = 1 << 15;
  constexpr u64 kItem = u64{kLimbs} * kN * 8;
  for (std::size_t members : {2, 4, 8}) {
    Opened open(members_of(members, "null", kH200));
    const auto ring = open.ring(kN, kLimbs);
    const Words x = open.zeros(64, kLimbs, kN), y = open.zeros(64, kLimbs, kN);
    open.written("add");
    for (std::ptrdiff_t start : {0, 8, 56}) {
      const Words out = open.words(8, kLimbs, kN);
      open.queue().enqueue(
          device::Add{ring, PrimeList::range(0, kLimbs), slice(x.view, start, 1, 8), slice(y.view, start, 1, 8), out.view});
      EXPECT_EQ(open.written("add"), std::vector<u64>(members, 8 / members * kItem)) << start;
    }
    EXPECT_EQ(open.mesh().moved().exchanges, 0U);
  }
}

TEST(MeshChoice, SharesFollowTheMembersSpeeds) {
  Opened open("3*null/weights=2:1:1" + kSlow);
  open.zeros(64, 2, 1024);
  EXPECT_EQ(open.written("zero"), (std::vector<u64>{32 * 2 * 8192, 16 * 2 * 8192, 16 * 2 * 8192}));
  Opened other("3*null/weights=1:4:1" + kH200);
  other.zeros(1, 2, 1024);
  // the home member is the one with the largest weight
  EXPECT_EQ(other.written("zero"), (std::vector<u64>{0, 2 * 8192, 0}));
}

TEST(MeshChoice, ResultsStayWithTheirOperandsUnlessMovingIsFaster) {
  constexpr std::size_t kLimbs = 12, kN = 1 << 15;
  constexpr u64 kItem = u64{kLimbs} * kN * 8;
  const PrimeList primes = PrimeList::range(0, kLimbs);
  for (const bool slow : {false, true}) {
    Opened open("4*null" + (slow ? kSlow : kH200));
    const auto ring = open.ring(kN, kLimbs);
    const Words x = open.zeros(64, kLimbs, kN), many = open.zeros(1000, kLimbs, kN);
    open.written("neg");
    // Items 0, 4, 8... are all on one member. A fast operation stays on this member; a slow operation is distributed.
    for (const View& v : {slice(x.view, 0, 4, 8), slice(many.view, 0, 1, 8), slice(many.view, 8, -1, 8)}) {
      const Words out = open.words(8, kLimbs, kN);
      open.queue().enqueue(device::Neg{ring, primes, v, out.view});
      const std::vector<u64> bytes = open.written("neg");
      EXPECT_EQ(bytes, slow ? std::vector<u64>(4, 2 * kItem) : std::vector<u64>({8 * kItem, 0, 0, 0}));
    }
    EXPECT_EQ(open.mesh().moved().exchanges, slow ? 3U : 0U);
    if (slow) continue;
    // Tests slices that begin at any item, several adjacent results per item, and the middle of consecutive shares.
    const View shifted = slice(x.view, 3, 1, 8), middle = slice(many.view, 240, 1, 20);
    const Words first = open.words(8, kLimbs, kN), stack = open.words(64 * 8, kLimbs, kN),
                third = open.words(20, kLimbs, kN);
    open.queue().enqueue(device::Neg{ring, primes, shifted, first.view});
    for (std::ptrdiff_t r = 0; r < 8; ++r)
      open.queue().enqueue(device::Neg{ring, primes, x.view, slice(stack.view, r, 8, 64)});
    for (std::ptrdiff_t r = 0; r < 8; ++r) {
      const Words one = open.words(64, kLimbs, kN);
      open.queue().enqueue(device::Neg{ring, primes, slice(stack.view, r, 8, 64), one.view});
    }
    open.queue().enqueue(device::Neg{ring, primes, middle, third.view});
    EXPECT_EQ(open.mesh().moved().exchanges, 0U);
  }
}

TEST(MeshChoice, ComputesAnItemOnItsMember) {
  // An operation on one ciphertext of a batch runs on the member that stores the ciphertext, as fast as on one device.
  Opened open("4*null" + kH200);
  constexpr std::size_t kLimbs = 12, kN = 1 << 15;
  const auto ring = open.ring(kN, kLimbs);
  const Words x = open.zeros(64, kLimbs, kN);
  open.written("neg");
  for (std::ptrdiff_t item : {0, 1, 5, 63}) {
    const Words out = open.words(1, kLimbs, kN);
    open.queue().enqueue(device::Neg{ring, PrimeList::range(0, kLimbs), slice(x.view, item, 1, 1), out.view});
    std::vector<u64> wanted(4);
    wanted[static_cast<std::size_t>(item) % 4] = u64{kLimbs} * kN * 8;
    EXPECT_EQ(open.written("neg"), wanted);
  }
  EXPECT_EQ(open.mesh().moved().exchanges, 0U);
}

TEST(MeshChoice, AProductWithManyKeysIsDistributedByLimbsAndItsSumToo) {
  constexpr std::size_t kLimbs = 30, kN = 1 << 16;
  const PrimeList primes = PrimeList::range(0, kLimbs);
  struct Case {
    std::string costs;
    std::size_t members, terms;
    bool shared;
  };
  const std::string slow_links = "/costs=6.45e6:1e9:1e-3:40e-6:8e-6";
  for (const Case& c :
       {Case{kH200, 2, 64, true}, Case{kH200, 4, 64, true}, Case{kH200, 2, 4, false}, Case{slow_links, 2, 64, false}}) {
    Opened open(members_of(c.members, "null", c.costs));
    const auto ring = open.ring(kN, kLimbs);
    const Words x = open.zeros(1, kLimbs, kN), key = open.zeros(1, kLimbs, kN, 2 * c.terms);
    const Words out = open.words(1, kLimbs, kN, 2), sum = open.words(1, kLimbs, kN, 2);
    std::vector<device::PermutationHandle> turns;
    for (std::size_t t = 0; t < c.terms; ++t)
      turns.push_back(open.mesh().kernels().prepare(device::Permutation{math::automorphism_table(kN, 2 * t + 3), {}}));
    View one_key = key.view;
    one_key.axes = 0;
    open.written("zero");
    open.queue().enqueue(device::InnerProduct{ring, primes, x.view, one_key, primes, out.view, turns});
    open.queue().enqueue(device::Add{ring, primes, out.view, out.view, sum.view});
    open.queue().wait();
    std::vector<u64> made, added;
    for (std::size_t m = 0; m < c.members; ++m) {
      auto counts = open.mesh().member(m).counter()->counts();
      made.push_back(counts["inner_product"].bytes_written), added.push_back(counts["add"].bytes_written);
    }
    const auto workers = [](const std::vector<u64>& bytes) {
      return static_cast<std::size_t>(std::count_if(bytes.begin(), bytes.end(), [](u64 b) { return b > 0; }));
    };
    EXPECT_EQ(workers(made), c.shared ? c.members : 1U) << c.costs << " " << c.members << " " << c.terms;
    EXPECT_EQ(made, added) << "the sum of a distributed product must stay distributed";
  }
}

// Slices of slices, reversed or concatenated in any order, always have the values that NumPy gives.
TEST(MeshChoice, EarlierCallsDoNotChangeResults) {
  for (const std::string& name :
       {"1*cpu" + kSlow, "2*cpu" + kSlow, "3*cpu" + kSlow, "4*cpu" + kH200, "3*cpu/weights=1:3:2" + kSlow,
        "3*cpu/staged" + kSlow, "6*cpu" + kSlow, std::string("5*cpu/batch/uncalibrated")}) {
    SCOPED_TRACE(name);
    Opened open(name);
    constexpr std::size_t kN = 1024;
    const auto ring = open.ring(kN, 2);
    const PrimeList primes = PrimeList::range(0, 2);
    struct Tensor {
      Words words;
      std::vector<u64> values;  // one value per item, which all words of the item have
    };
    std::vector<Tensor> tensors;
    std::minstd_rand random(7);
    const auto any = [&](std::size_t below) { return static_cast<std::size_t>(random()) % below; };
    const auto fresh = [&](std::size_t items) {
      Tensor t{open.words(items, 2, kN), std::vector<u64>(items)};
      std::vector<u64> host;
      for (u64& v : t.values) v = any(1000), host.insert(host.end(), 2 * kN, v);
      open.mesh().upload(open.queue(), std::as_bytes(std::span(host)), t.words.view.data);
      tensors.push_back(std::move(t));
    };
    for (std::size_t items : {1, 2, 5, 64, 300}) fresh(items);
    struct Part {
      View view;
      std::vector<u64> values;
    };
    const auto part_of = [&](const Tensor& t, std::size_t count) {
      const auto most = static_cast<std::ptrdiff_t>(t.values.size());
      std::ptrdiff_t step =
          count > 1 ? 1 + static_cast<std::ptrdiff_t>(any(static_cast<std::size_t>((most - 1)) / (count - 1))) : 1;
      const std::ptrdiff_t reach = static_cast<std::ptrdiff_t>(count - 1) * step;
      std::ptrdiff_t start = static_cast<std::ptrdiff_t>(any(static_cast<std::size_t>(most - reach)));
      if (any(4) == 0) start += reach, step = -step;
      Part p{slice(t.words.view, start, step, count), {}};
      for (std::size_t i = 0; i < count; ++i)
        p.values.push_back(t.values[static_cast<std::size_t>(start + static_cast<std::ptrdiff_t>(i) * step)]);
      return p;
    };
    for (int round = 0; round < 150; ++round) {
      const Tensor a = tensors[any(tensors.size())], b = tensors[any(tensors.size())];
      const std::size_t count = 1 + any(std::min({a.values.size(), b.values.size(), std::size_t{70}}));
      const Part x = part_of(a, count), y = part_of(b, count);
      // The result is a separate tensor or consists of every third item of a larger tensor.
      const std::size_t apart = any(3) == 0 ? 3 : 1;
      Tensor out{open.words(count * apart, 2, kN), std::vector<u64>(count * apart)};
      for (std::size_t r = 0; r < apart; ++r) {
        open.queue().enqueue(
            device::Add{ring, primes, x.view, y.view,
                        slice(out.words.view, static_cast<std::ptrdiff_t>(r), static_cast<std::ptrdiff_t>(apart), count)});
        for (std::size_t i = 0; i < count; ++i) out.values[i * apart + r] = x.values[i] + y.values[i];
      }
      std::vector<u64> host(out.values.size() * 2 * kN);
      open.mesh().download(open.queue(), out.words.view.data, std::as_writable_bytes(std::span(host)));
      for (std::size_t i = 0; i < out.values.size(); ++i) {
        ASSERT_EQ(host[i * 2 * kN], out.values[i]) << "round " << round << ", item " << i << " of " << out.values.size();
        ASSERT_EQ(host[(i + 1) * 2 * kN - 1], out.values[i]);
      }
      // discards results with large values, so that sums do not overflow
      if (*std::max_element(out.values.begin(), out.values.end()) >> 40) continue;
      tensors[any(tensors.size())] = std::move(out);
    }
  }
}

TEST(MeshChoice, BlocksWithAnyStepsFindTheirCommonItems) {
  std::minstd_rand random(3);
  const auto any = [&](std::size_t below) { return static_cast<std::size_t>(random()) % below; };
  alignas(64) static std::byte here[64 * 64 * 8], there[64 * 64 * 8];
  for (int round = 0; round < 2000; ++round) {
    const auto block = [&](std::byte* words) {
      mesh::Block b{.member = 0, .first = any(20), .count = 1 + any(15), .limbs = {0}, .begin = 0, .length = 64, .view = {}};
      b.step = 1 + any(7);
      b.view = View::dense(words, Word::w64, {b.count}, 1, 1, 64);
      return b;
    };
    const mesh::Block a = block(here), b = block(there);
    std::vector<std::array<std::size_t, 2>> wanted, found;  // pairs of positions in a and b that have the same item
    for (std::size_t i = 0; i < a.count; ++i) {
      for (std::size_t k = 0; k < b.count; ++k) {
        if (a.first + i * a.step == b.first + k * b.step) wanted.push_back({i, k});
      }
    }
    for (const mesh::Pair& p : intersect(a, b)) {
      for (std::size_t i = 0; i < p.from.items(); ++i) {
        found.push_back({static_cast<std::size_t>(p.from.address(i, 0, 0) - here) / 512,
                         static_cast<std::size_t>(p.to.address(i, 0, 0) - there) / 512});
      }
    }
    ASSERT_EQ(found, wanted) << a.first << "+" << a.step << "x" << a.count << ", " << b.first << "+" << b.step << "x"
                             << b.count;
  }
}

TEST(MeshChoice, DistributionsKnowTheMemberAndPositionOfEachItem) {
  using mesh::Distribution;
  for (const Distribution& distribution :
       {Distribution::round({0, 1, 2}, 17), Distribution::round({2, 0}, 17, 3), Distribution::round({1, 3, 0, 2}, 5, 4),
        Distribution::whole(2, 9), Distribution::shares({0, 4, 4, 9, 11}), Distribution::round({3, 1, 2}, 2)}) {
    std::vector<std::size_t> held(5);
    for (std::size_t i = 0; i < distribution.items(); ++i) {
      EXPECT_EQ(distribution.place(i), held[distribution.owner(i)]) << i;  // a member's items are in order, without gaps
      ++held[distribution.owner(i)];
    }
    for (std::size_t m = 0; m < 4; ++m) EXPECT_EQ(distribution.items_on(m), held[m]) << m;
  }
  EXPECT_EQ(Distribution::round({2, 0}, 3, 4).sole(), std::optional<std::size_t>(2));
  EXPECT_EQ(Distribution::shares({0, 0, 5}).sole(), std::optional<std::size_t>(1));
  EXPECT_EQ(Distribution::round({0, 1}, 2).sole(), std::nullopt);
}

}  // namespace heliograph::test
