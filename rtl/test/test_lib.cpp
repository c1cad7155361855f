// Tests the modules of lib/: queues, bursts, memories and delays.
#include <gtest/gtest.h>
#include <array>
#include <deque>
#include <random>

#include "Vbench_lib.h"
#include "backend/rtl/clocked.h"
#include "backend/rtl/wide.h"

namespace heliograph::rtl {
namespace {

class Lib : public testing::Test {
 protected:
  Clocked<Vbench_lib> parts;
  std::mt19937_64 random{23};
  void SetUp() override {
    parts->rst_ni = 0;
    parts->put_i = parts->get_i = parts->start_i = parts->take_i = parts->write_i = 0;
    parts.tick();
    parts.tick();
    parts->rst_ni = 1;
  }
};

TEST_F(Lib, QueueKeepsItsWordsInOrder) {
  std::deque<unsigned> model;
  int full = 0, empty = 0;
  for (int cycle = 0; cycle < 20000; ++cycle) {
    const bool filling = cycle / 50 % 2 == 0;
    parts->put_i = random() % 4 < (filling ? 3 : 1);
    parts->get_i = random() % 4 < (filling ? 1 : 3);
    parts->word_i = static_cast<unsigned short>(random());
    parts->eval();
    ASSERT_EQ(parts->room_o, model.size() < 4);
    ASSERT_EQ(parts->there_o, !model.empty());
    ASSERT_EQ(parts->count_o, model.size());
    if (!model.empty()) {
      ASSERT_EQ(parts->word_o, model.front());
    }
    full += model.size() == 4, empty += model.empty();
    const bool put = parts->put_i && parts->room_o, get = parts->get_i && parts->there_o;
    if (get) model.pop_front();
    if (put) model.push_back(parts->word_i);
    parts.tick();
  }
  EXPECT_GT(full, 100);
  EXPECT_GT(empty, 100);
}

TEST_F(Lib, BurstsCoverTheirTransferWithinPages) {
  constexpr std::array<std::uint64_t, 3> bytes = {8, 64, 128};
  for (int round = 0; round < 300; ++round) {
    const std::uint64_t address = random() % (1 << 20) * 128;
    const std::uint64_t beats = 1 + random() % (round % 3 == 0 ? 3 : 700);
    parts->start_i = 1;
    parts->address_i = address;
    parts->beats_i = static_cast<unsigned short>(beats);
    parts->eval();
    ASSERT_EQ(parts->idle_o, 7u);
    parts.tick();
    parts->start_i = 0;
    std::array<std::uint64_t, 3> at = {address, address, address}, left = {beats, beats, beats};
    for (int cycle = 0; parts->idle_o != 7; ++cycle) {
      ASSERT_LT(cycle, 10000);
      parts->take_i = random() & 7;
      // A start has no effect while all transfers are in progress.
      parts->start_i = parts->idle_o == 0 && random() % 2;
      parts->address_i = random() << 7;
      parts->beats_i = static_cast<unsigned short>(1 + random() % 700);
      parts->eval();
      for (std::size_t i = 0; i < 3; ++i) {
        ASSERT_EQ(parts->burst_o >> i & 1, left[i] != 0);
        if (!(parts->burst_o & parts->take_i) || !(parts->burst_o & parts->take_i & 1u << i)) continue;
        const std::uint64_t from = std::uint64_t{port_word(parts->burst_address_o, 2 * i)} |
                                   std::uint64_t{port_word(parts->burst_address_o, 2 * i + 1)} << 32;
        const std::uint64_t length = field(parts->burst_length_o, i, 8) + 1;
        ASSERT_EQ(from, at[i]);
        ASSERT_LE(length, left[i]);
        ASSERT_EQ(from / 4096, (from + length * bytes[i] - 1) / 4096);
        ASSERT_EQ(parts->burst_last_o >> i & 1, length == left[i]);
        at[i] += length * bytes[i], left[i] -= length;
      }
      parts.tick();
    }
    EXPECT_EQ(left, (std::array<std::uint64_t, 3>{}));
  }
}

TEST_F(Lib, MemoriesAnswerAfterTwoCyclesAndDelaysAfterThree) {
  std::array<unsigned, 16> words{};
  std::deque<unsigned> reads, inputs;
  for (unsigned i = 0; i < 16; ++i) {
    parts->write_i = 1;
    parts->write_address_i = static_cast<unsigned char>(i);
    parts->word_i = static_cast<unsigned short>(words[i] = i * 77);
    parts.tick();
  }
  for (int cycle = 0; cycle < 2000; ++cycle) {
    const unsigned to = random() % 16, from = random() % 16;
    parts->write_i = random() & 1;
    parts->write_address_i = static_cast<unsigned char>(to);
    parts->read_address_i = static_cast<unsigned char>(from);
    parts->word_i = static_cast<unsigned short>(random());
    reads.push_back(words[from]);
    inputs.push_back(parts->word_i);
    if (parts->write_i) words[to] = parts->word_i;
    parts.tick();
    if (reads.size() == 2) {
      ASSERT_EQ(parts->read_data_o, reads.front());
      reads.pop_front();
    }
    if (inputs.size() == 3) {
      ASSERT_EQ(parts->delayed_o, inputs.front());
      inputs.pop_front();
    }
  }
}

}  // namespace
}  // namespace heliograph::rtl
