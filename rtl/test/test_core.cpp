// The units on limb slots, one instruction at a time: bits against the engine's definitions, cycles against the model.
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "Vcore.h"
#include "backend/rtl/clocked.h"
#include "backend/rtl/descriptors.h"
#include "math/primes.h"
#include "math/ring.h"

namespace heliograph::rtl {
namespace {

constexpr int B = 8, T = 8, P = 4, kSlots = 32;
enum Unit { kNtt, kPointwise, kPermute, kConvert };
using Limb = std::vector<u64>;

class Core : public testing::Test {
 protected:
  Clocked<Vcore> card;
  std::mt19937_64 random{3};
  std::uint64_t conflicts = 0;

  void SetUp() override {
    card->rst_ni = 0;
    card->valid_i = 0;
    card->load_i = card->store_i = 0;
    card->table_write_i = card->source_write_i = card->target_write_i = 0;
    card->ntt_grant_i = 1;
    for (int i = 0; i < 3; ++i) tick();
    card->rst_ni = 1;
  }
  void TearDown() override { EXPECT_EQ(conflicts, 0u); }
  void tick() {
    card.tick();
    conflicts += card->conflict_o;
  }

  void load(unsigned slot, const Limb& x) {
    for (std::size_t pair = 0; pair < x.size() / (2 * B); ++pair) {
      card->load_i = 1;
      card->load_slot_i = static_cast<unsigned char>(slot);
      card->load_pair_i = static_cast<unsigned short>(pair);
      for (std::size_t i = 0; i < 2 * B; ++i) set_field(card->load_data_i, i, x[pair * 2 * B + i]);
      tick();
    }
    card->load_i = 0;
  }
  Limb store(unsigned slot, std::size_t n) {
    Limb x(n);
    for (std::size_t pair = 0; pair < n / (2 * B); ++pair) {
      card->store_i = 1;
      card->store_slot_i = static_cast<unsigned char>(slot);
      card->store_pair_i = static_cast<unsigned short>(pair);
      tick();
      card->store_i = 0;
      tick();
      for (std::size_t i = 0; i < 2 * B; ++i) x[pair * 2 * B + i] = field(card->store_data_o, i);
    }
    return x;
  }

  /// Returns the cycles from the acceptance of the instruction to done, both included.
  u64 run(Unit unit, const Descriptor& d) {
    for (std::size_t i = 0; i < d.size(); ++i) card->words_i[i] = d[i];
    card->valid_i = static_cast<unsigned char>(1u << unit);
    EXPECT_TRUE(card->ready_o >> unit & 1);
    const u64 start = card.cycles();
    tick();
    card->valid_i = 0;
    for (auto& w : card->words_i.m_storage) w = ~w;  // the words change, so the unit must have copied them
    while (!(card->done_o >> unit & 1)) {
      if (card.cycles() - start > 200000) {
        ADD_FAILURE() << "the work does not end";
        return 0;
      }
      tick();
    }
    const u64 cycles = card.cycles() - start + 1;
    for (int i = 0; i < 3; ++i) tick();
    return cycles;
  }

  Limb residues(std::size_t n, u64 q) {
    Limb x(n);
    for (u64& v : x) v = random() % 8 == 0 ? (random() & 1 ? q - 1 : 0) : random() % q;
    return x;
  }
};

TEST_F(Core, SlotsKeepTheirLimbs) {
  std::vector<Limb> all;
  for (unsigned s = 0; s < kSlots; ++s) load(s, all.emplace_back(residues(4096, kWordEnd)));
  for (unsigned s = 0; s < kSlots; ++s) ASSERT_EQ(store(s, 4096), all[s]) << "slot " << s;
}

u64 expected(const Pointwise& p, u64 q, std::size_t i, u64 a, u64 b, u64 c) {
  u64 product = math::mul_mod(p.a == kNone ? 1 : a, p.b == kNone ? p.constant : b, q);
  if (p.first_only && i != 0) product = 0;
  if (p.c == kNone) c = 0;
  return p.subtract ? math::sub_mod(c, product, q) : math::add_mod(c, product, q);
}

TEST_F(Core, PointwiseOfAnyOperandsAndModulus) {
  constexpr std::size_t n = 512;
  std::vector<u64> moduli = {math::largest_primes(30, 1, 1024)[0],
                             math::largest_primes(27, 1, 1024)[0],
                             math::largest_primes(20, 1, 1024)[0],
                             65536,
                             3,
                             kWordEnd - 1,
                             kWordEnd / 2};
  for (int round = 0; round < 120; ++round) {
    const Modulus m(moduli[random() % moduli.size()]);
    // There are few slots, so that operands often share a bank or a slot.
    const auto slot = [&] { return static_cast<int>(random() % 3 * 4 + random() % 2); };
    Pointwise p{.a = slot(), .b = slot(), .c = slot()};
    if (random() % 4 == 0) p.a = kNone;
    if (random() % 3 == 0) p.b = kNone;
    if (random() % 2 == 0) p.c = kNone;
    p.subtract = random() & 1;
    p.first_only = random() % 5 == 0;
    p.constant = random() % m.q;
    std::vector<Limb> held(12);
    for (const int s : {p.a, p.b, p.c})
      if (s != kNone && held[static_cast<std::size_t>(s)].empty())
        load(static_cast<unsigned>(s), held[static_cast<std::size_t>(s)] = residues(n, m.q));
    const u64 cycles = run(kPointwise, pointwise(9, m, p, 31));
    const Limb z = store(31, n);
    const auto word = [&](int s, std::size_t i) { return s == kNone ? 0 : held[static_cast<std::size_t>(s)][i]; };
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(z[i], expected(p, m.q, i, word(p.a, i), word(p.b, i), word(p.c, i)))
          << "word " << i << " of slots " << p.a << ' ' << p.b << ' ' << p.c << ", q " << m.q;
    }
    // In each phase one row per bank is read, so slots in one bank need several phases.
    int phases = 1;
    for (int bank = 0; bank < 4; ++bank) {
      std::vector<int> in;
      for (const int s : {p.a, p.b, p.c})
        if (s != kNone && s % 4 == bank && std::find(in.begin(), in.end(), s) == in.end()) in.push_back(s);
      phases = std::max(phases, static_cast<int>(in.size()));
    }
    EXPECT_EQ(cycles, n / B * static_cast<u64>(phases) + 21) << p.a << ' ' << p.b << ' ' << p.c;
  }
}

TEST_F(Core, PermutationsInBothDomains) {
  for (const int log_n : {9, 12}) {
    const std::size_t n = std::size_t{1} << log_n;
    const u64 q = math::largest_primes(30, 1, 2 * n)[0];
    for (const u64 g : {u64{1}, u64{3}, u64{5}, u64{25}, 2 * n - 1, n + 1, 2 * (random() % n) + 1}) {
      const Limb x = residues(n, q);
      load(1, x);
      EXPECT_EQ(run(kPermute, permute(log_n, true, g, q, 1, 6)), n / B + 6);
      const auto table = math::automorphism_table(n, g);
      const Limb of_values = store(6, n);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(of_values[i], x[table[i]]) << "N " << n << ", g " << g << ", " << i;
      EXPECT_EQ(run(kPermute, permute(log_n, false, g, q, 1, 6)), n / B + 6);
      const Limb of_coefficients = store(6, n);
      for (std::size_t i = 0; i < n; ++i) {
        const u64 to = i * g % (2 * n);
        ASSERT_EQ(of_coefficients[to % n], to < n ? x[i] : math::neg_mod(x[i], q)) << "N " << n << ", g " << g << ", " << i;
      }
    }
  }
}

TEST_F(Core, ConversionsAreTheFormula) {
  const auto large = math::largest_primes(30, 16, 1 << 13), middle = math::largest_primes(27, 8, 1 << 13);
  const auto some = [](const std::vector<u64>& v, std::size_t n) {
    return std::vector<u64>(v.begin(), v.begin() + static_cast<long>(n));
  };
  const std::vector<math::Conversion> all = {
      math::extend_base(some(large, 7), some(middle, 8)),
      math::extend_base(some(middle, 2), some(large, 8), false),
      math::extend_base(some(large, 16), {65537, 24577, 40961, 65536, 1 << 20}),
      math::extend_base(some(large, 16), some(middle, 8)),
      math::without_own(math::divide_and_round(some(large, 3), some(middle, 4), 65537)),
      math::without_own(math::divide_and_round(some(middle, 1), some(large, 1), 1)),
      math::scale_to_plain(some(large, 4), 40961),
      math::scale_from_plain(24577, some(middle, 5)),
  };
  for (std::size_t k = 0; k < all.size(); ++k) {
    const math::Conversion& c = all[k];
    const int log_n = k == 0 ? 12 : 9;
    const std::size_t n = std::size_t{1} << log_n;
    const unsigned set = static_cast<unsigned>(k % 8);
    for (std::size_t i = 0; i < c.sources(); ++i) {
      card->source_write_i = 1;
      card->write_set_i = static_cast<unsigned char>(set);
      card->write_index_i = static_cast<unsigned char>(i);
      const auto row = source_constants(c, i, 0, c.targets());
      for (std::size_t j = 0; j < c.targets(); ++j) set_field(card->source_data_i, j, row[j]);
      // The fraction follows the T constants.
      for (int bit = 0; bit < 48; ++bit)
        set_field(card->source_data_i, static_cast<std::size_t>(T * kWordBits + bit), row.back() >> bit & 1, 1);
      tick();
    }
    card->source_write_i = 0;
    for (std::size_t j = 0; j < c.targets(); ++j) {
      card->target_write_i = 1;
      card->write_index_i = static_cast<unsigned char>(j);
      const auto row = target_constants(c, j);
      const int widths[] = {kWordBits, kWordBits, kWordBits, kWordBits + 1, 5};
      std::size_t at = 0;
      for (std::size_t f = 0; f < 5; ++f)
        for (int bit = 0; bit < widths[f]; ++bit) set_field(card->target_data_i, at++, row[f] >> bit & 1, 1);
      tick();
    }
    card->target_write_i = 0;

    std::vector<Limb> x;
    std::vector<unsigned> from, to;
    for (std::size_t i = 0; i < c.sources(); ++i) {
      const u64 q = c.from[i];
      x.push_back(residues(n, q));
      // In all sources, some large words have ones in their low 17 bits. The sums of their pieces then have the maximum
      // length.
      for (std::size_t w = 0; w < 8; ++w)
        x.back()[w] = math::mul_mod((q >> 17 << 17) - 1 - (w << 17), math::inverse_mod(c.inverse[i], q), q);
      Limb y = x.back();
      for (u64& v : y) v = math::mul_mod(v, c.inverse[i], q);
      from.push_back(static_cast<unsigned>(i));
      load(from.back(), y);
    }
    for (std::size_t j = 0; j < c.targets(); ++j) to.push_back(static_cast<unsigned>(16 + j));
    const u64 longer = std::max(c.sources(), c.targets());
    EXPECT_EQ(run(kConvert, convert(log_n, from, to, set)), (n / P - 1) * longer + c.sources() + c.targets() + 23);
    std::vector<Limb> z;
    for (std::size_t j = 0; j < c.targets(); ++j) z.push_back(store(to[j], n));
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<u64> word;
      for (const Limb& limb : x) word.push_back(limb[i]);
      const auto want = math::evaluate(c, word);
      for (std::size_t j = 0; j < c.targets(); ++j)
        ASSERT_EQ(z[j][i], want[j]) << "conversion " << k << ", word " << i << ", target " << j;
    }
  }
}

TEST_F(Core, TransformsOfSlots) {
  constexpr std::size_t n = 4096;
  const u64 q = math::largest_primes(30, 3, 2 * n)[2];
  const auto w = math::forward_twiddles(n, math::smallest_primitive_root(2 * n, q), q);
  for (std::size_t row = 0; row < n / B; ++row) {
    card->table_write_i = 1;
    card->table_row_i = static_cast<unsigned short>(512 + row);  // this row selects the second table
    for (std::size_t l = 0; l < B; ++l) set_field(card->table_data_i, l, math::mul_mod(w[row * B + l], kWordEnd % q, q));
    tick();
  }
  card->table_write_i = 0;
  const Limb x = residues(n, q);
  load(9, x);
  EXPECT_EQ(run(kNtt, ntt(12, false, q, 9, 2, 512)), 3093u);
  const Limb y = store(2, n);
  EXPECT_EQ(run(kNtt, ntt(12, true, q, 2, 2, 512)), 3093u);
  EXPECT_EQ(store(2, n), x);
  EXPECT_EQ(store(9, n), x);
  u64 value = 0;  // position 0 is the value at psi
  const u64 psi = math::smallest_primitive_root(2 * n, q);
  for (std::size_t j = n; j-- > 0;) value = math::add_mod(math::mul_mod(value, psi, q), x[j], q);
  EXPECT_EQ(y[0], value);
}

}  // namespace
}  // namespace heliograph::rtl
