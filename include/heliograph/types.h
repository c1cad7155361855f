// Types that the APIs of all schemes share.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace heliograph {

using Shape = std::vector<std::size_t>;
using Bytes = std::vector<std::byte>;
/// Consumer of a byte stream, called with consecutive pieces. A piece is valid only during the call.
using Sink = std::function<void(std::span<const std::byte>)>;
/// Blocks until the given number of leading bytes has arrived, or throws.
using Arrival = std::function<void(std::size_t)>;

/// Limits on received objects. A file or message that exceeds them is refused before memory is allocated for it.
struct Allowed {
  std::size_t bytes = ~std::size_t{0};  // limit on the tensor in memory (seeds expanded) and on the file after its header
  std::string parameters = {};          // required parameter hash; empty: any
};

}  // namespace heliograph
