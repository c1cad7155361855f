// Host memory for buffers. Freed memory is kept and handed out again: pages that were touched once cost nothing the next
// time. What is kept serves requests of any size, so that it never grows beyond what was in use at once.
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
  /// Throws OutOfMemoryError, before any page is touched where the machine is known to have too little.
  device::Buffer allocate(std::size_t bytes);
  device::MemoryState state() const;
  /// Gives kept blocks back to the system until at most `keep` bytes of them are left.
  void trim(std::size_t keep = 0);
  /// The k-th allocation from now fails; 0: none.
  void fail_at(std::size_t k) { countdown_ = k; }

 private:
  class Block;
  void* take(std::size_t size);
  void* fresh(std::size_t size);
  void put(void* address, std::size_t size) noexcept;
  void check_room(std::size_t size);

  // With the mutex held; `gather` takes it.
  /// The smallest kept range that `size` fits into, cut to size. Null: there is none.
  char* cut(std::size_t size);
  /// Moves whole pages out of kept ranges to reserved addresses, as many as there are; the number of bytes moved.
  std::size_t gather(char* to, std::size_t size);
  /// Blocks freed since the last time become kept ranges, joined with their neighbours.
  void join_recent();
  void join(char* begin, std::size_t size);
  void trim_locked(std::size_t keep);
  /// take(first, bytes) for the whole huge pages in each kept range, the largest range first, says how many bytes of them it
  /// took away, from the first on; none ends it.
  template <class F>
  void each_whole_page(F&& take);
  void insert(char* begin, std::size_t size);
  void remove(char* begin, std::size_t size);
  /// The range without `size` bytes behind the `skipped` first.
  void remove_part(char* begin, std::size_t have, std::size_t skipped, std::size_t size);

  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<char*>> recent_;  // freed blocks by size: what a loop frees, it asks for again
  std::map<char*, std::size_t> by_address_;           // kept ranges
  std::set<std::pair<std::size_t, char*>> by_size_;
  std::size_t kept_bytes_ = 0, since_check_ = 0;
  std::atomic<std::size_t> countdown_{0};
};

}  // namespace heliograph::backend::cpu
