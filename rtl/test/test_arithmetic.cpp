// Edge cases of arithmetic: the longest carries, residues 0 and q - 1, moduli at the ends of their range.
#include <gtest/gtest.h>
#include <algorithm>
#include <deque>
#include <functional>
#include <random>
#include <vector>

#include "Vbench_arithmetic.h"
#include "backend/rtl/clocked.h"
#include "backend/rtl/descriptors.h"
#include "backend/rtl/wide.h"
#include "math/primes.h"

namespace heliograph::rtl {
namespace {

constexpr int W = kWordBits;

class Arithmetic : public testing::Test {
 protected:
  Clocked<Vbench_arithmetic> unit;
  std::mt19937_64 random{47};

  /// Streams `count` operands, one per cycle: `put` sets operand i, `check` reads the outputs `latency` cycles later.
  void stream(std::size_t count, std::size_t latency, const std::function<void(std::size_t)>& put,
              const std::function<void(std::size_t)>& check) {
    for (std::size_t cycle = 0; cycle < count + latency; ++cycle) {
      put(std::min(cycle, count - 1));
      unit.tick();
      if (cycle + 1 >= latency && cycle + 1 - latency < count) check(cycle + 1 - latency);
      if (HasFatalFailure()) return;
    }
  }
  void set_modulus(const Modulus& m) {
    unit->q_i = static_cast<unsigned>(m.q);
    unit->normal_i = static_cast<unsigned>(m.normal);
    unit->k_i = static_cast<unsigned>(m.k);
    unit->shift_i = static_cast<unsigned char>(m.shift);
  }
  u64 edge(u64 q) {
    const u64 edges[] = {0, 1, q - 1, q - 2, q / 2, (q + 1) / 2};
    return random() % 3 ? edges[random() % 6] % q : random() % q;
  }
};

/// Moduli at the ends of the range, and moduli whose 2^60 mod q is nearly q, which makes the folded part as large as
/// possible.
std::vector<Modulus> moduli() {
  std::vector<Modulus> all;
  for (const u64 q : {kWordEnd - 1, kWordEnd / 2, kWordEnd / 2 + 1, u64{1073643521}, u64{65537}, u64{65536}, u64{3}, u64{2}})
    all.emplace_back(q);
  std::mt19937_64 random(5);
  for (int i = 0; i < 200000 && all.size() < 40; ++i) {
    const u64 q = kWordEnd / 2 + random() % (kWordEnd / 2);
    if (static_cast<u64>((u128{1} << (2 * W)) % q) > q - q / 4000) all.emplace_back(q);
  }
  return all;
}

struct Sum {
  Modulus m;
  u128 sum;
  u64 v, wrap;
};

TEST_F(Arithmetic, SumsOfProductsAreReducedToTheirWidestCarry) {
  for (int which = 0; which < 3; ++which) {
    const int more = 2 + 2 * which;
    const u128 end = u128{1} << (2 * W + more), low = u128{1} << (2 * W);
    std::vector<Sum> sums;
    for (const Modulus& m : moduli()) {
      const u64 most = u64{1} << more;
      for (const u64 v : {u64{0}, u64{1}, most - 1, most}) {
        for (const u64 wrap : {u64{0}, u64{1}, m.q - 1}) {
          std::vector<u128> edges = {0, 1, m.normal - 1, m.normal, low - 1, low, end - 1, end - low, end - low - 1};
          // The low part has only ones, so that the addend produces a carry beyond its highest bit, or nearly so.
          const u128 added = u128{(u64{1} << more) - 1} * static_cast<u64>(low % m.normal) + u128{v} * (wrap << m.shift);
          for (const int off : {-2, -1, 0, 1}) edges.push_back(end - 1 - added + static_cast<u128>(off + 1));
          for (int i = 0; i < 6; ++i) edges.push_back((u128{random()} << 64 | random()) % end);
          for (u128 s : edges) sums.push_back({m, (s % end) >> m.shift << m.shift, v, wrap << m.shift});
        }
      }
    }
    bool carried = false;
    stream(
        sums.size(), 13,
        [&](std::size_t i) {
          const Sum& s = sums[i];
          set_modulus(s.m);
          for (std::size_t w = 0; w < 3; ++w) set_port_word(unit->sum_i, w, static_cast<std::uint32_t>(s.sum >> (32 * w)));
          unit->v_i = static_cast<unsigned char>(s.v);
          unit->wrap_i = static_cast<unsigned>(s.wrap);
          unit->fold_i = static_cast<unsigned>(low % s.m.normal);
        },
        [&](std::size_t i) {
          const Sum& s = sums[i];
          const u64 want = static_cast<u64>((s.sum + u128{s.v} * s.wrap) % s.m.normal) >> s.m.shift;
          carried |= s.sum % low + (s.sum >> (2 * W)) * static_cast<u64>(low % s.m.normal) + u128{s.v} * s.wrap >= low;
          ASSERT_EQ(field(unit->reduced_o, static_cast<std::size_t>(which)), want)
              << "2^" << more << " products, q " << s.m.q << ", sum " << static_cast<u64>(s.sum >> 32) << ":"
              << static_cast<std::uint32_t>(s.sum) << ", v " << s.v << ", wrap " << s.wrap;
        });
    EXPECT_TRUE(carried) << "no sum reached its highest bit";
  }
}

TEST_F(Arithmetic, PiecesAreAddedWithTheirCarries) {
  struct Pieces {
    u64 ll, lh, hl, hh;
  };
  std::vector<Pieces> all;
  const auto piece = [&](int bits) {
    const u64 end = u64{1} << bits;
    switch (random() % 4) {
      case 0:
        return end - 1;
      case 1:
        return u64{0};
      case 2:
        return end - 1 - random() % 8;
      default:
        return random() % end;
    }
  };
  for (int i = 0; i < 20000; ++i) {
    // The total is below 2^63, as the sums of a conversion are.
    all.push_back({piece(45), piece(i % 2 ? 27 : 38), piece(41), piece(i % 2 ? 22 : 20)});
  }
  stream(
      all.size(), 2,
      [&](std::size_t i) {
        unit->ll_i = all[i].ll;
        unit->lh_i = all[i].lh;
        unit->hl_i = all[i].hl;
        unit->hh_i = all[i].hh;
      },
      [&](std::size_t i) {
        const Pieces& p = all[i];
        const u128 upper = (u128{p.hl} << 17) + (u128{p.hh} << 41) + p.ll;
        if (p.lh < u64{1} << 27) {
          ASSERT_EQ(port_word(unit->pieces_o, 0) | u64{port_word(unit->pieces_o, 1)} << 32,
                    static_cast<u64>(upper + (u128{p.lh} << 24)));
        }
        ASSERT_EQ(port_word(unit->pieces_o, 2) | u64{port_word(unit->pieces_o, 3)} << 32,
                  static_cast<u64>(upper + (u128{p.lh} << 24) + (u64{1} << 57)) & ((u64{1} << 63) - 1));
      });
}

TEST_F(Arithmetic, SixteenProductsFillTheirPieces) {
  // Words of ones, words with one half of ones, and random words, in sums of 1 to 16 products. Some sums have idle cycles
  // between products.
  struct Term {
    u64 a, b;
    bool add, first;
  };
  std::vector<Term> terms;
  const u64 words[] = {kWordEnd - 1, (1 << 17) - 1, kWordEnd - (1 << 17), 0, 1, 1 << 17, 1 << 24, (1 << 24) - 1};
  for (int round = 0; round < 400; ++round) {
    const int length = round < 8 || round % 3 != 0 ? 16 : 1 + static_cast<int>(random() % 16);
    for (int t = 0; t < length; ++t) {
      while (random() % 5 == 0) terms.push_back({random() % kWordEnd, random() >> 16, false, random() % 2 == 0});
      Term x{round < 8 ? words[round] : words[random() % 8], words[random() % 8] | words[random() % 8] << 18, true, t == 0};
      if (round < 8) x.b = (u64{1} << 48) - 1;
      if (round > 200) x.a = random() % kWordEnd, x.b = random() >> 16;
      terms.push_back(x);
    }
  }
  u64 ll = 0, lh = 0, hl = 0, hh = 0, long_lh = 0, long_hh = 0;
  bool full = false;
  std::deque<Term> late;  // add_i and first_i arrive one cycle later
  for (std::size_t i = 0; i <= terms.size(); ++i) {
    const Term now = i < terms.size() ? terms[i] : Term{};
    unit->a_i = static_cast<unsigned>(now.a);
    unit->b_i = now.b;
    unit->add_i = i > 0 && terms[i - 1].add;
    unit->first_i = i > 0 && terms[i - 1].first;
    unit.tick();
    if (i == 0) continue;
    const Term& t = terms[i - 1];
    if (t.add) {
      if (t.first) ll = lh = hl = hh = long_lh = long_hh = 0;
      const u64 al = t.a % (1 << 17), ah = t.a >> 17, bl = t.b % (1 << 24), bh = t.b >> 24;
      ll += al * bl, lh += al * (bh & 63), hl += ah * bl, hh += ah * (bh & 63), long_lh += al * bh, long_hh += ah * bh;
    }
    if (i < 2) continue;
    ASSERT_EQ(unit->sum_ll_o, ll) << i;
    ASSERT_EQ(unit->sum_lh_o, lh) << i;
    ASSERT_EQ(unit->sum_hl_o, hl) << i;
    ASSERT_EQ(unit->sum_hh_o, hh) << i;
    ASSERT_EQ(unit->long_ll_o, ll) << i;
    ASSERT_EQ(unit->long_lh_o, long_lh) << i;
    ASSERT_EQ(unit->long_hl_o, hl) << i;
    ASSERT_EQ(unit->long_hh_o, long_hh) << i;
    full |= ll == 16 * (u64{(1 << 17) - 1} * ((1 << 24) - 1)) && long_hh == 16 * (u64{(1 << 13) - 1} * ((1 << 24) - 1));
  }
  EXPECT_TRUE(full) << "no sum was the largest";
}

TEST_F(Arithmetic, FourTimesTheModulusIsReduced) {
  struct Case {
    u64 v, q;
  };
  std::vector<Case> cases;
  for (const Modulus& m : moduli()) {
    for (u64 times = 0; times < 5; ++times) {
      for (const long off : {-2l, -1l, 0l, 1l, 2l}) {
        const u64 v = m.q * times + static_cast<u64>(off);
        if (v < 4 * m.q) cases.push_back({v, m.q});
      }
    }
    for (int i = 0; i < 20; ++i) cases.push_back({random() % (4 * m.q), m.q});
  }
  stream(
      cases.size(), 2,
      [&](std::size_t i) {
        unit->four_i = static_cast<unsigned>(cases[i].v);
        unit->q_i = static_cast<unsigned>(cases[i].q);
      },
      [&](std::size_t i) { ASSERT_EQ(unit->less_o, cases[i].v % cases[i].q) << cases[i].v << " mod " << cases[i].q; });
}

TEST_F(Arithmetic, LanesAtTheEdgesOfResidues) {
  struct Case {
    Modulus m;
    u64 a, b, c;
    bool subtract;
  };
  std::vector<Case> cases;
  for (const Modulus& m : moduli()) {
    for (const u64 a : {u64{0}, u64{1} % m.q, m.q - 1})
      for (const u64 b : {u64{0}, u64{1} % m.q, m.q - 1})
        for (const u64 c : {u64{0}, u64{1} % m.q, m.q - 1})
          for (const bool subtract : {false, true}) cases.push_back({m, a, b, c, subtract});
    for (int i = 0; i < 100; ++i) cases.push_back({m, edge(m.q), edge(m.q), edge(m.q), random() % 2 == 0});
  }
  std::shuffle(cases.begin(), cases.end(), random);
  stream(
      cases.size(), 16,
      [&](std::size_t i) {
        const Case& c = cases[i];
        set_modulus(c.m);
        unit->x_i = static_cast<unsigned>(c.a);
        unit->y_i = static_cast<unsigned>(c.b);
        unit->z_i = static_cast<unsigned>(c.c);
        unit->subtract_i = c.subtract;
      },
      [&](std::size_t i) {
        const Case& c = cases[i];
        const u64 product = math::mul_mod(c.a, c.b, c.m.q);
        const u64 want = c.subtract ? (c.c + c.m.q - product) % c.m.q : (c.c + product) % c.m.q;
        ASSERT_EQ(unit->lane_o, want) << c.c << (c.subtract ? " - " : " + ") << c.a << " * " << c.b << " mod " << c.m.q;
      });
}

TEST_F(Arithmetic, ButterfliesAtTheEdgesOfResidues) {
  struct Case {
    u64 q, u, v, w;
    bool inverse;
  };
  std::vector<Case> cases;
  for (const int bits : {14, 20, 27, 30}) {
    for (const u64 q : math::largest_primes(bits, 2, 1 << 10)) {
      for (const u64 u : {u64{0}, u64{1}, q - 1, q - 2})
        for (const u64 v : {u64{0}, u64{1}, q - 1, q - 2})
          for (const u64 w : {u64{0}, u64{1}, q - 1, q / 2})
            for (const bool inverse : {false, true}) cases.push_back({q, u, v, w, inverse});
      for (int i = 0; i < 200; ++i) cases.push_back({q, edge(q), edge(q), edge(q), random() % 2 == 0});
    }
  }
  std::shuffle(cases.begin(), cases.end(), random);
  stream(
      cases.size() + 3, 14,
      [&](std::size_t i) {
        const Case& c = cases[std::min(i, cases.size() - 1)];
        unit->q_i = static_cast<unsigned>(c.q);
        unit->x_i = static_cast<unsigned>(c.u);
        unit->y_i = static_cast<unsigned>(c.v);
        unit->inverse_i = c.inverse;
        // The twiddle arrives three cycles later.
        const Case& late = cases[std::min(i < 3 ? 0 : i - 3, cases.size() - 1)];
        unit->w_i = static_cast<unsigned>(math::mul_mod(late.w, kWordEnd % late.q, late.q));
      },
      [&](std::size_t i) {
        if (i >= cases.size()) return;
        const Case& c = cases[i];
        const u64 half = (c.q + 1) / 2;
        u64 upper = 0, lower = 0;
        if (c.inverse) {
          upper = math::mul_mod((c.u + c.v) % c.q, half, c.q);
          lower = math::mul_mod(math::mul_mod((c.v + c.q - c.u) % c.q, half, c.q), c.w, c.q);
        } else {
          const u64 product = math::mul_mod(c.v, c.w, c.q);
          upper = (c.u + product) % c.q;
          lower = (c.u + c.q - product) % c.q;
        }
        ASSERT_EQ(unit->upper_o, upper) << c.u << ' ' << c.v << ' ' << c.w << " mod " << c.q
                                        << (c.inverse ? ", inverse" : "");
        ASSERT_EQ(unit->lower_o, lower) << c.u << ' ' << c.v << ' ' << c.w << " mod " << c.q
                                        << (c.inverse ? ", inverse" : "");
      });
}

}  // namespace
}  // namespace heliograph::rtl
