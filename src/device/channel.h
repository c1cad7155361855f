// Transfers of memory between devices of different processes, queue to queue.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>

namespace heliograph::device {

class Queue;

/// Time limit of a wait for another process.
struct WaitLimit {
  std::chrono::milliseconds limit{60000};
  std::function<void()> check;  // called repeatedly during the wait; may throw to end it
};

/// One device's end of a set of channels. Each device has a number, its place, which is the same in all processes.
/// Thread-safe.
class Channel {
 public:
  struct Part {
    std::size_t place;  // place of the destination or source device
    std::byte* address;
    std::size_t bytes;
  };
  virtual ~Channel() = default;
  /// Enqueues all parts as one transfer. The receiver must name the parts from one sender in the sender's order and sizes.
  virtual void exchange(Queue&, std::span<const Part> sends, std::span<const Part> receives) = 0;
  /// Throws DeviceError if an enqueued transfer failed, or began and exceeded its time limit.
  virtual void check() = 0;
  /// Aborts all enqueued transfers; afterwards the channel cannot be used.
  virtual void abort() noexcept = 0;
};

}  // namespace heliograph::device
