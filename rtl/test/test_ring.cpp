// The ring of descriptors: addresses up to the highest bits, counts beyond 2^32, room, errors one at a time, enable and reset during work.
#include <gtest/gtest.h>
#include <deque>
#include <random>

#include "Vring.h"
#include "backend/rtl/clocked.h"
#include "state.h"

namespace heliograph::rtl {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr u32 kDepth = 4;

u64 piece_at(u64 address) {
  u64 x = address * 0x9e3779b97f4a7c15 + 0x632be59bd9b4e019;
  x ^= x >> 29;
  return x * 0xbf58476d1ce4e5b9;
}

class Ring : public testing::Test {
 protected:
  Clocked<Vring> ring;
  std::mt19937_64 random{31};
  u64 base = 0;
  unsigned log_size = 0;
  u32 requested = 0, left = 0;  // numbers of requested entries, and of entries that left
  std::deque<u64> expected;     // addresses of the expected pieces
  u32 most = 0;
  int stalls = 0;
  unsigned response = 0;  // response code of the pieces
  bool answers = true;

  void SetUp() override {
    ring->enable_i = ring->ready_i = ring->arready_i = ring->rvalid_i = 0;
    ring->tail_i = 0;
    ring->rresp_i = 0;
    reset();
  }
  void reset() {
    ring->rst_ni = 0;
    ring->rvalid_i = 0;
    ring.tick();
    ring->rst_ni = 1;
    requested = left = 0;
    expected.clear();
  }
  void place(u64 at, unsigned size) {
    base = at;
    log_size = size;
    ring->base_i = at;
    ring->log_size_i = static_cast<unsigned char>(size);
  }
  bool goes() { return static_cast<int>(random() % 100) >= stalls; }
  u64 entry(u32 number) const { return base + 64 * u64{number & static_cast<u32>((u64{1} << log_size) - 1)}; }

  /// Executes one cycle of the bus and of the reader of descriptors.
  void cycle(bool take) {
    ring->arready_i = goes();
    ring->ready_i = take;
    const bool piece = answers && !expected.empty() && goes();
    ring->rvalid_i = piece;
    const u64 word = piece ? piece_at(expected.front()) : random();
    ring->rdata_i = word;
    ring->rresp_i = static_cast<unsigned char>(piece ? response : 1 + random() % 3);
    ring->eval();
    ASSERT_TRUE(ring->rready_o);
    ASSERT_EQ(ring->head_o, left);
    if (ring->arvalid_o) {
      ASSERT_EQ(ring->araddr_o, entry(requested)) << "entry " << requested;
      ASSERT_EQ(ring->arlen_o, 7);
      ASSERT_NE(requested, ring->tail_i);
    }
    const bool address = ring->arvalid_o && ring->arready_i, gone = ring->valid_o && take;
    if (gone) {
      for (u32 i = 0; i < 8; ++i) {
        const u64 want = piece_at(entry(left) + 8 * i);
        ASSERT_EQ(ring->words_o[2 * i] | u64{ring->words_o[2 * i + 1]} << 32, want)
            << "descriptor " << left << ", piece " << i;
      }
      ++left;
    }
    if (piece) expected.pop_front();
    if (address) {
      for (u32 i = 0; i < 8; ++i) expected.push_back(entry(requested) + 8 * i);
      ++requested;
    }
    most = std::max(most, requested - left);
    ASSERT_LE(requested - left, kDepth) << "more entries are requested than there is room for";
    ring.tick();
  }
  /// Runs until all entries before the tail have left.
  void drain(int limit = 4000) {
    for (int i = 0; left != ring->tail_i; ++i) {
      ASSERT_LT(i, limit) << "the work does not end";
      ASSERT_NO_FATAL_FAILURE(cycle(goes()));
    }
  }
};

TEST_F(Ring, EntriesComeInOrderFromAnyPlace) {
  const u64 places[] = {
      0, 0xffffffc0, 0xffffff80, 0x1'00000000, 0xffffffff'fffff000, 0x8000'0000'0000'0040, 0x0123'4567'89ab'cdc0};
  for (const u64 at : places) {
    for (const unsigned size : {0u, 1u, 3u, 6u}) {
      for (const int slow : {0, 60}) {
        SCOPED_TRACE(testing::Message() << "base " << at << ", 2^" << size << " entries, stalls " << slow);
        reset();
        stalls = slow;
        place(at, size);
        ring->enable_i = 1;
        for (u32 tail = 0; tail < 2 * (1u << size);) {
          tail += 1 + static_cast<u32>(random() % 3);
          ring->tail_i = tail;
          ASSERT_NO_FATAL_FAILURE(drain());
        }
        ring->tail_i = 0;
      }
    }
  }
}

// 2^32 descriptors would take days, so the counters are set to values near 2^32.
TEST_F(Ring, CountsRunOnBeyondTheirLastBit) {
  for (const unsigned size : {2u, 12u, 16u, 31u}) {
    for (const u32 from : {0xfffffffdu, 0x7ffffffeu, 0xfffeu, 0xfffffeu}) {
      SCOPED_TRACE(testing::Message() << "2^" << size << " entries, from " << from);
      reset();
      place(0xfffffff000000000, size);
      ring->tail_i = from;
      state<u32>(ring, "hg_ring", "asked") = state<u32>(ring, "hg_ring", "head") = requested = left = from;
      ring.tick();
      ring->enable_i = 1;
      ring->tail_i = from + 7;
      ASSERT_NO_FATAL_FAILURE(drain());
      for (int i = 0; i < 10; ++i) ASSERT_NO_FATAL_FAILURE(cycle(true));
      EXPECT_EQ(requested, from + 7) << "no entry is requested beyond the tail";
      ring->enable_i = 0;
    }
  }
}

TEST_F(Ring, AsksForAsMuchAsThereIsRoom) {
  place(0x40, 5);
  ring->enable_i = 1;
  ring->tail_i = 20;
  for (int i = 0; i < 100; ++i) ASSERT_NO_FATAL_FAILURE(cycle(false));
  EXPECT_EQ(requested, kDepth);
  EXPECT_TRUE(ring->valid_o);
  ASSERT_NO_FATAL_FAILURE(drain());
  EXPECT_EQ(most, kDepth);
  EXPECT_FALSE(ring->valid_o);
}

TEST_F(Ring, AFaultyPieceIsReportedUntilReset) {
  for (int at = 0; at < 16; ++at) {
    for (const unsigned code : {1u, 2u, 3u}) {
      SCOPED_TRACE(testing::Message() << "piece " << at << ", response " << code);
      reset();
      place(0, 4);
      ring->enable_i = 1;
      ring->tail_i = 2;
      answers = false;
      for (int i = 0; i < 4; ++i) ASSERT_NO_FATAL_FAILURE(cycle(false));
      answers = true;
      for (int piece = 0; piece < 16; ++piece) {
        response = piece == at ? code : 0;
        ASSERT_NO_FATAL_FAILURE(cycle(false));
        ASSERT_EQ(ring->error_o, piece >= at) << piece;
      }
      response = 0;
      ASSERT_NO_FATAL_FAILURE(drain());
      EXPECT_TRUE(ring->error_o);
      ring->tail_i = 0;
      ring->enable_i = 0;
      reset();
      EXPECT_FALSE(ring->error_o);
    }
  }
}

TEST_F(Ring, AFaultyPieceIsReportedWhileDisabled) {
  place(0x80, 4);
  ring->enable_i = 1;
  ring->tail_i = 1;
  answers = false;
  for (int i = 0; i < 4; ++i) ASSERT_NO_FATAL_FAILURE(cycle(false));
  ASSERT_EQ(requested, 1u);
  ring->enable_i = 0;
  answers = true;
  for (int piece = 0; piece < 8; ++piece) {
    response = piece == 3 ? 2 : 0;
    ASSERT_NO_FATAL_FAILURE(cycle(false));
    ASSERT_EQ(ring->error_o, piece >= 3) << piece;
  }
  for (const bool enabled : {false, true, false}) {
    ring->enable_i = enabled;
    for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(cycle(true));
    EXPECT_TRUE(ring->error_o) << "enabling and disabling clear nothing";
  }
}

TEST_F(Ring, DisabledItAsksForNothingNewAndWithdrawsNothing) {
  place(0x1000, 4);
  ring->tail_i = 9;
  for (int i = 0; i < 5; ++i) ASSERT_NO_FATAL_FAILURE(cycle(true));
  EXPECT_EQ(requested, 0u);
  ring->enable_i = 1;
  stalls = 100;
  for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(cycle(true));
  ring->enable_i = 0;
  for (int i = 0; i < 3; ++i) {
    ASSERT_NO_FATAL_FAILURE(cycle(true));
    ASSERT_TRUE(ring->arvalid_o) << "an offered address is withdrawn";
  }
  stalls = 0;
  for (int i = 0; i < 30; ++i) ASSERT_NO_FATAL_FAILURE(cycle(true));
  EXPECT_EQ(requested, 1u);
  EXPECT_EQ(left, 1u) << "a requested entry still leaves";
  ring->enable_i = 1;
  ASSERT_NO_FATAL_FAILURE(drain());
}

TEST_F(Ring, ResetForgetsWhatIsUnderWay) {
  for (int after = 1; after < 40; ++after) {
    SCOPED_TRACE(after);
    place(0x2000, 4);
    ring->enable_i = 1;
    ring->tail_i = 9;
    stalls = after % 2 ? 0 : 50;
    for (int i = 0; i < after; ++i) ASSERT_NO_FATAL_FAILURE(cycle(i % 5 == 4));
    reset();
    ring->tail_i = 0;
    for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(cycle(true));
    EXPECT_FALSE(ring->valid_o || ring->arvalid_o || ring->error_o);
    EXPECT_EQ(ring->head_o, 0u);
    ring->tail_i = 5;
    ASSERT_NO_FATAL_FAILURE(drain());
  }
}

TEST_F(Ring, ResetWithdrawsTheAddressThatWasOffered) {
  place(0x3000, 4);
  ring->enable_i = 1;
  ring->tail_i = 3;
  stalls = 100;
  for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(cycle(true));
  ASSERT_TRUE(ring->arvalid_o);
  ring->enable_i = 0;
  reset();
  for (int i = 0; i < 3; ++i) {
    ASSERT_NO_FATAL_FAILURE(cycle(true));
    EXPECT_FALSE(ring->arvalid_o) << "a disabled ring requests nothing";
  }
  stalls = 0;
  ring->enable_i = 1;
  ASSERT_NO_FATAL_FAILURE(drain());
}

}  // namespace
}  // namespace heliograph::rtl
