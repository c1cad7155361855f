// Types that the faces of all schemes share.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace heliograph {

using Shape = std::vector<std::size_t>;
using Bytes = std::vector<std::byte>;
/// Called now and then with the share done, 0 to 1; may throw CancelledError to stop.
using Progress = std::function<void(double)>;
/// Takes bytes in their order, piece by piece; a piece is there during the call alone.
using Sink = std::function<void(std::span<const std::byte>)>;
/// Returns once so many of the first bytes are there, or throws.
using Arrival = std::function<void(std::size_t)>;

/// What is taken from others. A file or message that asks for more is refused before memory is taken for it.
struct Allowed {
  std::size_t bytes = ~std::size_t{0};  // of a tensor in memory, seeds expanded; and of what follows its file's header
  std::string parameters = {};          // their hash; empty: any
};

}  // namespace heliograph
