// Long batches in stretches.
#pragma once

#include <functional>
#include <vector>

#include "device/call.h"

namespace heliograph::device {

/// Called between steps of long work with the share done, 0 to 1. May throw (CancelledError) to stop the work.
using Progress = std::function<void(double)>;

/// Calls `step` on stretches of the batch of about `preferred` items. All views have the same batch shape.
void for_chunks(std::vector<View> views, std::size_t preferred, const Progress& progress,
                const std::function<void(const std::vector<View>&)>& step);

/// Items of a call's batch: those of its result.
std::size_t items_of(const Call& call);
/// How many of them a stretch has where about `preferred` are wished: all, where items lie along other axes in one operand
/// than in another.
std::size_t stretch_of(const Call& call, std::size_t preferred);
/// The same with a call for each stretch; operands that serve every item, keys, are in each.
void for_stretches(const Call& call, std::size_t preferred, const Progress& progress,
                   const std::function<void(Call&)>& step);
/// A call's scratch; empty where it has or takes none.
Workspace scratch_of(const Call& call);
/// Scratch for a composite; nothing for a call that takes none.
void give_scratch(Call& call, const Workspace& scratch);

}  // namespace heliograph::device
