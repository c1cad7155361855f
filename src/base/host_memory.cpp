#include "base/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <mutex>
#include <optional>
#include <string>

namespace heliograph {

namespace {

/// Returns an entry of /proc/meminfo in bytes, or 0 if the entry is missing.
std::size_t meminfo(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

/// Returns the first number of a file; kNone if the file is absent or has a word ("max").
std::size_t read_number(const std::string& path) {
  std::ifstream file(path);
  std::size_t value = 0;
  return file >> value ? value : kNone;
}

/// Returns the bytes that the kernel would reclaim before it refuses a page to the control group: cached files and kernel
/// caches.
std::size_t reclaimable(const std::string& path) {
  std::ifstream file(path);
  std::string key;
  std::size_t sum = 0;
  for (std::size_t value = 0; file >> key >> value;) {
    if (key == "inactive_file" || key == "active_file" || key == "slab_reclaimable") sum += value;
  }
  return sum;
}

/// Lowers `found` to the limits of the control group in `folder`.
void narrow(GroupMemory& found, const std::string& folder, const char* limit_name, const char* usage_name) {
  const std::size_t limit = read_number(folder + limit_name), usage = read_number(folder + usage_name);
  if (limit == kNone) return;
  found.limit = std::min(found.limit, limit);
  if (usage == kNone) return;
  const std::size_t used = usage - std::min(usage, reclaimable(folder + "/memory.stat"));
  found.room = std::min(found.room, limit > used ? limit - used : 0);
}

/// Returns the process's path in a control-group hierarchy, from the line "0::PATH" (v2) or "N:...,memory,...:PATH" (v1) of
/// /proc/self/cgroup. Returns "" if there is no such line.
std::string path_in(const std::string& root, bool v2) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    std::string controllers(1, ',');
    controllers.append(line, first + 1, second - first - 1).push_back(',');
    if (v2 ? controllers == ",," : controllers.find(",memory,") != line.npos) return line.substr(second + 1);
  }
  return "";
}

}  // namespace

GroupMemory group_memory(const std::string& root) {
  struct Hierarchy {
    bool v2;
    const char *folder, *limit, *usage;
  };
  GroupMemory found{kNone, kNone};
  for (const Hierarchy& h :
       {Hierarchy{true, "/sys/fs/cgroup", "/memory.max", "/memory.current"},
        Hierarchy{false, "/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes"}}) {
    // The limits of all ancestors apply. Inside a container the path may be the host's, whose folders do not exist in the
    // container; the top folder is then the container's group.
    for (std::string path = path_in(root, h.v2);; path.resize(path.rfind('/'))) {
      while (path.ends_with('/')) path.pop_back();
      narrow(found, root + h.folder + path, h.limit, h.usage);
      if (path.find('/') == path.npos) break;
    }
  }
  return found;
}

namespace {

std::size_t physical_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// Values read from the system. The values are cached for 1/50 s, because every allocation needs them.
struct Reading {
  GroupMemory group;
  std::size_t free;  // free bytes of the machine; 0: unknown
};
Reading reading() {
  using Clock = std::chrono::steady_clock;
  static std::mutex mutex;
  static Clock::time_point at;
  static std::optional<Reading> last;
  const std::lock_guard lock(mutex);
  const Clock::time_point now = Clock::now();
  if (!last || now - at > std::chrono::milliseconds(20)) last = {group_memory(), meminfo("MemAvailable")}, at = now;
  return *last;
}

}  // namespace

std::size_t host_memory() { return std::min(physical_memory(), reading().group.limit); }

std::size_t available_host_memory() {
  const Reading now = reading();
  const std::size_t all = physical_memory();
  return std::min({now.free ? now.free : all, now.group.room, now.group.limit, all});
}

}  // namespace heliograph
