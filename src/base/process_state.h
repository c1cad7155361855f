// Process-wide state.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace heliograph {

/// A backend that is loaded at run time contains its own copy of this code; it adopts the state of the program that loads it
/// (`share`). This struct has all process-wide state of the layers below backend/.
struct ProcessState {
  std::atomic<unsigned long> forks{0};  // number of forks between the first process and this one (base/process.h)
  std::mutex slots_mutex;
  std::vector<bool> slots_taken;
  std::uint64_t slots_made = 0;
};

/// Returns the state. The state is never destroyed, because static objects such as devices may be destroyed later.
ProcessState& process_state();
/// Adopts the state of the program that loads this module; the module calls this function before any other.
void share(ProcessState& of_the_process);

}  // namespace heliograph
