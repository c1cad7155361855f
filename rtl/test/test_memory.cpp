// The limb slots: a read returns the last write, lane by lane, and two users of a bank are reported.
#include <gtest/gtest.h>
#include <array>
#include <deque>
#include <random>

#include "Vmemory.h"
#include "backend/rtl/clocked.h"
#include "backend/rtl/wide.h"

namespace heliograph::rtl {
namespace {

using u64 = std::uint64_t;

constexpr std::size_t B = 2, kBanks = 4, kSlots = 16, kReaders = 7, kWriters = 5, kRows = 8;  // kRows: rows per group

class Memory : public testing::Test {
 protected:
  Clocked<Vmemory> memory;
  std::mt19937_64 random{53};

  void SetUp() override {
    memory->read_i = 0;
    set_writes(0);
    memory->rst_ni = 0;
    memory.tick();
    memory->rst_ni = 1;
  }
  void set_writes(unsigned enables) { memory->write_i = enables; }
  std::size_t below(std::size_t n) { return random() % n; }
  void reader(std::size_t port, std::size_t slot, std::size_t row0, std::size_t row1) {
    memory->read_i |= static_cast<unsigned char>(1u << port);
    set_field(memory->read_slot_i, port, slot, 4);
    set_field(memory->read_address_i, 2 * port, row0, 3);
    set_field(memory->read_address_i, 2 * port + 1, row1, 3);
  }
  /// Enables the lanes `enables` of a write port; bit 0 is the lowest lane of group 0.
  void writer(std::size_t port, std::size_t slot, unsigned enables) {
    memory->write_i |= enables << (2 * B * port);
    set_field(memory->write_slot_i, port, slot, 4);
  }
};

TEST_F(Memory, KeepsEachLaneOfEachRow) {
  using Lane = std::array<u64, kRows>;
  std::array<std::array<std::array<Lane, B>, 2>, kSlots> words{};
  std::array<std::array<std::array<std::array<bool, kRows>, B>, 2>, kSlots> known{};
  struct Read {
    std::size_t port;
    std::array<std::array<u64, B>, 2> data;
    std::array<std::array<bool, B>, 2> known;
  };
  std::deque<std::vector<Read>> pending;
  for (int cycle = 0; cycle < 20000; ++cycle) {
    memory->read_i = 0;
    memory->write_i = 0;
    for (std::size_t port = 0; port < kReaders; ++port) set_field(memory->read_slot_i, port, random(), 4);
    for (std::size_t port = 0; port < kWriters; ++port) set_field(memory->write_slot_i, port, random(), 4);
    for (std::size_t i = 0; i < kWriters * 2 * B; ++i) {
      set_field(memory->write_address_i, i, random(), 3);
      set_field(memory->write_data_i, i, random());
    }
    std::vector<Read> reads;
    std::array<bool, kReaders> reading{};
    std::array<bool, kWriters> writing{};
    for (std::size_t bank = 0; bank < kBanks; ++bank) {
      if (random() % 4) {
        // One reader of the bank, or two readers of the same rows.
        const std::size_t slot = bank + kBanks * below(kSlots / kBanks), row0 = below(kRows), row1 = below(kRows);
        for (int reader_of = 0; reader_of < (random() % 3 ? 1 : 2); ++reader_of) {
          const std::size_t port = below(kReaders);
          if (reading[port]) continue;
          reading[port] = true;
          reader(port, slot, row0, row1);
          Read r{.port = port, .data = {}, .known = {}};
          for (std::size_t l = 0; l < B; ++l) {
            r.data[0][l] = words[slot][0][l][row0], r.known[0][l] = known[slot][0][l][row0];
            r.data[1][l] = words[slot][1][l][row1], r.known[1][l] = known[slot][1][l][row1];
          }
          reads.push_back(r);
        }
      }
    }
    for (std::size_t bank = 0; bank < kBanks; ++bank) {
      const std::size_t port = below(kWriters);
      if (writing[port]) continue;
      writing[port] = true;
      const std::size_t slot = bank + kBanks * below(kSlots / kBanks);
      const auto enables = static_cast<unsigned>(random() % 16);
      writer(port, slot, enables);
      for (std::size_t i = 0; i < 2 * B; ++i) {
        if (!(enables >> i & 1)) continue;
        const std::size_t at = 2 * B * port + i, row = field(memory->write_address_i, at, 3);
        words[slot][i / B][i % B][row] = field(memory->write_data_i, at);
        known[slot][i / B][i % B][row] = true;
      }
    }
    pending.push_back(reads);
    memory.tick();
    ASSERT_FALSE(memory->conflict_o) << "cycle " << cycle;
    if (pending.size() < 2) continue;
    for (const Read& r : pending.front()) {
      for (std::size_t i = 0; i < 2 * B; ++i) {
        if (!r.known[i / B][i % B]) continue;
        ASSERT_EQ(field(memory->read_data_o, 2 * B * r.port + i), r.data[i / B][i % B])
            << "cycle " << cycle << ", port " << r.port;
      }
    }
    pending.pop_front();
  }
}

TEST_F(Memory, TwoReadersOfABankAreReported) {
  for (std::size_t a = 0; a < kReaders; ++a) {
    for (std::size_t b = 0; b < kReaders; ++b) {
      if (a == b) continue;
      for (std::size_t slot = 0; slot < kSlots; ++slot) {
        const auto conflict = [&](std::size_t other, std::size_t row0, std::size_t row1) {
          memory->read_i = 0;
          reader(a, slot, 5, 2);
          reader(b, other, row0, row1);
          memory.tick();
          const bool reported = memory->conflict_o;
          memory->read_i = 0;
          memory.tick();
          EXPECT_FALSE(memory->conflict_o);
          return reported;
        };
        EXPECT_FALSE(conflict(slot, 5, 2)) << "the same rows";
        EXPECT_TRUE(conflict(slot, 4, 2));
        EXPECT_TRUE(conflict(slot, 5, 3));
        EXPECT_TRUE(conflict(slot, 7, 2)) << "rows of which one has the other's bits";
        EXPECT_TRUE(conflict((slot + 4) % kSlots, 5, 2)) << "another slot of the bank";
        EXPECT_FALSE(conflict((slot + 1) % kSlots, 0, 0)) << "another bank";
        EXPECT_FALSE(conflict((slot + 2) % kSlots, 5, 2));
      }
    }
  }
}

TEST_F(Memory, TwoWritersOfABankAreReported) {
  for (std::size_t a = 0; a < kWriters; ++a) {
    for (std::size_t b = 0; b < kWriters; ++b) {
      if (a == b) continue;
      for (std::size_t slot = 0; slot < kSlots; ++slot) {
        for (const std::size_t other : {slot, (slot + 4) % kSlots, (slot + 1) % kSlots, (slot + 2) % kSlots}) {
          for (const unsigned lanes : {0u, 1u, 4u, 8u}) {
            set_writes(0);
            writer(a, slot, 2);
            writer(b, other, lanes);
            memory.tick();
            EXPECT_EQ(memory->conflict_o, lanes != 0 && other % kBanks == slot % kBanks)
                << "writers " << a << " and " << b << ", slots " << slot << " and " << other;
          }
        }
      }
    }
  }
  memory->rst_ni = 0;
  set_writes(0x33);
  set_field(memory->write_slot_i, 0, 3, 4), set_field(memory->write_slot_i, 1, 3, 4);
  memory.tick();
  EXPECT_FALSE(memory->conflict_o) << "in reset nothing is reported";
}

}  // namespace
}  // namespace heliograph::rtl
