// The Verilated card and the memory on its buses. The simulated AXI ports stall on demand and check that the card follows
// the protocol.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backend/rtl/card.h"
#include "backend/rtl/clocked.h"
#include "backend/rtl/wide.h"
#include "base/errors.h"

namespace heliograph::rtl {

template <class Model>
class VerilatedCard final : public Card {
 public:
  /// `stalls`: percentage of bus handshakes to delay. `memory` must outlive the card.
  VerilatedCard(std::span<std::byte> memory, unsigned seed = 1, int stalls = 0)
      : memory_(memory), random_(seed), stalls_(stalls), model_(seed) {
    reset();
  }

  void reset() {
    model_->rst_ni = 0;
    model_->s_awvalid_i = model_->s_wvalid_i = model_->s_arvalid_i = 0;
    model_->ring_rvalid_i = model_->m_rvalid_i = model_->m_bvalid_i = 0;
    ring_ = data_ = {};
    writes_.clear(), coming_.clear(), answers_.clear();
    answering_ = false;
    for (int i = 0; i < 4; ++i) model_.tick();
    model_->rst_ni = 1;
    step();
  }

  /// Bus ports that answer every access with an error.
  struct Faults {
    bool ring = false, reads = false, writes = false;
  };
  Faults faults;
  std::uint64_t origin = 0;  // address of the memory's first byte
  std::uint64_t cycles() const { return model_.cycles(); }
  Model* operator->() { return model_.operator->(); }
  std::span<std::byte> memory() override { return memory_; }
  std::uint64_t stalled() const override { return stalled_; }

  void write(unsigned address, std::uint32_t value) override {
    model_->s_awvalid_i = model_->s_wvalid_i = model_->s_bready_i = 1;
    model_->s_awaddr_i = static_cast<unsigned char>(address);
    model_->s_wdata_i = value;
    model_->s_wstrb_i = 15;
    for (model_->eval(); !model_->s_awready_o; model_->eval()) step();
    step();
    model_->s_awvalid_i = model_->s_wvalid_i = 0;
    while (!model_->s_bvalid_o) step();
    const bool failed = model_->s_bresp_o != 0;
    step();
    if (failed) refused("write", address);
  }
  std::uint32_t read(unsigned address) override {
    model_->s_arvalid_i = model_->s_rready_i = 1;
    model_->s_araddr_i = static_cast<unsigned char>(address);
    for (model_->eval(); !model_->s_arready_o; model_->eval()) step();
    step();
    model_->s_arvalid_i = 0;
    while (!model_->s_rvalid_o) step();
    const std::uint32_t value = model_->s_rdata_o;
    const bool failed = model_->s_rresp_o != 0;
    step();
    if (failed) refused("read", address);
    return value;
  }
  bool run(std::uint64_t cycles) override {
    for (; cycles > 0 && !model_->interrupt_o; --cycles) step();
    return model_->interrupt_o;
  }

  /// Simulates one cycle. The ports' outputs depend on registers only, so they are known before the inputs.
  void step() {
    offer_reads(ring_, model_->ring_arready_i, model_->ring_rvalid_i, model_->ring_rdata_i);
    offer_reads(data_, model_->m_arready_i, model_->m_rvalid_i, model_->m_rdata_i);
    model_->ring_rresp_i = faults.ring ? 2 : 0;
    model_->m_rresp_i = faults.reads ? 2 : 0;
    model_->m_awready_i = goes();
    model_->m_wready_i = goes();
    if (!answering_ && !answers_.empty() && answers_.front().first <= cycles() && goes()) answering_ = true;
    model_->m_bvalid_i = answering_;
    model_->m_bresp_i = faults.writes ? 2 : 0;
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
    std::uint64_t address;
    std::size_t beats;
  };
  struct ReadPort {
    std::deque<Burst> bursts;
    bool valid = false, waiting = false;
    std::uint64_t address = 0;
  };

  [[noreturn]] static void refused(const char* access, unsigned address) {
    throw DeviceError(
        std::string("cannot ") + access + " the card's register at " + std::to_string(address) +
        ": the bus answers with an error; the address must be a register of rtl/src/hg_registers.sv that allows a " +
        access);
  }
  bool goes() {
    if (stalls_ == 0 || static_cast<int>(random_() % 100) >= stalls_) return true;
    ++stalled_;
    return false;
  }
  std::byte* at(std::uint64_t address, std::size_t bytes) {
    const std::uint64_t offset = address - origin;
    if (offset > memory_.size() || bytes > memory_.size() - offset)
      throw DeviceError("the card accessed address " + std::to_string(address) + ", which is outside its memory");
    return memory_.data() + offset;
  }
  template <class Ready, class Valid, class Data>
  void offer_reads(ReadPort& p, Ready& arready, Valid& rvalid, Data& rdata) {
    arready = p.bursts.size() < 4 && goes();
    if (!p.valid && !p.bursts.empty() && goes()) p.valid = true;
    rvalid = p.valid;
    if (p.valid) {
      const auto* words = reinterpret_cast<const std::uint32_t*>(at(p.bursts.front().address, sizeof(Data)));
      for (std::size_t i = 0; i < sizeof(Data) / 4; ++i) set_port_word(rdata, i, words[i]);
    } else if (stalls_ > 0) {  // drive random data while rvalid is low
      for (std::size_t i = 0; i < sizeof(Data) / 4; ++i) set_port_word(rdata, i, static_cast<std::uint32_t>(random_()));
    }
  }
  static void check(std::uint64_t address, std::size_t beats, std::size_t bytes) {
    require<DeviceError>(address % bytes == 0, "a burst of the card must begin at a beat");
    require<DeviceError>(address / 4096 == (address + beats * bytes - 1) / 4096, "a burst of the card must not cross 4 KiB");
  }
  void take_reads(ReadPort& p, bool arvalid, bool arready, std::uint64_t address, unsigned length, bool rvalid, bool rready,
                  std::size_t bytes) {
    require<DeviceError>(!p.waiting || (arvalid && address == p.address),
                         "the card withdrew an address on the bus before the handshake");
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
      for (const auto& [address, word] : answers_.front().second) *reinterpret_cast<std::uint32_t*>(at(address, 4)) = word;
      answers_.pop_front();
      answering_ = false;
    }
    if (model_->m_awvalid_o && model_->m_awready_i) {
      check(model_->m_awaddr_o, model_->m_awlen_o + 1u, kBeatBytes);
      writes_.push_back({model_->m_awaddr_o, model_->m_awlen_o + 1u});
    }
    if (model_->m_wvalid_o && model_->m_wready_i) {
      require<DeviceError>(!writes_.empty(), "the card sent write data on the bus before the address");
      // Memory changes only with the write response.
      Burst& b = writes_.front();
      for (std::size_t i = 0; i < kBeatBytes / 4; ++i)
        coming_.emplace_back(b.address + 4 * i, port_word(model_->m_wdata_o, i));
      b.address += kBeatBytes;
      require<DeviceError>((b.beats == 1) == (model_->m_wlast_o == 1),
                           "the card's last beat does not match the announced burst length");
      if (--b.beats == 0) {
        writes_.pop_front();
        answers_.emplace_back(cycles() + (stalls_ ? 50 : 0), std::exchange(coming_, {}));
      }
    }
  }

  std::span<std::byte> memory_;
  std::mt19937_64 random_;
  int stalls_;
  std::uint64_t stalled_ = 0;
  Clocked<Model> model_;
  ReadPort ring_, data_;
  std::deque<Burst> writes_;
  using Words = std::vector<std::pair<std::uint64_t, std::uint32_t>>;
  Words coming_;                                         // words of the current burst
  std::deque<std::pair<std::uint64_t, Words>> answers_;  // responses to send: earliest cycle, and the words to write
  bool answering_ = false;
};

}  // namespace heliograph::rtl
