// Evictable memory of a device, which returns at its next use: evaluation keys.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace heliograph::device {

/// Evictable memory. A resident is owned by its users; the device has a weak reference. The functions do not wait for
/// another thread that uses the resident, and do not allocate on the device. A thread within evictable_bytes() or evict()
/// must not call the other function.
class Resident {
 public:
  virtual ~Resident() = default;
  /// Returns the device bytes that evict() would free now; 0 if a user holds the resident.
  virtual std::size_t evictable_bytes() = 0;
  /// Frees the device memory, after saving data that cannot be recomputed to the host. Returns the bytes freed.
  virtual std::size_t evict() = 0;

 private:
  friend class Residents;
  std::atomic<std::uint64_t> last_use_{0};
};

class Residents {
 public:
  void add(const std::shared_ptr<Resident>& resident);
  /// Records a use; the least recently used resident is evicted first.
  void touch(Resident& resident) { resident.last_use_ = ++clock_; }
  std::size_t evictable_bytes();
  std::uint64_t evicted_bytes() const { return evicted_; }
  /// Evicts until `bytes` are freed or no resident is left. Returns false if evicted_bytes() is still `seen`: another
  /// attempt to allocate is then useless.
  bool make_room(std::size_t bytes, std::uint64_t seen);

 private:
  /// Returns the residents that still exist, the least recently used first.
  std::vector<std::shared_ptr<Resident>> by_use();

  std::mutex list_mutex_, room_mutex_;  // A thread may acquire list_mutex_ while it holds room_mutex_, not the reverse.
  std::vector<std::weak_ptr<Resident>> list_;
  std::atomic<std::uint64_t> clock_{0}, evicted_{0};
};

}  // namespace heliograph::device
