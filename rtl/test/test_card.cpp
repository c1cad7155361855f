// The whole card through its registers, ring and buses: random programs compared with the engine's arithmetic, with stalling buses.
#include <gtest/gtest.h>
#include <map>

#include "Vcard.h"
#include "Vcard_small.h"
#include "Vcard_wide.h"
#include "card.h"
#include "math/primes.h"
#include "math/ring.h"

namespace heliograph::rtl {
namespace {

using Limb = std::vector<u64>;

/// Executes instructions in order, by their definition.
struct Reference {
  std::vector<Limb> slots;

  void pointwise(const rtl::Pointwise& p, u64 q, unsigned out, std::size_t n) {
    Limb z(n);
    for (std::size_t i = 0; i < n; ++i) {
      const auto word = [&](int s, u64 otherwise) { return s == kNone ? otherwise : slots[static_cast<std::size_t>(s)][i]; };
      u64 product = math::mul_mod(word(p.a, 1), word(p.b, p.constant), q);
      if (p.first_only && i > 0) product = 0;
      z[i] = p.subtract ? math::sub_mod(word(p.c, 0), product, q) : math::add_mod(word(p.c, 0), product, q);
    }
    slots[out] = z;
  }
  void ntt(bool inverse, u64 q, const Limb& w, unsigned from, unsigned to) {
    Limb x = slots[from];
    const std::size_t n = x.size();
    const u64 half = (q + 1) / 2;
    for (std::size_t step = 0; (std::size_t{1} << step) < n; ++step) {
      const std::size_t t = inverse ? std::size_t{1} << step : n >> (step + 1), m = n / (2 * t);
      for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 2 * i * t; j < 2 * i * t + t; ++j) {
          const u64 u = x[j], v = inverse ? x[j + t] : math::mul_mod(x[j + t], w[m + i], q);
          x[j] = math::add_mod(u, v, q), x[j + t] = math::sub_mod(u, v, q);
          if (inverse) {
            x[j] = math::mul_mod(x[j], half, q);
            x[j + t] = math::mul_mod(math::mul_mod(x[j + t], half, q), math::inverse_mod(w[m + i], q), q);
          }
        }
      }
    }
    slots[to] = x;
  }
  void permute(bool ntt_order, u64 g, u64 q, unsigned from, unsigned to) {
    const Limb x = slots[from];
    const std::size_t n = x.size();
    Limb z(n);
    const auto table = math::automorphism_table(n, g);
    for (std::size_t i = 0; i < n; ++i) {
      const u64 at = i * g % (2 * n);
      if (ntt_order)
        z[i] = x[table[i]];
      else
        z[at % n] = at < n ? x[i] : math::neg_mod(x[i], q);
    }
    slots[to] = z;
  }
  void convert(const math::Conversion& c, const std::vector<unsigned>& from, const std::vector<unsigned>& to) {
    const std::size_t n = slots[from[0]].size();
    std::vector<Limb> z(c.targets(), Limb(n));
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<u64> x;  // the card's sources are y = x * inverse
      for (std::size_t s = 0; s < from.size(); ++s)
        x.push_back(math::mul_mod(slots[from[s]][i], math::inverse_mod(c.inverse[s], c.from[s]), c.from[s]));
      const auto out = math::evaluate(c, x);
      for (std::size_t j = 0; j < out.size(); ++j) z[j][i] = out[j];
    }
    for (std::size_t j = 0; j < to.size(); ++j) slots[to[j]] = z[j];
  }
};

struct Usual {
  using Model = Vcard;
  static constexpr int b = 8, slots = 32, targets = 8, sources = 16, tables = 2, log_n = 13;
};
struct Small {
  using Model = Vcard_small;
  static constexpr int b = 2, slots = 8, targets = 4, sources = 4, tables = 2, log_n = 10;
};
struct Wide {
  using Model = Vcard_wide;
  static constexpr int b = 16, slots = 16, targets = 4, sources = 16, tables = 4, log_n = 10;
};

template <class Shape>
class Cards : public testing::Test {
 protected:
  static constexpr std::size_t kConstants = 3 << 16, kLimbs = 1 << 18;  // addresses in the card's memory
  std::mt19937_64 random{5};

  Limb residues(std::size_t n, u64 q) {
    Limb x(n);
    for (u64& v : x) v = random() % 8 == 0 ? (random() & 1 ? q - 1 : 0) : random() % q;
    return x;
  }
  static void put(TestCard<typename Shape::Model>& card, std::size_t address, const Limb& x) {
    for (std::size_t i = 0; i < x.size(); ++i) card.memory[address / 4 + i] = static_cast<std::uint32_t>(x[i]);
  }
  static Limb get(TestCard<typename Shape::Model>& card, std::size_t address, std::size_t n) {
    return Limb(card.memory.begin() + static_cast<long>(address / 4),
                card.memory.begin() + static_cast<long>(address / 4 + n));
  }
  static Descriptor move(Op op, int log_n, unsigned slot, std::size_t address) {
    Descriptor d = instruction(op, log_n);
    d[1] = op == Op::load ? slot : slot << 8;
    d[8] = static_cast<std::uint32_t>(address);
    return d;
  }
  static Descriptor fence(bool interrupt = false) {
    Descriptor d = instruction(Op::fence, 9);
    d[0] |= std::uint32_t{interrupt} << 23;
    return d;
  }
  /// Rows per table, for any degree.
  static constexpr unsigned kRows = (1u << Shape::log_n) / Shape::b;
  static Descriptor twiddles(int log_n, unsigned table, std::size_t address) {
    Descriptor d = instruction(Op::twiddles, log_n);
    d[6] = table * kRows;
    d[8] = static_cast<std::uint32_t>(address);
    return d;
  }
  static Limb montgomery(Limb w, u64 q) {
    for (u64& v : w) v = math::mul_mod(v, kWordEnd % q, q);
    return w;
  }
  /// Writes the records of a conversion's constants, and returns the descriptor that loads them.
  static Descriptor constants(TestCard<typename Shape::Model>& card, const math::Conversion& c, unsigned set,
                              std::size_t address) {
    const auto words = constant_records(c, 0, c.targets(), 2 * Shape::b);
    std::copy(words.begin(), words.end(), card.memory.begin() + static_cast<long>(address / 4));
    Descriptor d = instruction(Op::constants, 9);
    d[6] = set << 16;
    d[8] = static_cast<std::uint32_t>(address);
    d[10] = static_cast<std::uint32_t>(words.size() / (2 * Shape::b));
    return d;
  }
};

using Shapes = testing::Types<Usual, Small, Wide>;
TYPED_TEST_SUITE(Cards, Shapes);

TYPED_TEST(Cards, RandomProgramsGiveTheBitsOfTheirOrder) {
  constexpr int kSlots = TypeParam::slots;
  for (const auto& [seed, stalls, log_n] : {std::tuple{1u, 0, 9}, {2u, 40, 9}, {3u, 70, 9}, {4u, 20, 10}, {5u, 0, 9}}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", stalls " << stalls << " of 100, N 2^" << log_n);
    this->random.seed(seed);
    auto& random = this->random;
    TestCard<typename TypeParam::Model> card(seed, stalls);
    const std::size_t n = std::size_t{1} << log_n, bytes = 4 * n;
    // All slots have the same modulus, so that any operand fits any instruction. A conversion converts from the common
    // modulus to itself.
    const auto primes = math::largest_primes(27, 6, 4096);
    const u64 q = primes[0];
    const Modulus modulus(q);
    const u64 psi = math::smallest_primitive_root(2 * n, q);
    // Tables of any root, which are loaded again between transforms. A transform must use the table that was loaded last
    // before it in program order.
    std::vector<Limb> w(TypeParam::tables);
    // The conversion is from q to q, so that the results are again modulo q.
    const math::Conversion conversion = math::extend_base({q}, {q});

    Reference reference{std::vector<Limb>(kSlots, Limb(n))};
    std::vector<Descriptor> program;
    std::map<std::size_t, Limb> stored;
    std::size_t next = this->kLimbs;
    const auto load_table = [&](unsigned table) {
      w[table] = math::forward_twiddles(n, math::pow_mod(psi, 2 * (random() % n) + 1, q), q);
      this->put(card, next, this->montgomery(w[table], q));
      program.push_back(this->twiddles(log_n, table, next));
      next += bytes;
    };
    for (unsigned table = 0; table < w.size(); ++table) load_table(table);
    program.push_back(this->constants(card, conversion, 1, this->kConstants));
    for (unsigned s = 0; s < kSlots; ++s) {
      reference.slots[s] = this->residues(n, q);
      this->put(card, next, reference.slots[s]);
      program.push_back(this->move(Op::load, log_n, s, next));
      next += bytes;
    }
    for (int i = 0; i < 120; ++i) {
      const auto slot = [&] { return static_cast<unsigned>(random() % kSlots); };
      const unsigned a = slot(), b = slot(), c = slot(), out = slot();
      switch (random() % 8) {
        case 0:
        case 1:
        case 2: {
          rtl::Pointwise p{.a = static_cast<int>(a), .b = static_cast<int>(b), .c = static_cast<int>(c)};
          if (random() % 3 == 0) p.b = kNone;
          if (random() % 3 == 0) p.c = kNone;
          p.subtract = random() & 1;
          p.constant = random() % q;
          program.push_back(pointwise(log_n, modulus, p, out));
          reference.pointwise(p, q, out, n);
          break;
        }
        case 3:
        case 4: {
          const bool inverse = random() & 1;
          const auto table = static_cast<unsigned>(random() % w.size());
          if (random() % 3 == 0) load_table(table);
          program.push_back(ntt(log_n, inverse, q, a, out, table * this->kRows));
          reference.ntt(inverse, q, w[table], a, out);
          break;
        }
        case 5: {
          const bool ntt_order = random() & 1;
          const unsigned to = out == a ? (a + 1) % kSlots : out;
          const u64 g = 2 * (random() % n) + 1;
          program.push_back(permute(log_n, ntt_order, g, q, a, to));
          reference.permute(ntt_order, g, q, a, to);
          break;
        }
        case 6: {
          const unsigned to = out == a ? (a + 1) % kSlots : out;
          program.push_back(convert(log_n, {a}, {to}, 1));
          reference.convert(conversion, {a}, {to});
          break;
        }
        case 7:
          if (random() & 1) {
            const Limb x = this->residues(n, q);
            this->put(card, next, x);
            program.push_back(this->move(Op::load, log_n, out, next));
            reference.slots[out] = x;
          } else {
            program.push_back(this->move(Op::store, log_n, a, next));
            stored[next] = reference.slots[a];
          }
          next += bytes;
          break;
      }
    }
    for (unsigned s = 0; s < kSlots; ++s) {
      program.push_back(this->move(Op::store, log_n, s, next));
      stored[next] = reference.slots[s];
      next += bytes;
    }
    program.push_back(this->fence());
    ASSERT_LE(next, card.memory.size() * 4);
    ASSERT_TRUE(card.run(program)) << "the work does not end";
    EXPECT_EQ(card.read(0x14), 1u) << "status";
    EXPECT_EQ(card.read(0x2c), 1u) << "fences";
    for (const auto& [address, limb] : stored) ASSERT_EQ(this->get(card, address, n), limb) << "stored at " << address;
    if (stalls > 0) {
      EXPECT_GT(card.stalled(), program.size() * n / 64 * static_cast<std::size_t>(stalls) / 100)
          << "the buses did not stall";
    }
  }
}

TYPED_TEST(Cards, ConversionsWithConstantsOfTheRing) {
  TestCard<typename TypeParam::Model> card(9, 30);
  const std::size_t n = 512;
  const auto from = math::largest_primes(29, std::min(TypeParam::sources, 6), 1024);
  auto to = math::largest_primes(30, static_cast<std::size_t>(TypeParam::targets - 1), 1024);
  if (TypeParam::slots < 10) to.resize(2);
  to.push_back(65536);
  const std::vector<math::Conversion> both = {math::extend_base(from, to),
                                              math::without_own(math::divide_and_round(from, to, 3))};
  Reference reference{std::vector<Limb>(TypeParam::slots, Limb(n))};
  std::vector<Descriptor> program;
  std::vector<unsigned> in, out;
  for (unsigned i = 0; i < from.size(); ++i) {
    reference.slots[i] = this->residues(n, from[i]);
    this->put(card, this->kLimbs + i * 4 * n, reference.slots[i]);
    program.push_back(this->move(Op::load, 9, i, this->kLimbs + i * 4 * n));
    in.push_back(i);
  }
  for (unsigned j = 0; j < to.size(); ++j) out.push_back(static_cast<unsigned>(from.size()) + j);
  std::map<std::size_t, Limb> stored;
  std::size_t next = this->kLimbs + 64 * 4 * n;
  for (unsigned k = 0; k < 2; ++k) {
    program.push_back(this->constants(card, both[k], k, this->kConstants + k * 4096));
    program.push_back(convert(9, in, out, k));
    reference.convert(both[k], in, out);
    for (const unsigned s : out) {
      program.push_back(this->move(Op::store, 9, s, next));
      stored[next] = reference.slots[s];
      next += 4 * n;
    }
  }
  ASSERT_TRUE(card.run(program));
  for (const auto& [address, limb] : stored) ASSERT_EQ(this->get(card, address, n), limb);
}

TYPED_TEST(Cards, TellsWhatItIsAndWhatFails) {
  TestCard<typename TypeParam::Model> card(1, 0);
  EXPECT_EQ(card.read(0), 0x48454c49u);
  EXPECT_EQ(card.read(8) & 0xffff, static_cast<unsigned>(TypeParam::log_n | TypeParam::b << 8));
  EXPECT_EQ(card.read(12) & 0xff, TypeParam::slots - 1u);
  ASSERT_TRUE(card.run({this->fence(true)}));
  EXPECT_EQ(card->interrupt_o, 1);
  card.write(0x30, 1);
  EXPECT_EQ(card->interrupt_o, 0);
  ASSERT_TRUE(card.run({instruction(static_cast<Op>(77), 9)}));
  EXPECT_EQ(card.read(0x14), 1u | 8u);
  // An instruction that would write rows before it reads them is also dropped.
  TestCard<typename TypeParam::Model> other(2, 0);
  ASSERT_TRUE(other.run({convert(9, {0, 1}, {2, 3}, 0), permute(9, true, 5, 97, 3, 2)}));
  EXPECT_EQ(other.read(0x14), 1u);
  ASSERT_TRUE(other.run({permute(9, true, 5, 97, 3, 3)}));
  EXPECT_EQ(other.read(0x14), 1u | 8u);
  TestCard<typename TypeParam::Model> third(3, 0);
  ASSERT_TRUE(third.run({convert(9, {0, 1}, {2, 1}, 0)}));
  EXPECT_EQ(third.read(0x14), 1u | 8u);
  card.faults().writes = true;
  ASSERT_TRUE(card.run({this->move(Op::store, 9, 0, this->kLimbs), this->fence()}));
  EXPECT_EQ(card.read(0x14), 1u | 2u | 8u);
}

// Eight limbs of N = 8192, each with its own prime, are loaded, transformed and stored. Loads and stores of a limb overlap
// with the transforms of other limbs.
TEST(CardCycles, EightLimbsWithInputAndOutput) {
  TestCard<Vcard> card(1, 0);
  constexpr int log_n = 13;
  constexpr std::size_t n = 1 << log_n, bytes = 4 * n, limbs = 1 << 18, tables = 1 << 20, results = 2 << 20;
  const auto primes = math::largest_primes(30, 8, 2 * n);
  std::vector<Descriptor> program;
  Reference reference{std::vector<Limb>(8)};
  std::mt19937_64 random(1);
  const auto in = [&](unsigned i) {
    Descriptor t = instruction(Op::twiddles, log_n), l = instruction(Op::load, log_n);
    t[6] = (i % 2) * 1024;
    t[8] = static_cast<std::uint32_t>(tables + i * bytes);
    l[1] = i;
    l[8] = static_cast<std::uint32_t>(limbs + i * bytes);
    program.push_back(l);
    program.push_back(t);
  };
  const auto out = [&](unsigned i) {
    Descriptor s = instruction(Op::store, log_n);
    s[1] = (8 + i) << 8;
    s[8] = static_cast<std::uint32_t>(results + i * bytes);
    program.push_back(s);
  };
  for (unsigned i = 0; i < 8; ++i) {
    Limb x(n);
    for (u64& v : x) v = random() % primes[i];
    reference.slots[i] = x;
    auto w = math::forward_twiddles(n, math::smallest_primitive_root(2 * n, primes[i]), primes[i]);
    for (std::size_t k = 0; k < n; ++k) {
      card.memory[limbs / 4 + i * n + k] = static_cast<std::uint32_t>(x[k]);
      card.memory[tables / 4 + i * n + k] = static_cast<std::uint32_t>(math::mul_mod(w[k], kWordEnd % primes[i], primes[i]));
    }
    reference.ntt(false, primes[i], w, i, i);
  }
  in(0);
  in(1);
  for (unsigned i = 0; i < 8; ++i) {
    program.push_back(ntt(log_n, false, primes[i], i, 8 + i, (i % 2) * 1024));
    if (i > 0) out(i - 1);
    // There are two tables, so the table of limb i is free when its transform has ended.
    if (i + 2 < 8) in(i + 2);
  }
  out(7);
  ASSERT_TRUE(card.run(program));
  for (unsigned i = 0; i < 8; ++i) {
    for (std::size_t k = 0; k < n; ++k) ASSERT_EQ(card.memory[results / 4 + i * n + k], reference.slots[i][k]) << i;
  }
  const u64 cycles = card.counter(Counter::cycles);
  RecordProperty("cycles", static_cast<int>(cycles));
  std::cout << "8 limbs of 8192: " << cycles << " cycles, " << card.counter(Counter::ntt) << " of them with NTTs\n";
  // The limit contains the transforms and the parts that do not overlap: loads of one limb and its table, and the store
  // of one limb.
  EXPECT_LT(cycles, 8u * 6656 + 512 + 1024 + 512 + 1200);
  EXPECT_GE(card.counter(Counter::ntt), 8u * 6656);
  EXPECT_EQ(card.counter(Counter::beats_read), 16u * 512);
  EXPECT_EQ(card.counter(Counter::beats_written), 8u * 512);
}

// Units accept the next limb while rows of the previous one are in flight.
TEST(CardCycles, InstructionsFollowInTheirUnits) {
  constexpr int log_n = 13;
  constexpr u64 rows = (1 << log_n) / 8;
  const u64 q = math::largest_primes(30, 1, 1 << 14)[0];
  for (const bool permutations : {false, true}) {
    TestCard<Vcard> card(1, 0);
    std::vector<Descriptor> program;
    for (unsigned i = 0; i < 8; ++i) {
      if (permutations)
        program.push_back(permute(log_n, true, 5, q, i, 8 + i));
      else
        program.push_back(pointwise(log_n, Modulus(q), {.a = static_cast<int>(i), .b = static_cast<int>(i ^ 1)}, 8 + i));
    }
    ASSERT_TRUE(card.run(program));
    const u64 cycles = card.counter(permutations ? Counter::permute : Counter::pointwise);
    RecordProperty(permutations ? "cycles_permutations" : "cycles_pointwise", static_cast<int>(cycles));
    if (permutations) {
      EXPECT_EQ(cycles, 8 * (rows + 1) + 4);
    } else {
      EXPECT_EQ(cycles, 8 * rows + 20);
    }
  }
}

// A conversion of seven primes to eight at N = 8192, as in a lift, while the lanes multiply other limbs.
TEST(CardCycles, LanesWorkBesideAConversion) {
  TestCard<Vcard> card(1, 0);
  constexpr int log_n = 13;
  const auto primes = math::largest_primes(30, 1, 1 << 14);
  std::vector<unsigned> from, to;
  std::vector<Descriptor> program;
  for (unsigned i = 0; i < 7; ++i) from.push_back(4 * i);  // all sources are in one bank
  for (unsigned j = 0; j < 8; ++j) to.push_back(1 + 4 * j % 32);
  program.push_back(convert(log_n, from, to, 0));
  for (unsigned i = 0; i < 7; ++i)
    program.push_back(pointwise(log_n, Modulus(primes[0]), {.a = static_cast<int>(2 + 4 * i), .constant = 3}, 3 + 4 * i));
  ASSERT_TRUE(card.run(program));
  RecordProperty("cycles_conversion", static_cast<int>(card.counter(Counter::convert)));
  EXPECT_EQ(card.counter(Counter::convert), 2047u * 8 + 7 + 8 + 22);
  EXPECT_EQ(card.counter(Counter::pointwise), 7u * 1024 + 20);
  EXPECT_LT(card.counter(Counter::cycles), 16500u);
}

}  // namespace
}  // namespace heliograph::rtl
