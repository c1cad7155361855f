// What a linked program does as a device likes it: element-wise actions fused to sums, tasks in steps, values in slots.
#pragma once

#include "program/limbs/link.h"

namespace heliograph::program::limbs {

/// Turns actions into tasks. What is element-wise and read by such alone is not kept but computed where it is read: once for a
/// value that is read once or has one summand. Transforms and conversions end a sum. Conversions of one group are one.
/// `fused` false: each action is a task.
void fuse(Linked& program, bool fused = true);

/// What each device has, in single limbs, and how far tasks move forward: fewer wait for others where less is kept.
struct Memory {
  std::vector<u32> most;  // none: no limit
  std::size_t window = 2048;
};
/// Steps of tasks that need nothing of each other, in whose order alike ones follow one another as their operands lie in memory, and
/// slots for what is made, as it comes: so a device may take a row of limbs at once. A slot whose value is read no more serves again
/// in the next step. Tasks move forward within a window alone, which bounds how many values wait for others. Where memory is limited, values
/// that are read latest are moved to the host and come back before the step that reads them: the host is the device after the last.
/// False, and the program is spoilt, where a step needs more than there is.
bool place(Linked& program, const Memory& memory = {});

}  // namespace heliograph::program::limbs
