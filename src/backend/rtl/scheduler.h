// From steps on values to descriptors: which slot a value has and when, what is loaded before it is wanted, and in which order steps begin.
//
// Steps are taken as the cycle model says that they can begin: of the next kWindow ones each unit takes the first whose operands are
// there. So the card's queue, which keeps its order, is never held up by a step that waits while another could run. A slot is taken
// from the value that is wanted last (Belady); what memory does not have is stored first.
#pragma once

#include <functional>

#include "backend/rtl/list.h"
#include "backend/rtl/timing.h"

namespace heliograph::backend::rtl {

/// `spill`: memory of so many bytes, at an address of the card, which is the list's until it has run.
std::vector<Descriptor> schedule(const Shape& shape, const List& list, const std::function<u64(u64)>& spill);

}  // namespace heliograph::backend::rtl
