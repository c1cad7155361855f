// The scales of a linked program's values: what a value is, times its scale, is what its words are.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "program/limbs/link.h"

namespace heliograph::program::limbs {

struct Scales {
  std::vector<double> items;    // of each item that is taken
  std::vector<double> results;  // of each result
};

struct ScaleRules {
  std::array<double, kPrimes> primes{};            // by index
  std::function<double(std::size_t limbs)> level;  // the scale of a ciphertext of so many limbs
  double tolerance = 0;                            // how much scales of a sum may differ, in proportion
  double least = 1;                                // that a division may leave: the size of its rounding error
};

/// `items`: 0 where it is to be inferred, of plaintexts and scalars. Sums are equations: summands have one scale. What they leave open is
/// decided by divisions, whose quotients have their level's scale; what is never divided has its own level's. Throws ScaleError, which
/// names the line: scales of a sum differ by more than the tolerance, a division leaves less than `least`, a result's scale does not
/// lie between 1 and half its modulus, an inferred scale lies below 1.
Scales follow(const Linked& program, const ScaleRules& rules, std::vector<double> items);

/// "instructions0:5", the first instruction that computes with an item; empty if none does.
std::string first_use(const Linked& program, u32 item);

}  // namespace heliograph::program::limbs
