// Copies between host and GPU through page-locked memory. From other host memory, the driver copies with one thread at a
// fraction of the rate of page-locked copies, and blocks the host.
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

/// The page-locked blocks of one device. A block may have held secrets, so blocks are excluded from core dumps and wiped
/// when they are freed.
class Staging {
 public:
  static constexpr std::size_t kBlock = std::size_t{1} << 20, kMost = 32;
  /// Smaller copies go directly to the driver, which starts them at once.
  static constexpr std::size_t kLeast = std::size_t{128} << 10;

  explicit Staging(Driver& driver) : driver_(driver) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Enqueues a copy; `from` may be reused when the function returns. Throws as CudaQueue::check does.
  void upload(CudaQueue& queue, std::span<const std::byte> from, std::byte* to);
  /// Copies and waits for the queue. Throws as CudaQueue::check does.
  void download(CudaQueue& queue, const std::byte* from, std::span<std::byte> to);

 private:
  struct Block {
    std::byte* address = nullptr;
    EventHandle copied = nullptr;
    bool pending = false;  // whether a copy is pending; the event `copied` marks its end
  };
  class Lease;

  /// Returns whether any block exists: the system may refuse to lock memory.
  bool usable();
  std::unique_ptr<Block> made();
  Block* taken();
  void give(Block* block);

  Driver& driver_;
  std::mutex mutex_;
  std::condition_variable given_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::deque<Block*> free_;  // free blocks, the least recently used first
  bool exhausted_ = false;   // the system locks no more memory
};

}  // namespace heliograph::backend::cuda
