// Sizes as people read them.
#pragma once

#include <cstddef>
#include <string>

namespace heliograph {

/// "5.1 GiB": as the Python package writes sizes, too (heliograph._arrays.readable_bytes).
std::string readable_bytes(std::size_t bytes);

}  // namespace heliograph
