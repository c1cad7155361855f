// Sizes in bytes as text for people.
#pragma once

#include <cstddef>
#include <string>

namespace heliograph {

/// Formats a size such as "5.1 GiB", as `readable_bytes` does in Python.
std::string readable_bytes(std::size_t bytes);

}  // namespace heliograph
