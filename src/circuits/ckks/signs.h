// Signs by compositions of polynomials.
#pragma once

#include <string>

#include "circuits/ckks/approximation.h"

namespace heliograph::ckks {

inline constexpr double kBootstrapProducts = 47;  // time of a bootstrap, in products of tensors at the top level

/// Signs of a tensor's values. The error of these signs is the sum of the composition's error and `noise`.
struct Signs {
  Operand x;
  Composition composition;
  ErrorBounds noise;
};
/// Returns signs of values in [-largest, largest], with an error of at most `error`; at most 3/4 of this error is the
/// composition's. `after` is the argument of plan_signs.
Signs compose_signs(const Operand& x, const Evaluator& by, double largest, double gap, double error, const std::string& what,
                    std::size_t after = 0);
/// Returns s with |x s - |x|| <= error for values in [-largest, largest], and the factor 1 / scale by which the noise of s
/// is multiplied.
std::pair<Signs, double> compose_signs_for_abs(const Operand& x, const Evaluator& by, double largest, double error,
                                               const std::string& what);
/// Returns signs with an error of at most `error`; at most 3/4 of this error is the composition's. The error bounds include
/// the composition's error.
Operand signs_of(const Operand& x, const Evaluator& by, double largest, double gap, double error, const std::string& what,
                 std::size_t after = 0);
/// Returns the time of compose_signs in products at the top level, or nullopt if levels do not suffice. If the set has
/// bootstrapping, each level counts as a share of the bootstrap that restores levels.
std::optional<double> cost_of_signs(const Ciphertext& x, const Evaluator& by, double largest, double gap, double error);

}  // namespace heliograph::ckks
