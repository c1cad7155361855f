// The host's registers: reset values, each bit of each register, sticky flags, counters beyond 2^32, concurrent accesses.
#include <gtest/gtest.h>
#include <map>
#include <random>

#include "Vregisters.h"
#include "backend/rtl/clocked.h"
#include "state.h"

namespace heliograph::rtl {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr u32 kShape = 0x8a5c3be1, kShape2 = 0x7d46f19b;  // parameters of the model
constexpr int kCounters = 10;
constexpr unsigned kControl = 0x10, kStatus = 0x14, kBase = 0x18, kBaseHigh = 0x1c, kLogSize = 0x20, kTail = 0x24,
                   kHead = 0x28, kFences = 0x2c, kInterrupt = 0x30, kFirstCounter = 0x40;
constexpr int kOkay = 0, kSlverr = 2;  // AXI response codes

class Registers : public testing::Test {
 protected:
  Clocked<Vregisters> card;

  void SetUp() override {
    card->awvalid_i = card->wvalid_i = card->arvalid_i = 0;
    card->bready_i = card->rready_i = 1;
    card->wstrb_i = 15;
    card->head_i = 0;
    card->idle_i = 1;
    card->error_i = card->conflict_i = card->unknown_i = card->fence_i = card->interrupt_i = 0;
    card->count_i = 0;
    reset();
  }
  void reset() {
    card->rst_ni = 0;
    card.tick();
    card->rst_ni = 1;
  }
  static bool aligned_register(unsigned address) {
    return address % 4 == 0 &&
           (address <= kInterrupt || (address >= kFirstCounter && address < kFirstCounter + 8 * kCounters));
  }
  static bool writable(unsigned address) {
    for (const unsigned at : {kControl, kBase, kBaseHigh, kLogSize, kTail, kInterrupt})
      if (address == at) return true;
    return false;
  }
  void write(unsigned address, u32 value, unsigned strobes = 15) {
    card->awvalid_i = card->wvalid_i = 1;
    card->awaddr_i = static_cast<unsigned char>(address);
    card->wdata_i = value;
    card->wstrb_i = static_cast<unsigned char>(strobes);
    card->eval();
    ASSERT_TRUE(card->awready_o && card->wready_o);
    card.tick();
    card->awvalid_i = card->wvalid_i = 0;
    card->wstrb_i = 15;
    ASSERT_TRUE(card->bvalid_o);
    ASSERT_EQ(card->bresp_o, writable(address) ? kOkay : kSlverr) << "a write to " << address;
    card.tick();
    ASSERT_FALSE(card->bvalid_o);
  }
  u32 read(unsigned address) {
    card->arvalid_i = 1;
    card->araddr_i = static_cast<unsigned char>(address);
    card->eval();
    EXPECT_TRUE(card->arready_o);
    card.tick();
    card->arvalid_i = 0;
    EXPECT_TRUE(card->rvalid_o);
    EXPECT_EQ(card->rresp_o, aligned_register(address) ? kOkay : kSlverr) << "a read of " << address;
    const u32 value = card->rdata_o;
    card.tick();
    EXPECT_FALSE(card->rvalid_o);
    return value;
  }
  u64 counter(int i) {
    const unsigned at = kFirstCounter + 8 * static_cast<unsigned>(i);
    const u64 low = read(at);
    return low | u64{read(at + 4)} << 32;
  }
  u64& counter_state(int i) { return state<u64>(card, "hg_registers", "counters", static_cast<std::size_t>(i)); }
  u32& fences_state() { return state<u32>(card, "hg_registers", "fences"); }
  /// Raises an input for one cycle.
  template <class Input>
  void pulse(Input& input) {
    input = 1;
    card.tick();
    input = 0;
  }
  /// Returns all registers that a host can read, except the counters.
  std::map<unsigned, u32> all() {
    std::map<unsigned, u32> found;
    for (unsigned at = 0; at < kFirstCounter; at += 4) found[at] = read(at);
    return found;
  }
};

TEST_F(Registers, AreZeroAfterReset) {
  const auto fresh = all();
  const std::map<unsigned, u32> expected = {{0x00, 0x48454c49}, {0x04, 1},    {0x08, kShape}, {0x0c, kShape2},
                                            {kControl, 0},      {kStatus, 1}, {kBase, 0},     {kBaseHigh, 0},
                                            {kLogSize, 0},      {kTail, 0},   {kHead, 0},     {kFences, 0},
                                            {kInterrupt, 0},    {0x34, 0},    {0x38, 0},      {0x3c, 0}};
  EXPECT_EQ(fresh, expected);
  // Sets all registers and inputs, starts accesses, and resets for one cycle.
  write(kBase, ~0u), write(kBaseHigh, ~0u), write(kLogSize, ~0u), write(kTail, ~0u), write(kControl, 1);
  card->interrupt_i = card->fence_i = card->conflict_i = card->unknown_i = 1;
  card->count_i = (1 << kCounters) - 1;
  for (int i = 0; i < kCounters; ++i) counter_state(i) = ~u64{0} << 31;
  card.tick();
  EXPECT_NE(read(kFirstCounter), 0u);  // this read latches the high half
  card->bready_i = card->rready_i = 0;
  card->awvalid_i = card->wvalid_i = card->arvalid_i = 1;
  card->awaddr_i = kTail;
  card->araddr_i = kFences;
  card.tick();
  ASSERT_TRUE(card->bvalid_o && card->rvalid_o);
  card->rst_ni = 0;  // inputs stay high: reset has priority
  card.tick();
  EXPECT_FALSE(card->bvalid_o || card->rvalid_o);
  EXPECT_FALSE(card->interrupt_o || card->enable_o);
  EXPECT_EQ(card->base_o, 0u);
  EXPECT_EQ(card->log_size_o, 0u);
  EXPECT_EQ(card->tail_o, 0u);
  SetUp();
  EXPECT_EQ(read(kFirstCounter + 4), 0u);
  EXPECT_EQ(all(), expected);
  for (int i = 0; i < kCounters; ++i) EXPECT_EQ(counter(i), 0u) << i;
}

TEST_F(Registers, HoldEachBit) {
  const std::map<unsigned, u32> writable = {{kControl, 1}, {kBase, ~63u}, {kBaseHigh, ~0u}, {kLogSize, 31}, {kTail, ~0u}};
  for (const auto& [address, mask] : writable) {
    for (int bit = -1; bit < 32; ++bit) {
      for (const u32 value : {bit < 0 ? 0u : 1u << bit, bit < 0 ? ~0u : ~(1u << bit)}) {
        for (const auto& [other, otherwise] : writable) write(other, value % 3 ? ~0u : 0u);
        auto expected = all();
        if (address == kControl && value & 2) continue;  // bit 1 clears the counters: see another test
        write(address, value);
        expected[address] = value & mask;
        expected[kStatus] = expected[kTail] == 0;
        ASSERT_EQ(all(), expected) << "register " << address << ", value " << value;
        EXPECT_EQ(card->base_o, expected[kBase] | u64{expected[kBaseHigh]} << 32);
        EXPECT_EQ(card->tail_o, expected[kTail]);
        EXPECT_EQ(card->log_size_o, expected[kLogSize]);
        EXPECT_EQ(card->enable_o, expected[kControl]);
      }
    }
  }
  for (int bit = 0; bit < 32; ++bit) {
    card->head_i = 1u << bit;
    EXPECT_EQ(read(kHead), 1u << bit);
  }
}

TEST_F(Registers, WritesChangeTheBytesOfTheirStrobes) {
  for (unsigned strobes = 0; strobes < 16; ++strobes) {
    u32 bytes = 0;
    for (int i = 0; i < 4; ++i) bytes |= strobes >> i & 1 ? 0xffu << 8 * i : 0;
    for (const unsigned address : {kBase, kBaseHigh, kTail}) {
      const u32 mask = address == kBase ? ~63u : ~0u;
      write(address, 0x12345678 & mask);
      write(address, 0x9abcdef0, strobes);
      EXPECT_EQ(read(address), ((0x9abcdef0 & bytes) | (0x12345678 & ~bytes)) & mask) << address << ", strobes " << strobes;
    }
    const bool low = strobes & 1;
    write(kLogSize, 21), write(kLogSize, 10, strobes);
    EXPECT_EQ(read(kLogSize), low ? 10u : 21u);
    write(kControl, 1), write(kControl, 0, strobes);
    EXPECT_EQ(read(kControl), low ? 0u : 1u);
    counter_state(3) = 77;
    write(kControl, 2, strobes);
    EXPECT_EQ(counter(3), low ? 0u : 77u);
    pulse(card->interrupt_i);
    write(kInterrupt, 1, strobes);
    EXPECT_EQ(read(kInterrupt), low ? 0u : 1u);
  }
}

TEST_F(Registers, StatusHasABitForEachCause) {
  card->idle_i = 0;
  EXPECT_EQ(read(kStatus), 0u);
  card->idle_i = 1;
  // The idle bit is set only if head and tail are equal in every bit.
  write(kTail, 0x80000001);
  for (int bit = 0; bit < 32; ++bit) {
    card->head_i = 0x80000001 ^ 1u << bit;
    EXPECT_EQ(read(kStatus), 0u) << bit;
  }
  card->head_i = 0x80000001;
  EXPECT_EQ(read(kStatus), 1u);
  card->error_i = 1;  // the card's ports keep their error flags themselves
  EXPECT_EQ(read(kStatus), 1u | 2u);
  card->error_i = 0;
  EXPECT_EQ(read(kStatus), 1u);
}

TEST_F(Registers, FlagsStayUntilReset) {
  for (const u32 flag : {4u, 8u, 12u}) {
    SCOPED_TRACE(flag);
    if (flag & 4) pulse(card->conflict_i);
    if (flag & 8) pulse(card->unknown_i);
    for (int i = 0; i < 5; ++i) card.tick();
    EXPECT_EQ(read(kStatus), 1u | flag);
    EXPECT_EQ(read(kStatus), 1u | flag) << "a read clears nothing";
    for (unsigned at = 0; at < 256; at += 4)
      if (at != kTail) write(at, ~0u);
    EXPECT_EQ(read(kStatus), 1u | flag) << "a write clears nothing";
    reset();
    EXPECT_EQ(read(kStatus), 1u);
  }
}

TEST_F(Registers, FlagsComeInAnyOrder) {
  for (const bool conflict_first : {true, false}) {
    pulse(conflict_first ? card->conflict_i : card->unknown_i);
    EXPECT_EQ(read(kStatus), 1u | (conflict_first ? 4u : 8u));
    pulse(conflict_first ? card->unknown_i : card->conflict_i);
    EXPECT_EQ(read(kStatus), 1u | 12u);
    reset();
  }
  card->conflict_i = card->unknown_i = 1;
  card.tick();
  card->conflict_i = card->unknown_i = 0;
  EXPECT_EQ(read(kStatus), 1u | 12u) << "both in one cycle";
}

TEST_F(Registers, InterruptStaysUntilAOneIsWritten) {
  EXPECT_FALSE(card->interrupt_o);
  pulse(card->interrupt_i);
  EXPECT_TRUE(card->interrupt_o);
  write(kInterrupt, 0xfffffffe);
  for (unsigned at = 0; at < 256; ++at)
    if (at != kInterrupt) write(at, ~0u);
  EXPECT_TRUE(card->interrupt_o);
  EXPECT_EQ(read(kInterrupt), 1u);
  EXPECT_TRUE(card->interrupt_o) << "a read clears nothing";
  write(kInterrupt, 1);
  EXPECT_FALSE(card->interrupt_o);
  EXPECT_EQ(read(kInterrupt), 0u);
}

// If the next fence interrupts in the cycle in which the host clears the previous interrupt, the new interrupt must
// remain.
TEST_F(Registers, InterruptThatComesDuringAWriteIsKept) {
  for (int offset = -2; offset <= 2; ++offset) {
    for (const unsigned address : {kInterrupt, kControl, kTail, kBase}) {
      SCOPED_TRACE(testing::Message() << "cycle " << offset << " of a write to " << address);
      SetUp();
      pulse(card->interrupt_i);
      for (int cycle = -2; cycle <= 3; ++cycle) {
        card->interrupt_i = card->fence_i = cycle == offset;
        card->awvalid_i = card->wvalid_i = cycle == 0;
        card->awaddr_i = static_cast<unsigned char>(address);
        card->wdata_i = 0x41;
        card.tick();
      }
      card->interrupt_i = card->fence_i = card->awvalid_i = card->wvalid_i = 0;
      EXPECT_EQ(card->interrupt_o, address != kInterrupt || offset >= 0);
      EXPECT_EQ(read(kFences), 1u);
      EXPECT_EQ(read(kTail), address == kTail ? 0x41u : 0u) << "the write is not lost either";
      EXPECT_EQ(read(kBase), address == kBase ? 0x40u : 0u);
      EXPECT_EQ(read(kControl), address == kControl ? 1u : 0u);
    }
  }
}

// These accesses do not affect an interrupt: one half of a write, a write without a strobe, a read.
TEST_F(Registers, InterruptThatComesDuringOtherAccessesIsKept) {
  const struct {
    bool address, data, read;
    unsigned strobes;
  } accesses[] = {{true, false, false, 15}, {false, true, false, 15}, {true, true, false, 0}, {false, false, true, 0}};
  for (const auto& access : accesses) {
    for (const unsigned at : {kInterrupt, kControl, kFences}) {
      SCOPED_TRACE(testing::Message() << (access.read ? "read of " : "write to ") << at << ", address " << access.address
                                      << ", data " << access.data);
      SetUp();
      card->awvalid_i = access.address;
      card->wvalid_i = access.data;
      card->arvalid_i = access.read;
      card->awaddr_i = card->araddr_i = static_cast<unsigned char>(at);
      card->wdata_i = 1;
      card->wstrb_i = static_cast<unsigned char>(access.strobes);
      card->interrupt_i = card->fence_i = 1;
      card.tick();
      card->interrupt_i = card->fence_i = 0;
      card->awvalid_i = card->wvalid_i = card->arvalid_i = 0;
      EXPECT_TRUE(card->interrupt_o);
      card.tick();
      EXPECT_EQ(read(kFences), 1u);
    }
  }
}

TEST_F(Registers, CountersHave64Bits) {
  for (int i = 0; i < kCounters; ++i) {
    for (const u64 from :
         {u64{0}, u64{0xffff}, u64{0xffffffff}, u64{0x1ffffffff}, u64{0xffffffffffff}, ~u64{0} >> 1, ~u64{0}}) {
      for (int j = 0; j < kCounters; ++j) counter_state(j) = from + static_cast<u64>(j);
      card->count_i = static_cast<unsigned short>(1 << i);
      card.tick();
      card->count_i = 0;
      card.tick();
      for (int j = 0; j < kCounters; ++j)
        ASSERT_EQ(counter(j), from + static_cast<u64>(j) + u64{i == j}) << "counter " << j << " where " << i << " counts";
    }
  }
  card->count_i = (1 << kCounters) - 1;
  for (int j = 0; j < kCounters; ++j) counter_state(j) = 0xfffffff0;
  for (int i = 0; i < 100; ++i) card.tick();
  card->count_i = 0;
  for (int j = 0; j < kCounters; ++j) EXPECT_EQ(counter(j), 0xfffffff0u + 100ull);
}

TEST_F(Registers, ReadingALowHalfHoldsTheHigh) {
  counter_state(2) = 0x5ffffffff;
  counter_state(3) = 0x900000000;
  EXPECT_EQ(read(kFirstCounter + 16), 0xffffffffu);
  card->count_i = 1 << 2;
  card.tick();
  card->count_i = 0;
  // The latched half does not change when counting continues, or when other registers are read.
  for (unsigned at = 0; at < kFirstCounter; ++at) read(at);
  for (unsigned at = kFirstCounter + 8 * kCounters; at < 256; ++at) read(at);
  EXPECT_EQ(read(kFirstCounter + 20), 5u);
  EXPECT_EQ(read(kFirstCounter + 20), 5u) << "a read changes nothing";
  EXPECT_EQ(read(kFirstCounter + 16), 0u);
  EXPECT_EQ(read(kFirstCounter + 20), 6u);
  EXPECT_EQ(read(kFirstCounter + 24), 0u);
  EXPECT_EQ(read(kFirstCounter + 28), 9u);
}

TEST_F(Registers, CountersAreClearedTogether) {
  for (const bool counting : {false, true}) {
    for (int j = 0; j < kCounters; ++j) counter_state(j) = 0x123456789abcdef0;
    fences_state() = 5;
    write(kControl, 1);
    EXPECT_EQ(counter(9), 0x123456789abcdef0u) << "only bit 1 clears";
    card->count_i = counting ? (1 << kCounters) - 1 : 0;
    card->awvalid_i = card->wvalid_i = 1;
    card->awaddr_i = kControl;
    card->wdata_i = 3;
    card.tick();
    card->awvalid_i = card->wvalid_i = 0;
    card.tick();
    card->count_i = 0;
    for (int j = 0; j < kCounters; ++j) EXPECT_EQ(counter(j), u64{counting}) << j;  // counts the next cycle
    EXPECT_EQ(read(kControl), 1u) << "bit 1 reads 0";
    EXPECT_EQ(read(kFences), 5u);
  }
}

TEST_F(Registers, FencesAreCounted) {
  for (u32 i = 1; i < 5; ++i) {
    pulse(card->fence_i);
    EXPECT_EQ(read(kFences), i);
  }
  fences_state() = 0xffff;
  pulse(card->fence_i);
  EXPECT_EQ(read(kFences), 0x10000u);
  fences_state() = 0xffffffff;
  pulse(card->fence_i);
  EXPECT_EQ(read(kFences), 0u);
  EXPECT_FALSE(card->interrupt_o) << "only a marked fence interrupts";
}

TEST_F(Registers, OtherAddressesAreZeroAndTakeNothing) {
  write(kTail, 0x55), write(kBase, 0x140), write(kBaseHigh, 0x66), write(kLogSize, 7), write(kControl, 1);
  for (int j = 0; j < kCounters; ++j) counter_state(j) = 0x7700000077;
  pulse(card->interrupt_i);
  ASSERT_EQ(read(kFirstCounter), 0x77u);  // this read latches the high half
  const auto before = all();
  for (unsigned at = 0; at < 256; ++at) {
    if (!aligned_register(at)) {
      EXPECT_EQ(read(at), 0u) << at;
    }
    if (at != kControl && (at < kBase || at > kTail || at % 4 != 0) && at != kInterrupt) write(at, ~0u);
  }
  EXPECT_EQ(all(), before);
  for (int j = 0; j < kCounters; ++j) EXPECT_EQ(counter(j), 0x7700000077u);
}

// A response belongs to its access, however long the host delays it.
TEST_F(Registers, AnswersKeepTheirErrorsUntilTheyAreTaken) {
  for (const bool wrong : {true, false, true}) {
    card->bready_i = card->rready_i = 0;
    card->awvalid_i = card->wvalid_i = card->arvalid_i = 1;
    card->awaddr_i = wrong ? kFences : kBase;
    card->araddr_i = wrong ? 0x34 : kBase;
    card.tick();
    for (int i = 0; i < 3; ++i) {
      // The next access is offered meanwhile; its response would be different.
      card->awaddr_i = wrong ? kBase : kFences;
      card->araddr_i = wrong ? kBase : 0x34;
      EXPECT_TRUE(card->bvalid_o && card->rvalid_o);
      EXPECT_EQ(card->bresp_o, wrong ? kSlverr : kOkay);
      EXPECT_EQ(card->rresp_o, wrong ? kSlverr : kOkay);
      card.tick();
    }
    card->awvalid_i = card->wvalid_i = card->arvalid_i = 0;
    card->bready_i = card->rready_i = 1;
    card.tick();
    EXPECT_FALSE(card->bvalid_o || card->rvalid_o);
  }
}

TEST_F(Registers, AccessesWaitForTheirHalvesAndAnswers) {
  // One half of a write is not accepted without the other half.
  card->awaddr_i = kTail;
  card->wdata_i = 9;
  for (const bool address_first : {true, false}) {
    (address_first ? card->awvalid_i : card->wvalid_i) = 1;
    for (int i = 0; i < 3; ++i) {
      card->eval();
      EXPECT_FALSE(card->awready_o || card->wready_o);
      card.tick();
      EXPECT_FALSE(card->bvalid_o);
    }
    EXPECT_EQ(card->tail_o, address_first ? 0u : 9u);
    card->wdata_i = address_first ? 9 : 11;
    card->awvalid_i = card->wvalid_i = 1;
    card.tick();
    EXPECT_TRUE(card->bvalid_o);
    card->awvalid_i = card->wvalid_i = 0;
    card.tick();
    EXPECT_EQ(card->tail_o, address_first ? 9u : 11u);
  }
  // While a response waits, no other access is accepted, and the response does not change.
  card->bready_i = card->rready_i = 0;
  card->awvalid_i = card->wvalid_i = card->arvalid_i = 1;
  card->araddr_i = kTail;
  card->wdata_i = 21;
  card.tick();
  EXPECT_EQ(card->rdata_o, 11u) << "a read beside a write gives the value before";
  card->wdata_i = 22;
  card->araddr_i = kHead;
  card->head_i = 1234;
  for (int i = 0; i < 4; ++i) {
    card->eval();
    EXPECT_FALSE(card->awready_o || card->wready_o || card->arready_o);
    EXPECT_TRUE(card->bvalid_o && card->rvalid_o);
    EXPECT_EQ(card->rdata_o, 11u);
    card.tick();
  }
  EXPECT_EQ(card->tail_o, 21u);
  card->bready_i = card->rready_i = 1;
  card.tick();
  EXPECT_FALSE(card->bvalid_o || card->rvalid_o);
  card.tick();
  EXPECT_EQ(card->tail_o, 22u);
  EXPECT_EQ(card->rdata_o, 1234u);
}

}  // namespace
}  // namespace heliograph::rtl
