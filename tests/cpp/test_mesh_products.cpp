// Matrix products over a distributed batch have the words of one device, and move only the inputs that a member lacks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "backend/cuda/cuda.h"
#include "mesh/mesh.h"
#include "op_cases.h"
#include "ranks_rig.h"

namespace heliograph::test {

namespace {

using device::GatheredProduct;

constexpr std::size_t kN = 1024, kLimbs = 2;
constexpr u64 kItem = kLimbs * kN * 8;
/// Costs with which the mesh distributes all work, and moving data takes longer than computing.
const std::string kFar = "/costs=1e3:1e6:1e-3:1e-6:8e-6";
/// Costs with which moving data takes almost no time.
const std::string kNear = "/costs=1e3:300e9:1e-9:1e-9:1e-9";

/// Tensors of one component on a mesh; all words of an item have one known value.
class Batch {
 public:
  explicit Batch(const std::string& name) {
    setenv("HELIOGRAPH_THREADS", "1", 1);
    device_ = mesh::open_device(name);
    mesh_ = dynamic_cast<mesh::Mesh*>(device_.get());
    queue_ = device_->make_queue();
    ring_ = device_->kernels().prepare(ring_of(kField50, kN, kLimbs));
  }

  struct Words {
    device::Buffer buffer;
    View view;
    std::vector<u64> values;  // the value of each item's first limb, modulo the first prime
  };
  Words words(std::size_t items) {
    Words w{nullptr, View::dense(nullptr, Word::w64, {items}, 1, kLimbs, kN), std::vector<u64>(items)};
    w.buffer = device_->allocate(w.view, PrimeList::range(0, kLimbs), *queue_);
    w.view.data = w.buffer->address();
    return w;
  }
  Words filled(std::size_t items) {
    Words w = words(items);
    refill(w);
    return w;
  }
  void refill(Words& w) {
    std::vector<u64> host;
    for (u64& v : w.values) v = random_() % ring_->ring().primes()[1], host.insert(host.end(), kLimbs * kN, v);
    device_->upload(*queue_, std::as_bytes(std::span(host)), w.view.data);
  }
  Words product(const GatheredProduct& g, const Words& in) {
    Words out = words(g.groups * g.outputs * g.positions);
    const auto constant = device_->kernels().prepare(g);
    queue_->enqueue(device::Product{ring_, PrimeList::range(0, kLimbs), constant, in.view, out.view});
    const auto q = static_cast<math::i64>(modulus());
    for (std::size_t i = 0; i < out.values.size(); ++i) {
      const std::size_t p = i % g.positions, row = i / g.positions, group = row / g.outputs;
      math::i64 sum = 0;
      for (std::size_t k = 0; k < g.terms; ++k) {
        const u32 input = g.index[(group * g.positions + p) * g.terms + k];
        if (input == GatheredProduct::kNone) continue;
        sum = (sum + g.weights[row * g.terms + k] * static_cast<math::i64>(in.values[input])) % q;
      }
      out.values[i] = static_cast<u64>((sum + q) % q);
    }
    return out;
  }
  Words negated(const Words& in) {
    Words out = words(in.values.size());
    queue_->enqueue(device::Neg{ring_, PrimeList::range(0, kLimbs), in.view, out.view});
    for (std::size_t i = 0; i < out.values.size(); ++i) out.values[i] = in.values[i] ? modulus() - in.values[i] : 0;
    return out;
  }
  /// Checks the first limbs of all items.
  testing::AssertionResult right(const Words& w) {
    std::vector<u64> host(w.values.size() * kLimbs * kN);
    device_->download(*queue_, w.view.data, std::as_writable_bytes(std::span(host)));
    for (std::size_t i = 0; i < w.values.size(); ++i) {
      for (std::size_t k : {std::size_t{0}, kN - 1}) {
        if (host[i * kLimbs * kN + k] != w.values[i])
          return testing::AssertionFailure() << "item " << i << " of " << w.values.size() << ", word " << k;
      }
    }
    return testing::AssertionSuccess();
  }
  /// Returns the number of items that moved between members since the last call of `moved`.
  u64 moved() {
    const u64 all = mesh_->moved().bytes, since = all - seen_;
    seen_ = all;
    EXPECT_EQ(since % kItem, 0U);
    return since / kItem;
  }
  /// Waits for all work and returns the bytes that this rank has sent.
  u64 sent() {
    queue_->wait();
    return mesh_->moved().sent_bytes;
  }
  math::i64 weight() { return static_cast<math::i64>(random_() % 41) - 20; }

 private:
  u64 modulus() const { return ring_->ring().primes()[0]; }

  std::unique_ptr<device::Device> device_;
  mesh::Mesh* mesh_ = nullptr;
  std::unique_ptr<device::Queue> queue_;
  std::shared_ptr<const device::RingConstant> ring_;
  std::mt19937_64 random_{5};
  u64 seen_ = 0;
};

/// Returns a convolution in which each group reads one plane of `side` x `side` inputs through windows of `kernel` x
/// `kernel`. The plane is surrounded by `padding` zeros.
GatheredProduct convolution(Batch& batch, std::size_t groups, std::size_t outputs, std::size_t side, std::size_t kernel,
                            std::size_t stride, std::size_t padding = 0) {
  const std::size_t across = (side + 2 * padding - kernel) / stride + 1;
  GatheredProduct g{.groups = groups,
                    .outputs = outputs,
                    .positions = across * across,
                    .terms = kernel * kernel,
                    .inputs = groups * side * side};
  for (std::size_t i = 0; i < groups * outputs * g.terms; ++i) g.weights.push_back(batch.weight());
  for (std::size_t group = 0; group < groups; ++group) {
    for (std::size_t p = 0; p < g.positions; ++p) {
      for (std::size_t k = 0; k < g.terms; ++k) {
        const std::size_t y = p / across * stride + k / kernel, x = p % across * stride + k % kernel;
        const bool inside = y >= padding && x >= padding && y - padding < side && x - padding < side;
        g.index.push_back(inside ? static_cast<u32>((group * side + y - padding) * side + x - padding)
                                 : GatheredProduct::kNone);
      }
    }
  }
  return g;
}

GatheredProduct dense(Batch& batch, std::size_t outputs, std::size_t inputs) {
  GatheredProduct g{.groups = 1, .outputs = outputs, .positions = 1, .terms = inputs, .inputs = inputs};
  for (std::size_t i = 0; i < outputs * inputs; ++i) g.weights.push_back(batch.weight());
  for (std::size_t i = 0; i < inputs; ++i) g.index.push_back(static_cast<u32>(i));
  return g;
}

// Checks which items move in layers like those of HCNN-5 (Al Badawi et al.): windows overlap by rows, and the dense layer
// has few outputs.
void a_network_moves_rows_and_sums(const std::string& members) {
  Batch batch(members + kFar);
  Batch::Words x = batch.filled(28 * 28);
  const GatheredProduct first = convolution(batch, 1, 5, 28, 5, 2), second = convolution(batch, 5, 10, 12, 5, 2),
                        last = dense(batch, 10, 800);
  batch.moved();
  for (int call = 0; call < 3; ++call) {
    if (call == 2) batch.refill(x);
    const Batch::Words a = batch.product(first, x);
    // the second call moves nothing: fetched inputs are cached until they change
    EXPECT_EQ(batch.moved(), call == 1 ? 0U : 27U + 2 * 27);
    const Batch::Words b = batch.negated(a);
    EXPECT_EQ(batch.moved(), 0U);
    const Batch::Words c = batch.product(second, b);
    EXPECT_EQ(batch.moved(), 5U * (11 + 2 * 11));
    const Batch::Words d = batch.negated(c);
    EXPECT_EQ(batch.moved(), 0U);
    const Batch::Words e = batch.product(last, d);
    EXPECT_EQ(batch.moved(), 10U);
    for (const Batch::Words* w : {&a, &b, &c, &d, &e}) EXPECT_TRUE(batch.right(*w)) << call;
  }
}

// Checks the words of products whose windows lie on several members, with padding and groups, in any distribution.
void words_are_right(const std::string& name) {
  SCOPED_TRACE(name);
  Batch batch(name);
  for (const std::size_t side : {7, 20}) {
    const Batch::Words x = batch.filled(3 * side * side);
    const Batch::Words a = batch.product(convolution(batch, 3, 4, side, 3, 1, 1), x);
    const Batch::Words b = batch.product(convolution(batch, 12, 1, side, 3, 2), batch.negated(a));
    const Batch::Words c = batch.product(dense(batch, 7, b.values.size()), batch.negated(b));
    const Batch::Words d = batch.product(dense(batch, 1, c.values.size()), c);
    for (const Batch::Words* w : {&a, &b, &c, &d}) EXPECT_TRUE(batch.right(*w)) << side;
  }
}

}  // namespace

TEST(MeshProducts, ANetworkMovesOnlySharedRowsAndPartialSums) { a_network_moves_rows_and_sums("2*cpu"); }

TEST(MeshProducts, PoolingStaysWithItsInputs) {
  Batch batch("2*cpu" + kFar);
  const Batch::Words x = batch.filled(28 * 28), a = batch.product(convolution(batch, 1, 5, 28, 5, 2), x);
  batch.moved();
  GatheredProduct pool = convolution(batch, 5, 1, 12, 2, 2);  // the schemes compute pooling as one group with one output
  pool.groups = 1, pool.positions *= 5, pool.weights.resize(pool.terms);
  const Batch::Words b = batch.product(pool, a);
  EXPECT_EQ(batch.moved(), 0U);
  EXPECT_TRUE(batch.right(b));
}

TEST(MeshProducts, HaveTheSameWordsInEveryDistribution) {
  for (const std::string& name : {"2*cpu" + kFar, "3*cpu" + kFar, "5*cpu" + kFar, "3*cpu/staged" + kFar, "3*cpu" + kNear,
                                  "3*cpu/weights=1:3:2" + kFar, "4*cpu/hosts=0:0:1:1" + kFar, std::string("3*cpu/batch"),
                                  std::string("2*cpu/limb"), std::string("3*cpu/coefficient")})
    words_are_right(name);
}

TEST(MeshProducts, OutputsWithoutInputsAreZero) {
  Batch batch("2*cpu" + kFar);
  const Batch::Words x = batch.filled(600);
  GatheredProduct g{.groups = 1, .outputs = 2, .positions = 400, .terms = 1, .inputs = 600, .weights = {3, -1}};
  for (u32 p = 0; p < 400; ++p) g.index.push_back(p % 200 < 100 ? p : GatheredProduct::kNone);
  EXPECT_TRUE(batch.right(batch.product(g, x)));
  for (u32 p = 0; p < 400; ++p)
    g.index[p] = p < 200 ? GatheredProduct::kNone : p - 200;  // one member stores none of the inputs that its outputs need
  EXPECT_TRUE(batch.right(batch.product(g, x)));
}

// ---- Ranks

// Computes this rank's share of two products of a network. Prints the number of bytes moved between all members, and the
// number sent by this rank.
TEST(RankBody, DISABLED_DistributesProducts) {
  Batch batch(given("HELIOGRAPH_TEST_DEVICES") + kFar);
  const Batch::Words x = batch.filled(28 * 28);
  const GatheredProduct convolved = convolution(batch, 1, 5, 28, 5, 2), last = dense(batch, 10, 720);
  batch.moved();
  const u64 before = batch.sent();
  const Batch::Words a = batch.product(convolved, x), b = batch.product(last, batch.negated(a));
  const u64 sent = batch.sent() - before, moved = batch.moved();
  EXPECT_EQ(moved, 27U + 2 * 27 + 10);
  EXPECT_TRUE(batch.right(a) && batch.right(b));
  std::printf("products sent %zu of %zu bytes\n", static_cast<std::size_t>(sent), static_cast<std::size_t>(moved * kItem));
}

namespace {

/// Returns the number of bytes that two ranks (one device each) sent, divided by the number of bytes of the moved words.
double part_sent(const std::string& first, const std::string& second) {
  const auto outcomes = run_ranks("DistributesProducts", 2, [&](std::size_t rank) {
    return Environment{{"HELIOGRAPH_TEST_DEVICES", rank ? second : first}, {"HELIOGRAPH_DEVICE", ""}};
  });
  double part = 0;
  for (std::size_t r = 0; r < outcomes.size(); ++r) {
    const std::string& text = outcomes[r].text;
    EXPECT_TRUE(outcomes[r].passed) << "rank " << r << ":\n" << text;
    std::size_t sent = 0, moved = 1;
    const std::size_t at = text.find("products sent");
    EXPECT_TRUE(at != std::string::npos && std::sscanf(text.c_str() + at, "products sent %zu of %zu", &sent, &moved) == 2);
    part += static_cast<double>(sent) / static_cast<double>(moved);
  }
  return part;
}

/// Words modulo primes of 50 and 49 bits are sent in seven instead of eight bytes; in six bytes if an item has only small
/// numbers.
void expect_packed(double part) { EXPECT_TRUE(part > 6.0 / 8 && part < 7.0 / 8 + 0.01) << part; }

}  // namespace

TEST(RankProducts, AreSentInAsManyBytesAsTheirModuliNeed) { expect_packed(part_sent("cpu", "cpu")); }

// ---- GPUs

namespace {

class GpuProducts : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    if (backend::cuda::count(&reason) == 0) GTEST_SKIP() << reason;
  }
  static bool two() { return backend::cuda::count() > 1; }
};

}  // namespace

TEST_F(GpuProducts, ANetworkMovesOnlySharedRowsAndPartialSums) {
  a_network_moves_rows_and_sums("cuda:0,cuda:0");
  if (two()) a_network_moves_rows_and_sums("cuda:0,cuda:1");
}

TEST_F(GpuProducts, HaveTheSameWordsInEveryDistribution) {
  for (const std::string& name : {"cuda:0,cuda:0,cuda:0" + kFar, "cuda:0,cpu" + kFar}) words_are_right(name);
  if (!two()) return;
  for (const std::string& name :
       {"cuda:0,cuda:1" + kFar, "cuda:0,cuda:1" + kNear, "cuda:0,cuda:1/staged" + kFar, "cuda:0,cuda:1/events" + kFar,
        "cuda:0,cuda:1,cuda:0/weights=1:3:2" + kFar, "cuda:0,cuda:0,cuda:1,cuda:1/hosts=0:0:1:1" + kFar,
        std::string("cuda:0,cuda:1/batch"), std::string("cuda:0,cuda:1/limb"), std::string("cuda:0,cuda:1/coefficient")})
    words_are_right(name);
}

TEST_F(GpuProducts, AreSentBetweenRanksInAsManyBytesAsTheirModuliNeed) {
  expect_packed(part_sent("cuda:0/sockets", two() ? "cuda:1/sockets" : "cuda:0/sockets"));
}

TEST_F(GpuProducts, AreSentOverChannelsUnpacked) {
  if (!two()) GTEST_SKIP() << "there is one GPU";
  if (device::open_device("cuda:0")->endpoint()->identity().empty())
    GTEST_SKIP() << "this build has no channels between GPUs";
  EXPECT_NEAR(part_sent("cuda:0", "cuda:1"), 1, 0.01);
}

}  // namespace heliograph::test
