#include "base/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

namespace heliograph {

namespace {

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

}  // namespace

std::size_t host_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t available_host_memory() {
  const std::size_t free = meminfo("MemAvailable"), all = host_memory();
  return std::min({free ? free : all, group_room(), all});
}

}  // namespace heliograph
