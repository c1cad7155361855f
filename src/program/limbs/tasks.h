// Optimization of a linked program for devices: fused sums, steps of independent tasks, and memory slots.
#pragma once

#include "program/limbs/link.h"

namespace heliograph::program::limbs {

/// Converts actions to tasks. An element-wise value that only element-wise actions read is fused into its readers, if it
/// has one reader or one summand. Transforms and conversions are not fused into sums. Conversions of one group are
/// merged. If `fused` is false, each action is a task.
void fuse(Linked& program, bool fused = true);

/// Limits of the placement: limbs of each device, and the length of the window of tasks within which a task may move
/// forward. A shorter window keeps fewer values in memory.
struct Memory {
  std::vector<u32> most;  // empty: no limit
  std::size_t window = 2048;
};
/// Groups independent tasks into steps and assigns slots. Within a step, tasks are sorted by the memory order of their
/// operands, so that a device can process a row of limbs at once. A slot is free again in the step after its value's last
/// use. Tasks move forward only within a window, which bounds the number of live values. If memory is limited, the values
/// with the latest next use are moved to the host. Moved values return before the step that reads them. The host's number
/// follows the last device's. Returns false, with the program in an invalid state, if a step needs more than the limit.
bool place(Linked& program, const Memory& memory = {});

}  // namespace heliograph::program::limbs
