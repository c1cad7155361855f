// Tests hg_dma_write, which writes a slot to memory at any address: with stalls at each port, and with one faulty answer.
#include <gtest/gtest.h>
#include <deque>
#include <random>

#include "Vdma_write.h"
#include "backend/rtl/clocked.h"
#include "backend/rtl/wide.h"

namespace heliograph::rtl {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr unsigned B = 2, kWords = 2 * B, kBytes = 4 * kWords;
constexpr std::size_t kBursts = 16;  // capacity of the queue of bursts whose data are incomplete

u64 residue_at(unsigned slot, unsigned pair, unsigned word) {
  u64 x = (u64{slot} << 40 | u64{pair} << 8 | word) * 0x9e3779b97f4a7c15 + 77;
  x ^= x >> 31;
  return x * 0xbf58476d1ce4e5b9 >> 34;  // a residue of 30 bits
}

class DmaWrite : public testing::Test {
 protected:
  Clocked<Vdma_write> dma;
  std::mt19937_64 random{43};
  // Percentage of cycles in which a port stalls.
  struct Stalls {
    int address = 0, data = 0, answers = 0;
  } stalls;
  std::size_t most_open = 0;  // maximum number of bursts whose address is accepted and whose data are incomplete
  unsigned most_unanswered = 0;

  void SetUp() override {
    dma->valid_i = dma->awready_i = dma->wready_i = dma->bvalid_i = 0;
    dma->bresp_i = 0;
    reset();
  }
  void reset() {
    dma->rst_ni = 0;
    dma->bvalid_i = dma->valid_i = 0;
    dma.tick();
    dma.tick();
    dma->rst_ni = 1;
  }
  bool goes(int stall) { return static_cast<int>(random() % 100) >= stall; }

  struct Work {
    u64 address = 0;
    unsigned beats = 1, slot = 0;
    long faulty = -1;  // index of the burst that the memory answers with `response`; -1: none
    unsigned response = 2;
    long reset_after = -1;         // cycles until a reset; -1: no reset
    bool addresses_first = false;  // the memory accepts data only after 40 cycles without a new address
    bool answers_last = false;     // the memory answers only after it has accepted all data
    bool answers_beside = false;   // until the last address, the memory answers only in cycles that accept an address
  };

  void run(const Work& w) {
    dma->address_i = w.address;
    dma->beats_i = static_cast<unsigned short>(w.beats);
    dma->slot_i = static_cast<unsigned char>(w.slot);
    struct Burst {
      u64 address;
      unsigned left;
    };
    std::deque<Burst> bursts;
    u64 requested = w.address;
    unsigned reads = 0, beats = 0, unanswered = 0, counted = 0, read_done = 0;
    long answered = 0, quiet = 0;
    bool taken = false, address_waits = false, data_waits = false;
    u64 address_before = 0;
    u32 data_before = 0;
    int row1 = -1, row2 = -1;  // pairs of rows that were requested and have not arrived
    for (long cycle = 0; cycle < 400000; ++cycle) {
      if (cycle == w.reset_after) return reset();
      dma->valid_i = !taken;
      dma->awready_i = goes(stalls.address);
      dma->wready_i = goes(stalls.data) && (!w.addresses_first || quiet > 40);
      const bool beside = (dma->awvalid_o && dma->awready_i) || requested == w.address + u64{w.beats} * kBytes;
      const bool answer =
          unanswered > 0 && goes(stalls.answers) && (!w.answers_last || beats == w.beats) && (!w.answers_beside || beside);
      dma->bvalid_i = answer;
      dma->bresp_i = static_cast<unsigned char>(!answer ? 1 + random() % 3 : answered == w.faulty ? w.response : 0);
      for (unsigned i = 0; i < kWords; ++i)
        set_field(dma->store_data_i, i, row2 >= 0 ? residue_at(w.slot, static_cast<unsigned>(row2), i) : random() >> 34);
      dma->eval();
      ASSERT_TRUE(dma->bready_o);
      if (taken && dma->done_o) {
        ASSERT_EQ(beats, w.beats) << "the store ends before its data are accepted";
        ASSERT_EQ(counted, w.beats);
        ASSERT_EQ(unanswered, 0u) << "the store ends before it is answered";
        ASSERT_EQ(read_done, 1u);
        ASSERT_TRUE(bursts.empty());
        ASSERT_EQ(requested, w.address + u64{w.beats} * kBytes);
        dma->valid_i = dma->bvalid_i = 0;
        dma.tick();
        ASSERT_TRUE(dma->ready_o);
        ASSERT_FALSE(dma->done_o || dma->awvalid_o || dma->wvalid_o);
        return;
      }
      ASSERT_EQ(dma->ready_o, !taken);
      if (address_waits) {
        ASSERT_TRUE(dma->awvalid_o && dma->awaddr_o == address_before) << "an address is withdrawn";
      }
      address_waits = dma->awvalid_o && !dma->awready_i;
      address_before = dma->awaddr_o;
      if (data_waits) {
        ASSERT_TRUE(dma->wvalid_o && port_word(dma->wdata_o, 0) == data_before) << "data are withdrawn";
      }
      data_waits = dma->wvalid_o && !dma->wready_i;
      data_before = port_word(dma->wdata_o, 0);
      quiet = dma->awvalid_o && dma->awready_i ? 0 : quiet + 1;
      if (dma->store_o) {
        ASSERT_EQ(dma->store_slot_o, w.slot);
        ASSERT_EQ(dma->store_pair_o, reads);
        ++reads;
        ASSERT_EQ(dma->read_done_o, reads == w.beats);
      }
      read_done += dma->read_done_o;
      row2 = row1;
      row1 = dma->store_o ? static_cast<int>(reads) - 1 : -1;
      counted += dma->beat_o;
      if (dma->wvalid_o && dma->wready_i) {
        ASSERT_FALSE(bursts.empty()) << "data before their address";
        Burst& burst = bursts.front();
        const auto pair = static_cast<unsigned>((burst.address - w.address) / kBytes);
        for (unsigned i = 0; i < kWords; ++i)
          ASSERT_EQ(port_word(dma->wdata_o, i), residue_at(w.slot, pair, i)) << "beat " << pair << ", word " << i;
        burst.address += kBytes;
        ASSERT_EQ(dma->wlast_o, --burst.left == 0) << "beat " << pair;
        if (burst.left == 0) bursts.pop_front(), ++unanswered;
        ++beats;
      }
      if (answer) ++answered, --unanswered;
      if (dma->awvalid_o && dma->awready_i) {
        const u64 bytes = (u64{dma->awlen_o} + 1) * kBytes;
        ASSERT_EQ(dma->awaddr_o, requested);
        ASSERT_EQ(requested / 4096, (requested + bytes - 1) / 4096) << "a burst crosses 4 KiB";
        bursts.push_back({requested, dma->awlen_o + 1u});
        requested += bytes;
      }
      most_open = std::max(most_open, bursts.size());
      most_unanswered = std::max(most_unanswered, unanswered);
      taken = true;
      dma.tick();
    }
    FAIL() << "the work does not end";
  }
};

TEST_F(DmaWrite, WritesToAnyAddress) {
  const u64 places[] = {0,
                        0xff0,
                        0xfffffff0,
                        0xfffff000,
                        0xffffffff'00000000,
                        0xffffffff'ffff8000,
                        0x8000'0000'0000'0ff0,
                        0x0123'4567'89ab'cde0};
  for (const u64 at : places) {
    for (const Stalls& s : {Stalls{}, Stalls{90, 0, 0}, Stalls{0, 90, 0}, Stalls{0, 0, 97}, Stalls{50, 50, 50}}) {
      for (const unsigned beats : {1u, 2u, 9u, 300u}) {
        SCOPED_TRACE(testing::Message() << "address " << at << ", " << beats << " beats");
        stalls = s;
        ASSERT_NO_FATAL_FAILURE(run({.address = at, .beats = beats, .slot = static_cast<unsigned>(random() % 8)}));
        ASSERT_FALSE(dma->error_o);
      }
    }
  }
}

// A limb of 2^15 words takes 33 bursts; the queue of bursts holds fewer. The memory answers all bursts after the last
// data.
TEST_F(DmaWrite, TheLongestLimbWithAllAddressesFirstAndAllAnswersLast) {
  ASSERT_NO_FATAL_FAILURE(
      run({.address = 0x7fff0, .beats = 8192, .slot = 5, .addresses_first = true, .answers_last = true}));
  EXPECT_EQ(most_open, kBursts);
  EXPECT_EQ(most_unanswered, 33u);
  ASSERT_NO_FATAL_FAILURE(run({.address = 0, .beats = 8192, .slot = 6}));
  EXPECT_FALSE(dma->error_o);
}

TEST_F(DmaWrite, AFaultyAnswerIsReportedUntilReset) {
  for (long at = 0; at < 4; ++at) {
    for (const unsigned code : {1u, 2u, 3u}) {
      SCOPED_TRACE(testing::Message() << "burst " << at << ", response " << code);
      Work w{.address = 0xff0, .beats = 600, .slot = 1};
      ASSERT_NO_FATAL_FAILURE(run(w));
      ASSERT_FALSE(dma->error_o) << "without a fault";
      w.faulty = at;
      w.response = code;
      ASSERT_NO_FATAL_FAILURE(run(w));
      EXPECT_TRUE(dma->error_o);
      w.faulty = -1;
      ASSERT_NO_FATAL_FAILURE(run(w));
      EXPECT_TRUE(dma->error_o) << "the error flag stays";
      reset();
      EXPECT_FALSE(dma->error_o);
    }
  }
}

// The memory answers the first burst with an error: while later addresses wait, or in a cycle that accepts an address.
TEST_F(DmaWrite, AFaultyAnswerIsReportedWhileAddressesGo) {
  for (const bool beside : {false, true}) {
    SCOPED_TRACE(beside);
    stalls = {.address = 97};
    ASSERT_NO_FATAL_FAILURE(run({.address = 0xff0, .beats = 600, .slot = 3, .answers_beside = beside}));
    ASSERT_FALSE(dma->error_o) << "without a fault";
    ASSERT_NO_FATAL_FAILURE(run({.address = 0xff0, .beats = 600, .slot = 3, .faulty = 0, .answers_beside = beside}));
    EXPECT_TRUE(dma->error_o);
    reset();
  }
}

TEST_F(DmaWrite, ResetForgetsWhatIsUnderWay) {
  for (long after = 1; after < 60; ++after) {
    stalls = after % 3 ? Stalls{} : Stalls{30, 60, 90};
    SCOPED_TRACE(after);
    ASSERT_NO_FATAL_FAILURE(run({.address = 0xfe0, .beats = 300, .slot = 2, .reset_after = after * 7}));
    dma->eval();
    EXPECT_TRUE(dma->ready_o);
    EXPECT_FALSE(dma->awvalid_o || dma->wvalid_o || dma->store_o || dma->done_o || dma->read_done_o);
    ASSERT_NO_FATAL_FAILURE(run({.address = 0x120, .beats = 20, .slot = 4}));
  }
}

}  // namespace
}  // namespace heliograph::rtl
