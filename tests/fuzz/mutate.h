// Valid containers made wrong in the ways that matter to readers of objects.
#pragma once

#include <cstdint>

#include "sign.h"

namespace heliograph::fuzz {

/// SplitMix64: the same draws everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// 0 to count - 1; 0 where there is nothing to choose from.
  std::size_t below(std::size_t count) { return count ? next() % count : 0; }
  bool one_in(std::size_t count) { return below(count) == 0; }

 private:
  std::uint64_t state_;
};

/// Changes one to four things and makes the parameters' hash fit, mostly. Arrays stay below `room` bytes together.
void mutate(Document& document, Random& random, std::size_t room);
/// Puts a field or an array of `other` into it.
void cross(Document& document, const Document& other, Random& random);

}  // namespace heliograph::fuzz
