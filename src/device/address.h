// Addresses of views as numbers. A view may be checked before its memory exists. The view's address is then null or an
// offset from null, for which C++ leaves pointer arithmetic undefined.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heliograph::device {

/// Returns an address plus a number of bytes, which may be negative.
inline std::byte* displaced(std::byte* address, std::ptrdiff_t bytes) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(address) + static_cast<std::uintptr_t>(bytes));
}
inline std::byte* displaced(std::byte* address, std::size_t bytes) {
  return displaced(address, static_cast<std::ptrdiff_t>(bytes));
}

}  // namespace heliograph::device
