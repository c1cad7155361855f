// Conversions between bases against integers: what they round to, how far they may be off, and that sums do not wrap.
#include <gtest/gtest.h>
#include <cmath>
#include <random>

#include "math/primes.h"
#include "op_cases.h"

namespace heliograph::test {

namespace {

using math::Conversion;
using math::i128;
using math::u128;

/// A conversion of single coefficients on `ref`, all words of 64 bits.
class Converter {
 public:
  Converter() : target_(open_target("ref")), queue_(target_.device->make_queue()) {}

  /// Each row of `x` (and `own`) is a coefficient's residues.
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
    target_.device->kernels().convert(*queue_, *prepared, view(in, from), c.own.empty() ? nullptr : &own_view,
                                      view(out, to));
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

/// floor(a / b) for b > 0
i128 floor_div(i128 a, i128 b) { return a / b - (a % b < 0 ? 1 : 0); }

/// Values below `bound`: random ones, the ends, and around the half where rounding turns.
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

/// Bases whose product leaves room in 128 bits.
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
        // [m x] in [0, F): m x by additions, as the product may pass 128 bits.
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
      for (std::size_t u = 0; u < b.from.size(); ++u) {  // x + u F without leaving 128 bits: modulo each target
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
    std::vector<i128> values;  // x = a F + r with small a: known quotient and remainder
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
    EXPECT_EQ(out[i], residues(floor_div(2 * values[i] * t + f, 2 * f), to)) << i;  // no value of these lies at a tie
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
  // round(t x / Q) of round(Q m / t) + noise is m while |noise| < (1/2 - error) Q / t.
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

/// All values at their largest, for each rule: every fraction and every sum keeps to 64 bits.
TEST(FixedPoint, NothingWraps) {
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
