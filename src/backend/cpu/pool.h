// Host memory for buffers: freed blocks are kept in size classes and used again.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

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
  /// A large block whose pages are, as far as there are any, those of kept blocks: what was touched once is not given back
  /// and asked for again. Null where nothing worth it is kept.
  void* stitch(std::size_t size);
  void put(void* address, std::size_t size) noexcept;
  void check_room(std::size_t size);

  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> kept_;  // by size class
  std::size_t kept_bytes_ = 0, since_check_ = 0;
  std::atomic<std::size_t> countdown_{0};
};

}  // namespace heliograph::backend::cpu
