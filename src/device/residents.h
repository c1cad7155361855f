// What may leave a device's memory when other work needs it, and comes back by itself: evaluation keys.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace heliograph::device {

/// Owned by whoever uses it; a device knows it weakly. Neither function waits for another thread's use of it, allocates on
/// the device, or is called by a thread that is inside the other.
class Resident {
 public:
  virtual ~Resident() = default;
  /// Device bytes that evict() would give up now; 0 where there are none or somebody holds them.
  virtual std::size_t evictable_bytes() = 0;
  /// Gives up its device memory, keeping on the host what it cannot make again; returns the bytes given up.
  virtual std::size_t evict() = 0;

 private:
  friend class Residents;
  std::atomic<std::uint64_t> last_use_{0};
};

/// The residents of one device. Safe from several threads.
class Residents {
 public:
  void add(const std::shared_ptr<Resident>& resident);
  /// Notes a use: the least recently used goes first.
  void touch(Resident& resident) { resident.last_use_ = ++clock_; }
  std::size_t evictable_bytes();
  /// Bytes given up so far.
  std::uint64_t evicted_bytes() const { return evicted_; }
  /// Evicts until `bytes` more are given up, as far as there are any. False where nothing has been given up since
  /// evicted_bytes() was `seen`: then trying again is of no use.
  bool make_room(std::size_t bytes, std::uint64_t seen);

 private:
  /// Those alive, the least recently used first.
  std::vector<std::shared_ptr<Resident>> by_use();

  std::mutex list_mutex_, room_mutex_;  // room_mutex_ is held while evicting, never taken inside list_mutex_
  std::vector<std::weak_ptr<Resident>> list_;
  std::atomic<std::uint64_t> clock_{0}, evicted_{0};
};

}  // namespace heliograph::device
