// Memory from device to device of different processes, queue to queue.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>

namespace heliograph::device {

class Queue;

/// How long to wait for another process.
struct Patience {
  std::chrono::milliseconds limit{60000};
  std::function<void()> check;  // called meanwhile; may throw
};

/// One device's end. The devices are numbered by their places, alike in all processes. Safe from several threads.
class Channel {
 public:
  struct Part {
    std::size_t place;  // of the device it goes to or comes from
    std::byte* address;
    std::size_t bytes;
  };
  virtual ~Channel() = default;
  /// Enqueues all of it as one. What a device sends to another, that one receives in the same order and sizes.
  virtual void exchange(Queue&, std::span<const Part> sends, std::span<const Part> receives) = 0;
  /// Throws DeviceError where something enqueued has failed, or has begun and not ended in time.
  virtual void check() = 0;
  /// Ends all that is enqueued, whatever it was to bring; there is no more afterwards.
  virtual void abort() noexcept = 0;
};

}  // namespace heliograph::device
