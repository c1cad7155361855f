// Where a mesh's tensors lie: more devices are never slower than one by its own costs, whatever was computed before.
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

/// As measured on H200s: transforms and bytes a second, then seconds of an exchange, of spreading a call, of a step.
const std::string kH200 = "/costs=6.45e6:250e9:14e-6:40e-6:8e-6";
/// Members so slow that all that can be is spread.
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
  /// Written by a call of no operands.
  Words zeros(std::size_t items, std::size_t limbs, std::size_t n, std::size_t components = 1) {
    Words w = words(items, limbs, n, components);
    queue_->enqueue(device::Zero{w.view});
    queue_->wait();
    return w;
  }
  /// Of null members: bytes that calls of a kernel wrote on each since the last question.
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
/// BGV, BFV, BFV of log q 1200, CKKS n16-l28.
const std::vector<Sizes> kSizes = {{14, 6}, {15, 12}, {16, 24}, {16, 28}};

}  // namespace

TEST(MeshChoice, OneCiphertextLiesOnOneMemberUnlessItsLimbsPay) {
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
      EXPECT_GT(bytes[0], 0U);  // all at one home
    }
  }
}

TEST(MeshChoice, PredictionsAreNearWhatWasMeasured) {
  // Seconds of one call among many; h200x2-levelled.json, h200x2-mesh.json, h200x4-flags.json, h200-levelled.json.
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

TEST(MeshChoice, LimbsOfLargeCiphertextsAreSharedWhereExchangesAreCheap) {
  Opened open("4*null/costs=1e6:600e9:2e-6:10e-6:1e-6");
  const Words x = open.zeros(1, 56, std::size_t{1} << 17, 2);
  for (u64 bytes : open.written("zero")) EXPECT_EQ(bytes, u64{56} / 4 * 2 * 8 << 17);
}

TEST(MeshChoice, OneCiphertextIsNotSharedOverASlowNetwork) {
  // Four hosts with a core each, by links as benchmarks/results/xeon167-slow-network.json has them.
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

TEST(MeshChoice, FewSmallItemsStayTogetherMoreAreSpread) {
  Opened open("8*null" + kH200);
  open.zeros(2, 6, 1 << 14, 2);  // a product takes 15 us, less than waking another member
  EXPECT_EQ(open.written("zero"), (std::vector<u64>{u64{2} * 2 * 6 * 8 << 14, 0, 0, 0, 0, 0, 0, 0}));
  open.zeros(16, 6, 1 << 14, 2);
  EXPECT_EQ(open.written("zero"), std::vector<u64>(8, u64{2} * 2 * 6 * 8 << 14));
  open.zeros(2, 28, 1 << 16, 2);
  EXPECT_EQ(open.written("zero"), (std::vector<u64>{u64{2} * 28 * 8 << 16, u64{2} * 28 * 8 << 16, 0, 0, 0, 0, 0, 0}));
}

TEST(MeshChoice, AFewItemsOfManyAreSpreadOverAllMembers) {
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

TEST(MeshChoice, MembersOfUnequalSpeedGetTheirShares) {
  Opened open("3*null/weights=2:1:1" + kSlow);
  open.zeros(64, 2, 1024);
  EXPECT_EQ(open.written("zero"), (std::vector<u64>{32 * 2 * 8192, 16 * 2 * 8192, 16 * 2 * 8192}));
  Opened other("3*null/weights=1:4:1" + kH200);
  other.zeros(1, 2, 1024);
  EXPECT_EQ(other.written("zero"), (std::vector<u64>{0, 2 * 8192, 0}));  // home is where it is fastest
}

TEST(MeshChoice, ResultsLieWhereTheirOperandsDoUnlessMovingThemPays) {
  constexpr std::size_t kLimbs = 12, kN = 1 << 15;
  constexpr u64 kItem = u64{kLimbs} * kN * 8;
  const PrimeList primes = PrimeList::range(0, kLimbs);
  for (const bool slow : {false, true}) {
    Opened open("4*null" + (slow ? kSlow : kH200));
    const auto ring = open.ring(kN, kLimbs);
    const Words x = open.zeros(64, kLimbs, kN), many = open.zeros(1000, kLimbs, kN);
    open.written("neg");
    // Every fourth lies on one member: a sum stays there, what takes long is spread.
    for (const View& v : {slice(x.view, 0, 4, 8), slice(many.view, 0, 1, 8), slice(many.view, 8, -1, 8)}) {
      const Words out = open.words(8, kLimbs, kN);
      open.queue().enqueue(device::Neg{ring, primes, v, out.view});
      const std::vector<u64> bytes = open.written("neg");
      EXPECT_EQ(bytes, slow ? std::vector<u64>(4, 2 * kItem) : std::vector<u64>({8 * kItem, 0, 0, 0}));
    }
    EXPECT_EQ(open.mesh().moved().exchanges, slow ? 3U : 0U);
    if (slow) continue;
    // From any item on; several results of each item side by side; the middle of consecutive shares.
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

TEST(MeshChoice, IsTheSameWhateverTheMemberThatHasAnItem) {
  // A single ciphertext of many is worked on where it lies: as fast as on one device.
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

// Slices of slices, back to front, side by side, in any order: always the words that NumPy would have.
TEST(MeshChoice, NoHistoryChangesAWord) {
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
      std::vector<u64> values;  // of each item, in all of its words
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
      // The result is a tensor of its own, or every third item of a larger one.
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
      if (*std::max_element(out.values.begin(), out.values.end()) >> 40) continue;  // sums stay small
      tensors[any(tensors.size())] = std::move(out);
    }
  }
}

TEST(MeshChoice, BlocksOfAnyStepsMeetInTheirCommonItems) {
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
    std::vector<std::array<std::size_t, 2>> wanted, found;  // places of the same item
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

TEST(MeshChoice, DealsSayWhereEachItemIs) {
  using mesh::Deal;
  for (const Deal& deal : {Deal::round({0, 1, 2}, 17), Deal::round({2, 0}, 17, 3), Deal::round({1, 3, 0, 2}, 5, 4),
                           Deal::whole(2, 9), Deal::shares({0, 4, 4, 9, 11}), Deal::round({3, 1, 2}, 2)}) {
    std::vector<std::size_t> held(5);
    for (std::size_t i = 0; i < deal.items(); ++i) {
      EXPECT_EQ(deal.place(i), held[deal.owner(i)]) << i;  // in their order, without gaps
      ++held[deal.owner(i)];
    }
    for (std::size_t m = 0; m < 4; ++m) EXPECT_EQ(deal.items_on(m), held[m]) << m;
  }
  EXPECT_EQ(Deal::round({2, 0}, 3, 4).sole(), std::optional<std::size_t>(2));
  EXPECT_EQ(Deal::shares({0, 0, 5}).sole(), std::optional<std::size_t>(1));
  EXPECT_EQ(Deal::round({0, 1}, 2).sole(), std::nullopt);
}

}  // namespace heliograph::test
