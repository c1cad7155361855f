#include "backend/cpu/pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/host_memory.h"
#include "base/sizes.h"

namespace heliograph::backend::cpu {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kCheckEvery = std::size_t{32} << 20;
/// Smaller blocks come from the C library; blocks from kWhole on are whole huge pages, at most an eighth of them unused.
constexpr std::size_t kSmall = std::size_t{64} << 10;
constexpr std::size_t kWhole = std::size_t{16} << 20;

std::size_t round_up(std::size_t size, std::size_t unit) { return checked_add(size, unit - 1) / unit * unit; }

std::size_t rounded(std::size_t bytes) {
  if (bytes < kSmall) return std::max<std::size_t>(round_up(bytes, 64), 64);
  return round_up(bytes, bytes < kWhole ? kSmall : kHugePage);
}

std::size_t alignment_of(std::size_t size) { return size < kWhole ? kSmall : kHugePage; }

/// Returns the bytes from `address` to the next multiple of `unit`.
std::size_t misfit(const char* address, std::size_t unit) {
  const auto over = reinterpret_cast<std::uintptr_t>(address) % unit;
  return over ? unit - over : 0;
}

/// Reserves `size` bytes of address space, aligned to a huge page; touches no page.
char* reserve(std::size_t size) {
  const std::size_t span = size + kHugePage;
  void* raw = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(raw);
  char* const aligned = begin + misfit(begin, kHugePage);
  if (aligned != begin) munmap(begin, static_cast<std::size_t>(aligned - begin));
  char* const end = aligned + size;
  if (end != begin + span) munmap(end, static_cast<std::size_t>(begin + span - end));
  madvise(aligned, size, MADV_HUGEPAGE);
  return aligned;
}

[[noreturn]] void out_of_memory(std::size_t need, std::size_t have) {
  throw OutOfMemoryError("this allocation needs " + readable_bytes(need) + ", you have " + readable_bytes(have) +
                         "; free tensors or use smaller batches");
}

}  // namespace

class MemoryPool::Block : public device::Memory {
 public:
  Block(void* address, std::size_t bytes, std::size_t size, std::shared_ptr<MemoryPool> pool)
      : Memory(static_cast<std::byte*>(address), bytes), size_(size), pool_(std::move(pool)) {}
  ~Block() override { pool_->put(address_, size_); }

 private:
  std::size_t size_;
  std::shared_ptr<MemoryPool> pool_;
};

MemoryPool::~MemoryPool() { trim(0); }

device::Buffer MemoryPool::allocate(std::size_t bytes) {
  if (std::size_t left = countdown_.load(); left != 0 && countdown_.fetch_sub(1) == 1) {
    throw OutOfMemoryError("fail_allocation made this allocation of " + readable_bytes(bytes) + " fail");
  }
  const std::size_t size = rounded(bytes);
  void* const address = take(size);
  try {
    return std::make_shared<Block>(address, bytes, size, shared_from_this());
  } catch (...) {
    put(address, size);
    throw;
  }
}

void* MemoryPool::take(std::size_t size) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = recent_.find(size); found != recent_.end() && !found->second.empty()) {
      char* const address = found->second.back();
      found->second.pop_back();
      kept_bytes_ -= size;
      return address;
    }
    if (size >= kSmall) {
      join_recent();
      if (char* const address = cut(size)) return address;
    }
  }
  return fresh(size);
}

void MemoryPool::join_recent() {
  for (auto it = recent_.lower_bound(kSmall); it != recent_.end(); it = recent_.erase(it)) {
    for (; !it->second.empty(); it->second.pop_back()) {
      join(it->second.back(), it->first);
      kept_bytes_ -= it->first;
    }
  }
}

void MemoryPool::join(char* begin, std::size_t size) {
  const auto next = by_address_.upper_bound(begin);
  if (next != by_address_.begin()) {
    const auto [before, more] = *std::prev(next);
    if (before + more == begin) {
      remove(before, more);
      begin = before, size += more;
    }
  }
  if (const auto behind = by_address_.find(begin + size); behind != by_address_.end()) {
    const std::size_t more = behind->second;
    remove(begin + size, more);
    size += more;
  }
  insert(begin, size);
}

char* MemoryPool::cut(std::size_t size) {
  const std::size_t unit = alignment_of(size);
  for (auto it = by_size_.lower_bound({size, nullptr}); it != by_size_.end(); ++it) {
    const auto [have, begin] = *it;
    const std::size_t skipped = misfit(begin, unit);
    if (skipped > have || have - skipped < size) continue;
    remove_part(begin, have, skipped, size);
    return begin + skipped;
  }
  return nullptr;
}

void MemoryPool::remove_part(char* begin, std::size_t have, std::size_t skipped, std::size_t size) {
  remove(begin, have);
  if (skipped) insert(begin, skipped);
  if (const std::size_t rest = have - skipped - size) insert(begin + skipped + size, rest);
}

void MemoryPool::insert(char* begin, std::size_t size) {
  by_address_.emplace(begin, size);
  by_size_.emplace(size, begin);
  kept_bytes_ += size;
}

void MemoryPool::remove(char* begin, std::size_t size) {
  by_address_.erase(begin);
  by_size_.erase({size, begin});
  kept_bytes_ -= size;
}

void MemoryPool::check_room(std::size_t size) {
  std::size_t available = available_host_memory();
  if (size <= available) return;
  trim(0);
  available = available_host_memory();
  if (size > available) out_of_memory(size, available);
}

void* MemoryPool::fresh(std::size_t size) {
  const std::size_t span = size < kSmall ? size : round_up(size, kHugePage);
  const auto attempt = [&]() -> void* { return size < kSmall ? std::aligned_alloc(64, size) : reserve(span); };
  void* address = attempt();
  if (!address) {
    trim(0);
    address = attempt();
  }
  if (!address) out_of_memory(size, available_host_memory());
  const std::size_t missing = size < kSmall ? size : span - gather(static_cast<char*>(address), span);
  try {
    bool check = missing >= kCheckEvery;
    {
      const std::lock_guard lock(mutex_);
      since_check_ = check ? missing : since_check_ + missing;
      if (since_check_ >= kCheckEvery) check = true, since_check_ = 0;
    }
    if (check) check_room(missing);
  } catch (...) {
    size < kSmall ? std::free(address) : static_cast<void>(munmap(address, span));
    throw;
  }
  if (span > size) {
    const std::lock_guard lock(mutex_);
    insert(static_cast<char*>(address) + size, span - size);
  }
  return address;
}

template <class F>
void MemoryPool::each_whole_page(F&& take) {
  std::vector<std::pair<std::size_t, char*>> ranges(by_size_.rbegin(), by_size_.rend());  // sorted, the largest range first
  for (const auto& [have, begin] : ranges) {
    if (have < kHugePage) break;
    const std::size_t skipped = misfit(begin, kHugePage);
    if (skipped > have || have - skipped < kHugePage) continue;
    const std::size_t taken = take(begin + skipped, (have - skipped) / kHugePage * kHugePage);
    if (taken == 0) break;
    remove_part(begin, have, skipped, taken);
  }
}

std::size_t MemoryPool::gather(char* to, std::size_t size) {
  const std::lock_guard lock(mutex_);
  std::size_t done = 0;
  each_whole_page([&](char* from, std::size_t whole) {
    std::size_t moved = 0;
    // Move page by page: a range may consist of several mappings, and one mremap call can move pages of only one.
    for (; moved < whole && done < size; moved += kHugePage, done += kHugePage) {
      if (mremap(from + moved, kHugePage, kHugePage, MREMAP_MAYMOVE | MREMAP_FIXED, to + done) == MAP_FAILED) break;
    }
    return moved;
  });
  return done;
}

void MemoryPool::put(void* address, std::size_t size) noexcept {
  static const std::size_t bound = host_memory() / 2;
  try {
    const std::lock_guard lock(mutex_);
    recent_[size].push_back(static_cast<char*>(address));
    kept_bytes_ += size;
    if (kept_bytes_ > bound) trim_locked(bound);
  } catch (const std::bad_alloc&) {  // cannot list the block: drop its address range, return its pages
    if (size >= kSmall) madvise(address, size, MADV_DONTNEED);
  }
}

void MemoryPool::trim(std::size_t keep) {
  const std::lock_guard lock(mutex_);
  trim_locked(keep);
}

void MemoryPool::trim_locked(std::size_t keep) {
  if (kept_bytes_ <= keep) return;
  join_recent();
  each_whole_page([&](char* from, std::size_t whole) -> std::size_t {
    if (kept_bytes_ <= keep) return 0;
    const std::size_t some = std::min(whole, round_up(kept_bytes_ - keep, kHugePage));
    return munmap(from, some) == 0 ? some : 0;
  });
  for (auto& [size, blocks] : recent_) {  // blocks of the C library
    for (; !blocks.empty() && kept_bytes_ > keep; blocks.pop_back()) {
      std::free(blocks.back());
      kept_bytes_ -= size;
    }
  }
}

device::MemoryState MemoryPool::state() const {
  const std::lock_guard lock(mutex_);
  return {.total = host_memory(), .available = available_host_memory(), .pooled = kept_bytes_};
}

}  // namespace heliograph::backend::cpu
