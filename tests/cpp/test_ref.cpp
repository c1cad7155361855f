// The reference backend computes each formula of the contract as it is calculated by hand. Composite kernels satisfy the
// equations that define them.
#include <gtest/gtest.h>

#include "math/primes.h"
#include "op_cases.h"

namespace heliograph::test {

namespace {

using device::GatheredProduct;
using device::KeySwitchPlan;
using device::MultiplyPlan;
using math::i64;
using Words = std::vector<u64>;

/// Polynomials in host memory, on which `ref` computes.
class Ref : public testing::Test {
 protected:
  static View view(Words& words, const math::Ring& ring, std::size_t items, std::size_t components, std::size_t limbs) {
    words.resize(items * components * limbs * ring.n());
    return View::dense(reinterpret_cast<std::byte*>(words.data()), Word::w64, {items}, components, limbs, ring.n());
  }
  Kernels& k() { return device_->kernels(); }

  std::unique_ptr<device::Device> device_ = device::open_device("ref");
  std::unique_ptr<device::Queue> queue_ = device_->make_queue();
  device::Queue& q_ = *queue_;
};

/// n = 2 and one limb modulo 17: a polynomial has two words.
class SmallRef : public Ref {
 protected:
  std::shared_ptr<const math::Ring> ring_ = std::make_shared<math::Ring>(2, Word::w64, Words{17, 13});
  std::shared_ptr<const device::RingConstant> prepared_ = k().prepare(ring_);

  View of(Words& words, std::size_t components) { return view(words, *ring_, words.size() / 2 / components, components, 1); }
};

TEST_F(SmallRef, ElementWise) {
  Words a = {3, 16}, b = {15, 16}, out(2);
  const auto apply = [&](Binary call) {
    q_.enqueue(call(prepared_, {0}, of(a, 1), of(b, 1), of(out, 1)));
    return out;
  };
  EXPECT_EQ(apply(call_of<device::Add>), (Words{1, 15}));
  EXPECT_EQ(apply(call_of<device::Sub>), (Words{5, 0}));
  EXPECT_EQ(apply(call_of<device::Mul>), (Words{11, 1}));
  EXPECT_EQ(apply(call_of<device::MulAccumulate>), (Words{5, 2}));
  q_.enqueue(device::Neg{prepared_, {0}, of(a, 1), of(out, 1)});
  EXPECT_EQ(out, (Words{14, 1}));
  q_.enqueue(device::MulConstants{prepared_, {0}, of(a, 1), device::LimbConstants{6}, of(out, 1)});
  EXPECT_EQ(out, (Words{1, 11}));
  q_.enqueue(
      device::AddConstants{prepared_, {0}, of(a, 1), device::LimbConstants{6}, math::Domain::coefficient, of(out, 1)});
  EXPECT_EQ(out, (Words{9, 16}));
  q_.enqueue(device::AddConstants{prepared_, {0}, of(a, 1), device::LimbConstants{6}, math::Domain::ntt, of(out, 1)});
  EXPECT_EQ(out, (Words{9, 5}));
  // the call's prime list selects the modulus of the limb
  q_.enqueue(device::Add{prepared_, {1}, of(a, 1), of(a, 1), of(out, 1)});
  EXPECT_EQ(out, (Words{6, 6}));
  q_.enqueue(device::Copy{of(a, 1), of(out, 1)});
  EXPECT_EQ(out, a);
  q_.enqueue(device::Zero{of(out, 1)});
  EXPECT_EQ(out, (Words{0, 0}));
}

TEST_F(SmallRef, OneComponentIsBroadcast) {
  Words a = {1, 2, 3, 4}, b = {5, 6}, out(4);
  q_.enqueue(device::Mul{prepared_, {0}, of(a, 2), of(b, 1), of(out, 2)});
  EXPECT_EQ(out, (Words{5, 12, 15, 7}));
}

TEST_F(SmallRef, PermuteTakesFromItsSources) {
  Words a = {3, 5}, out(2);
  const auto p = k().prepare(device::Permutation{{1, 0}, {true, false}});
  q_.enqueue(device::Permute{prepared_, {0}, p, of(a, 1), of(out, 1)});
  EXPECT_EQ(out, (Words{12, 3}));
}

TEST_F(SmallRef, InnerProductUsesTheKeysLimbs) {
  Words digits = {1, 2, 3, 4}, out(4);
  Words key;  // 2 digits x 2 results, 3 limbs; the first word is 10 * component + limb
  for (u64 component = 0; component < 4; ++component) {
    for (u64 limb = 0; limb < 3; ++limb) key.push_back((10 * component + limb) % 17), key.push_back(1);
  }
  q_.enqueue(device::InnerProduct{prepared_, {0}, of(digits, 2), view(key, *ring_, 1, 4, 3), PrimeList{2}, of(out, 2)});
  // Digit 0 (1, 2) is multiplied by the key's components 0 and 1, digit 1 (3, 4) by components 2 and 3, all in limb 2.
  EXPECT_EQ(out, (Words{(1 * 2 + 3 * 22) % 17, 6, (1 * 12 + 3 * 32) % 17, 6}));
}

TEST_F(SmallRef, InnerProductTurnsOneComponent) {
  Words x = {2, 3}, key = {1, 4, 5, 1, 2, 2}, out(2);
  const auto swap = k().prepare(device::Permutation{{1, 0}, {}});
  q_.enqueue(device::InnerProduct{
      prepared_, {0}, of(x, 1), view(key, *ring_, 1, 3, 1), PrimeList{0}, of(out, 1), {nullptr, swap, nullptr}});
  EXPECT_EQ(out, (Words{(2 * 1 + 3 * 5 + 2 * 2) % 17, (3 * 4 + 2 * 1 + 3 * 2) % 17}));
}

TEST_F(SmallRef, TensorMultipliesPolynomialsInTheSecret) {
  Words a = {1, 1, 2, 2}, b = {3, 1, 5, 2}, out(6);
  q_.enqueue(device::Tensor{prepared_, {0}, of(a, 2), of(b, 2), of(out, 3)});
  EXPECT_EQ(out, (Words{3, 1, 5 + 6, 2 + 2, 10, 4}));
}

TEST_F(SmallRef, ProductReadsItsIndex) {
  Words in = {1, 2, 3, 4, 5, 6}, out(2 * 4);
  constexpr u32 kNone = GatheredProduct::kNone;
  // Two outputs at two positions, with two terms each; at the second position one term is padding.
  const auto p = k().prepare(GatheredProduct{.groups = 1,
                                             .outputs = 2,
                                             .positions = 2,
                                             .terms = 2,
                                             .inputs = 3,
                                             .weights = {2, -1, 1, 1},
                                             .index = {0, 2, kNone, 1}});
  q_.enqueue(device::Product{prepared_, {0}, p, of(in, 1), of(out, 1)});
  EXPECT_EQ(out, (Words{14, 15, 14, 13, 6, 8, 3, 4}));
  Words grouped(2 * 2);
  const auto two = k().prepare(GatheredProduct{
      .groups = 2, .outputs = 1, .positions = 1, .terms = 1, .inputs = 3, .weights = {3, -2}, .index = {0, 1}});
  q_.enqueue(device::Product{prepared_, {0}, two, of(in, 1), of(grouped, 1)});
  EXPECT_EQ(grouped, (Words{3, 6, 11, 9}));
}

TEST_F(SmallRef, ConvertWritesOnlyItsOutputLimbs) {
  const auto c = k().prepare(math::extend_base({17}, {13, 5}));
  Words x = {3, 16}, out(2 * 4, 99);  // centered: 3 and -1
  const PrimeList place{2, 0};
  q_.enqueue(device::Convert{c, of(x, 1), std::nullopt, view(out, *ring_, 1, 1, 4), place});
  EXPECT_EQ(out, (Words{3, 4, 99, 99, 3, 12, 99, 99}));
}

TEST_F(SmallRef, ConvertReadsTheSameLimbsThatItWrites) {
  const auto c = k().prepare(math::divide_and_round({17}, {13, 5}));
  Words x = {20 % 17, 53 % 17}, own = {20 % 5, 53 % 5, 9, 9, 20 % 13, 53 % 13}, out(2 * 3, 99);
  const PrimeList place{2, 0};
  const View vo = view(own, *ring_, 1, 1, 3);
  q_.enqueue(device::Convert{c, of(x, 1), vo, view(out, *ring_, 1, 1, 3), place});
  EXPECT_EQ(out, (Words{1, 3, 99, 99, 1, 3}));  // quotients: round(20 / 17), round(53 / 17)
}

/// A ring of 8 primes of 30 bits in 64-bit words, n = 64.
class CompositeRef : public Ref {
 protected:
  static constexpr std::size_t kN = 64;
  std::shared_ptr<const math::Ring> ring_ = std::make_shared<math::Ring>(kN, Word::w64, math::largest_primes(30, 8, 2 * kN));
  std::shared_ptr<const device::RingConstant> prepared_ = k().prepare(ring_);
  const Words& p_ = ring_->primes();

  /// Returns small signed coefficients in every limb, in the NTT domain.
  Words small(const PrimeList& primes, u64 seed, int bound) {
    Words words;
    const View v = view(words, *ring_, 1, 1, primes.size());
    for (std::size_t i = 0; i < kN; ++i) {
      const i64 value = static_cast<i64>(seed * (i + 3) * (i + 7) % static_cast<u64>(2 * bound + 1)) - bound;
      for (std::size_t l = 0; l < primes.size(); ++l) v.at<u64>(0, 0, l)[i] = math::signed_mod(value, p_[primes[l]]);
    }
    q_.enqueue(device::ForwardNtt{prepared_, primes, v, v});
    return words;
  }
};

TEST_F(CompositeRef, AKeySwitchKeepsTheProductWithTheSecret) {
  const PrimeList chain{0, 1, 2, 3}, special{6, 7};
  KeySwitchPlan plan{.ring = prepared_, .chain = chain, .special = special, .extended = {0, 1, 2, 3, 6, 7}};
  plan.key_limbs = PrimeList::range(0, 6);
  plan.digits = {{0, 2, {2, 3, 4, 5}, k().prepare(math::extend_base({p_[0], p_[1]}, {p_[2], p_[3], p_[6], p_[7]}))},
                 {2, 2, {0, 1, 4, 5}, k().prepare(math::extend_base({p_[2], p_[3]}, {p_[0], p_[1], p_[6], p_[7]}))}};
  plan.mod_down = k().prepare(math::divide_and_round({p_[6], p_[7]}, {p_[0], p_[1], p_[2], p_[3]}));
  Words secret = small(plan.extended, 5, 1), hidden = small(plan.extended, 11, 1), error = small(plan.extended, 3, 4);
  const auto whole = [&](Words& w) { return view(w, *ring_, 1, 1, 6); };

  // key_j = (P g_j hidden + error - a_j secret, a_j), where g_j is 1 in the digit's limbs and 0 elsewhere.
  Words key;
  const View keys = view(key, *ring_, 1, 4, 6);
  for (std::size_t j = 0; j < 2; ++j) {
    const View b = keys.with_components(2 * j, 1), a = keys.with_components(2 * j + 1, 1);
    q_.enqueue(device::Sample{prepared_, plan.extended, Secret(device::Draw{.object = static_cast<u32>(j)}), a});
    Words product;
    const View as = view(product, *ring_, 1, 1, 6);
    q_.enqueue(device::Mul{prepared_, plan.extended, a, whole(secret), as});
    device::LimbConstants gadget{};
    for (std::size_t l = 2 * j; l < 2 * j + 2; ++l) gadget[l] = math::mul_mod(p_[6], p_[7], p_[chain[l]]);
    q_.enqueue(device::MulConstants{prepared_, plan.extended, whole(hidden), gadget, b});
    q_.enqueue(device::Add{prepared_, plan.extended, b, whole(error), b});
    q_.enqueue(device::Sub{prepared_, plan.extended, b, as, b});
  }

  Words x, out,
      scratch(device::scratch_bytes(device::KeySwitch{.plan = held(plan), .domain = math::Domain::coefficient}, 1) / 8);
  const View vx = view(x, *ring_, 1, 1, 4), result = view(out, *ring_, 1, 2, 4);
  q_.enqueue(device::Sample{prepared_, chain, Secret(device::Draw{.object = 9}), vx});
  q_.enqueue(device::KeySwitch{held(plan),
                               math::Domain::coefficient,
                               vx,
                               keys,
                               std::nullopt,
                               result,
                               {reinterpret_cast<std::byte*>(scratch.data()), scratch.size() * 8}});

  // result_0 + result_1 secret - x hidden is small, and the same integer in every limb.
  q_.enqueue(device::ForwardNtt{prepared_, chain, vx, vx});
  q_.enqueue(device::ForwardNtt{prepared_, chain, result, result});
  const View phase = result.with_components(0, 1);
  q_.enqueue(device::MulAccumulate{prepared_, chain, result.with_components(1, 1), whole(secret).with_limbs(0, 4), phase});
  q_.enqueue(device::Mul{prepared_, chain, vx, whole(hidden).with_limbs(0, 4), vx});
  q_.enqueue(device::Sub{prepared_, chain, phase, vx, phase});
  q_.enqueue(device::InverseNtt{prepared_, chain, phase, phase});
  bool all_zero = true;
  for (std::size_t i = 0; i < kN; ++i) {
    const i64 noise = math::centered(phase.at<u64>(0, 0, 0)[i], p_[0]);
    all_zero = all_zero && noise == 0;
    // the bound is the digits times the errors, divided by P, plus the rounding error times s
    EXPECT_LT(std::abs(noise), 4 * static_cast<i64>(kN) * 2 + 100);
    for (std::size_t l = 1; l < 4; ++l) EXPECT_EQ(math::centered(phase.at<u64>(0, 0, l)[i], p_[l]), noise);
  }
  EXPECT_FALSE(all_zero) << "the noise is 0, so the test checks nothing";
}

TEST_F(CompositeRef, ABfvProductIsTheProductOfTheMessages) {
  const u64 t = 257;
  const PrimeList chain{0, 1}, auxiliary{4, 5, 6};
  const Words q = moduli(*ring_, chain), r = moduli(*ring_, auxiliary);
  MultiplyPlan plan{.ring = prepared_, .chain = chain, .auxiliary = auxiliary, .extended = {0, 1, 4, 5, 6}};
  plan.lift = k().prepare(math::extend_base(q, r));
  plan.scale = k().prepare(math::divide_and_round(q, r, t));
  plan.lower = k().prepare(math::extend_base(r, q));

  Words m1, m2, expected(kN, 0), a, b, out, decoded;
  for (u64 i = 0; i < kN; ++i) m1.push_back(i * i * 31 % t), m2.push_back((i + 5) * 77 % t);
  for (std::size_t i = 0; i < kN; ++i) {
    for (std::size_t j = 0; j < kN; ++j) {
      u64& slot = expected[(i + j) % kN];
      slot = i + j < kN ? math::add_mod(slot, m1[i] * m2[j] % t, t) : math::sub_mod(slot, m1[i] * m2[j] % t, t);
    }
  }
  // The ciphertexts have mask 0, so the body is the encoded message.
  const View va = view(a, *ring_, 1, 2, 2), vb = view(b, *ring_, 1, 2, 2), vo = view(out, *ring_, 1, 3, 2);
  const auto encode = k().prepare(math::scale_from_plain(t, q)), decode = k().prepare(math::scale_to_plain(q, t));
  q_.enqueue(device::Convert{encode, view(m1, *ring_, 1, 1, 1), std::nullopt, va.with_components(0, 1)});
  q_.enqueue(device::Convert{encode, view(m2, *ring_, 1, 1, 1), std::nullopt, vb.with_components(0, 1)});
  Words scratch(device::scratch_bytes(device::ScaledTensor{.plan = held(plan), .a = va, .b = vb}, 1) / 8);
  q_.enqueue(
      device::ScaledTensor{held(plan), va, vb, vo, {reinterpret_cast<std::byte*>(scratch.data()), scratch.size() * 8}});
  const View plain = view(decoded, *ring_, 1, 1, 1);
  q_.enqueue(device::Convert{decode, vo.with_components(0, 1), std::nullopt, plain});
  EXPECT_EQ(decoded, expected);
  EXPECT_EQ(Words(out.begin() + 2 * kN, out.end()), Words(4 * kN, 0));
}

}  // namespace

}  // namespace heliograph::test
