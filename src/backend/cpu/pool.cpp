#include "backend/cpu/pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include "base/checked.h"

namespace heliograph::backend::cpu {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kCheckEvery = std::size_t{32} << 20;
constexpr std::size_t kLarge = std::size_t{64} << 20;

/// Eight classes an octave, so at most an eighth is wasted; large blocks are whole pages.
std::size_t size_class(std::size_t bytes) {
  const std::size_t size = std::max<std::size_t>(bytes, 64);
  const std::size_t step = std::max<std::size_t>(std::bit_floor(size - 1) / 8, 64);
  const std::size_t unit = size >= kHugePage ? std::max<std::size_t>(step, 4096) : step;
  return checked_add(size, unit - 1) / unit * unit;
}

/// Address space of `size` bytes that starts at a huge page; no page is touched.
char* reserve(std::size_t size) {
  const std::size_t span = size + kHugePage;
  void* raw = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(raw);
  const auto misfit = reinterpret_cast<std::uintptr_t>(begin) % kHugePage;
  char* const aligned = begin + (misfit ? kHugePage - misfit : 0);
  if (aligned != begin) munmap(begin, static_cast<std::size_t>(aligned - begin));
  char* const end = aligned + size;
  if (end != begin + span) munmap(end, static_cast<std::size_t>(begin + span - end));
  madvise(aligned, size, MADV_HUGEPAGE);
  return aligned;
}

void release(void* address, std::size_t size) {
  size >= kHugePage ? static_cast<void>(munmap(address, size)) : std::free(address);
}

/// A figure of /proc/meminfo in bytes, 0 where it is not there.
std::size_t meminfo(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

std::size_t read_number(const char* path) {
  std::ifstream file(path);
  std::size_t value = 0;
  return file >> value ? value : std::numeric_limits<std::size_t>::max();
}

/// What the control group would drop rather than refuse a page: cached files and the kernel's own caches.
std::size_t reclaimable(const char* path) {
  std::ifstream file(path);
  std::string key;
  std::size_t sum = 0;
  for (std::size_t value = 0; file >> key >> value;) {
    if (key == "inactive_file" || key == "active_file" || key == "slab_reclaimable") sum += value;
  }
  return sum;
}

/// What the control group leaves (v2, then v1); the largest number where there is no limit.
std::size_t group_room() {
  constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  struct Files {
    const char *limit, *usage, *detail;
  };
  for (const Files& f : {Files{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"},
                         Files{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                               "/sys/fs/cgroup/memory/memory.stat"}}) {
    const std::size_t limit = read_number(f.limit), usage = read_number(f.usage);
    if (limit == none || usage == none) continue;
    const std::size_t used = usage - std::min(usage, reclaimable(f.detail));
    return limit > used ? limit - used : 0;
  }
  return none;
}

std::size_t physical_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t available_memory() {
  const std::size_t free = meminfo("MemAvailable"), all = physical_memory();
  return std::min({free ? free : all, group_room(), all});
}

std::string size_text(std::size_t bytes) {
  static constexpr const char* kUnits[] = {"MiB", "GiB", "TiB", "PiB"};
  double size = static_cast<double>(bytes) / (1 << 20);
  int unit = 0;
  for (; size >= 1024 && unit < 3; ++unit) size /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %s", size, kUnits[unit]);
  return text;
}

[[noreturn]] void out_of_memory(std::size_t need, std::size_t have) {
  throw OutOfMemoryError("needs " + size_text(need) + ", you have " + size_text(have));
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
    throw OutOfMemoryError("an allocation of " + std::to_string(bytes) + " bytes was told to fail");
  }
  const std::size_t size = size_class(bytes);
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
    const auto found = kept_.find(size);
    if (found != kept_.end() && !found->second.empty()) {
      void* const address = found->second.back();
      found->second.pop_back();
      kept_bytes_ -= size;
      return address;
    }
  }
  return fresh(size);
}

void MemoryPool::check_room(std::size_t size) {
  std::size_t available = available_memory();
  if (size <= available) return;
  trim(0);
  available = available_memory();
  if (size > available) out_of_memory(size, available);
}

void* MemoryPool::fresh(std::size_t size) {
  bool check = size >= kCheckEvery;
  if (size >= kLarge) {
    if (void* const address = stitch(size)) return address;
  }
  {
    const std::lock_guard lock(mutex_);
    since_check_ = check ? size : since_check_ + size;
    if (since_check_ >= kCheckEvery) check = true, since_check_ = 0;
  }
  if (check) check_room(size);
  const auto attempt = [size] { return size >= kHugePage ? reserve(size) : std::aligned_alloc(64, size); };
  void* address = attempt();
  if (!address) {
    trim(0);
    address = attempt();
  }
  if (!address) out_of_memory(size, available_memory());
  return address;
}

void* MemoryPool::stitch(std::size_t size) {
  const std::lock_guard lock(mutex_);
  if (kept_bytes_ < kLarge) return nullptr;
  char* const target = reserve(size);
  if (!target) return nullptr;
  std::size_t done = 0;
  while (done < size) {
    const auto largest = std::find_if(kept_.rbegin(), kept_.rend(), [](const auto& kept) { return !kept.second.empty(); });
    if (largest == kept_.rend() || largest->first < kHugePage) break;
    char* const block = static_cast<char*>(largest->second.back());
    const std::size_t have = largest->first, take = std::min(have, size - done) / kHugePage * kHugePage;
    if (take == 0) break;
    if (mremap(block, take, take, MREMAP_MAYMOVE | MREMAP_FIXED, target + done) == MAP_FAILED) break;
    largest->second.pop_back();
    kept_bytes_ -= have;
    done += take;
    if (have - take >= kHugePage) {
      kept_[have - take].push_back(block + take);
      kept_bytes_ += have - take;
    } else if (have > take) {
      munmap(block + take, have - take);
    }
  }
  return target;
}

void MemoryPool::put(void* address, std::size_t size) noexcept {
  // Kept blocks stay within half of what the machine has.
  static const std::size_t bound = physical_memory() / 2;
  {
    const std::lock_guard lock(mutex_);
    if (kept_bytes_ + size <= bound) {
      try {
        kept_[size].push_back(address);
        kept_bytes_ += size;
        return;
      } catch (const std::bad_alloc&) {  // no room even for the list: give the block back
      }
    }
  }
  release(address, size);
}

void MemoryPool::trim(std::size_t keep) {
  const std::lock_guard lock(mutex_);
  for (auto it = kept_.rbegin(); it != kept_.rend() && kept_bytes_ > keep; ++it) {
    while (!it->second.empty() && kept_bytes_ > keep) {
      release(it->second.back(), it->first);
      it->second.pop_back();
      kept_bytes_ -= it->first;
    }
  }
}

device::MemoryState MemoryPool::state() const {
  const std::lock_guard lock(mutex_);
  return {.total = physical_memory(), .available = available_memory(), .pooled = kept_bytes_};
}

}  // namespace heliograph::backend::cpu
