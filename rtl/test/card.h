// A Verilated card with the memory behind its buses: registers, a ring of descriptors, AXI ports that stall as they are told to.
#pragma once

#include <gtest/gtest.h>
#include <algorithm>
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "clocked.h"
#include "descriptors.h"

namespace heliograph::rtl {

enum class Counter { cycles, waited, beats_read, beats_written, ntt, pointwise, permute, convert, load, store };

template <class Model>
class Card {
 public:
  /// Of 100 cycles, so many in which a handshake that could take place does not.
  explicit Card(unsigned seed, int stalls, std::size_t bytes = 1 << 22)
      : memory(bytes / 4), random_(seed), stalls_(stalls), model_(seed) {
    model_->rst_ni = 0;
    model_->s_awvalid_i = model_->s_wvalid_i = model_->s_arvalid_i = 0;
    for (int i = 0; i < 4; ++i) model_.tick();
    model_->rst_ni = 1;
    step();
  }

  std::vector<std::uint32_t> memory;  // the card's, from address 0
  bool faulty = false;                // every answer is an error
  std::uint64_t stalled = 0;          // handshakes that did not take place for stalls_'s sake
  std::uint64_t cycles() const { return model_.cycles(); }
  Model* operator->() { return model_.operator->(); }

  void write(unsigned address, std::uint32_t value) {
    model_->s_awvalid_i = model_->s_wvalid_i = model_->s_bready_i = 1;
    model_->s_awaddr_i = static_cast<unsigned char>(address);
    model_->s_wdata_i = value;
    model_->s_wstrb_i = 15;
    for (model_->eval(); !model_->s_awready_o; model_->eval()) step();
    step();
    model_->s_awvalid_i = model_->s_wvalid_i = 0;
    while (!model_->s_bvalid_o) step();
    step();
  }
  std::uint32_t read(unsigned address) {
    model_->s_arvalid_i = model_->s_rready_i = 1;
    model_->s_araddr_i = static_cast<unsigned char>(address);
    for (model_->eval(); !model_->s_arready_o; model_->eval()) step();
    step();
    model_->s_arvalid_i = 0;
    while (!model_->s_rvalid_o) step();
    const std::uint32_t value = model_->s_rdata_o;
    step();
    return value;
  }
  u64 counter(Counter c) {
    const unsigned at = 0x40 + 8 * static_cast<unsigned>(c);
    const u64 low = read(at);
    return low | u64{read(at + 4)} << 32;
  }

  /// Runs descriptors from a ring at `ring` (bytes) of 2^6 entries. Returns false where they do not end within `limit` cycles.
  bool run(const std::vector<Descriptor>& program, std::uint64_t limit = 1000000, std::size_t ring = 0) {
    constexpr unsigned kLogSize = 6, kSize = 1u << kLogSize;
    if (!started_) {
      write(0x18, static_cast<std::uint32_t>(ring));
      write(0x1c, 0);
      write(0x20, kLogSize);
      write(0x10, 1);
      started_ = true;
    }
    const std::uint64_t start = cycles();
    for (std::size_t next = 0; next < program.size();) {
      const std::uint32_t room = kSize - (tail_ - read(0x28));
      for (std::uint32_t i = 0; i < room && next < program.size(); ++i, ++next, ++tail_)
        std::copy(program[next].begin(), program[next].end(),
                  memory.begin() + static_cast<long>(ring / 4 + tail_ % kSize * 16));
      write(0x24, tail_);
      if (cycles() - start > limit) return false;
    }
    while (!(read(0x14) & 1))
      if (cycles() - start > limit) return false;
    return true;
  }

  void step() {
    offer_reads(ring_, model_->ring_arready_i, model_->ring_rvalid_i, model_->ring_rdata_i, model_->ring_rresp_i);
    offer_reads(data_, model_->m_arready_i, model_->m_rvalid_i, model_->m_rdata_i, model_->m_rresp_i);
    model_->m_awready_i = goes();
    model_->m_wready_i = goes();
    if (!answering_ && !answers_.empty() && answers_.front().first <= cycles() && goes()) answering_ = true;
    model_->m_bvalid_i = answering_;
    model_->m_bresp_i = faulty ? 2 : 0;
    model_->eval();
    take_reads(ring_, model_->ring_arvalid_o, model_->ring_arready_i, model_->ring_araddr_o, model_->ring_arlen_o,
               model_->ring_rvalid_i, model_->ring_rready_o, 8);
    take_reads(data_, model_->m_arvalid_o, model_->m_arready_i, model_->m_araddr_o, model_->m_arlen_o, model_->m_rvalid_i,
               model_->m_rready_o, kBeatBytes);
    take_writes();
    model_.tick();
  }

 private:
  static constexpr std::size_t kBeatBytes = sizeof(Model::m_wdata_o);

  struct Burst {
    u64 address;
    std::size_t beats;
  };
  struct ReadPort {
    std::deque<Burst> bursts;
    bool valid = false, waiting = false;
    u64 address = 0;
  };

  bool goes() {
    if (stalls_ == 0 || static_cast<int>(random_() % 100) >= stalls_) return true;
    ++stalled;
    return false;
  }
  template <class Ready, class Valid, class Data, class Response>
  void offer_reads(ReadPort& p, Ready& arready, Valid& rvalid, Data& rdata, Response& rresp) {
    arready = p.bursts.size() < 4 && goes();
    if (!p.valid && !p.bursts.empty() && goes()) p.valid = true;
    rvalid = p.valid;
    rresp = faulty ? 2 : 0;
    for (std::size_t i = 0; i < sizeof(Data) / 4; ++i)
      set_port_word(rdata, i, p.valid ? memory.at(p.bursts.front().address / 4 + i) : static_cast<std::uint32_t>(random_()));
  }
  void check(u64 address, std::size_t beats, std::size_t bytes) {
    EXPECT_EQ(address % bytes, 0u);
    EXPECT_EQ(address / 4096, (address + beats * bytes - 1) / 4096) << "a burst crosses 4 KiB";
  }
  void take_reads(ReadPort& p, bool arvalid, bool arready, u64 address, unsigned length, bool rvalid, bool rready,
                  std::size_t bytes) {
    if (p.waiting) {
      EXPECT_TRUE(arvalid && address == p.address) << "an address was withdrawn";
    }
    p.waiting = arvalid && !arready;
    p.address = address;
    if (arvalid && arready) {
      check(address, length + 1, bytes);
      p.bursts.push_back({address, length + 1});
    }
    if (rvalid && rready) {
      Burst& b = p.bursts.front();
      b.address += bytes;
      if (--b.beats == 0) p.bursts.pop_front();
      p.valid = false;
    }
  }
  void take_writes() {
    if (answering_ && model_->m_bready_o) {
      for (const auto& [at, word] : answers_.front().second) memory.at(at) = word;
      answers_.pop_front();
      answering_ = false;
    }
    if (model_->m_awvalid_o && model_->m_awready_i) {
      check(model_->m_awaddr_o, model_->m_awlen_o + 1u, kBeatBytes);
      writes_.push_back({model_->m_awaddr_o, model_->m_awlen_o + 1u});
    }
    if (model_->m_wvalid_o && model_->m_wready_i) {
      if (writes_.empty()) {
        ADD_FAILURE() << "data before their address";
        return;
      }
      // It is in memory once it is answered, no sooner.
      Burst& b = writes_.front();
      for (std::size_t i = 0; i < kBeatBytes / 4; ++i)
        coming_.emplace_back(b.address / 4 + i, port_word(model_->m_wdata_o, i));
      b.address += kBeatBytes;
      EXPECT_EQ(b.beats == 1, model_->m_wlast_o == 1);
      if (--b.beats == 0) {
        writes_.pop_front();
        answers_.emplace_back(cycles() + (stalls_ ? 50 : 0), std::exchange(coming_, {}));
      }
    }
  }

  std::mt19937_64 random_;
  int stalls_;
  Clocked<Model> model_;
  ReadPort ring_, data_;
  std::deque<Burst> writes_;
  using Words = std::vector<std::pair<std::size_t, std::uint32_t>>;
  Words coming_;                                         // of the burst that is being written
  std::deque<std::pair<std::uint64_t, Words>> answers_;  // bursts to be answered, and from when on
  bool answering_ = false, started_ = false;
  std::uint32_t tail_ = 0;
};

}  // namespace heliograph::rtl
