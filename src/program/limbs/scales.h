// Scales of a linked program's values. The words of a value are the value times its scale.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "program/limbs/link.h"

namespace heliograph::program::limbs {

struct Scales {
  std::vector<double> items;    // indexed by item
  std::vector<double> results;  // indexed by result
};

struct ScaleRules {
  std::array<double, kPrimes> primes{};            // indexed by the instructions' index of a prime
  std::function<double(std::size_t limbs)> level;  // returns the scale of a ciphertext with this many limbs
  double tolerance = 0;                            // largest relative difference of the scales in a sum
  double least = 1;                                // least scale after a division: the size of the division's rounding error
};

/// Computes scales. In `items`, 0 marks plaintexts and scalars whose scale is inferred. Sums give equations, because all
/// terms of a sum must have one scale. If scales remain unknown, quotients of divisions get their level's scale; an item
/// without a quotient gets the scale of its own level. The scale of a result must be between 1 and half its modulus. Throws
/// ScaleError, which names the line, for terms whose scales differ by more than the tolerance. Also throws ScaleError for a
/// division that leaves a scale below `least`, and for an inferred scale below 1.
Scales follow(const Linked& program, const ScaleRules& rules, std::vector<double> items);

/// Returns the location of the first instruction that uses an item, as "instructions0:5"; empty if there is none.
std::string first_use(const Linked& program, u32 item);

}  // namespace heliograph::program::limbs
