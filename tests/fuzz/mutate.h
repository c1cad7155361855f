// Mutates valid containers in ways that reach the readers of objects.
#pragma once

#include <cstdint>

#include "sign.h"

namespace heliograph::fuzz {

/// The SplitMix64 generator, which is deterministic on every platform.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// Returns a number from 0 to count - 1, or 0 if count is 0.
  std::size_t below(std::size_t count) { return count ? next() % count : 0; }
  bool one_in(std::size_t count) { return below(count) == 0; }

 private:
  std::uint64_t state_;
};

/// Applies one to four changes and in most cases recomputes the hash of the parameters. Arrays stay below `room` bytes in
/// total.
void mutate(Document& document, Random& random, std::size_t room);
/// Copies a field or an array from `other` into the document.
void cross(Document& document, const Document& other, Random& random);

}  // namespace heliograph::fuzz
