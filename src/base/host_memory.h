// How much memory this machine has.
#pragma once

#include <cstddef>
#include <string>

namespace heliograph {

/// Memory that the process's control groups allow, in bytes; the largest number where they set no limit.
struct GroupMemory {
  std::size_t limit;  ///< the smallest limit of the process's control group and its ancestors
  std::size_t room;   ///< what these leave now: limits less use; pages that the kernel can reclaim are not counted as use
};
/// Reads cgroup v2 and v1 below `root` (tests have their own tree there; "" is this machine).
GroupMemory group_memory(const std::string& root = "");

/// Bytes of memory of the machine, or of the process's control group if that allows less (a container, a systemd unit).
std::size_t host_memory();
/// What can be had now: of the machine, within the limit of the process's control group.
std::size_t available_host_memory();

}  // namespace heliograph
