// Size arithmetic with overflow checks.
#pragma once

#include <cstddef>

#include "base/errors.h"

namespace heliograph {

inline std::size_t checked_mul(std::size_t a, std::size_t b) {
  std::size_t r;
  if (__builtin_mul_overflow(a, b, &r))
    throw OutOfMemoryError("the requested size exceeds 64 bits; use fewer or smaller items");
  return r;
}

inline std::size_t checked_add(std::size_t a, std::size_t b) {
  std::size_t r;
  if (__builtin_add_overflow(a, b, &r))
    throw OutOfMemoryError("the requested size exceeds 64 bits; use fewer or smaller items");
  return r;
}

template <class... Sizes>
inline std::size_t checked_product(std::size_t first, Sizes... rest) {
  ((first = checked_mul(first, rest)), ...);
  return first;
}

template <class... Sizes>
inline std::size_t checked_sum(std::size_t first, Sizes... rest) {
  ((first = checked_add(first, rest)), ...);
  return first;
}

}  // namespace heliograph
