// Host memory for buffers. Freed memory is retained and reused, because pages cost time when first touched. Retained memory
// serves requests of any size, so that it never exceeds the peak use.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "device/device.h"

namespace heliograph::backend::cpu {

class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  ~MemoryPool();
  /// Throws OutOfMemoryError, before any page is touched if the machine is known to have too little memory.
  device::Buffer allocate(std::size_t bytes);
  device::MemoryState state() const;
  /// Returns retained blocks to the system until at most `keep` bytes remain.
  void trim(std::size_t keep = 0);
  /// Makes the k-th allocation from now fail; 0: none.
  void fail_at(std::size_t k) { countdown_ = k; }

 private:
  class Block;
  void* take(std::size_t size);
  void* fresh(std::size_t size);
  void put(void* address, std::size_t size) noexcept;
  void check_room(std::size_t size);

  // The caller of the functions below holds the mutex, except that `gather` locks it.
  /// Takes `size` bytes from the smallest retained range that has them. Returns null if no retained range is large enough.
  char* cut(std::size_t size);
  /// Moves whole pages from retained ranges to the reserved addresses from `to` on, until `size` bytes are moved or no page
  /// is left. Returns the number of bytes moved.
  std::size_t gather(char* to, std::size_t size);
  /// Turns recently freed blocks into retained ranges, merged with adjacent ranges.
  void join_recent();
  void join(char* begin, std::size_t size);
  void trim_locked(std::size_t keep);
  /// Calls take(first, bytes) for the whole huge pages of each retained range, largest range first. `take` returns how many
  /// bytes it took from `first` on; 0 ends the loop.
  template <class F>
  void each_whole_page(F&& take);
  void insert(char* begin, std::size_t size);
  void remove(char* begin, std::size_t size);
  void remove_part(char* begin, std::size_t have, std::size_t skipped, std::size_t size);

  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<char*>> recent_;  // by size: loops request equal sizes again
  std::map<char*, std::size_t> by_address_;           // retained ranges by address
  std::set<std::pair<std::size_t, char*>> by_size_;
  std::size_t kept_bytes_ = 0, since_check_ = 0;
  std::atomic<std::size_t> countdown_{0};
};

}  // namespace heliograph::backend::cpu
