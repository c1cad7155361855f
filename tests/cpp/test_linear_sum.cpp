// Linear sums equal the same sums of integer polynomials. There, products are schoolbook products, and digits and divisions
// use the Chinese remainder theorem. Also tests the checks of arguments.
#include <gtest/gtest.h>
#include <cstring>

#include "op_cases.h"
#include "op_plans.h"

namespace heliograph::test {

namespace {

using math::i128;
using Limb = std::vector<u64>;         // coefficients modulo one prime
using Polynomial = std::vector<Limb>;  // one limb per prime

constexpr std::size_t kN = 64;

struct Model {
  std::vector<u64> moduli;  // Q, then P
  std::size_t chain;

  Limb times(const Limb& a, const Limb& b, u64 q) const {
    Limb r(kN);
    for (std::size_t i = 0; i < kN; ++i) {
      for (std::size_t j = 0; j < kN; ++j) {
        const u64 product = math::mul_mod(a[i], b[j], q);
        u64& to = r[(i + j) % kN];
        to = i + j < kN ? math::add_mod(to, product, q) : math::sub_mod(to, product, q);
      }
    }
    return r;
  }
  /// sum += a * b
  void add_product(Polynomial& sum, const Polynomial& a, const Polynomial& b) const {
    for (std::size_t l = 0; l < a.size(); ++l) {
      const Limb product = times(a[l], b[l], moduli[l]);
      for (std::size_t k = 0; k < kN; ++k) sum[l][k] = math::add_mod(sum[l][k], product[k], moduli[l]);
    }
  }
  void add(Polynomial& sum, const Polynomial& a) const {
    for (std::size_t l = 0; l < a.size(); ++l) {
      for (std::size_t k = 0; k < kN; ++k) sum[l][k] = math::add_mod(sum[l][k], a[l][k], moduli[l]);
    }
  }
  Polynomial zero() const { return Polynomial(moduli.size(), Limb(kN)); }
  /// Applies X -> X^galois.
  Polynomial turned(const Polynomial& a, u64 galois) const {
    Polynomial r = a;
    for (std::size_t l = 0; l < a.size(); ++l) {
      for (std::size_t k = 0; k < kN; ++k) {
        const u64 to = k * galois % (2 * kN);
        r[l][to % kN] = to < kN ? a[l][k] : math::sub_mod(0, a[l][k], moduli[l]);
      }
    }
    return r;
  }
  /// Returns coefficient k as a centred integer from limbs first .. first + count - 1.
  i128 centred(const Polynomial& a, std::size_t k, std::size_t first, std::size_t count) const {
    i128 product = 1, value = 0;
    for (std::size_t l = first; l < first + count; ++l) {  // Garner's algorithm: adds one prime at a time
      const u64 q = moduli[l];
      const u64 have = residue(value, q), step = math::inverse_mod(residue(product, q), q);
      value += product * static_cast<i128>(math::mul_mod(math::sub_mod(a[l][k], have, q), step, q));
      product *= static_cast<i128>(q);
    }
    return value > product / 2 ? value - product : value;
  }
  static u64 residue(i128 x, u64 q) {
    const i128 r = x % static_cast<i128>(q);
    return static_cast<u64>(r < 0 ? r + static_cast<i128>(q) : r);
  }
  Polynomial digit(const Polynomial& a, std::size_t first, std::size_t count) const {
    Polynomial r = zero();
    for (std::size_t k = 0; k < kN; ++k) {
      const i128 value = centred(a, k, first, count);
      for (std::size_t l = 0; l < moduli.size(); ++l) r[l][k] = residue(value, moduli[l]);
    }
    return r;
  }
  /// Returns `a` divided by the product of the primes from index `kept` on, rounded, in the limbs before index `kept`.
  Polynomial divided(const Polynomial& a, std::size_t kept) const {
    Polynomial r(kept, Limb(kN));
    for (std::size_t k = 0; k < kN; ++k) {
      const i128 rest = centred(a, k, kept, a.size() - kept);
      for (std::size_t l = 0; l < kept; ++l) {
        const u64 q = moduli[l];
        u64 inverse = 1;
        for (std::size_t d = kept; d < a.size(); ++d)
          inverse = math::mul_mod(inverse, math::inverse_mod(moduli[d] % q, q), q);
        r[l][k] = math::mul_mod(math::sub_mod(a[l][k], residue(rest, q), q), inverse, q);
      }
    }
    return r;
  }
};

struct Case {
  std::vector<u64> babies, giants;
  std::vector<device::LinearPlan::Term> terms;
};

const SwitchShape kShape{"", {0, 1, 2}, {6, 7}, {2, 1}};

std::vector<device::PermutationHandle> permutations(Rig& rig, const std::vector<u64>& elements) {
  std::vector<device::PermutationHandle> list;
  for (const u64 g : elements) {
    list.push_back(g == 1 ? nullptr : rig.kernels().prepare(device::Permutation{math::automorphism_table(kN, g), {}}));
  }
  return list;
}

std::shared_ptr<device::LinearPlan> plan_of(Rig& rig, const std::shared_ptr<const math::Ring>& ring, const Case& c) {
  auto plan = std::make_shared<device::LinearPlan>();
  plan->key_switch = ntt_switch_plan(rig, ring, kShape, {0, 1});
  plan->mod_down = switch_plan(rig, ring, kShape)->mod_down;
  plan->babies = permutations(rig, c.babies), plan->giants = permutations(rig, c.giants), plan->terms = c.terms;
  return plan;
}

std::vector<Polynomial> components(const std::vector<std::byte>& bytes, std::size_t limbs) {
  const std::size_t words = bytes.size() / sizeof(u64);
  std::vector<Polynomial> list(words / (limbs * kN), Polynomial(limbs, Limb(kN)));
  for (std::size_t i = 0; i < words; ++i)
    std::memcpy(&list[i / (limbs * kN)][i / kN % limbs][i % kN], &bytes[i * sizeof(u64)], sizeof(u64));
  return list;
}

std::vector<Polynomial> modelled(const Model& m, const Case& c, const std::vector<Polynomial>& x,
                                 const std::vector<std::vector<Polynomial>>& keys,
                                 const std::vector<Polynomial>& plaintexts) {
  std::size_t next = 0;
  // Adds to `to` the product of the digits of `a`, under the automorphism `galois`, and the next key.
  const auto switch_turned = [&](const Polynomial& a, u64 galois, std::vector<Polynomial>& to) {
    const std::vector<Polynomial>& key = keys[next++];
    for (std::size_t j = 0, first = 0; j < kShape.digits.size(); first += kShape.digits[j++]) {
      const Polynomial d = m.turned(m.digit(a, first, kShape.digits[j]), galois);
      for (std::size_t k = 0; k < 2; ++k) m.add_product(to[k], d, key[2 * j + k]);
    }
  };
  const auto times_p = [&](Polynomial a) {
    a.resize(m.moduli.size(), Limb(kN));
    for (std::size_t l = 0; l < m.chain; ++l) {
      for (u64& word : a[l]) {
        for (std::size_t s = m.chain; s < m.moduli.size(); ++s)
          word = math::mul_mod(word, m.moduli[s] % m.moduli[l], m.moduli[l]);
      }
    }
    return a;
  };
  std::vector<std::vector<Polynomial>> sums(c.giants.size(), {m.zero(), m.zero()});
  for (std::size_t b = 0; b < c.babies.size(); ++b) {
    std::vector<Polynomial> u = {times_p(m.turned(x[0], c.babies[b])), m.zero()};
    if (c.babies[b] == 1) {
      u[1] = times_p(x[1]);
    } else {
      switch_turned(x[1], c.babies[b], u);
    }
    for (std::size_t t = 0; t < c.terms.size(); ++t) {
      if (c.terms[t].baby != b) continue;
      for (std::size_t k = 0; k < 2; ++k) m.add_product(sums[c.terms[t].giant][k], plaintexts[t], u[k]);
    }
  }
  std::vector<Polynomial> total = {m.zero(), m.zero()};
  for (std::size_t g = 0; g < c.giants.size(); ++g) {
    m.add(total[0], m.turned(sums[g][0], c.giants[g]));
    if (c.giants[g] == 1) {
      m.add(total[1], sums[g][1]);
    } else {
      switch_turned(m.divided(sums[g][1], m.chain), c.giants[g], total);
    }
  }
  return {m.divided(total[0], m.chain - 1), m.divided(total[1], m.chain - 1)};
}

}  // namespace

TEST(LinearSum, EqualsTheSumOfIntegers) {
  const std::vector<Case> cases = {
      {{1, 3, 9}, {1, 5}, {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}},
      {{3, 7}, {5, 9}, {{0, 1}, {1, 0}, {1, 1}}},
      {{1}, {1}, {{0, 0}}},
      {{1}, {3}, {{0, 0}}},
      {{127}, {1}, {{0, 0}}},
      {{1, 3},
       {1, 5, 7, 9, 11, 13, 15, 17, 19, 21},
       {{0, 1}, {1, 0}, {2, 1}, {3, 0}, {4, 1}, {5, 0}, {6, 1}, {7, 0}, {8, 0}, {9, 1}}},
  };
  static const Field field{"w64-short", Word::w64, {24, 22}};
  const auto ring = switch_ring(field, kN);
  Target ref = open_target("ref");
  for (std::size_t number = 0; number < cases.size(); ++number) {
    const Case& c = cases[number];
    Rig rig(ref);
    const auto plan = plan_of(rig, ring, c);
    const auto of_nine = plan->key_switch;
    const device::KeySwitchPlan& k = *of_nine;
    // The keys have exactly the primes that the plan uses, so the test downloads no unused words.
    const auto alone = std::make_shared<device::KeySwitchPlan>(k);
    alone->key_limbs = PrimeList::range(0, k.extended.size());
    plan->key_switch = alone;
    const std::size_t count = device::LinearPlan::turning(plan->babies) + device::LinearPlan::turning(plan->giants);
    device::LinearSum call{
        .plan = plan, .x = rig.in_out(*ring, k.chain, {{}, 2}), .keys = {}, .plaintexts = {}, .out = {}, .scratch = {}};
    for (std::size_t i = 0; i < count; ++i) call.keys.push_back(rig.in_out(*ring, k.extended, {{}, 2 * k.digits.size()}));
    call.plaintexts = rig.in_out(*ring, k.extended, {{}, c.terms.size()});
    call.out = rig.output(*ring, k.down.out, {{}, 2});
    rig.queue().enqueue(rig.with_scratch(call));
    const auto back = [&](const PrimeList& primes, const View& v) {
      rig.queue().enqueue(device::InverseNtt{k.ring, primes, v, v});
    };
    back(k.chain, call.x), back(k.extended, call.plaintexts), back(k.down.out, call.out);
    for (const View& key : call.keys) back(k.extended, key);
    const auto results = rig.results();
    std::vector<std::vector<Polynomial>> keys;
    for (std::size_t i = 0; i < count; ++i) keys.push_back(components(results[1 + i], k.extended.size()));
    const Model model{moduli(*ring, k.extended), k.chain.size()};
    const auto want =
        modelled(model, c, components(results[0], k.chain.size()), keys, components(results[1 + count], k.extended.size()));
    EXPECT_TRUE(components(results[2 + count], k.down.out.size()) == want) << "case " << number;
  }
}

TEST(LinearSum, ArgumentsAreChecked) {
  Target ref = open_target("ref");
  Rig rig(ref);
  const auto ring = switch_ring(kField50, kN);
  const Case c{{1, 3}, {1, 5}, {{0, 0}, {0, 1}, {1, 1}}};
  const auto good = plan_of(rig, ring, c);
  const device::KeySwitchPlan& k = *good->key_switch;
  const auto in = [&](const PrimeList& primes, std::size_t items, std::size_t components) {
    return rig.input(*ring, primes, {{items}, components});
  };
  const View key = rig.input(*ring, PrimeList::range(0, 9), {{}, 4});
  const device::LinearSum call{.plan = good,
                               .x = in(k.chain, 3, 2),
                               .keys = {key, key},
                               .plaintexts = rig.input(*ring, k.extended, {{}, 3}),
                               .out = in(k.down.out, 3, 2),
                               .scratch = {}};
  const auto run = [&](auto change, std::size_t room = 1 << 20) {
    device::LinearSum changed = call;
    changed.scratch = rig.workspace(room);
    change(changed);
    rig.queue().enqueue(changed);
  };
  const auto planned = [&](auto change) {
    run([&](device::LinearSum& s) {
      auto plan = std::make_shared<device::LinearPlan>(*good);
      change(*plan);
      s.plan = plan;
    });
  };
  using device::LinearPlan;
  using device::LinearSum;
  EXPECT_NO_THROW(run([](LinearSum&) {}));
  EXPECT_THROW(run([](LinearSum&) {}, 64), InternalError);
  EXPECT_THROW(run([&](LinearSum& s) { s.x = in(k.chain, 3, 1); }), ShapeError);
  EXPECT_THROW(run([&](LinearSum& s) { s.x = in(k.chain, 2, 2); }), ShapeError);
  EXPECT_THROW(run([&](LinearSum& s) { s.out = in(k.chain, 3, 2); }), ShapeError);
  EXPECT_THROW(run([](LinearSum& s) { s.keys.pop_back(); }), ShapeError);
  EXPECT_THROW(run([&](LinearSum& s) { s.keys[1] = rig.input(*ring, PrimeList::range(0, 9), {{}, 3}); }), ShapeError);
  EXPECT_THROW(run([&](LinearSum& s) { s.plaintexts = rig.input(*ring, k.extended, {{}, 2}); }), ShapeError);
  EXPECT_THROW(run([&](LinearSum& s) { s.plaintexts = rig.input(*ring, k.chain, {{}, 3}); }), ShapeError);
  const auto words = [&](std::size_t n, std::size_t terms = 3) {
    return [&, n, terms](LinearSum& s) { s.plaintexts = rig.input(Word::w64, n, moduli(*ring, k.extended), {{}, terms}); };
  };
  for (const std::size_t n : {1, 2, 32}) EXPECT_NO_THROW(run(words(n))) << n;
  for (const std::size_t n : {0, 3, 48, 128}) EXPECT_THROW(run(words(n)), ShapeError) << n;
  EXPECT_THROW(run(words(32, 2)), ShapeError);
  EXPECT_THROW(run([&](LinearSum& s) { s.x = rig.input(*ring_of(kField32, kN, 9), k.chain, {{3}, 2}); }), MismatchError);
  EXPECT_THROW(planned([](LinearPlan& p) { p.mod_down = nullptr; }), ShapeError);
  EXPECT_THROW(planned([](LinearPlan& p) { std::swap(p.babies[0], p.babies[1]); }), ShapeError) << "null must be first";
  EXPECT_THROW(planned([](LinearPlan& p) { p.terms.pop_back(); }), ShapeError) << "a giant step without a term";
  EXPECT_THROW(planned([](LinearPlan& p) { p.terms.clear(); }), ShapeError);
  EXPECT_THROW(planned([](LinearPlan& p) { p.terms[1].baby = 0; }), ShapeError) << "the same term twice";
  EXPECT_THROW(planned([](LinearPlan& p) { p.terms[2].baby = 2; }), ShapeError) << "a term names a missing baby step";
  EXPECT_THROW(planned([&](LinearPlan& p) {
                 p.giants[1] = rig.kernels().prepare(device::Permutation{math::automorphism_table(2 * kN, 3), {}});
               }),
               ShapeError);
}

}  // namespace heliograph::test
