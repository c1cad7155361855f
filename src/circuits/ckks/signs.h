// Signs by compositions of polynomials.
#pragma once

#include <string>

#include "circuits/ckks/approximation.h"

namespace heliograph::ckks {

inline constexpr double kBootstrapProducts = 47;  // time of a bootstrap, in products of tensors at the top level

/// Signs of a tensor's values. Their error is that of the composition and `noise`.
struct Signs {
  Operand x;
  Composition composition;
  ErrorBounds noise;
};
/// Returns signs of values in [-largest, largest] to `error`, of which the composition takes at most 3/4. `after` is as for
/// plan_signs.
Signs compose_signs(const Operand& x, const Evaluator& by, double largest, double gap, double error, const std::string& what,
                    std::size_t after = 0);
/// Returns s with |x s - |x|| <= error for values in [-largest, largest], and the factor 1 / scale of its noise.
std::pair<Signs, double> compose_signs_for_abs(const Operand& x, const Evaluator& by, double largest, double error,
                                               const std::string& what);
/// Returns signs to `error`, of which the composition takes at most 3/4. The error bounds include the composition's error.
Operand signs_of(const Operand& x, const Evaluator& by, double largest, double gap, double error, const std::string& what,
                 std::size_t after = 0);
/// Returns the time of compose_signs in products at the top level, or nullopt if levels do not suffice. Levels count as a
/// share of the bootstrap that restores them, if the set has bootstrapping.
std::optional<double> cost_of_signs(const Ciphertext& x, const Evaluator& by, double largest, double gap, double error);

}  // namespace heliograph::ckks
