// The scales of a linked program's values: what a value is, times its scale, is what its words are.
#pragma once

#include <array>
#include <functional>

#include "program/limbs/link.h"

namespace heliograph::program::limbs {

struct Scales {
  std::vector<double> items;    // of each item that is taken
  std::vector<double> results;  // of each result
};

/// `primes` by index; `items`: 0 where it is to be found: what is added has the scale of what it is added to, what is multiplied by
/// has its level's, `of_level`. Throws ScaleError where scales of a sum differ by more than `tolerance` of themselves.
Scales follow(const Linked& program, const std::array<double, kPrimes>& primes, std::vector<double> items,
              const std::function<double(std::size_t)>& of_level, double tolerance);

}  // namespace heliograph::program::limbs
