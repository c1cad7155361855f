// The bus's reading half: limbs, twiddles and constants from any address, with a stalling bus, and errors one at a time.
#include <gtest/gtest.h>
#include <deque>
#include <random>
#include <tuple>

#include "Vdma_read.h"
#include "Vdma_read_wide.h"
#include "backend/rtl/clocked.h"
#include "backend/rtl/wide.h"

namespace heliograph::rtl {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

enum Operation : unsigned { kLoad = 5, kTwiddles = 7, kConstants = 8 };

struct Narrow {
  using Model = Vdma_read;
  static constexpr unsigned b = 2, targets = 4, index_bits = 2, set_bits = 1, slot_bits = 3, row_bits = 11, pair_bits = 8;
};
struct Wide {
  using Model = Vdma_read_wide;
  static constexpr unsigned b = 16, targets = 8, index_bits = 4, set_bits = 3, slot_bits = 5, row_bits = 10, pair_bits = 8;
};

u32 word_at(u64 address) {
  u64 x = address * 0x9e3779b97f4a7c15 + 0x1234567;
  x ^= x >> 31;
  return static_cast<u32>(x * 0xbf58476d1ce4e5b9 >> 32);
}

template <class Shape>
class DmaRead : public testing::Test {
 protected:
  static constexpr unsigned kWords = 2 * Shape::b, kBytes = 4 * kWords;
  Clocked<typename Shape::Model> dma;
  std::mt19937_64 random{41};
  int stalls = 0;

  void SetUp() override {
    dma->valid_i = dma->arready_i = dma->rvalid_i = 0;
    dma->rresp_i = 0;
    reset();
  }
  void reset() {
    dma->rst_ni = 0;
    dma->rvalid_i = dma->valid_i = 0;
    dma.tick();
    dma.tick();
    dma->rst_ni = 1;
  }
  bool goes() { return static_cast<int>(random() % 100) >= stalls; }

  struct Work {
    Operation operation = kLoad;
    u64 address = 0;
    unsigned beats = 1, slot = 0, row = 0, set = 0;
    long faulty = -1;  // number of the beat that gets the response `response`; -1: none
    unsigned response = 2;
    long reset_after = -1;  // cycles until a reset; -1: no reset
  };
  /// Writes in order: {place, words ...} for rows, {target, set, index, fields ...} for records.
  using Written = std::vector<std::vector<u64>>;

  /// Runs an instruction on a simulated bus, and returns its writes. Checks bursts, handshakes and counts.
  Written run(const Work& w) {
    Written written;
    dma->operation_i = w.operation;
    dma->address_i = w.address;
    dma->beats_i = static_cast<unsigned short>(w.beats);
    dma->slot_i = static_cast<unsigned char>(w.slot);
    dma->row_i = static_cast<unsigned short>(w.row);
    dma->set_i = static_cast<unsigned char>(w.set);
    std::deque<u64> pending;  // addresses of requested beats
    u64 requested = w.address, waiting_for = 0;
    bool waiting = false, offered = false, taken = false;
    long beats = 0, counted = 0;
    for (long cycle = 0; cycle < 200000; ++cycle) {
      if (cycle == w.reset_after) {
        reset();
        return written;
      }
      dma->valid_i = !taken;
      dma->arready_i = goes();
      if (!offered && !pending.empty() && goes()) offered = true;
      dma->rvalid_i = offered;
      for (unsigned i = 0; i < kWords; ++i)
        set_port_word(dma->rdata_i, i, offered ? word_at(pending.front() + 4 * i) : static_cast<u32>(random()));
      dma->rresp_i = static_cast<unsigned char>(!offered ? 1 + random() % 3 : beats == w.faulty ? w.response : 0);
      dma->eval();
      if (taken && dma->done_o) {
        EXPECT_TRUE(pending.empty());
        EXPECT_EQ(beats, w.beats);
        EXPECT_EQ(counted, w.beats);
        EXPECT_EQ(requested, w.address + u64{w.beats} * kBytes);
        EXPECT_FALSE(dma->load_o || dma->table_write_o || dma->source_write_o || dma->target_write_o || dma->rready_o);
        dma->valid_i = 0;
        dma.tick();
        EXPECT_TRUE(dma->ready_o);
        EXPECT_FALSE(dma->done_o);
        return written;
      }
      EXPECT_EQ(dma->ready_o, !taken);
      if (waiting) {
        EXPECT_TRUE(dma->arvalid_o) << "an address is withdrawn";
        EXPECT_EQ(dma->araddr_o, waiting_for);
      }
      waiting = dma->arvalid_o && !dma->arready_i;
      waiting_for = dma->araddr_o;
      if (dma->arvalid_o && dma->arready_i) {
        const u64 bytes = (u64{dma->arlen_o} + 1) * kBytes;
        EXPECT_EQ(dma->araddr_o, requested);
        EXPECT_EQ(requested / 4096, (requested + bytes - 1) / 4096) << "a burst crosses 4 KiB";
        for (u64 at = 0; at < bytes; at += kBytes) pending.push_back(requested + at);
        requested += bytes;
      }
      counted += dma->beat_o;
      const bool beat = dma->rvalid_i && dma->rready_o;
      EXPECT_EQ(dma->beat_o, beat);
      if (beat) {
        pending.pop_front();
        offered = false;
        ++beats;
      }
      if (dma->load_o) {
        std::vector<u64> rows{dma->load_slot_o, dma->load_pair_o};
        for (unsigned i = 0; i < kWords; ++i) rows.push_back(field(dma->load_data_o, i));
        written.push_back(rows);
      }
      if (dma->table_write_o) {
        std::vector<u64> row{dma->table_row_o};
        for (unsigned i = 0; i < Shape::b; ++i) row.push_back(field(dma->table_data_o, i));
        written.push_back(row);
      }
      if (dma->source_write_o) {
        std::vector<u64> record{0, dma->write_set_o, dma->write_index_o};
        for (unsigned j = 0; j < Shape::targets; ++j) record.push_back(field(dma->source_data_o, j));
        record.push_back(bits(dma->source_data_o, Shape::targets * kWordBits, 48));
        written.push_back(record);
      }
      if (dma->target_write_o) {
        std::vector<u64> record{1, dma->write_set_o, dma->write_index_o};
        for (unsigned j = 0; j < 3; ++j) record.push_back(field(dma->target_data_o, j));
        record.push_back(bits(dma->target_data_o, 3 * kWordBits, kWordBits + 1));
        record.push_back(bits(dma->target_data_o, 4 * kWordBits + 1, 5));
        written.push_back(record);
      }
      taken = true;
      dma.tick();
    }
    ADD_FAILURE() << "the work does not end";
    return written;
  }
  template <class Port>
  static u64 bits(const Port& port, unsigned from, unsigned count) {
    u64 value = 0;
    for (unsigned i = 0; i < count; ++i) value |= field(port, from + i, 1) << i;
    return value;
  }

  static Written expected(const Work& w) {
    constexpr u64 mask = (u64{1} << kWordBits) - 1;
    Written all;
    for (unsigned beat = 0; beat < w.beats; ++beat) {
      const u64 at = w.address + u64{beat} * kBytes;
      const auto word = [&](unsigned i) { return word_at(at + 4 * i) & mask; };
      if (w.operation == kLoad) {
        std::vector<u64> rows{w.slot, beat % (1u << Shape::pair_bits)};
        for (unsigned i = 0; i < kWords; ++i) rows.push_back(word(i));
        all.push_back(rows);
      } else if (w.operation == kTwiddles) {
        for (unsigned half = 0; half < 2; ++half) {
          std::vector<u64> row{(w.row + 2 * beat + half) % (1u << Shape::row_bits)};
          for (unsigned i = 0; i < Shape::b; ++i) row.push_back(word(half * Shape::b + i));
          all.push_back(row);
        }
      }
    }
    if (w.operation != kConstants) return all;
    for (u64 at = w.address; at < w.address + u64{w.beats} * kBytes; at += 64) {
      const auto word = [&](unsigned i) { return u64{word_at(at + 4 * i)}; };
      const u64 index = word(15) % (1u << Shape::index_bits);
      if (word(15) >> 16 & 1) {
        all.push_back(
            {1, w.set, index, word(0) & mask, word(1) & mask, word(2) & mask, word(3) & (2 * mask + 1), word(4) & 31});
      } else {
        std::vector<u64> record{0, w.set, index};
        for (unsigned j = 0; j < Shape::targets; ++j) record.push_back(word(j) & mask);
        record.push_back(word(8) | (word(9) & 0xffff) << 32);
        all.push_back(record);
      }
    }
    return all;
  }
  static unsigned beats_of_records(unsigned records) { return (records * 64 + kBytes - 1) / kBytes; }
};

using Shapes = testing::Types<Narrow, Wide>;
TYPED_TEST_SUITE(DmaRead, Shapes);

TYPED_TEST(DmaRead, WritesWhatLiesAtAnyAddress) {
  auto& random = this->random;
  const u64 places[] = {0,
                        0x1000 - this->kBytes,
                        0xffffff80,
                        0xfffff000,
                        0xffffffff'00000000,
                        0xffffffff'ffff8000,
                        0x8000'0000'0000'0f80,
                        0x0123'4567'89ab'cd80};
  for (const u64 at : places) {
    for (const int slow : {0, 50}) {
      this->stalls = slow;
      for (const Operation operation : {kLoad, kTwiddles, kConstants}) {
        SCOPED_TRACE(testing::Message() << "operation " << operation << ", address " << at << ", stalls " << slow);
        typename TestFixture::Work w;
        w.operation = operation;
        w.address = at;
        w.beats = operation == kConstants ? this->beats_of_records(2 * (1 + static_cast<unsigned>(random() % 20)))
                                          : 1 + static_cast<unsigned>(random() % 150);
        w.slot = static_cast<unsigned>(random() % (1u << TypeParam::slot_bits));
        w.row = static_cast<unsigned>(random() % (1u << TypeParam::row_bits));
        w.set = static_cast<unsigned>(random() % (1u << TypeParam::set_bits));
        const auto written = this->run(w);
        ASSERT_EQ(written, this->expected(w));
        ASSERT_FALSE(this->dma->error_o);
      }
    }
  }
}

TYPED_TEST(DmaRead, ALimbOfManyBursts) {
  for (const unsigned beats : {255u, 256u, 257u, 1025u}) {
    typename TestFixture::Work w;
    w.address = 0xfffff000 - 8 * this->kBytes;
    w.beats = beats;
    w.slot = 3;
    ASSERT_EQ(this->run(w), this->expected(w)) << beats;
  }
}

TYPED_TEST(DmaRead, AFaultyBeatIsReportedUntilReset) {
  for (const Operation operation : {kLoad, kTwiddles, kConstants}) {
    for (const long at : {0l, 1l, 6l, 7l}) {
      for (const unsigned code : {1u, 2u, 3u}) {
        SCOPED_TRACE(testing::Message() << "operation " << operation << ", beat " << at << ", response " << code);
        typename TestFixture::Work w;
        w.operation = operation;
        w.beats = 8;
        w.address = 0x4000;
        this->run(w);
        ASSERT_FALSE(this->dma->error_o) << "without a fault";
        w.faulty = at;
        w.response = code;
        EXPECT_EQ(this->run(w), this->expected(w));
        EXPECT_TRUE(this->dma->error_o);
        w.faulty = -1;
        this->run(w);
        EXPECT_TRUE(this->dma->error_o) << "the error flag stays";
        this->reset();
        EXPECT_FALSE(this->dma->error_o);
      }
    }
  }
}

TYPED_TEST(DmaRead, ResetForgetsWhatIsUnderWay) {
  for (long after = 1; after < 40; ++after) {
    this->stalls = after % 3 ? 0 : 50;
    for (const Operation operation : {kLoad, kTwiddles, kConstants}) {
      typename TestFixture::Work w;
      w.operation = operation;
      w.beats = 64;
      w.address = 0x800;
      w.reset_after = after;
      this->run(w);
      EXPECT_TRUE(this->dma->ready_o) << after;
      EXPECT_FALSE(this->dma->arvalid_o || this->dma->done_o || this->dma->load_o || this->dma->table_write_o ||
                   this->dma->source_write_o || this->dma->target_write_o);
      w.reset_after = -1;
      w.beats = 16;
      ASSERT_EQ(this->run(w), this->expected(w)) << after;
    }
  }
}

}  // namespace
}  // namespace heliograph::rtl
