// Conversions between RNS bases are compared with integers: the rounding, the largest error, and that sums do not overflow.
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <random>

#include "math/primes.h"
#include "op_cases.h"
#include "op_plans.h"

namespace heliograph::test {

namespace {

using math::Conversion;
using math::i128;
using math::u128;

/// Converts single coefficients on `ref`, with 64-bit words.
class Converter {
 public:
  Converter() : target_(open_target("ref")), queue_(target_.device->make_queue()) {}

  /// Each row of `x` (and of `own`) has the residues of one coefficient.
  std::vector<std::vector<u64>> run(const Conversion& c, const std::vector<std::vector<u64>>& x,
                                    const std::vector<std::vector<u64>>& own) {
    const std::size_t n = x.size(), from = c.sources(), to = c.targets();
    std::vector<u64> in(from * n), extra(to * n), out(to * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t s = 0; s < from; ++s) in[s * n + i] = x[i][s];
      for (std::size_t j = 0; j < to && !own.empty(); ++j) extra[j * n + i] = own[i][j];
    }
    const auto view = [&](std::vector<u64>& words, std::size_t limbs) {
      return View::dense(reinterpret_cast<std::byte*>(words.data()), Word::w64, {}, 1, limbs, n);
    };
    const View own_view = view(extra, to);
    const auto prepared = target_.device->kernels().prepare(c);
    queue_->enqueue(
        device::Convert{prepared, view(in, from), c.own.empty() ? std::nullopt : std::optional(own_view), view(out, to)});
    std::vector<std::vector<u64>> rows(n, std::vector<u64>(to));
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < to; ++j) rows[i][j] = out[j * n + i];
    }
    return rows;
  }

 private:
  Target target_;
  std::unique_ptr<device::Queue> queue_;
};

u64 reduced(i128 x, u64 q) {
  const i128 r = x % static_cast<i128>(q);
  return static_cast<u64>(r < 0 ? r + static_cast<i128>(q) : r);
}

std::vector<u64> residues(i128 x, const std::vector<u64>& moduli) {
  std::vector<u64> r;
  for (const u64 q : moduli) r.push_back(reduced(x, q));
  return r;
}

i128 product(const std::vector<u64>& moduli) {
  i128 r = 1;
  for (const u64 q : moduli) r *= static_cast<i128>(q);
  return r;
}

/// Returns floor(a / b) for b > 0 (C++'s division rounds towards 0).
i128 floor_div(i128 a, i128 b) { return a / b - (a % b < 0 ? 1 : 0); }

/// Returns values below `bound`: random values, both ends of the range, and values around bound / 2, where rounding changes.
std::vector<i128> values_below(i128 bound, u64 seed) {
  std::mt19937_64 random(seed);
  std::vector<i128> v = {0, 1, bound - 1, bound / 2, bound / 2 - 1, bound / 2 + 1, bound / 2 + 2};
  while (v.size() < 256) v.push_back(static_cast<i128>((u128{random()} << 64 | random()) % static_cast<u128>(bound)));
  return v;
}

struct Base {
  const char* name;
  std::vector<u64> from, to;
};

/// Returns RNS bases in which the product of the moduli is well below 2^127.
std::vector<Base> bases() {
  const auto p = [](int bits, std::size_t count) { return math::largest_primes(bits, count, 128); };
  const std::vector<u64> p30 = p(30, 6), p50 = p(50, 5), p58 = p(58, 5), p20 = p(20, 4);
  return {{"one of 30 bits", {p30[0]}, {p30[1], p30[2]}},
          {"three of 30 bits", {p30[0], p30[1], p30[2]}, {p30[3], p30[4], p30[5]}},
          {"five of 20 and 30 bits", {p20[0], p20[1], p20[2], p20[3], p30[0]}, {p30[1], p30[2]}},
          {"two of 50 bits", {p50[0], p50[1]}, {p50[2], p50[3], p50[4]}},
          {"two of 58 bits", {p58[0], p58[1]}, {p58[2], p58[3], p58[4]}},
          {"50 and 58 bits", {p50[0], p58[1]}, {p58[2], p30[0]}},
          {"30 bits to a plaintext modulus", {p30[0], p30[1]}, {65537}}};
}

TEST(Conversion, ExtensionIsCentredWithinItsError) {
  Converter converter;
  for (const Base& b : bases()) {
    for (const u64 multiplier : {u64{1}, u64{12345}}) {
      const Conversion c = math::extend_base(b.from, b.to, true, multiplier);
      const i128 f = product(b.from);
      const std::vector<i128> values = values_below(f, 1);
      std::vector<std::vector<u64>> x;
      for (const i128 v : values) x.push_back(residues(v, b.from));
      const auto out = converter.run(c, x, {});
      EXPECT_LT(c.fixed.error, std::ldexp(1.0, -25));
      for (std::size_t i = 0; i < values.size(); ++i) {
        // Computes m x modulo F by additions, because the product may exceed 128 bits.
        i128 mx = 0;
        for (int bit = 63; bit >= 0; --bit) {
          mx = mx * 2 % f;
          if (multiplier >> bit & 1) mx = (mx + values[i]) % f;
        }
        const double slack = (0.5 + c.fixed.error) * static_cast<double>(f) * (1 + 1e-15);
        const bool low = out[i] == residues(mx, b.to) && static_cast<double>(mx) <= slack;
        const bool high = out[i] == residues(mx - f, b.to) && static_cast<double>(f - mx) <= slack;
        EXPECT_TRUE(low || high) << b.name << " value " << i;
      }
    }
  }
}

TEST(Conversion, UnroundedExtensionIsOffByFewMultiples) {
  Converter converter;
  for (const Base& b : bases()) {
    const Conversion c = math::extend_base(b.from, b.to, false);
    const i128 f = product(b.from);
    const std::vector<i128> values = values_below(f, 2);
    std::vector<std::vector<u64>> x;
    for (const i128 v : values) x.push_back(residues(v, b.from));
    const auto out = converter.run(c, x, {});
    for (std::size_t i = 0; i < values.size(); ++i) {
      bool found = false;
      // expected: x + u F modulo each target; x + u F itself may exceed 128 bits
      for (std::size_t u = 0; u < b.from.size(); ++u) {
        std::vector<u64> expected;
        for (const u64 q : b.to)
          expected.push_back(math::add_mod(reduced(values[i], q), math::mul_mod(u, reduced(f, q), q), q));
        found = found || out[i] == expected;
      }
      EXPECT_TRUE(found) << b.name << " value " << i;
    }
  }
}

TEST(Conversion, DivisionRoundsToTheNearest) {
  Converter converter;
  for (const Base& b : bases()) {
    const Conversion c = math::divide_and_round(b.from, b.to);
    const i128 f = product(b.from);
    std::vector<i128> values;  // x = a F + r with small a, so quotient and remainder are known
    std::vector<std::vector<u64>> x, own;
    const i128 room = ~(i128{1} << 127) / f / 2;
    for (const i128 r : values_below(f, 3))
      values.push_back(r + f * (static_cast<i128>(values.size()) % std::min<i128>(room, 97)));
    for (const i128 v : values) x.push_back(residues(v, b.from)), own.push_back(residues(v, b.to));
    const auto out = converter.run(c, x, own);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const i128 quotient = floor_div(values[i], f), rest = values[i] - quotient * f;
      const double slack = (0.5 + c.fixed.error) * static_cast<double>(f) * (1 + 1e-15);
      const bool down = out[i] == residues(quotient, b.to) && static_cast<double>(rest) <= slack;
      const bool up = out[i] == residues(quotient + 1, b.to) && static_cast<double>(f - rest) <= slack;
      EXPECT_TRUE(down || up) << b.name << " value " << i;
    }
  }
}

TEST(Conversion, DivisionWithAMultiplier) {
  Converter converter;
  const std::vector<u64> p = math::largest_primes(30, 5, 128);
  const std::vector<u64> from = {p[0], p[1]}, to = {p[2], p[3], p[4]};
  const i128 f = product(from);
  const u64 t = 65537;
  const Conversion c = math::divide_and_round(from, to, t);
  std::vector<std::vector<u64>> x, own;
  const std::vector<i128> values = values_below(f * 1000, 4);
  for (const i128 v : values) x.push_back(residues(v, from)), own.push_back(residues(v, to));
  const auto out = converter.run(c, x, own);
  for (std::size_t i = 0; i < values.size(); ++i) {
    // no value lies exactly halfway between two integers
    EXPECT_EQ(out[i], residues(floor_div(2 * values[i] * t + f, 2 * f), to)) << i;
  }
}

TEST(Conversion, DivisionWithMultipliersAndTimes) {
  Converter converter;
  const std::vector<u64> p = math::largest_primes(30, 5, 128), p20 = math::largest_primes(20, 2, 128);
  struct Case {
    std::vector<u64> from, to, multipliers;
    u64 times;
  };
  // A target whose modulus divides the multiplier does not depend on x.
  const std::vector<Case> cases = {{{p[0], p[1]}, {p[2], p[3], p[4]}, {}, 65537},
                                   {{p[0], p[1]}, {p[2], p20[0]}, {p20[0]}, 1},
                                   {{p[0], p[1]}, {p20[0], p[2], p20[1]}, {p20[0], p20[1]}, 12345},
                                   {{p[0]}, {p20[1]}, {p20[1]}, 1},
                                   {{p20[0], p20[1]}, {p[0], p[1], p[2]}, {p[1]}, (u64{1} << 40) + 1}};
  for (std::size_t k = 0; k < cases.size(); ++k) {
    const auto& [from, to, multipliers, times] = cases[k];
    const Conversion c = math::divide_and_round(from, to, multipliers, times);
    const i128 f = product(from), m = product(multipliers);
    std::vector<std::vector<u64>> x, own;
    const std::vector<i128> values = values_below(f * 97, 6 + k);
    for (std::size_t i = 0; i < values.size(); ++i) {
      x.push_back(residues(values[i], from)), own.push_back(residues(values[i], to));
      for (std::size_t j = 0; j < to.size(); ++j) {
        if (std::find(multipliers.begin(), multipliers.end(), to[j]) != multipliers.end()) own[i][j] = i % to[j];
      }
    }
    const auto out = converter.run(c, x, own);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const i128 quotient = floor_div(values[i] * m, f), rest = values[i] * m - quotient * f;
      const double slack = (0.5 + c.fixed.error) * static_cast<double>(f) * (1 + 1e-15);
      const auto expected = [&](i128 near) {
        std::vector<u64> r;
        for (const u64 q : to) r.push_back(math::mul_mod(times % q, reduced(near, q), q));
        return r;
      };
      const bool down = out[i] == expected(quotient) && static_cast<double>(rest) <= slack;
      const bool up = out[i] == expected(quotient + 1) && static_cast<double>(f - rest) <= slack;
      EXPECT_TRUE(down || up) << "case " << k << " value " << i;
      EXPECT_EQ(out[i], math::evaluate(c, x[i], own[i])) << "case " << k << " value " << i;
    }
  }
}

TEST(Conversion, DivisionThatKeepsThePlaintext) {
  Converter converter;
  for (const Base& b : bases()) {
    const i128 f = product(b.from);
    for (const u64 t : {u64{2}, u64{3}, u64{256}, u64{65537}, (u64{1} << 20) + 7}) {
      const i128 most = static_cast<i128>(t) + 200;  // above all quotients that occur in this test
      if (f > (~(i128{1} << 127)) / most || most >= static_cast<i128>(b.to[0] / 2)) continue;
      const Conversion c = math::divide_keeping(b.from, b.to, t);
      std::vector<i128> values;
      std::vector<std::vector<u64>> x, own;
      for (const i128 r : values_below(f, 7)) values.push_back(r + f * (static_cast<i128>(values.size()) % 97));
      for (const i128 v : values) x.push_back(residues(v, b.from)), own.push_back(residues(v, b.to));
      const auto out = converter.run(c, x, own);
      for (std::size_t i = 0; i < values.size(); ++i) {
        // x - quotient F is the number subtracted before the exact division. The subtracted number must be 0 modulo t and as
        // small as possible.
        const i128 quotient = math::centered(out[i][0], b.to[0]), taken = values[i] - quotient * f;
        EXPECT_EQ(out[i], residues(quotient, b.to)) << b.name << " t=" << t << " value " << i;
        EXPECT_EQ(taken % static_cast<i128>(t), 0) << b.name << " t=" << t << " value " << i;
        const double slack = (0.5 + c.fixed.error) * static_cast<double>(f) * static_cast<double>(t) * (1 + 1e-15);
        EXPECT_LE(std::abs(static_cast<double>(taken)), slack) << b.name << " t=" << t << " value " << i;
        EXPECT_EQ(out[i], math::evaluate(c, x[i], own[i])) << b.name << " t=" << t << " value " << i;
      }
    }
  }
}

TEST(Conversion, TheRestOfADivisionIsTheDivisionOfZero) {
  Converter converter;
  const std::vector<u64> p = math::largest_primes(50, 5, 128), from = {p[0], p[1]}, to = {p[2], p[3], p[4]};
  const Conversion all[] = {math::divide_and_round(from, to, {p[3], 7}, 5), math::divide_keeping(from, to, 65537),
                            math::extend_base(from, to)};
  for (const Conversion& c : all) {
    const Conversion rest = math::without_own(c);
    EXPECT_TRUE(rest.own.empty());
    std::vector<std::vector<u64>> x, own;
    for (const i128 v : values_below(product(from), 8)) x.push_back(residues(v, from)), own.push_back(residues(v + 9, to));
    const auto whole = converter.run(c, x, c.own.empty() ? std::vector<std::vector<u64>>{} : own);
    auto got = converter.run(rest, x, {});
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t j = 0; j < to.size() && !c.own.empty(); ++j)
        got[i][j] = math::add_mod(got[i][j], math::mul_mod(own[i][j], c.own[j], to[j]), to[j]);
    }
    EXPECT_EQ(got, whole);
  }
}

TEST(Transformed, DivisionHasTheBitsOfThatInCoefficients) {
  struct Case {
    PrimeList from, to;
    u64 times = 1, keep = 1;
  };
  const std::vector<Case> cases = {{{0, 1, 2, 3}, {0, 1, 2}},
                                   {{0, 1, 2, 3, 4}, {0, 1}, 257},
                                   {{0, 3, 1, 2}, {0, 1, 2}},
                                   {{0, 1, 2, 3}, {7, 0, 8, 2}},
                                   {{0, 1, 2, 3}, {0, 1}, 1, 65537}};
  Target ref = open_target("ref");
  for (const Field* field : main_fields()) {
    const auto ring = switch_ring(*field, 64);
    for (const auto& [from, to, times, keep] : cases) {
      Rig rig(ref);
      const auto prepared = rig.prepare(ring);
      const device::DividePlan plan = divide_plan(rig, ring, from, to, times, keep);
      const Shape shape{{3}, 2};
      const View x = rig.input(*ring, from, shape), transformed = rig.output(*ring, to, shape);
      rig.queue().enqueue(rig.with_scratch(device::Divide{held(plan), x, transformed}));

      PrimeList divisors;
      std::vector<u64> added;
      for (const math::PrimeIndex p : from) {
        if (std::find(to.begin(), to.end(), p) == to.end()) divisors.push_back(p);
      }
      for (const math::PrimeIndex p : to) {
        if (std::find(from.begin(), from.end(), p) == from.end()) added.push_back(ring->prime(p));
      }
      const std::vector<u64> f = moduli(*ring, divisors), t = moduli(*ring, to);
      const auto c =
          rig.kernels().prepare(keep > 1 ? math::divide_keeping(f, t, keep) : math::divide_and_round(f, t, added, times));
      const View rest = rig.input(*ring, divisors, shape), own = rig.input(*ring, to, shape);
      const View converted = rig.output(*ring, to, shape);
      rig.queue().enqueue(device::InverseNtt{prepared, from, x, x});
      const auto move = [&](const PrimeList& list, const View& out) {
        for (std::size_t i = 0; i < from.size(); ++i) {
          for (std::size_t j = 0; j < list.size(); ++j) {
            if (from[i] == list[j]) rig.queue().enqueue(device::Copy{x.with_limbs(i, 1), out.with_limbs(j, 1)});
          }
        }
      };
      move(divisors, rest), move(to, own);
      rig.queue().enqueue(device::Convert{c, rest, own, converted});
      rig.queue().enqueue(device::ForwardNtt{prepared, to, converted, converted});
      const auto results = rig.results();
      EXPECT_TRUE(results[0] == results[1]) << field->name << ", from " << from.size() << " limbs to " << to.size();
    }
  }
}

TEST(Transformed, KeySwitchHasTheBitsOfThatInCoefficients) {
  Target ref = open_target("ref");
  for (const Field* field : main_fields()) {
    const auto ring = switch_ring(*field, 64);
    for (const SwitchShape& s : switch_shapes()) {
      for (const u64 times : {u64{1}, u64{65537}}) {
        for (const std::size_t added : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
          Rig rig(ref);
          const auto prepared = rig.prepare(ring);
          const auto plan = switch_plan(rig, ring, s), transformed = ntt_switch_plan(rig, ring, s, s.chain, times);
          const View x = rig.input(*ring, s.chain, {{3}, 1});
          const View key = rig.input(*ring, PrimeList::range(0, 9), {{}, 2 * s.digits.size()});
          const View add = added > 0 ? rig.input(*ring, s.chain, {{3}, added}) : View{};
          const View want = rig.output(*ring, s.chain, {{3}, 2}), got = rig.output(*ring, s.chain, {{3}, 2});
          // expected result: times * switch(x) + add, computed in coefficient form
          rig.queue().enqueue(
              rig.with_scratch(device::KeySwitch{plan, math::Domain::coefficient, x, key, std::nullopt, want}));
          device::LimbConstants c{};
          for (std::size_t l = 0; l < s.chain.size(); ++l) c[l] = times % ring->prime(s.chain[l]);
          rig.queue().enqueue(device::MulConstants{prepared, s.chain, want, c, want});
          if (added > 0) {
            const View part = want.with_components(0, added);
            rig.queue().enqueue(device::Add{prepared, s.chain, part, add, part});
            rig.queue().enqueue(device::ForwardNtt{prepared, s.chain, add, add});
          }
          rig.queue().enqueue(device::ForwardNtt{prepared, s.chain, want, want});
          rig.queue().enqueue(device::ForwardNtt{prepared, s.chain, x, x});
          rig.queue().enqueue(rig.with_scratch(device::KeySwitch{transformed, math::Domain::ntt, x, key,
                                                                 added > 0 ? std::optional(add) : std::nullopt, got}));
          const auto results = rig.results();
          EXPECT_TRUE(results[0] == results[1]) << field->name << " " << s.name << ", times " << times << ", " << added;
        }
      }
    }
  }
}

TEST(Transformed, ArgumentsAreChecked) {
  Target ref = open_target("ref");
  Rig rig(ref);
  const auto ring = switch_ring(kField50, 64);
  const auto in = [&](const PrimeList& primes, std::size_t items, std::size_t components) {
    return rig.input(*ring, primes, {{items}, components});
  };
  const device::DividePlan plan = divide_plan(rig, ring, {0, 1, 2, 3}, {0, 1, 2});
  const View x = in(plan.primes, 3, 2), quotient = in(plan.out, 3, 2);
  const auto divide = [&](const device::DividePlan& p, const View& a, const View& to, std::size_t room = 1 << 20) {
    rig.queue().enqueue(device::Divide{held(p), a, to, rig.workspace(room)});
  };
  EXPECT_NO_THROW(divide(plan, x, quotient));
  EXPECT_THROW(divide(plan, x, quotient, 64), InternalError);
  EXPECT_THROW(divide(plan, quotient, quotient), ShapeError);
  EXPECT_THROW(divide(plan, x, x), ShapeError);
  EXPECT_THROW(divide(plan, x, in(plan.out, 2, 2)), ShapeError);
  EXPECT_THROW(divide(plan, x, in(plan.out, 3, 1)), ShapeError);
  EXPECT_THROW(divide(plan, x, rig.input(*ring_of(kField32, 64, 9), plan.out, {{3}, 2})), MismatchError);
  device::DividePlan wrong = plan;
  wrong.rest = nullptr;
  EXPECT_THROW(divide(wrong, x, quotient), ShapeError);
  wrong = plan, wrong.divided[0].from = 4;
  EXPECT_THROW(divide(wrong, x, quotient), ShapeError);
  wrong = plan, wrong.kept[0].count = 4;
  EXPECT_THROW(divide(wrong, x, quotient), ShapeError);
  wrong = plan, wrong.rest = rig.kernels().prepare(math::divide_and_round({ring->prime(3)}, moduli(*ring, plan.out)));
  EXPECT_THROW(divide(wrong, x, quotient), ShapeError) << "this conversion also reads an operand over the target limbs";

  const SwitchShape shape{"", {0, 1, 2}, {6}, {1, 1, 1}};
  const auto switched = ntt_switch_plan(rig, ring, shape, {0, 1});
  const View key = in(PrimeList::range(0, 9), 1, 6), out = in({0, 1}, 3, 2), add = in(shape.chain, 3, 2);
  for (const bool whole : {false, true}) {
    const View digits = whole ? in(shape.chain, 3, 1) : in(switched->extended, 3, 3);
    const auto run = [&](const device::KeySwitchPlan& p, const View& a, const View& with, const std::optional<View>& added,
                         const View& to, std::size_t room = 1 << 20, const device::PermutationHandle& turn = nullptr) {
      whole
          ? rig.queue().enqueue(device::KeySwitch{held(p), math::Domain::ntt, a, with, added, to, rig.workspace(room), turn})
          : rig.queue().enqueue(device::ApplyKey{held(p), math::Domain::ntt, a, with, added, to, rig.workspace(room), turn});
    };
    for (const std::size_t n : {std::size_t{64}, std::size_t{128}}) {
      const auto turn = rig.kernels().prepare(device::Permutation{math::automorphism_table(n, 3), {}});
      if (n == 64) {
        EXPECT_NO_THROW(run(*switched, digits, key, add, out, 1 << 20, turn));
      } else {
        EXPECT_THROW(run(*switched, digits, key, add, out, 1 << 20, turn), ShapeError);
      }
    }
    const auto negating =
        rig.kernels().prepare(device::Permutation{math::automorphism_table(64, 3), std::vector<bool>(64, true)});
    EXPECT_THROW(run(*switched, digits, key, add, out, 1 << 20, negating), ShapeError);
    EXPECT_NO_THROW(run(*switched, digits, key, add, out));
    EXPECT_THROW(run(*switched, digits, key, add, out, 64), InternalError);
    EXPECT_THROW(run(*switched, add, key, std::nullopt, out), ShapeError);
    EXPECT_THROW(run(*switched, digits, in(PrimeList::range(0, 9), 1, 5), std::nullopt, out), ShapeError);
    EXPECT_THROW(run(*switched, digits, in({0, 1, 2}, 1, 6), std::nullopt, out), ShapeError);
    EXPECT_THROW(run(*switched, digits, key, std::nullopt, add), ShapeError) << "the limbs differ from those that remain";
    EXPECT_THROW(run(*switched, digits, key, std::nullopt, in({0, 1}, 3, 1)), ShapeError);
    EXPECT_THROW(run(*switched, digits, key, out, out), ShapeError) << "the addend lacks the chain's last limb";
    const View more = in(shape.chain, 3, 3);
    EXPECT_THROW(run(*switched, digits, key, more, out), ShapeError);
    EXPECT_THROW(run(*switch_plan(rig, ring, shape), digits, key, std::nullopt, out), ShapeError)
        << "the plan is for coefficients, not NTT values";
  }
}

TEST(Conversion, PlaintextsSurviveTheRoundTrip) {
  Converter converter;
  std::mt19937_64 random(5);
  const u64 t43 = math::largest_primes(43, 1, 128)[0];
  for (const int bits : {30, 50, 60}) {
    const std::vector<u64> chain = math::largest_primes(bits, 4, 128);
    for (const u64 t : {u64{2}, u64{3}, u64{256}, u64{65537}, u64{1} << 32, t43, u64{1} << 50, (u64{1} << 58) - 27}) {
      const Conversion encode = math::scale_from_plain(t, chain), decode = math::scale_to_plain(chain, t);
      std::vector<std::vector<u64>> messages = {{0}, {1}, {t - 1}, {t / 2}};
      while (messages.size() < 64) messages.push_back({random() % t});
      const auto encoded = converter.run(encode, messages, {});
      EXPECT_EQ(converter.run(decode, encoded, {}), messages) << "t=" << t << " bits=" << bits;
    }
  }
}

TEST(Conversion, EncodingIsTheNearestInteger) {
  Converter converter;
  const std::vector<u64> chain = math::largest_primes(30, 3, 128);
  const i128 q = product(chain);
  for (const u64 t : {u64{2}, u64{17}, u64{65536}, u64{65537}}) {
    const Conversion c = math::scale_from_plain(t, chain);
    std::vector<std::vector<u64>> messages;
    for (u64 m = 0; m < 64; ++m) messages.push_back({m * 1000003 % t});
    const auto out = converter.run(c, messages, {});
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const i128 m = static_cast<i128>(messages[i][0]), down = floor_div(q * m, t),
                 rest = q * m - down * static_cast<i128>(t);
      const i128 near = 2 * rest >= static_cast<i128>(t) ? down + 1 : down;
      EXPECT_EQ(out[i], residues(near, chain)) << "t=" << t << " m=" << messages[i][0];
    }
  }
}

TEST(Conversion, DecryptionToleratesNoiseUpToItsError) {
  // With x = round(Q m / t) + noise, round(t x / Q) is m if |noise| < (1/2 - error) Q / t.
  Converter converter;
  const std::vector<u64> chain = math::largest_primes(30, 3, 128);
  const u64 t = 65537;
  const i128 q = product(chain), half = q / (2 * static_cast<i128>(t)), bound = half - (half >> 24);
  std::vector<std::vector<u64>> x, expected;
  for (u64 m = 0; m < 256; ++m) {
    const u64 message = m * 7919 % t;
    const i128 clean = (q * static_cast<i128>(message) + t / 2) / t;
    for (const i128 noise : {-bound, i128{0}, bound})
      x.push_back(residues(clean + noise, chain)), expected.push_back({message});
  }
  const Conversion c = math::scale_to_plain(chain, t);
  EXPECT_LT(c.fixed.error, std::ldexp(1.0, -25));
  EXPECT_EQ(converter.run(c, x, {}), expected);
}

TEST(FixedPoint, FollowsItsRule) {
  const auto p = [](int bits, std::size_t count) { return math::largest_primes(bits, count, 128); };
  const auto f30 = math::fixed_point(p(30, 3));
  EXPECT_EQ(f30.shift, 0);
  EXPECT_EQ(f30.bits, 58);
  const auto f50 = math::fixed_point({p(50, 1)[0], p(44, 1)[0]});
  EXPECT_EQ(f50.shift, 52);
  EXPECT_EQ(f50.bits, 43);
  const auto f60 = math::fixed_point({p(60, 1)[0], p(55, 1)[0]});
  EXPECT_EQ(f60.shift, 64);
  EXPECT_EQ(f60.bits, 54);
  EXPECT_EQ(math::fixed_point(p(60, 3)).bits, 58);
  EXPECT_THROW(math::fixed_point({}), ParameterError);
  EXPECT_THROW(math::fixed_point(std::vector<u64>(64, 17)), ParameterError);
  EXPECT_THROW(math::fixed_point({p(60, 1)[0], 65537}), ParameterError);
}

/// For each rounding rule, fractions and sums fit 64 bits even if all values are at their maximum.
TEST(FixedPoint, FractionsAndSumsDoNotOverflow) {
  const std::vector<std::vector<u64>> lists = {math::largest_primes(30, 63, 128),
                                               math::largest_primes(50, 63, 128),
                                               math::largest_primes(51, 63, 128),
                                               math::largest_primes(59, 63, 128),
                                               math::largest_primes(60, 63, 128),
                                               {u64{1} << 29},
                                               {u64{1} << 30},
                                               {u64{1} << 49},
                                               {u64{1} << 50},
                                               {u64{1} << 59},
                                               {2}};
  for (const std::vector<u64>& list : lists) {
    const math::FixedPoint f = math::fixed_point(list);
    u128 sum = u128{1} << (f.bits - 1);
    double largest = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const u128 fraction = (u128{1} << (f.shift + f.bits)) / list[i];
      EXPECT_EQ(u128{f.fractions[i]}, fraction);
      EXPECT_LT(fraction, u128{1} << (f.shift == 52 ? 52 : 64)) << list[i];
      sum += u128{list[i] - 1} * fraction >> f.shift;
      largest += static_cast<double>(list[i] - 1) / static_cast<double>(list[i]);
    }
    EXPECT_LT(sum, u128{1} << 64) << list[0];
    EXPECT_NEAR(std::ldexp(static_cast<double>(sum), -f.bits), largest + 0.5, f.error + 1e-9);
    EXPECT_LT(f.error, std::ldexp(1.0, -20));
  }
}

}  // namespace

}  // namespace heliograph::test
