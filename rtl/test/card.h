// A card with its own memory that runs lists of descriptors. Addresses in descriptors are relative to the card.
#pragma once

#include <gtest/gtest.h>
#include <algorithm>
#include <vector>

#include "backend/rtl/descriptors.h"
#include "backend/rtl/verilated_card.h"

namespace heliograph::rtl {

struct CardMemory {
  explicit CardMemory(std::size_t bytes) : memory(bytes / 4) {}
  std::vector<std::uint32_t> memory;  // words from the card's address 0 on
};

template <class Model>
class TestCard : public CardMemory {
 public:
  explicit TestCard(unsigned seed, int stalls, std::size_t bytes = 1 << 22)
      : CardMemory(bytes), card_(std::as_writable_bytes(std::span(memory)), seed, stalls) {}

  typename VerilatedCard<Model>::Faults& faults() { return card_.faults; }
  /// Moves the card's memory to another address. Call this function before the first run.
  void move_to(std::uint64_t origin) { card_.origin = origin; }
  std::uint64_t origin() const { return card_.origin; }
  std::uint64_t cycles() const { return card_.cycles(); }
  void step() { card_.step(); }
  void reset() {
    card_.reset();
    started_ = false;
    tail_ = 0;
  }
  std::uint64_t stalled() const { return card_.stalled(); }
  Model* operator->() { return card_.operator->(); }
  void write(unsigned address, std::uint32_t value) { card_.write(address, value); }
  std::uint32_t read(unsigned address) { return card_.read(address); }
  u64 counter(Counter c) { return card_.counter(c); }
  Shape shape() { return card_.shape(); }

  /// Runs descriptors from a ring of 2^6 entries at byte `ring` of the memory. Returns false if the descriptors do not end
  /// within `limit` cycles.
  bool run(const std::vector<Descriptor>& program, std::uint64_t limit = 1000000, std::size_t ring = 0) {
    constexpr unsigned kLogSize = 6, kSize = 1u << kLogSize;
    if (!started_) {
      write(reg::kBase, static_cast<std::uint32_t>(card_.origin + ring));
      write(reg::kBaseHigh, static_cast<std::uint32_t>((card_.origin + ring) >> 32));
      write(reg::kLogSize, kLogSize);
      write(reg::kControl, 1);
      started_ = true;
    }
    const std::uint64_t start = card_.cycles();
    for (std::size_t next = 0; next < program.size();) {
      const std::uint32_t room = kSize - (tail_ - read(reg::kHead));
      for (std::uint32_t i = 0; i < room && next < program.size(); ++i, ++next, ++tail_)
        std::copy(program[next].begin(), program[next].end(),
                  memory.begin() + static_cast<long>(ring / 4 + tail_ % kSize * 16));
      write(reg::kTail, tail_);
      if (card_.cycles() - start > limit) return false;
    }
    while (!(read(reg::kStatus) & 1))
      if (card_.cycles() - start > limit) return false;
    return true;
  }

 private:
  VerilatedCard<Model> card_;
  bool started_ = false;
  std::uint32_t tail_ = 0;
};

}  // namespace heliograph::rtl
