// Approximations, and parts that functions share.
#pragma once

#include <optional>
#include <string>

#include "circuits/ckks/text.h"
#include "heliograph/functions.h"

namespace heliograph::ckks {

inline constexpr double kDefaultError = 0x1p-20;  // relative to the largest value

/// Returns the error of a function whose largest value is `largest`. Throws ParameterError.
double error_or_default(std::optional<double> error, double largest);
/// Returns x with error bounds 0, so that a result's bounds are those of the operations alone.
inline Operand without_errors(const Operand& x, const Evaluator& by) { return by.with_error(x, {0, 0}); }
/// Throws PlaintextRangeError unless the bounds of x are inside [low, high], up to the rounding of stored bounds.
void require_inside(const Ciphertext& x, double low, double high, const std::string& what);

}  // namespace heliograph::ckks
