// What there is one of in a process.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace heliograph {

/// A backend that is loaded at run time has a copy of this code and its variables; it takes those of who loaded it (`share`).
/// Whatever the floors below backend/ keep for the process stands here, and nowhere else.
struct ProcessState {
  std::atomic<unsigned long> forks{0};  // that lie between the first process and this one (base/process.h)
  // Of device::Slot.
  std::mutex slots_mutex;
  std::vector<bool> slots_taken;
  std::uint64_t slots_made = 0;
};

/// Never destroyed: devices of static storage end late.
ProcessState& process_state();
/// For a module, before it does anything else.
void share(ProcessState& of_the_process);

}  // namespace heliograph
