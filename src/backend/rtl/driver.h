// Driver of a card: memory, descriptor ring, list of pending steps, counters.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "backend/rtl/encoder.h"
#include "backend/rtl/timing.h"
#include "device/device.h"

namespace heliograph::backend::rtl {

struct Options {
  int butterflies = 8;
  double clock = 200;  // assumed clock rate in MHz
  int stalls = 0;
  unsigned seed = 1;
};

class Driver final : public Memory, public std::enable_shared_from_this<Driver> {
 public:
  explicit Driver(const Options& options);
  ~Driver() override;

  const Options& options() const { return options_; }
  const Shape& shape() const { return shape_; }
  std::recursive_mutex& mutex() { return mutex_; }
  List& list() { return list_; }

  /// Throws OutOfMemoryError if the card's memory is exhausted.
  device::Buffer allocate(std::size_t bytes);
  device::MemoryState memory() const;
  /// Runs all pending steps. Throws DeviceError if the card fails.
  void flush();
  /// Runs the pending steps if one of them accesses this memory.
  void flush_over(const std::byte* data, std::size_t bytes);
  void flush_if_long();
  device::Cycles cycles() const { return cycles_; }
  /// Returns when each instruction of the last list ran, by the timing model.
  const std::vector<Span>& spans() const { return spans_; }
  u64 stalled() const { return card_->stalled(); }

  // Work that the driver does in software.
  u64 sampled = 0, moved = 0;  // limbs sampled; words moved that the card cannot move

  u64 address(const std::byte* data) const override { return static_cast<u64>(data - memory_.data()); }
  Resource twiddles(const device::RingConstant& ring, math::PrimeIndex prime) override;
  Resource constants(const device::ConversionConstant& conversion, std::size_t first) override;
  u64 galois(const device::PermutationConstant& permutation, bool& ntt_order) override;
  u64 narrowed(const std::byte* words, std::size_t n) override;
  u64 repeated(const std::byte* words, std::size_t n, int log_run) override;
  u64 widened(std::byte* words, std::size_t n) override;

  std::unique_ptr<const device::Form> form(const device::RingConstant& ring);
  std::unique_ptr<const device::Form> form(const device::ConversionConstant& conversion);
  std::unique_ptr<const device::Form> form(const device::PermutationConstant& permutation);
  const device::Slot& slot() const { return slot_; }

 private:
  class Block;
  u64 take(u64 bytes);
  void give(u64 address, u64 bytes);
  void release(u64 address, u64 bytes);
  /// Allocates memory of the card until the list has run.
  u64 lend(u64 bytes);
  void put_words(u64 address, const std::vector<u32>& words);
  void run(const std::vector<Descriptor>& descriptors);
  void check_status();

  Options options_;
  std::span<std::byte> memory_;
  std::unique_ptr<heliograph::rtl::Card> card_;
  Shape shape_;
  const device::Slot slot_;
  mutable std::recursive_mutex mutex_;
  List list_;
  std::map<u64, u64> free_;  // free memory: address to bytes
  u64 used_ = 0;
  std::vector<std::pair<u64, u64>> waiting_;  // freed memory; reusable after the list has run
  std::vector<std::pair<u64, u64>> lent_;     // memory allocated for the list; freed after the list has run
  struct Wide {
    std::byte* to;
    u64 from;
    std::size_t n;
  };
  std::vector<Wide> wide_;  // words that are extended to 64 bits after the list has run
  u32 tail_ = 0;
  device::Cycles cycles_;
  std::vector<Span> spans_;
  std::string fault_;
};

}  // namespace heliograph::backend::rtl
