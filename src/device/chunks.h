// Division of long batches into chunks.
#pragma once

#include <functional>
#include <vector>

#include "device/call.h"

namespace heliograph::device {

/// Calls `step` on chunks of about `preferred` items. All views have the same batch shape.
void for_chunks(std::vector<View> views, std::size_t preferred, const std::function<void(const std::vector<View>&)>& step);

std::size_t items_of(const Call& call);
/// Returns the number of items of each chunk, about `preferred`. Returns all items if the batch axes of an operand differ
/// from the result's batch axes.
std::size_t stretch_of(const Call& call, std::size_t preferred);
/// Calls `step` with a call for each chunk. Operands without the batch axes, such as keys, are in each call.
void for_stretches(const Call& call, std::size_t preferred, const std::function<void(Call&)>& step);
/// The scratch of a call; empty if it has none.
Workspace scratch_of(const Call& call);
void give_scratch(Call& call, const Workspace& scratch);

}  // namespace heliograph::device
