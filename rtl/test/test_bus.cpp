// A whole card at its buses: errors of a single port, loads that wait for stores, memory at high addresses. Also reset
// and disable during work, and counters and interrupts from the driver's view.
#include <gtest/gtest.h>
#include <random>

#include "Vcard_small.h"
#include "card.h"
#include "math/primes.h"

namespace heliograph::rtl {
namespace {

constexpr int kLogN = 9;
constexpr std::size_t kN = 1 << kLogN, kLimb = 4 * kN;
constexpr std::uint32_t kOrdered = 1u << 24, kInterrupting = 1u << 23;
constexpr u64 kBeats = kN / 4;  // beats per limb: two rows of two words each

class Bus : public testing::Test {
 protected:
  using Card = TestCard<Vcard_small>;
  const u64 q = math::largest_primes(27, 1, 4096)[0];
  std::mt19937_64 random{59};

  static u64 limb(unsigned i) { return 0x10000 + i * kLimb; }
  static Descriptor move(const Card& card, Op op, unsigned slot, u64 address, std::uint32_t flags = 0) {
    Descriptor d = instruction(op, kLogN);
    d[0] |= flags;
    d[1] = op == Op::load ? slot : slot << 8;
    d[8] = static_cast<std::uint32_t>(card.origin() + address);
    d[9] = static_cast<std::uint32_t>((card.origin() + address) >> 32);
    return d;
  }
  static Descriptor fence(std::uint32_t flags = 0) {
    Descriptor d = instruction(Op::fence, 9);
    d[0] |= flags;
    return d;
  }
  Descriptor plus_one(unsigned from, unsigned to) const {
    // c - 1 * (q - 1) = c + 1, so the instruction adds 1
    return pointwise(kLogN, Modulus(q), {.c = static_cast<int>(from), .subtract = true, .constant = q - 1}, to);
  }
  std::vector<std::uint32_t> fill(Card& card, u64 address) {
    std::vector<std::uint32_t> words(kN);
    for (auto& w : words) w = static_cast<std::uint32_t>(random() % (q - 100));
    std::copy(words.begin(), words.end(), card.memory.begin() + static_cast<long>(address / 4));
    return words;
  }
  static std::vector<std::uint32_t> get(const Card& card, u64 address) {
    return {card.memory.begin() + static_cast<long>(address / 4), card.memory.begin() + static_cast<long>(address / 4 + kN)};
  }
  static std::vector<std::uint32_t> plus(std::vector<std::uint32_t> words, std::uint32_t by) {
    for (auto& w : words) w += by;
    return words;
  }
  /// Checks that the card loads a limb, adds 1 to each word, and stores it.
  void expect_works(Card& card, unsigned i) {
    const auto x = fill(card, limb(i));
    ASSERT_TRUE(
        card.run({move(card, Op::load, 0, limb(i)), plus_one(0, 1), move(card, Op::store, 1, limb(i + 1)), fence()}));
    EXPECT_EQ(get(card, limb(i + 1)), plus(x, 1));
  }
};

TEST_F(Bus, AnErrorOfEachPortIsReportedAlone) {
  for (const int port : {0, 1, 2}) {
    SCOPED_TRACE(port == 0 ? "ring" : port == 1 ? "reads" : "writes");
    Card card(1, port == 1 ? 30 : 0);
    expect_works(card, 0);
    EXPECT_EQ(card.read(reg::kStatus), 1u);
    // An operation that does not use the faulty port reports no error.
    card.faults() = {.ring = port == 0, .reads = port == 1, .writes = port == 2};
    if (port == 1) {
      ASSERT_TRUE(card.run({move(card, Op::store, 0, limb(2)), fence()}));
      EXPECT_EQ(card.read(reg::kStatus), 1u);
      ASSERT_TRUE(card.run({move(card, Op::load, 0, limb(2))}));
    } else if (port == 2) {
      ASSERT_TRUE(card.run({move(card, Op::load, 0, limb(2)), fence()}));
      EXPECT_EQ(card.read(reg::kStatus), 1u);
      ASSERT_TRUE(card.run({move(card, Op::store, 0, limb(2))}));
    } else {
      ASSERT_TRUE(card.run({fence()}));
    }
    EXPECT_EQ(card.read(reg::kStatus), 1u | 2u);
    card.faults() = {};
    expect_works(card, 4);
    EXPECT_THROW(card.write(reg::kStatus, ~0u), DeviceError);
    card.write(reg::kInterrupt, ~0u);
    EXPECT_EQ(card.read(reg::kStatus), 1u | 2u) << "the error flag stays until reset";
    card.reset();
    EXPECT_EQ(card.read(reg::kStatus), 1u);
    expect_works(card, 6);
    EXPECT_EQ(card.read(reg::kStatus), 1u);
  }
}

// Words are in memory only when their store is answered, at least 50 cycles later. A load that does not wait reads the
// old words.
TEST_F(Bus, AnOrderedLoadSeesTheStoresBeforeIt) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    Card card(seed, 20);
    auto x = fill(card, limb(0));
    std::vector<Descriptor> program = {move(card, Op::load, 0, limb(0))};
    constexpr unsigned kTimes = 6;
    for (unsigned i = 0; i < kTimes; ++i) {
      // Each round uses the same address in memory, but other slots.
      program.push_back(plus_one(2 * i % 4, 4 + i % 4));
      program.push_back(move(card, Op::store, 4 + i % 4, limb(1)));
      program.push_back(move(card, Op::load, 2 * (i + 1) % 4, limb(1), kOrdered));
    }
    program.push_back(move(card, Op::store, 2 * kTimes % 4, limb(2), kOrdered));
    program.push_back(fence());
    ASSERT_TRUE(card.run(program));
    EXPECT_EQ(get(card, limb(2)), plus(x, kTimes));
  }
}

TEST_F(Bus, AnOrderedStoreSparesTheLoadsBeforeIt) {
  Card card(1, 60);
  const auto x = fill(card, limb(0)), y = fill(card, limb(1));
  ASSERT_TRUE(card.run({move(card, Op::load, 1, limb(1)), fence(), move(card, Op::load, 0, limb(0)),
                        move(card, Op::store, 1, limb(0), kOrdered), move(card, Op::store, 0, limb(2)), fence()}));
  EXPECT_EQ(get(card, limb(0)), y);
  EXPECT_EQ(get(card, limb(2)), x);
}

TEST_F(Bus, MemoryMayLieAnywhere) {
  for (const u64 origin :
       {u64{0xfffef000}, u64{0x1'0000'0000}, u64{0x7f'ffff'0000}, u64{0xdead'beef'0123'0000}, u64{0xffff'ffff'ff00'0000}}) {
    SCOPED_TRACE(origin);
    Card card(1, 10);
    card.move_to(origin);
    for (unsigned i = 0; i < 20; i += 2) ASSERT_NO_FATAL_FAILURE(expect_works(card, i));  // the ring wraps during these runs
    // Twiddles and constants use the same origin: any other address would be a DeviceError.
    for (const Op op : {Op::twiddles, Op::constants}) {
      Descriptor d = move(card, op, 0, limb(3));
      d[1] = 0;
      d[10] = op == Op::constants ? 4 : 0;
      ASSERT_TRUE(card.run({d, fence()}));
    }
    EXPECT_EQ(card.read(reg::kStatus), 1u);
    EXPECT_EQ(card.read(reg::kBaseHigh), origin >> 32);
  }
}

TEST_F(Bus, AResetUnderWayLeavesACardThatWorks) {
  Card card(3, 20);
  for (int after = 10; after < 1500; after += 97) {
    SCOPED_TRACE(after);
    std::vector<Descriptor> program;
    for (unsigned i = 0; i < 4; ++i) {
      program.push_back(move(card, Op::load, i, limb(i)));
      program.push_back(ntt(kLogN, i % 2 == 1, q, i, 4 + i, 0));
      program.push_back(permute(kLogN, true, 5, q, i, 4 + (i + 1) % 4));
      program.push_back(move(card, Op::store, 4 + i, limb(8 + i)));
      program.push_back(convert(kLogN, {i}, {4 + i}, 0));
    }
    program.push_back(fence(kInterrupting));
    card.run(program, static_cast<std::uint64_t>(after));
    card.reset();
    EXPECT_EQ(card.read(reg::kStatus), 1u);
    EXPECT_EQ(card.read(reg::kHead), 0u);
    EXPECT_EQ(card->interrupt_o, 0);
    for (int c = 0; c < kCounters; ++c) EXPECT_EQ(card.counter(static_cast<Counter>(c)), 0u);
    ASSERT_NO_FATAL_FAILURE(expect_works(card, 0));
    ASSERT_TRUE(
        card.run({convert(kLogN, {0}, {1}, 0), ntt(kLogN, false, q, 2, 3, 0), permute(kLogN, false, 3, q, 4, 5)}, 20000));
    EXPECT_EQ(card.read(reg::kStatus), 1u);
    card.reset();
  }
}

TEST_F(Bus, DisabledTheCardFinishesWhatItFetchedAndGoesOnLater) {
  Card card(5, 40);
  expect_works(card, 0);
  const auto x = fill(card, limb(0));
  // The following entries are after the first four in the ring.
  const std::vector<Descriptor> more = {
      move(card, Op::load, 0, limb(0)), plus_one(0, 1), plus_one(1, 2), plus_one(2, 3), plus_one(3, 4), plus_one(4, 5),
      move(card, Op::store, 5, limb(3))};
  for (std::size_t i = 0; i < more.size(); ++i)
    std::copy(more[i].begin(), more[i].end(), card.memory.begin() + static_cast<long>((4 + i) * 16));
  card.write(reg::kTail, static_cast<std::uint32_t>(4 + more.size()));
  for (int i = 0; i < 30; ++i) card.step();
  card.write(reg::kControl, 0);
  for (int i = 0; i < 8000; ++i) card.step();
  const std::uint32_t head = card.read(reg::kHead);
  EXPECT_GT(head, 4u);
  EXPECT_LT(head, 4 + more.size());
  EXPECT_EQ(card.read(reg::kStatus), 0u) << "there is work left";
  card.write(reg::kControl, 1);
  for (int i = 0; i < 8000; ++i) card.step();
  EXPECT_EQ(card.read(reg::kStatus), 1u);
  EXPECT_EQ(get(card, limb(3)), plus(x, 5));
}

// Each instruction uses its own modulus, although the next instruction is accepted meanwhile.
TEST_F(Bus, InstructionsOfOtherModuliFollowEachOther) {
  Card card(1, 0);
  const u64 moduli[] = {q, 65537, math::largest_primes(30, 1, 4096)[0], 12289};
  std::vector<std::uint32_t> x[4];
  std::vector<Descriptor> program;
  for (unsigned i = 0; i < 4; ++i) {
    x[i].resize(kN);
    for (auto& w : x[i]) w = static_cast<std::uint32_t>(random() % moduli[i]);
    std::copy(x[i].begin(), x[i].end(), card.memory.begin() + static_cast<long>(limb(i) / 4));
    program.push_back(move(card, Op::load, i, limb(i)));
  }
  program.push_back(fence());
  const auto constant = [&](unsigned i) { return moduli[i] / 2 + i; };
  for (unsigned i = 0; i < 4; ++i)
    program.push_back(pointwise(kLogN, Modulus(moduli[i]),
                                {.a = static_cast<int>(i), .c = static_cast<int>(i), .constant = constant(i)}, 4 + i));
  for (unsigned i = 0; i < 4; ++i) program.push_back(move(card, Op::store, 4 + i, limb(8 + i)));
  program.push_back(fence());
  for (unsigned i = 0; i < 4; ++i) program.push_back(permute(kLogN, false, 3, moduli[i], i, 4 + i));
  for (unsigned i = 0; i < 4; ++i) program.push_back(move(card, Op::store, 4 + i, limb(16 + i)));
  program.push_back(fence());
  ASSERT_TRUE(card.run(program));
  for (unsigned i = 0; i < 4; ++i) {
    const auto product = get(card, limb(8 + i)), turned = get(card, limb(16 + i));
    for (std::size_t k = 0; k < kN; ++k) {
      ASSERT_EQ(product[k], (x[i][k] + math::mul_mod(x[i][k], constant(i), moduli[i])) % moduli[i]) << i << ", word " << k;
      const std::size_t to = 3 * k % (2 * kN);
      ASSERT_EQ(turned[to % kN], to < kN ? x[i][k] : (moduli[i] - x[i][k]) % moduli[i]) << i << ", word " << k;
    }
  }
}

TEST_F(Bus, InterruptsComeFromFencesThatAskForThem) {
  Card card(1, 0);
  Descriptor other = plus_one(0, 1);
  other[0] |= kInterrupting;  // the instruction is not a fence
  ASSERT_TRUE(card.run({other, fence()}));
  EXPECT_EQ(card->interrupt_o, 0);
  EXPECT_EQ(card.read(0x2c), 1u);
  ASSERT_TRUE(card.run({plus_one(0, 1), fence(kInterrupting)}));
  EXPECT_EQ(card->interrupt_o, 1);
  EXPECT_EQ(card.read(0x2c), 2u);
  card.write(reg::kInterrupt, 1);
  EXPECT_EQ(card->interrupt_o, 0);
  // The interrupt occurs only after all earlier instructions have ended.
  const auto x = fill(card, limb(0));
  ASSERT_TRUE(card.run({move(card, Op::load, 0, limb(0)), plus_one(0, 1), move(card, Op::store, 1, limb(1)),
                        fence(kInterrupting), move(card, Op::load, 2, limb(2))}));
  EXPECT_EQ(get(card, limb(1)), plus(x, 1));
  EXPECT_EQ(card->interrupt_o, 1);
}

TEST_F(Bus, CountersCountEachUnitsWork) {
  Card card(1, 0);
  const auto counters = [&] {
    std::vector<u64> all;
    for (int c = 0; c < kCounters; ++c) all.push_back(card.counter(static_cast<Counter>(c)));
    return all;
  };
  const auto of = [&](const std::vector<Descriptor>& program) {
    EXPECT_TRUE(card.run({}));
    card.write(reg::kControl, 3);
    EXPECT_TRUE(card.run(program));
    return counters();
  };
  of({fence()});
  const auto at = [](Counter c) { return static_cast<std::size_t>(c); };
  const struct {
    Descriptor work;
    Counter unit;
    u64 cycles, read, written;
  } cases[] = {
      // Cycles follow the README's model, without the cycle in which an instruction is accepted.
      {ntt(kLogN, false, q, 0, 1, 0), Counter::ntt, kLogN * kN / 4 + 21, 0, 0},  // plus one cycle for the bank's grant
      {plus_one(0, 1), Counter::pointwise, kN / 2 + 20, 0, 0},
      {permute(kLogN, true, 5, q, 0, 1), Counter::permute, kN / 2 + 5, 0, 0},
      {convert(kLogN, {0}, {1}, 0), Counter::convert, kN - 1 + 1 + 1 + 22, 0, 0},
      {move(card, Op::load, 0, limb(0)), Counter::load, 0, kBeats, 0},
      {move(card, Op::store, 0, limb(0)), Counter::store, 0, 0, kBeats},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(static_cast<int>(c.unit));
    const auto found = of({c.work});
    for (std::size_t unit = at(Counter::ntt); unit <= at(Counter::store); ++unit) {
      if (unit != at(c.unit)) {
        EXPECT_EQ(found[unit], 0u) << unit;
      }
    }
    if (c.cycles != 0) {
      EXPECT_EQ(found[at(c.unit)], c.cycles);
    } else {
      EXPECT_GE(found[at(c.unit)], kBeats);
    }
    EXPECT_EQ(found[at(Counter::cycles)], found[at(c.unit)] + 1);
    EXPECT_EQ(found[at(Counter::waited)], 0u);
    EXPECT_EQ(found[at(Counter::beats_read)], c.read);
    EXPECT_EQ(found[at(Counter::beats_written)], c.written);
  }
  // The second instruction waits for the result of the first.
  const auto found = of({plus_one(0, 1), plus_one(1, 2)});
  EXPECT_EQ(found[at(Counter::pointwise)], 2 * (kN / 2 + 20));
  EXPECT_GE(found[at(Counter::waited)], kN / 2);
  EXPECT_LE(found[at(Counter::waited)], kN / 2 + 20);
  // Two independent instructions follow each other in their unit without a gap.
  const auto both = of({plus_one(0, 1), plus_one(2, 3)});
  EXPECT_EQ(both[at(Counter::pointwise)], 2 * (kN / 2) + 20);
}

}  // namespace
}  // namespace heliograph::rtl
