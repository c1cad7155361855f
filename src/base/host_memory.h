// Memory of this machine.
#pragma once

#include <cstddef>
#include <string>

namespace heliograph {

/// Memory limits of the process's control groups, in bytes; the largest number if there is no limit.
struct GroupMemory {
  std::size_t limit;  ///< smallest limit of the process's control group and its ancestors
  std::size_t room;   ///< free memory within these limits; pages that the kernel can reclaim count as free
};
/// Reads control groups of version 2 and version 1 below the folder `root`; "" is this machine (tests use their own folder).
GroupMemory group_memory(const std::string& root = "");

/// Returns the machine's memory in bytes, or the control group's limit if that is lower (container, systemd unit).
std::size_t host_memory();
std::size_t available_host_memory();

}  // namespace heliograph
