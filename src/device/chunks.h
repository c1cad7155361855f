// Long batches in stretches.
#pragma once

#include <functional>
#include <vector>

#include "device/view.h"

namespace heliograph::device {

/// Called between steps of long work with the share done, 0 to 1. May throw (CancelledError) to stop the work.
using Progress = std::function<void(double)>;

/// Calls `step` on stretches of the batch of about `preferred` items. All views have the same batch shape.
void for_chunks(std::vector<View> views, std::size_t preferred, const Progress& progress,
                const std::function<void(const std::vector<View>&)>& step);

}  // namespace heliograph::device
