// Tests of views, workspaces, the argument checks of every kernel, and the process's devices.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstdlib>
#include <thread>

#include "backend/cuda/cuda.h"
#include "backend/inline_queue.h"
#include "math/primes.h"
#include "mesh/mesh.h"
#include "op_cases.h"
#include "said.h"

namespace heliograph::test {

namespace {

using device::GatheredProduct;
using device::KeySwitchPlan;
using device::MultiplyPlan;
using device::Workspace;

TEST(View, DenseStridesAndSlices) {
  std::vector<u64> words(2 * 3 * 2 * 4 * 8);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i;
  const View v = View::dense(reinterpret_cast<std::byte*>(words.data()), Word::w64, {2, 3}, 2, 4, 8);
  EXPECT_EQ(v.items(), 6u);
  EXPECT_EQ(v.words(), words.size());
  for (std::size_t a = 0; a < 2; ++a) {
    for (std::size_t b = 0; b < 3; ++b) {
      for (std::size_t c = 0; c < 2; ++c) {
        for (std::size_t l = 0; l < 4; ++l) EXPECT_EQ(*v.at<u64>(a * 3 + b, c, l), (((a * 3 + b) * 2 + c) * 4 + l) * 8);
      }
    }
  }
  EXPECT_EQ(*v.with_components(1, 1).at<u64>(2, 0, 3), *v.at<u64>(2, 1, 3));
  EXPECT_EQ(*v.with_limbs(2, 2).at<u64>(5, 1, 1), *v.at<u64>(5, 1, 3));
  EXPECT_EQ(*v.with_leading(1, 1).at<u64>(2, 1, 0), *v.at<u64>(5, 1, 0));
  EXPECT_EQ(*v.item(4).at<u64>(0, 1, 1), *v.at<u64>(4, 1, 1));
  EXPECT_EQ(v.item(4).items(), 1u);
  EXPECT_EQ(v.with_leading(0, 0).items(), 0u);
  View broadcast = v;
  broadcast.stride[0] = 0;
  EXPECT_EQ(broadcast.at<u64>(5, 0, 0), v.at<u64>(2, 0, 0));
  View narrow = v;
  narrow.word = Word::w32;
  EXPECT_EQ(reinterpret_cast<std::byte*>(narrow.with_limbs(1, 1).at<u32>(0, 0, 0)) - v.data, 32);
  EXPECT_THROW(View::dense(nullptr, Word::w64, {1, 1, 1, 1, 1, 1, 1}, 1, 1, 8), ShapeError);
}

TEST(PrimeList, HoldsAtMostTheLimbsOfACall) {
  PrimeList list = PrimeList::range(3, device::kMaxLimbs);
  EXPECT_EQ(list.size(), device::kMaxLimbs);
  EXPECT_EQ(list[device::kMaxLimbs - 1], device::kMaxLimbs + 2);
  EXPECT_THROW(list.push_back(0), ShapeError);
  PrimeList joined{1, 2};
  joined.append({7});
  EXPECT_TRUE(joined == (PrimeList{1, 2, 7}));
  EXPECT_FALSE(joined == (PrimeList{1, 2}));
}

TEST(Workspace, AllocatesItsMemory) {
  alignas(64) std::array<std::byte, 512> bytes{};
  EXPECT_EQ(Workspace::bytes(Word::w32, 1, 1, 1, 8), 64u);
  EXPECT_EQ(Workspace::bytes(Word::w64, 2, 1, 1, 16), 256u);
  Workspace w(bytes.data(), bytes.size());
  EXPECT_EQ(w.take(Word::w32, 1, 1, 1, 8).data, bytes.data());
  Workspace part = w.split(128);
  EXPECT_EQ(part.take(Word::w64, 1, 1, 1, 16).data, bytes.data() + 64);
  EXPECT_THROW(part.take(Word::w64, 1, 1, 1, 2), InternalError);
  EXPECT_EQ(w.take(Word::w64, 2, 1, 1, 16).data, bytes.data() + 192);
  EXPECT_THROW(w.split(128), InternalError);
}

/// A ring of four primes of 30 bits, n = 8, and matching operands.
class Arguments : public testing::Test {
 protected:
  View view(std::size_t items, std::size_t components, std::size_t limbs, Word word = Word::w32, std::size_t n = 8) {
    View v = View::dense(nullptr, word, {items}, components, limbs, n);
    held_.push_back(device_->allocate(v.words() * 8, *queue_));
    v.data = held_.back()->address();
    const std::vector<std::byte> zeros(v.words() * 8);
    device_->upload(*queue_, zeros, v.data);
    return v;
  }
  static View broadcast(View v) {
    v.stride[0] = 0;
    return v;
  }
  Kernels& k() { return device_->kernels(); }

  std::unique_ptr<device::Device> device_ = device::open_device("ref");
  std::unique_ptr<device::Queue> queue_ = device_->make_queue();
  device::Queue& q_ = *queue_;
  std::shared_ptr<const math::Ring> math_ring_ = ring_of(kField32, 8, 4);
  std::shared_ptr<const device::RingConstant> ring_ = device_->kernels().prepare(math_ring_);
  const std::vector<u64>& p_ = math_ring_->primes();
  PrimeList two_{0, 2};
  std::vector<device::Buffer> held_;
};

/// Operands that do not match the ring are errors for every kernel.
TEST_F(Arguments, OperandsMustMatchTheRing) {
  const View good = view(3, 2, 2);
  const View degree = view(3, 2, 2, Word::w32, 16), word = view(3, 2, 2, Word::w64), limbs = view(3, 2, 3);
  const auto all = [&](const View& a, PrimeList primes) { q_.enqueue(device::Add{ring_, primes, a, good, good}); };
  EXPECT_NO_THROW(all(good, two_));
  EXPECT_THROW(all(degree, two_), ShapeError);
  EXPECT_THROW(all(word, two_), MismatchError);
  EXPECT_THROW(all(limbs, two_), ShapeError);
  EXPECT_THROW(all(good, {0}), ShapeError);
  EXPECT_THROW(all(good, {0, 4}), ShapeError);
}

/// Slices must have a multiple of 64 coefficients, the same number for all operands.
TEST_F(Arguments, Slices) {
  const auto math_ring = ring_of(kField32, 256, 2);
  const auto ring = k().prepare(math_ring);
  const auto raise = k().prepare(math::extend_base({math_ring->prime(0)}, {math_ring->prime(1)}));
  const auto matrix = k().prepare(
      GatheredProduct{.outputs = 1, .positions = 3, .terms = 1, .inputs = 3, .weights = {2}, .index = {0, 1, 2}});
  device::Permutation reverse{.source = std::vector<u32>(256)};
  for (u32 i = 0; i < 256; ++i) reverse.source[i] = 255 - i;
  const auto permutation = k().prepare(reverse);
  const PrimeList one{0};
  const device::LimbConstants constants{};
  const device::TermConstants constants_of_two = std::vector(2, constants);
  const auto of = [&](std::size_t n, std::size_t components = 1) { return view(3, components, 1, Word::w32, n); };
  const auto sliced = [&](const View& a, const View& b) {
    return std::vector<device::Call>{device::Add{ring, one, a, b, b},
                                     device::Sub{ring, one, b, a, b},
                                     device::Neg{ring, one, a, b},
                                     device::Mul{ring, one, a, b, b},
                                     device::MulAccumulate{ring, one, b, a, b},
                                     device::MulConstants{ring, one, a, constants, b},
                                     device::AddConstants{ring, one, a, constants, math::Domain::ntt, b},
                                     device::WeightedSum{ring, one, {a, a}, constants_of_two, constants, b},
                                     device::Convert{raise, a, std::nullopt, b},
                                     device::InnerProduct{ring, one, a, b.item(0), PrimeList{0}, of(a.n)},
                                     device::Tensor{ring, one, a, b, of(a.n)},
                                     device::Product{ring, one, matrix, a, b},
                                     device::Copy{a, b},
                                     device::Gather{std::vector<device::Piece>{{a, b}}}};
  };
  for (std::size_t i = 0; i < sliced(of(64), of(64)).size(); ++i) {
    const auto run = [&](const View& a, const View& b) { q_.enqueue(sliced(a, b)[i]); };
    SCOPED_TRACE(i);
    for (const std::size_t n : {64, 192, 256}) EXPECT_NO_THROW(run(of(n), of(n)));
    EXPECT_THROW(run(of(64), of(192)), ShapeError);  // 64 words cannot be runs of equal length over 192 coefficients
    EXPECT_THROW(run(of(256), of(64)), ShapeError);
    if (i >= 12) continue;  // copies accept any number of coefficients
    EXPECT_THROW(run(of(96), of(96)), ShapeError);
    if (i == 8) continue;  // a conversion has no ring, so no largest n
    EXPECT_THROW(run(of(512), of(512)), ShapeError);
  }
  const auto whole = [&](const View& a, const View& b) {
    return std::vector<device::Call>{device::ForwardNtt{ring, one, a, b}, device::InverseNtt{ring, one, a, b},
                                     device::Permute{ring, one, permutation, a, b},
                                     device::AddConstants{ring, one, a, constants, math::Domain::coefficient, b},
                                     device::Sample{ring, one, Secret(device::Draw{}), b}};
  };
  for (std::size_t i = 0; i < whole(of(256), of(256)).size(); ++i) {
    const auto run = [&](const View& a, const View& b) { q_.enqueue(whole(a, b)[i]); };
    EXPECT_NO_THROW(run(of(256), of(256))) << i;
    EXPECT_THROW(run(of(64), of(64)), ShapeError) << i;
  }
  // Rows are accepted by element-wise kernels only.
  const auto rows = k().prepare(rows_of(kField32, 192, 2));
  EXPECT_NO_THROW(q_.enqueue(device::Mul{rows, one, of(192), of(192), of(192)}));
  EXPECT_NO_THROW(q_.enqueue(device::AddConstants{rows, one, of(192), constants, math::Domain::ntt, of(192)}));
  EXPECT_THROW(q_.enqueue(device::Mul{rows, one, of(256), of(256), of(256)}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::ForwardNtt{rows, one, of(192), of(192)}), ParameterError);
  EXPECT_THROW(q_.enqueue(device::InverseNtt{rows, one, of(192), of(192)}), ParameterError);
  EXPECT_THROW(q_.enqueue(device::AddConstants{rows, one, of(192), constants, math::Domain::coefficient, of(192)}),
               ParameterError);
  EXPECT_THROW(q_.enqueue(device::Sample{rows, one, Secret(device::Draw{}), of(192)}), ParameterError);
}

TEST_F(Arguments, Gathers) {
  const View a = view(3, 2, 2), out = view(3, 2, 2);
  const auto gather = [&](const View& from, const View& to) {
    q_.enqueue(device::Gather{std::vector<device::Piece>{{a, out}, {from, to}}});
  };
  EXPECT_NO_THROW(q_.enqueue(device::Gather{}));
  EXPECT_NO_THROW(gather(broadcast(a), view(3, 2, 2)));
  EXPECT_NO_THROW(gather(view(1, 1, 1, Word::w64, 3), view(1, 1, 1, Word::w64, 3)));  // pieces may have different shapes
  EXPECT_THROW(gather(a, broadcast(out)), ShapeError);
  EXPECT_THROW(gather(view(2, 2, 2), out), ShapeError);
  EXPECT_THROW(gather(view(3, 1, 2), out), ShapeError);
  EXPECT_THROW(gather(view(3, 2, 1), out), ShapeError);
  EXPECT_THROW(gather(view(3, 2, 2, Word::w32, 16), out), ShapeError);
  EXPECT_THROW(gather(view(3, 2, 2, Word::w64), out), ShapeError);
}

TEST_F(Arguments, BinaryKernels) {
  const View good = view(3, 2, 2), one = view(3, 1, 2), three = view(3, 3, 2), batch = view(2, 2, 2),
             word = view(3, 2, 2, Word::w64);
  for (const bool shares : {false, true}) {
    for (const Binary call : shares ? std::vector<Binary>{call_of<device::Mul>, call_of<device::MulAccumulate>}
                                    : std::vector<Binary>{call_of<device::Add>, call_of<device::Sub>}) {
      const auto run = [&](const View& a, const View& b, const View& out) { q_.enqueue(call(ring_, two_, a, b, out)); };
      EXPECT_NO_THROW(run(good, broadcast(good), good));
      for (const View& bad : {three, batch}) {
        EXPECT_THROW(run(bad, good, good), ShapeError);
        EXPECT_THROW(run(good, bad, good), ShapeError);
        EXPECT_THROW(run(good, good, bad), ShapeError);
      }
      EXPECT_THROW(run(word, good, good), MismatchError);
      EXPECT_THROW(run(good, word, good), MismatchError);
      EXPECT_THROW(run(good, good, word), MismatchError);
      EXPECT_THROW(run(good, good, broadcast(good)), ShapeError);
      if (shares) {
        EXPECT_NO_THROW(run(one, good, good));
        EXPECT_NO_THROW(run(good, one, good));
        EXPECT_THROW(run(good, good, one), ShapeError);
        const auto of_words = [&](std::size_t n) { return view(3, 2, 2, Word::w32, n); };
        for (const std::size_t n : {1, 2, 4}) {  // only the second factor may have one word per run
          EXPECT_NO_THROW(run(good, of_words(n), good));
          EXPECT_THROW(run(of_words(n), good, good), ShapeError);
          EXPECT_THROW(run(good, good, of_words(n)), ShapeError);
        }
        for (const std::size_t n : {0, 3, 5, 6, 16}) EXPECT_THROW(run(good, of_words(n), good), ShapeError) << n;
        EXPECT_THROW(run(good, view(3, 2, 2, Word::w64, 4), good), MismatchError);
      } else {
        EXPECT_THROW(run(one, good, good), ShapeError);
        EXPECT_THROW(run(good, one, good), ShapeError);
      }
    }
  }
}

TEST_F(Arguments, UnaryKernels) {
  const View good = view(3, 2, 2), other = view(3, 2, 2);
  device::LimbConstants fine{}, large{};
  large[1] = p_[2];  // a constant must be below the limb's prime
  const auto identity = k().prepare(device::Permutation{{0, 1, 2, 3, 4, 5, 6, 7}, {}});
  const auto calls = [&](const View& a, const View& out) {
    return std::vector<device::Call>{device::Neg{ring_, two_, a, out},
                                     device::MulConstants{ring_, two_, a, fine, out},
                                     device::AddConstants{ring_, two_, a, fine, math::Domain::ntt, out},
                                     device::ForwardNtt{ring_, two_, a, out},
                                     device::InverseNtt{ring_, two_, a, out},
                                     device::Permute{ring_, two_, identity, a, out},
                                     device::Copy{a, out}};
  };
  for (std::size_t i = 0; i < calls(good, other).size(); ++i) {
    const auto run = [&](const View& a, const View& b) { q_.enqueue(calls(a, b)[i]); };
    EXPECT_NO_THROW(run(good, other)) << i;
    EXPECT_NO_THROW(run(broadcast(good), other)) << i;
    EXPECT_THROW(run(good, broadcast(other)), ShapeError) << i;
    EXPECT_THROW(run(view(2, 2, 2), good), ShapeError) << i;
    EXPECT_THROW(run(view(3, 1, 2), good), ShapeError) << i;
    EXPECT_THROW(run(view(3, 2, 3), good), ShapeError) << i;
    EXPECT_THROW(run(good, view(3, 2, 2, Word::w32, 16)), ShapeError) << i;
    EXPECT_THROW(run(good, view(3, 2, 2, Word::w64)), Error) << i;
  }
  EXPECT_THROW(q_.enqueue(device::MulConstants{ring_, two_, good, large, good}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::AddConstants{ring_, two_, good, large, math::Domain::ntt, good}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::Zero{broadcast(good)}), ShapeError);
}

TEST_F(Arguments, ProductsOfBytes) {
  const View bytes = view(1, 5, 1, Word::w32, 64), words = view(3, 1, 1, Word::w32, 256), out = view(3, 1, 1, Word::w32, 5);
  const auto run = [&](const View& a, const View& b, const View& to) { q_.enqueue(device::ByteProduct{a, b, to}); };
  EXPECT_NO_THROW(run(bytes, words, out));
  EXPECT_NO_THROW(run(bytes, broadcast(words), out));
  EXPECT_THROW(run(bytes, words, broadcast(out)), ShapeError);
  EXPECT_THROW(run(view(2, 5, 1, Word::w32, 64), words, out), ShapeError);  // two tables of bytes
  EXPECT_THROW(run(view(1, 4, 1, Word::w32, 64), words, out), ShapeError);  // four rows but five results
  EXPECT_THROW(run(bytes, view(3, 1, 1, Word::w32, 64), out), ShapeError);  // fewer words than bytes
  // a row length that is not a multiple of 64
  EXPECT_THROW(run(view(1, 5, 1, Word::w32, 32), view(3, 1, 1, Word::w32, 128), out), ShapeError);
  EXPECT_THROW(run(bytes, view(2, 1, 1, Word::w32, 256), out), ShapeError);
  EXPECT_THROW(run(bytes, view(3, 1, 1, Word::w64, 256), out), ShapeError);
  EXPECT_THROW(run(bytes, words, view(3, 1, 1, Word::w64, 5)), ShapeError);
}

TEST_F(Arguments, WeightedSums) {
  const View a = view(3, 2, 2), b = view(3, 2, 2), out = view(3, 2, 2), wide = view(3, 4, 2);
  device::LimbConstants fine{}, large{};
  large[1] = p_[2];  // a weight must be below the limb's prime
  const auto sum = [&](std::vector<device::In> x, const View& to, std::vector<device::LimbConstants> weights,
                       std::optional<device::Constants> constant = {}) {
    q_.enqueue(device::WeightedSum{ring_, two_, std::move(x), std::move(weights), std::move(constant), to});
  };
  const auto of = [&](const View& x, const View& to) { sum({a, x}, to, {fine, fine}); };
  EXPECT_NO_THROW(of(b, out));
  EXPECT_NO_THROW(of(a, out));
  EXPECT_NO_THROW(of(broadcast(b), out));
  EXPECT_NO_THROW(sum({a}, out, {fine}, fine));
  EXPECT_NO_THROW(sum(std::vector<device::In>(8, a), out, std::vector(8, fine)));
  EXPECT_THROW(sum({}, out, {}), ShapeError);
  EXPECT_THROW(sum(std::vector<device::In>(9, a), out, std::vector(9, fine)), ShapeError);
  EXPECT_THROW(sum({a, b}, out, {fine}), ShapeError);
  EXPECT_THROW(sum({a}, out, {fine, fine}), ShapeError);
  EXPECT_THROW(sum({a, b}, out, {fine, large}), ShapeError);
  EXPECT_THROW(sum({a, b}, out, {fine, fine}, large), ShapeError);
  for (const View& bad :
       {view(2, 2, 2), view(3, 1, 2), view(3, 2, 3), view(3, 2, 2, Word::w32, 16), broadcast(view(2, 2, 2))}) {
    EXPECT_THROW(of(bad, out), ShapeError);
    EXPECT_THROW(of(b, bad), ShapeError);
  }
  EXPECT_THROW(of(b, broadcast(out)), ShapeError);
  EXPECT_THROW(of(view(3, 2, 2, Word::w64), out), MismatchError);
  // A result may be in exactly the memory of a term, but must not overlap it otherwise.
  EXPECT_NO_THROW(of(out, out));
  EXPECT_NO_THROW(sum({out, out}, out, {fine, fine}));
  EXPECT_NO_THROW(of(wide.with_components(0, 2), wide.with_components(2, 2)));
  EXPECT_NO_THROW(of(wide.with_components(2, 2), wide.with_components(2, 2)));
  const View eight = view(8, 2, 2), backwards = [&] {
    View v = out;
    v.stride[0] = -v.stride[0];
    return v;
  }();
  EXPECT_THROW(of(broadcast(out), out), ShapeError);
  EXPECT_THROW(of(backwards, out), ShapeError);
  EXPECT_THROW(of(eight.with_leading(1, 3), eight.with_leading(0, 3)), ShapeError);
  EXPECT_THROW(of(eight.with_leading(0, 3), eight.with_leading(2, 3)), ShapeError);
  EXPECT_NO_THROW(of(eight.with_leading(3, 3), eight.with_leading(0, 3)));
  // Weighted sums also accept rows.
  const auto rows = k().prepare(rows_of(kField32, 192, 2));
  const View row = view(3, 1, 1, Word::w32, 192);
  EXPECT_NO_THROW(q_.enqueue(device::WeightedSum{rows, {0}, {row}, std::vector{fine}, fine, row}));
}

TEST_F(Arguments, Permutations) {
  const View a = view(3, 2, 2), out = view(3, 2, 2);
  const auto four = k().prepare(device::Permutation{{0, 1, 2, 3}, {}});
  const auto eight = k().prepare(device::Permutation{{0, 1, 2, 3, 4, 5, 6, 7}, {}});
  EXPECT_THROW(q_.enqueue(device::Permute{ring_, two_, four, a, out}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::Permute{ring_, two_, eight, a, a}), ShapeError);
  EXPECT_THROW(k().prepare(device::Permutation{{0, 2}, {}}), ShapeError);
  EXPECT_THROW(k().prepare(device::Permutation{{0, 1}, {true}}), ShapeError);
}

TEST_F(Arguments, Conversions) {
  const auto raise = k().prepare(math::extend_base({p_[0], p_[1]}, {p_[2]}));
  const auto divide = k().prepare(math::divide_and_round({p_[0], p_[1]}, {p_[2]}));
  const View x = view(3, 2, 2), one = view(3, 2, 1);
  EXPECT_NO_THROW(q_.enqueue(device::Convert{raise, x, std::nullopt, one}));
  EXPECT_NO_THROW(q_.enqueue(device::Convert{divide, x, one, view(3, 2, 1)}));
  // wrong number of source limbs
  EXPECT_THROW(q_.enqueue(device::Convert{raise, one, std::nullopt, one}), ShapeError);
  // wrong number of target limbs
  EXPECT_THROW(q_.enqueue(device::Convert{raise, x, std::nullopt, view(3, 2, 2)}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::Convert{raise, view(2, 2, 2), std::nullopt, one}), ShapeError);  // wrong batch shape
  // wrong number of components
  EXPECT_THROW(q_.enqueue(device::Convert{raise, view(3, 1, 2), std::nullopt, one}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::Convert{raise, view(3, 2, 2, Word::w32, 16), std::nullopt, one}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::Convert{raise, x, std::nullopt, broadcast(one)}), ShapeError);
  // this conversion reads no operand over the targets
  EXPECT_THROW(q_.enqueue(device::Convert{raise, x, one, one}), ShapeError);
  // this conversion lacks its operand over the targets
  EXPECT_THROW(q_.enqueue(device::Convert{divide, x, std::nullopt, one}), ShapeError);
  for (const View& own :
       {view(3, 2, 2), view(3, 1, 1), view(2, 2, 1), view(3, 2, 1, Word::w64), view(3, 2, 1, Word::w32, 16)}) {
    EXPECT_THROW(q_.enqueue(device::Convert{divide, x, own, one}), ShapeError);
  }
  const PrimeList second{1}, beyond{2}, both{0, 1};
  EXPECT_NO_THROW(q_.enqueue(device::Convert{raise, x, std::nullopt, view(3, 2, 2), second}));
  EXPECT_THROW(q_.enqueue(device::Convert{raise, x, std::nullopt, view(3, 2, 2), beyond}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::Convert{raise, x, std::nullopt, view(3, 2, 2), both}), ShapeError);
  const u64 wide = math::largest_primes(40, 1, 16)[0];
  const auto widen = k().prepare(math::extend_base({p_[0], p_[1]}, {wide})),
             narrow = k().prepare(math::extend_base({wide}, {p_[0]}));
  EXPECT_THROW(q_.enqueue(device::Convert{widen, x, std::nullopt, one}), MismatchError);
  EXPECT_THROW(q_.enqueue(device::Convert{narrow, one, std::nullopt, view(3, 2, 1)}), MismatchError);
  EXPECT_NO_THROW(q_.enqueue(device::Convert{widen, x, std::nullopt, view(3, 2, 1, Word::w64)}));
}

TEST_F(Arguments, InnerProduct) {
  const View digits = view(3, 2, 2), out = view(3, 2, 2), key = view(1, 4, 3);
  const PrimeList limbs{0, 2};
  EXPECT_NO_THROW(q_.enqueue(device::InnerProduct{ring_, two_, digits, key, limbs, out}));
  EXPECT_THROW(q_.enqueue(device::InnerProduct{ring_, two_, view(2, 2, 2), key, limbs, out}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::InnerProduct{ring_, two_, view(3, 2, 1), key, limbs, out}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::InnerProduct{ring_, two_, digits, key, limbs, view(3, 2, 2, Word::w64)}), MismatchError);
  EXPECT_THROW(q_.enqueue(device::InnerProduct{ring_, two_, digits, key, limbs, broadcast(out)}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::InnerProduct{ring_, two_, digits, view(2, 4, 3), limbs, out}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::InnerProduct{ring_, two_, digits, view(1, 3, 3), limbs, out}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::InnerProduct{ring_, two_, digits, view(1, 4, 3, Word::w32, 16), limbs, out}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::InnerProduct{ring_, two_, digits, view(1, 4, 3, Word::w64), limbs, out}), MismatchError);
  EXPECT_THROW(q_.enqueue(device::InnerProduct{ring_, two_, digits, key, PrimeList{0}, out}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::InnerProduct{ring_, two_, digits, key, PrimeList{0, 3}, out}), ShapeError);
}

TEST_F(Arguments, TurnedInnerProduct) {
  const View x = view(3, 1, 2), out = view(3, 2, 2), key = view(1, 4, 3);
  const PrimeList limbs{0, 2};
  device::Permutation reverse{.source = {7, 6, 5, 4, 3, 2, 1, 0}, .negate = {}}, negating = reverse;
  negating.negate.resize(8);
  const auto turn = k().prepare(reverse), sign = k().prepare(negating),
             four = k().prepare(device::Permutation{{0, 1, 2, 3}, {}});
  const auto run = [&](const View& from, const View& to, std::vector<device::PermutationHandle> turns) {
    q_.enqueue(device::InnerProduct{ring_, two_, from, key, limbs, to, std::move(turns)});
  };
  EXPECT_NO_THROW(run(x, out, {turn, nullptr}));
  EXPECT_NO_THROW(run(broadcast(x), out, {nullptr, nullptr}));
  EXPECT_THROW(run(view(3, 2, 2), out, {turn, turn}), ShapeError);  // an automorphism needs an operand of one component
  EXPECT_THROW(run(x, out, {turn, turn, turn}), ShapeError);        // more automorphisms than the key has digits
  EXPECT_THROW(run(x, out, {turn, four}), ShapeError);
  EXPECT_THROW(run(x, out, {turn, sign}), ShapeError);
  EXPECT_THROW(run(x, x, {turn}), ShapeError);
  EXPECT_THROW(run(view(2, 1, 2), out, {turn}), ShapeError);
  EXPECT_THROW(run(x, broadcast(out), {turn}), ShapeError);
  // Slices are refused, because an automorphism reads words of the complete limb.
  const auto ring = k().prepare(ring_of(kField32, 256, 2));
  const auto sliced = [&](std::size_t n) {
    const View a = view(1, 1, 1, Word::w32, n);
    q_.enqueue(device::InnerProduct{ring, {0}, a, a, PrimeList{0}, view(1, 1, 1, Word::w32, n), {nullptr}});
  };
  EXPECT_NO_THROW(sliced(256));
  EXPECT_THROW(sliced(64), ShapeError);
}

TEST_F(Arguments, Tensor) {
  const View a = view(3, 2, 2), out = view(3, 3, 2);
  EXPECT_NO_THROW(q_.enqueue(device::Tensor{ring_, two_, a, a, out}));
  EXPECT_THROW(q_.enqueue(device::Tensor{ring_, two_, a, a, view(3, 2, 2)}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::Tensor{ring_, two_, a, view(2, 2, 2), out}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::Tensor{ring_, two_, view(3, 2, 1), a, out}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::Tensor{ring_, two_, a, view(3, 2, 2, Word::w64), out}), MismatchError);
  EXPECT_THROW(q_.enqueue(device::Tensor{ring_, two_, a, a, broadcast(out)}), ShapeError);
}

TEST_F(Arguments, MatrixProducts) {
  const GatheredProduct g{
      .groups = 1, .outputs = 2, .positions = 2, .terms = 1, .inputs = 3, .weights = {1, -8}, .index = {0, 2}};
  EXPECT_EQ(g.weight_bits(), 4);
  const auto p = k().prepare(g);
  EXPECT_NO_THROW(q_.enqueue(device::Product{ring_, two_, p, view(3, 1, 2), view(4, 1, 2)}));
  EXPECT_THROW(q_.enqueue(device::Product{ring_, two_, p, view(2, 1, 2), view(4, 1, 2)}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::Product{ring_, two_, p, view(3, 1, 2), view(3, 1, 2)}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::Product{ring_, two_, p, view(3, 2, 2), view(4, 1, 2)}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::Product{ring_, two_, p, view(3, 1, 3), view(4, 1, 2)}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::Product{ring_, two_, p, view(3, 1, 2), view(4, 1, 2, Word::w64)}), MismatchError);
  EXPECT_THROW(q_.enqueue(device::Product{ring_, two_, p, view(3, 1, 2), broadcast(view(4, 1, 2))}), ShapeError);
  for (int wrong = 0; wrong < 4; ++wrong) {
    GatheredProduct bad = g;
    if (wrong == 0) bad.weights.push_back(1);
    if (wrong == 1) bad.index.pop_back();
    if (wrong == 2) bad.index[0] = 3;
    if (wrong == 3) bad.inputs = GatheredProduct::kNone;
    EXPECT_THROW(k().prepare(bad), ShapeError) << wrong;
  }
  // the operands' sizes in bytes would overflow
  for (const std::size_t groups : {std::size_t{1} << 33, (std::size_t{1} << 58) + 1}) {
    GatheredProduct wraps = g;
    wraps.groups = groups;
    EXPECT_THROW(k().prepare(wraps), ShapeError);
    wraps.terms = 0, wraps.weights = {}, wraps.index = {};
    EXPECT_THROW(k().prepare(wraps), ShapeError);
  }
  GatheredProduct least = g;
  least.weights[0] = std::numeric_limits<math::i64>::min();
  EXPECT_EQ(least.weight_bits(), 64);
}

TEST_F(Arguments, Draws) {
  const View out = view(3, 1, 2);
  EXPECT_NO_THROW(q_.enqueue(device::Sample{ring_, two_, Secret(device::Draw{}), out}));
  EXPECT_THROW(q_.enqueue(device::Sample{ring_, {0}, Secret(device::Draw{}), out}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::Sample{ring_, two_, Secret(device::Draw{}), broadcast(out)}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::Sample{ring_, two_, Secret(device::Draw{}), view(1, 257, 2)}), ShapeError);
  EXPECT_NO_THROW(q_.enqueue(device::Sample{ring_, two_, Secret(device::Draw{.first_item = ~u32{0} - 2}), out}));
  EXPECT_THROW(q_.enqueue(device::Sample{ring_, two_, Secret(device::Draw{.first_item = ~u32{0} - 1}), out}), ShapeError);
}

TEST_F(Arguments, KeySwitches) {
  KeySwitchPlan plan{.ring = ring_, .chain = {0, 2}, .special = {3}};
  plan.extended = {0, 2, 3}, plan.key_limbs = {0, 1, 2};
  plan.digits = {{0, 1, {1, 2}, k().prepare(math::extend_base({p_[0]}, {p_[2], p_[3]}))},
                 {1, 1, {0, 2}, k().prepare(math::extend_base({p_[2]}, {p_[0], p_[3]}))}};
  plan.mod_down = k().prepare(math::divide_and_round({p_[3]}, {p_[0], p_[2]}));
  const View x = view(3, 1, 2), digits = view(3, 2, 3), key = view(1, 4, 3), out = view(3, 2, 2), add = view(3, 1, 2);
  std::vector<std::byte> bytes(
      device::scratch_bytes(device::KeySwitch{.plan = held(plan), .domain = math::Domain::coefficient}, 3) + 64);
  const device::Buffer buffer = device_->allocate(bytes.size(), q_);
  const Workspace w(buffer->address(), bytes.size()), small(buffer->address(), 64);

  const auto decompose = [&](const View& in, const View& to) { q_.enqueue(device::Decompose{held(plan), in, to}); };
  EXPECT_NO_THROW(decompose(x, digits));
  EXPECT_THROW(decompose(view(3, 2, 2), digits), ShapeError);
  EXPECT_THROW(decompose(x, view(3, 3, 3)), ShapeError);
  EXPECT_THROW(decompose(view(2, 1, 2), digits), ShapeError);
  EXPECT_THROW(decompose(digits, digits), ShapeError);
  EXPECT_THROW(decompose(x, view(3, 2, 2)), ShapeError);
  EXPECT_THROW(decompose(view(3, 1, 2, Word::w64), digits), MismatchError);
  EXPECT_THROW(decompose(x, broadcast(digits)), ShapeError);

  for (const bool whole : {false, true}) {
    const auto run = [&](const View& in, const View& with, const std::optional<View>& added, const View& to,
                         const Workspace& scratch) {
      whole ? q_.enqueue(device::KeySwitch{held(plan), math::Domain::coefficient, in, with, added, to, scratch})
            : q_.enqueue(device::ApplyKey{held(plan), math::Domain::coefficient, in, with, added, to, scratch});
    };
    const View& in = whole ? x : digits;
    EXPECT_NO_THROW(run(in, key, add, out, w));
    EXPECT_THROW(run(in, key, add, out, small), InternalError);
    EXPECT_THROW(run(whole ? digits : x, key, std::nullopt, out, w), ShapeError);
    EXPECT_THROW(run(whole ? view(3, 2, 2) : view(3, 3, 3), key, std::nullopt, out, w), ShapeError);
    EXPECT_THROW(run(whole ? view(2, 1, 2) : view(2, 2, 3), key, std::nullopt, out, w), ShapeError);
    EXPECT_THROW(run(in, view(1, 3, 3), std::nullopt, out, w), ShapeError);
    EXPECT_THROW(run(in, view(1, 4, 2), std::nullopt, out, w), ShapeError);
    EXPECT_THROW(run(in, view(2, 4, 3), std::nullopt, out, w), ShapeError);
    EXPECT_THROW(run(in, view(1, 4, 3, Word::w64), std::nullopt, out, w), MismatchError);
    EXPECT_THROW(run(in, key, std::nullopt, view(3, 1, 2), w), ShapeError);
    EXPECT_THROW(run(in, key, std::nullopt, view(3, 2, 3), w), ShapeError);
    EXPECT_THROW(run(in, key, std::nullopt, broadcast(out), w), ShapeError);
    for (const View& wrong : {view(3, 3, 2), view(2, 1, 2), view(3, 1, 3)})
      EXPECT_THROW(run(in, key, wrong, out, w), ShapeError);
    const View word = view(3, 1, 2, Word::w64);
    EXPECT_THROW(run(in, key, word, out, w), MismatchError);
  }
}

TEST_F(Arguments, Multiplications) {
  MultiplyPlan plan{.ring = ring_, .chain = {0}, .auxiliary = {1, 2}, .extended = {0, 1, 2}};
  plan.lift = k().prepare(math::extend_base({p_[0]}, {p_[1], p_[2]}));
  plan.scale = k().prepare(math::divide_and_round({p_[0]}, {p_[1], p_[2]}, 17));
  plan.lower = k().prepare(math::extend_base({p_[1], p_[2]}, {p_[0]}));
  const View a = view(3, 2, 1), out = view(3, 3, 1);
  const std::size_t need = device::scratch_bytes(device::ScaledTensor{.plan = held(plan), .a = a, .b = a}, 3);
  const device::Buffer buffer = device_->allocate(need, q_);
  const Workspace w(buffer->address(), need), small(buffer->address(), 64);
  EXPECT_NO_THROW(q_.enqueue(device::ScaledTensor{held(plan), a, view(3, 2, 1), out, w}));
  EXPECT_THROW(q_.enqueue(device::ScaledTensor{held(plan), a, a, out, small}), InternalError);
  EXPECT_THROW(q_.enqueue(device::ScaledTensor{held(plan), a, a, view(3, 2, 1), w}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::ScaledTensor{held(plan), a, view(2, 2, 1), out, w}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::ScaledTensor{held(plan), view(3, 2, 2), a, out, w}), ShapeError);
  EXPECT_THROW(q_.enqueue(device::ScaledTensor{held(plan), a, a, view(3, 3, 1, Word::w64), w}), MismatchError);
  EXPECT_THROW(q_.enqueue(device::ScaledTensor{held(plan), a, a, broadcast(out), w}), ShapeError);
}

/// A backend that has only one kernel.
struct OnlyMul {
  std::size_t done = 0;
  void run(device::Queue&, const device::Mul&) { ++done; }
};
struct Nothing {};

TEST_F(Arguments, UnsupportedKernelsAreExpandedOrAnError) {
  OnlyMul ring;
  Nothing lwe;
  backend::InlineQueue<OnlyMul, Nothing> queue(ring, lwe);
  const View one = view(3, 1, 2), out = view(3, 1, 2), more = view(3, 2, 2), three = view(3, 3, 2);
  queue.enqueue(device::Mul{ring_, two_, one, one, out});
  // a tensor product of operands with one component each is expanded to one product
  queue.enqueue(device::Tensor{ring_, two_, one, one, out});
  EXPECT_EQ(ring.done, 2u);
  // this expansion also needs mul_accumulate, which the backend lacks
  EXPECT_THROW(queue.enqueue(device::Tensor{ring_, two_, more, more, three}), InternalError);
  EXPECT_THROW(queue.enqueue(device::Add{ring_, two_, one, one, out}), InternalError);
  EXPECT_NO_THROW(queue.enqueue(device::Gather{}));
}

TEST(Ref, StatesTheRequestedAndAvailableMemory) {
  const auto device = device::open_device("ref");
  const auto queue = device->make_queue();
  EXPECT_EQ(test::message_of<OutOfMemoryError>([&] { device->allocate(std::size_t{3} << 40, *queue); }),
            "cannot allocate 3.0 TiB");
}

TEST(Sizes, AreReadable) {
  EXPECT_EQ(readable_bytes(0), "0 B");
  EXPECT_EQ(readable_bytes(1023), "1023 B");
  EXPECT_EQ(readable_bytes(1536), "1.5 KiB");
  EXPECT_EQ(readable_bytes(98348040192), "91.6 GiB");
  EXPECT_EQ(readable_bytes(std::size_t{1} << 62), "4194304.0 TiB");
}

TEST(Ref, MemoryAndQueues) {
  const auto device = device::open_device("ref");
  const auto queue = device->make_queue(), other = device->make_queue();
  EXPECT_EQ(device->name(), "ref");
  EXPECT_FALSE(device->description().empty());
  EXPECT_GT(device->memory().total, 0u);
  EXPECT_EQ(device->counter(), nullptr);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
    const device::Buffer buffer = device->allocate(bytes, *queue);
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->address()) % 64, 0u);
    std::vector<std::byte> in(bytes, std::byte{3}), out(bytes);
    device->upload(*queue, in, buffer->address());
    device->download(*queue, buffer->address(), out);
    EXPECT_EQ(in, out);
  }
  other->after(*queue->record());
  queue->record()->wait();
  EXPECT_THROW(device->allocate(std::size_t{1} << 62, *queue), OutOfMemoryError);
}

TEST(Devices, ReachOnlyDevicesOfTheirKindOfMemory) {
  const auto ref = device::open_device("ref"), other = device::open_device("ref"), cpu = device::open_device("cpu"),
             null = device::open_device("null"), nothing = device::open_device("null");
  EXPECT_TRUE(ref->in_host_memory() && cpu->in_host_memory());
  EXPECT_FALSE(null->in_host_memory());
  EXPECT_TRUE(ref->reaches(*ref) && ref->reaches(*other) && ref->reaches(*cpu) && cpu->reaches(*ref));
  EXPECT_TRUE(null->reaches(*null) && null->reaches(*nothing));
  EXPECT_FALSE(null->reaches(*ref) || ref->reaches(*null) || cpu->reaches(*null));
}

TEST(Devices, UnknownNamesAreRefused) {
  for (const char* name : {"", "gpu", "cpu:", "cpu:mmx", "ref2", "CPU"})
    EXPECT_THROW(device::open_device(name), ParameterError) << name;
}

/// Runs `body` in a child process and returns the exit status of the child, which is the value that `body` returns.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    int status = 99;
    try {
      status = body();
    } catch (...) {
    }
    _exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Each check runs in its own child process, because a process chooses its default device only once.
TEST(Devices, TheEnvironmentNamesTheDefaultDevice) {
  EXPECT_EQ(in_child([] {
              setenv("HELIOGRAPH_DEVICE", "ref", 1);
              device::Device& first = mesh::default_device();
              return first.name() == "ref" && &first == &mesh::default_device() ? 0 : 1;
            }),
            0);
  EXPECT_EQ(in_child([] {
              unsetenv("HELIOGRAPH_DEVICE");
              const std::string best = backend::cuda::count() > 0 ? "cuda" : "cpu";
              return mesh::default_device().name().starts_with(best) ? 0 : 1;
            }),
            0);
}

TEST(Devices, OpeningMayBeRetriedAfterAFailure) {
  EXPECT_EQ(in_child([] {
              setenv("HELIOGRAPH_DEVICE", "abacus", 1);
              try {
                mesh::default_device();
                return 1;
              } catch (const ParameterError&) {
              }
              setenv("HELIOGRAPH_DEVICE", "ref", 1);
              return in_child([] { return mesh::default_device().name() == "ref" ? 0 : 1; }) +
                     (mesh::default_device().name() == "ref" ? 0 : 1);
            }),
            0);
}

TEST(Devices, AForkedChildGetsForkError) {
  EXPECT_EQ(in_child([] {
              setenv("HELIOGRAPH_DEVICE", "ref", 1);
              mesh::default_device();
              return in_child([] {
                try {
                  mesh::default_device();
                  return 1;
                } catch (const ForkError&) {
                  return 0;
                }
              });
            }),
            0);
}

TEST(Devices, ThreadsAgreeOnTheDefault) {
  EXPECT_EQ(in_child([] {
              setenv("HELIOGRAPH_DEVICE", "ref", 1);
              std::array<device::Device*, 8> seen{};
              std::vector<std::thread> threads;
              for (auto& slot : seen) threads.emplace_back([&slot] { slot = &mesh::default_device(); });
              for (std::thread& t : threads) t.join();
              for (device::Device* d : seen) {
                if (d == nullptr || d != seen[0]) return 1;
              }
              return 0;
            }),
            0);
}

}  // namespace

}  // namespace heliograph::test
