#include "base/process.h"

#include "base/process_state.h"

namespace heliograph {

ProcessMark::ProcessMark() : forks_(process_state().forks.load(std::memory_order_relaxed)) {}

bool ProcessMark::is_here() const { return forks_ == process_state().forks.load(std::memory_order_relaxed); }

}  // namespace heliograph
