// Guards of the arguments of Chebyshev series (schemes/ckks/guards.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

/// An argument u of a Chebyshev series, for which its evaluation has computed C_k(2 u) = 2 T_k(u) for some k.
struct GuardedArgument {
  const Ciphertext& u;
  std::size_t degree;                                                     // degree of the series
  bool strong;                                                            // the result of ckks::strong_guards
  std::function<std::optional<Ciphertext>(std::size_t power)> chebyshev;  // C_power, if computed
};

/// Returns false if a bound without a caller's declaration shows that the argument is in [-reach, reach]; otherwise true.
bool needs_guard(const Ciphertext& u, double reach);
/// Makes a guard of an argument by few operations at the lowest levels. There are several guards if one has too little room
/// or notices too little. Throws LevelError if the argument's level is too low.
std::vector<Guards::Item> guards_of_argument(const GuardedArgument& argument, const std::string& operation,
                                             const EvaluationKeys& keys);

}  // namespace heliograph::ckks
