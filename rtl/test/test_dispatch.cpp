// Dispatch: the unit of each instruction, hazards of each field, ordered loads and stores, fences, and invalid fields.
#include <gtest/gtest.h>
#include <functional>
#include <vector>

#include "Vdispatch.h"
#include "backend/rtl/clocked.h"
#include "backend/rtl/descriptors.h"

namespace heliograph::rtl {
namespace {

constexpr unsigned kNtt = 0, kPointwise = 1, kPermute = 2, kConvert = 3, kLoad = 4, kStore = 5;
constexpr std::uint32_t kOrdered = 1u << 24;
constexpr unsigned kRows = 512;  // rows per table, for the model's B = 8 and LOG_N = 12

enum Outcome : int { fence = -3, dropped = -2, waits = -1 };  // any other value is a unit's number

class Dispatch : public testing::Test {
 protected:
  Clocked<Vdispatch> unit;

  void SetUp() override {
    unit->valid_i = 0;
    unit->unit_ready_i = 63;
    unit->read_done_i = unit->done_i = unit->ntt_want_i = 0;
    reset();
  }
  void reset() {
    unit->rst_ni = 0;
    unit.tick();
    unit->rst_ni = 1;
  }
  /// Returns the outcome of a descriptor in this cycle, without a clock edge.
  int offer(const Descriptor& d) {
    for (std::size_t i = 0; i < d.size(); ++i) unit->words_i[i] = d[i];
    unit->valid_i = 1;
    unit->eval();
    const unsigned to = unit->unit_valid_o;
    EXPECT_EQ(unit->ready_o, to != 0 || unit->fence_o || unit->unknown_o);
    EXPECT_EQ((to != 0) + unit->fence_o + unit->unknown_o, unit->ready_o);
    int outcome = waits;
    if (unit->fence_o) outcome = fence;
    if (unit->unknown_o) outcome = dropped;
    for (unsigned u = 0; u < 6; ++u)
      if (to == 1u << u) outcome = static_cast<int>(u);
    unit->valid_i = 0;
    unit->eval();
    EXPECT_FALSE(unit->ready_o || unit->unit_valid_o || unit->fence_o || unit->unknown_o);
    return outcome;
  }
  /// Offers a descriptor for one clock cycle.
  int give(const Descriptor& d) {
    const int outcome = offer(d);
    unit->valid_i = 1;
    unit.tick();
    unit->valid_i = 0;
    unit->eval();
    return outcome;
  }
  void read_done(unsigned u) {
    unit->read_done_i = static_cast<unsigned char>(1u << u);
    unit.tick();
    unit->read_done_i = 0;
  }
  /// Ends the unit's oldest instruction.
  void done(unsigned u) {
    unit->done_i = static_cast<unsigned char>(1u << u);
    unit.tick();
    unit->done_i = 0;
  }
  void end(unsigned u) { read_done(u), done(u); }

  static Descriptor load(unsigned slot, std::uint32_t flags = 0) {
    Descriptor d = instruction(Op::load, 12);
    d[0] |= flags;
    d[1] = slot;
    return d;
  }
  static Descriptor store(unsigned slot, std::uint32_t flags = 0) {
    Descriptor d = instruction(Op::store, 12);
    d[0] |= flags;
    d[1] = slot << 8;
    return d;
  }
  static Descriptor twiddles(unsigned row) {
    Descriptor d = instruction(Op::twiddles, 12);
    d[6] = row;
    return d;
  }
  static Descriptor constants(unsigned set, unsigned beats = 4) {
    Descriptor d = instruction(Op::constants, 9);
    d[6] = set << 16;
    d[10] = beats;
    return d;
  }
  static Descriptor element_wise(int a, int b, int c, unsigned out) {
    return pointwise(12, Modulus(97), {.a = a, .b = b, .c = c}, out);
  }
};

TEST_F(Dispatch, EachOperationGoesToItsUnitWhenThatIsReady) {
  const std::vector<std::pair<Descriptor, unsigned>> all = {{ntt(12, false, 97, 0, 1, kRows), kNtt},
                                                            {element_wise(0, 1, 2, 3), kPointwise},
                                                            {permute(12, true, 5, 97, 0, 1), kPermute},
                                                            {convert(12, {0, 4}, {1, 2}, 7), kConvert},
                                                            {load(5), kLoad},
                                                            {store(6), kStore},
                                                            {twiddles(kRows), kLoad},
                                                            {constants(7), kLoad}};
  for (const auto& [d, u] : all) {
    SCOPED_TRACE(d[0]);
    reset();
    EXPECT_TRUE(unit->idle_o);
    unit->unit_ready_i = static_cast<unsigned char>(63 & ~(1u << u));
    EXPECT_EQ(offer(d), waits);
    unit->unit_ready_i = static_cast<unsigned char>(1u << u);
    EXPECT_EQ(give(d), static_cast<int>(u));
    EXPECT_FALSE(unit->idle_o);
    end(u);
    unit->eval();
    EXPECT_TRUE(unit->idle_o);
    unit->unit_ready_i = 63;
  }
}

TEST_F(Dispatch, OrderedLoadsAndStoresWaitForThoseBefore) {
  for (const bool before_loads : {false, true}) {
    for (const bool then_loads : {false, true}) {
      SCOPED_TRACE(testing::Message() << (then_loads ? "load" : "store") << " after "
                                      << (before_loads ? "loads" : "stores"));
      reset();
      const unsigned u = before_loads ? kLoad : kStore;
      const auto before = [&](unsigned slot) { return before_loads ? load(slot) : store(slot); };
      // The slots are in different banks, so only memory is shared.
      const Descriptor marked = then_loads ? load(3, kOrdered) : store(3, kOrdered), plain = then_loads ? load(3) : store(3);
      EXPECT_EQ(offer(marked), static_cast<int>(then_loads ? kLoad : kStore)) << "no access is open";
      ASSERT_EQ(give(before(0)), static_cast<int>(u));
      read_done(u);
      ASSERT_EQ(give(before(1)), static_cast<int>(u));
      read_done(u);
      EXPECT_EQ(offer(marked), waits);
      if (before_loads != then_loads) {
        EXPECT_EQ(offer(plain), static_cast<int>(then_loads ? kLoad : kStore)) << "unmarked ones do not wait";
      }
      done(u);
      EXPECT_EQ(offer(marked), waits) << "one open access is left";
      // One access ends in the same cycle in which another starts.
      unit->done_i = static_cast<unsigned char>(1u << u);
      EXPECT_EQ(give(before(2)), static_cast<int>(u));
      unit->done_i = 0;
      read_done(u);
      EXPECT_EQ(offer(marked), waits);
      done(u);
      EXPECT_EQ(offer(marked), static_cast<int>(then_loads ? kLoad : kStore));
    }
  }
  // Loads of twiddles and constants count as loads.
  for (const Descriptor& d : {twiddles(0), constants(1)}) {
    reset();
    ASSERT_EQ(give(d), static_cast<int>(kLoad));
    read_done(kLoad);
    EXPECT_EQ(offer(store(3, kOrdered)), waits);
    done(kLoad);
    EXPECT_EQ(offer(store(3, kOrdered)), static_cast<int>(kStore));
  }
  // Marked loads and stores also wait, for open loads and for open stores.
  for (Descriptor d : {twiddles(0), constants(1)}) {
    for (const bool before_loads : {false, true}) {
      reset();
      d[0] |= kOrdered;
      EXPECT_EQ(offer(d), static_cast<int>(kLoad)) << "no access is open";
      ASSERT_EQ(give(before_loads ? load(2) : store(2)), static_cast<int>(before_loads ? kLoad : kStore));
      read_done(before_loads ? kLoad : kStore);
      EXPECT_EQ(offer(d), waits);
      done(before_loads ? kLoad : kStore);
      EXPECT_EQ(offer(d), static_cast<int>(kLoad));
    }
  }
  // Marked loads and stores do not wait for instructions that compute.
  reset();
  ASSERT_EQ(give(element_wise(0, 1, 2, 6)), static_cast<int>(kPointwise));
  EXPECT_EQ(offer(store(3, kOrdered)), static_cast<int>(kStore));
  // A reset clears the counts of open accesses.
  ASSERT_EQ(give(store(7)), static_cast<int>(kStore));
  ASSERT_EQ(give(load(8)), static_cast<int>(kLoad));
  reset();
  EXPECT_EQ(offer(load(3, kOrdered)), static_cast<int>(kLoad));
}

TEST_F(Dispatch, FencesWaitForAll) {
  const Descriptor stop = instruction(Op::fence, 9);
  EXPECT_EQ(offer(stop), fence);
  const std::vector<Descriptor> all = {ntt(12, false, 97, 0, 1, 0),
                                       element_wise(0, 1, 2, 3),
                                       permute(12, true, 5, 97, 0, 1),
                                       convert(12, {0}, {1}, 0),
                                       load(5),
                                       store(6)};
  for (unsigned u = 0; u < 6; ++u) {
    ASSERT_EQ(give(all[u]), static_cast<int>(u));
    EXPECT_EQ(give(stop), waits) << u;
    if (u == kNtt) {
      read_done(u);
      unit->ntt_want_i = 1;
      unit.tick();
      EXPECT_TRUE(unit->ntt_grant_o);
      EXPECT_EQ(offer(stop), waits);
      done(u);
      unit->ntt_want_i = 0;
    } else {
      read_done(u);
      EXPECT_EQ(offer(stop), waits) << u;
      done(u);
    }
    EXPECT_EQ(give(stop), fence) << u;
  }
}

TEST_F(Dispatch, EachOperandWaitsForItsWriter) {
  struct Case {
    std::string name;
    Descriptor writer;
    std::function<Descriptor(unsigned)> reader;  // reads slot, table or set `at`
    unsigned at;
  };
  std::vector<Case> cases;
  // Slot 29 is in bank 1; results are in bank 2, other operands in banks 0 and 3.
  const auto slots = [&](const std::string& name, const std::function<Descriptor(unsigned)>& reader) {
    cases.push_back({name, load(29), reader, 29});
  };
  slots("ntt", [](unsigned s) { return ntt(12, true, 97, s, 2, 0); });
  slots("a", [](unsigned s) { return element_wise(static_cast<int>(s), 4, 7, 2); });
  slots("b", [](unsigned s) { return element_wise(4, static_cast<int>(s), 7, 2); });
  slots("c", [](unsigned s) { return element_wise(4, 7, static_cast<int>(s), 2); });
  slots("permutation", [](unsigned s) { return permute(12, false, 5, 97, s, 2); });
  slots("store", [](unsigned s) { return store(s); });
  for (unsigned i = 0; i < 16; ++i) {
    slots("source " + std::to_string(i), [i](unsigned s) {
      std::vector<unsigned> from;
      for (unsigned k = 0; k < 16; ++k) from.push_back(k == i ? s : k % 8 * 4 + (k < 8 ? 0 : 3));
      return convert(12, from, {2}, 0);
    });
  }
  cases.push_back({"table", twiddles(kRows), [](unsigned t) { return ntt(12, true, 97, 0, 2, t * kRows); }, 1});
  cases.push_back({"set", constants(7), [](unsigned s) { return convert(12, {0}, {2}, s); }, 7});
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    reset();
    const int free = offer(c.reader(c.at));
    ASSERT_GE(free, 0);
    ASSERT_EQ(give(c.writer), static_cast<int>(kLoad));
    EXPECT_EQ(offer(c.reader(c.at)), waits);
    EXPECT_EQ(offer(c.reader(c.at == 29 ? 25 : c.at - 1)), free) << "another one is free";
    read_done(kLoad);
    EXPECT_EQ(offer(c.reader(c.at)), waits);
    done(kLoad);
    EXPECT_EQ(offer(c.reader(c.at)), free);
  }
}

TEST_F(Dispatch, EachResultWaitsForItsReaders) {
  std::vector<std::pair<std::string, std::function<Descriptor(unsigned)>>> writers = {
      {"ntt", [](unsigned s) { return ntt(12, true, 97, 0, s, 0); }},
      {"element-wise", [](unsigned s) { return element_wise(0, 4, kNone, s); }},
      {"permutation", [](unsigned s) { return permute(12, false, 5, 97, 0, s); }},
      {"load", [](unsigned s) { return load(s); }}};
  for (unsigned j = 0; j < 8; ++j) {
    writers.emplace_back("target " + std::to_string(j), [j](unsigned s) {
      std::vector<unsigned> to;
      for (unsigned k = 0; k < 8; ++k) to.push_back(k == j ? s : 4 * k + 2);
      return convert(12, {0, 4}, to, 3);
    });
  }
  for (const auto& [name, writer] : writers) {
    SCOPED_TRACE(name);
    reset();
    ASSERT_EQ(give(store(29)), static_cast<int>(kStore));
    EXPECT_EQ(offer(writer(29)), waits);
    EXPECT_GE(offer(writer(25)), 0) << "another slot is free";
    read_done(kStore);
    EXPECT_GE(offer(writer(29)), 0) << "a slot that is read is free";
  }
  // Tables and sets are in use until the instruction that reads them ends.
  reset();
  ASSERT_EQ(give(ntt(12, false, 97, 0, 2, kRows)), static_cast<int>(kNtt));
  ASSERT_EQ(give(convert(12, {1}, {3}, 7)), static_cast<int>(kConvert));
  read_done(kNtt), read_done(kConvert);
  EXPECT_EQ(offer(twiddles(kRows)), waits);
  EXPECT_EQ(offer(twiddles(0)), static_cast<int>(kLoad));
  EXPECT_EQ(offer(constants(7)), waits);
  EXPECT_EQ(offer(constants(6)), static_cast<int>(kLoad));
  done(kConvert);
  EXPECT_EQ(offer(constants(7)), static_cast<int>(kLoad));
  EXPECT_EQ(offer(twiddles(kRows)), waits);
}

TEST_F(Dispatch, FieldsThatTheCardDoesNotHaveAreReported) {
  const auto with = [](Descriptor d, std::size_t word, std::uint32_t bits, std::uint32_t value) {
    d[word] = (d[word] & ~bits) | value;
    return d;
  };
  std::vector<unsigned> sixteen, eight;
  for (unsigned i = 0; i < 16; ++i) sixteen.push_back(i / 2 * 4 + i % 2);
  for (unsigned j = 0; j < 8; ++j) eight.push_back(4 * j + 2);
  const Descriptor transform = ntt(12, false, 97, 31, 30, kRows), sum = element_wise(29, 30, 31, 28),
                   automorphism = permute(12, true, 5, 97, 30, 31), conversion = convert(12, sixteen, eight, 7),
                   in = load(31), out = store(31), table = twiddles(kRows), set = constants(7);
  const std::vector<Descriptor> sound = {
      transform,
      sum,
      automorphism,
      conversion,
      in,
      out,
      table,
      set,
      with(transform, 0, 0xf00, 9 << 8),                                      // the smallest transform
      with(sum, 0, 0xf00, 4 << 8),                                            // a limb of one beat
      with(element_wise(kNone, kNone, kNone, 1), 1, 0xffffff00, 0xffffff00),  // the slots of absent operands are ignored
      with(set, 10, ~0u, 65535),
      with(convert(12, {0}, {2}, 0), 8, 0xffffff00, 0xffffff00),  // the slots after the last source are ignored
      with(in, 8, ~0u, 0xffffffc0),
      with(in, 9, ~0u, 0xffffffff)};
  for (const Descriptor& d : sound) {
    reset();
    EXPECT_GE(offer(d), 0) << "operation " << (d[0] & 255);
  }
  std::vector<Descriptor> unsound = {with(transform, 0, 0xf00, 8 << 8),
                                     with(sum, 0, 0xf00, 3 << 8),
                                     with(automorphism, 6, 1, 0),
                                     with(transform, 6, ~0u, kRows + 1),
                                     with(transform, 6, ~0u, 2 * kRows),
                                     with(transform, 6, ~0u, 1 << 15),
                                     with(table, 6, ~0u, kRows + 256),
                                     with(table, 6, ~0u, 2 * kRows),
                                     with(conversion, 6, 0xff, 16),
                                     with(conversion, 6, 0xff, 128),
                                     with(conversion, 6, 0xff00, 8 << 8),
                                     with(conversion, 6, 0xff00, 128 << 8),
                                     with(conversion, 6, 0xff0000, 8 << 16),
                                     with(conversion, 6, 0xff0000, 0x87 << 16),
                                     with(set, 6, 0xff0000, 8 << 16),
                                     with(set, 6, 0xff0000, 0x80 << 16),
                                     with(set, 10, ~0u, 0),
                                     with(set, 10, ~0u, 1 << 16),
                                     with(set, 10, ~0u, 0x80000001),
                                     permute(12, true, 5, 97, 30, 30),
                                     convert(12, {1, 2}, {3, 2}, 0)};
  for (const Descriptor& d : {transform, sum, automorphism, conversion, in, out, table})
    for (const std::uint32_t log_n : {0u, 3u, 13u, 15u}) unsound.push_back(with(d, 0, 0xf00, log_n << 8));
  for (const std::uint32_t slot : {32u, 64u, 128u, 255u}) {
    for (const Descriptor& d : {transform, sum, automorphism, in}) unsound.push_back(with(d, 1, 0xff, slot));
    for (const Descriptor& d : {transform, sum, automorphism, out}) unsound.push_back(with(d, 1, 0xff00, slot << 8));
    unsound.push_back(with(sum, 1, 0xff0000, slot << 16));
    unsound.push_back(with(sum, 1, 0xff000000, slot << 24));
    for (std::size_t i = 0; i < 24; ++i)
      unsound.push_back(with(conversion, 8 + i / 4, 0xffu << i % 4 * 8, slot << i % 4 * 8));
  }
  for (const std::uint32_t low : {1u, 4u, 8u, 32u})
    for (const Descriptor& d : {in, out, table, set}) unsound.push_back(with(d, 8, 63, low));
  for (const std::uint32_t operation : {0u, 10u, 16u, 69u, 133u, 255u}) unsound.push_back(with(in, 0, 0xff, operation));
  for (const Descriptor& d : unsound) {
    reset();
    EXPECT_EQ(offer(d), dropped) << "operation " << (d[0] & 255) << ", words " << std::hex << d[0] << ' ' << d[1] << ' '
                                 << d[6];
    give(d);
    EXPECT_TRUE(unit->idle_o);
  }
}

}  // namespace
}  // namespace heliograph::rtl
