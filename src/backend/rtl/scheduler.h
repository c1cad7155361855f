// Schedules steps on values as descriptors: assigns slots to values, inserts loads and stores, and orders the steps.
//
// A step is issued when the cycle model says that it can begin. Each unit takes the first of the next kWindow steps whose
// operands are ready. The card's queue runs in order, so a blocked step must not be issued before a step that could run. If
// slots are full, the value with the latest next use is evicted (Belady); it is stored first unless memory has it.
#pragma once

#include <functional>

#include "backend/rtl/list.h"
#include "backend/rtl/timing.h"

namespace heliograph::backend::rtl {

/// `spill` allocates bytes of the card's memory until the list has run, and returns the address.
std::vector<Descriptor> schedule(const Shape& shape, const List& list, const std::function<u64(u64)>& spill);

}  // namespace heliograph::backend::rtl
