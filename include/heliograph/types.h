// Types that the faces of all schemes share.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace heliograph {

using Shape = std::vector<std::size_t>;
using Bytes = std::vector<std::byte>;
/// Called now and then with the share done, 0 to 1; may throw CancelledError to stop.
using Progress = std::function<void(double)>;

}  // namespace heliograph
