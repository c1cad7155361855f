// Copies between the host's memory and a GPU's by way of page-locked memory. From memory of other kinds the driver copies at a
// fraction of the rate, with one thread, and lets the host wait.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backend/cuda/runtime/driver.h"

namespace heliograph::backend::cuda {

class CudaQueue;

/// The blocks of one device. They may have held secrets: no dump contains them, and they are wiped in the end.
class Staging {
 public:
  static constexpr std::size_t kBlock = std::size_t{1} << 20, kMost = 32;
  /// Less is left to the driver, which takes it at once.
  static constexpr std::size_t kLeast = std::size_t{128} << 10;

  explicit Staging(Driver& driver) : driver_(driver) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Enqueues the copy; `from` may be reused when it returns. Throws as CudaQueue::check.
  void upload(CudaQueue& queue, std::span<const std::byte> from, std::byte* to);
  /// Waits for the queue. Throws as CudaQueue::check.
  void download(CudaQueue& queue, const std::byte* from, std::span<std::byte> to);

 private:
  struct Block {
    std::byte* address = nullptr;
    EventHandle copied = nullptr;
    bool pending = false;  // until `copied`
  };
  class Lease;

  /// Whether there is a block at all: a system may lock no memory for this process.
  bool usable();
  std::unique_ptr<Block> made();
  Block* taken();
  void give(Block* block);

  Driver& driver_;
  std::mutex mutex_;
  std::condition_variable given_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::deque<Block*> free_;  // those used longest ago first
  bool exhausted_ = false;   // no more can be locked
};

}  // namespace heliograph::backend::cuda
