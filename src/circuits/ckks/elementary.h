// Parts of elementary functions.
#pragma once

#include <string>
#include <utility>

#include "heliograph/functions.h"

namespace heliograph::ckks {

/// Returns an interval of positive length that contains the given one.
std::pair<double, double> not_a_point(double low, double high);
/// Same as bounded_by, but the interval must be above 0, and the result has positive length. Throws ParameterError.
Bounded positive(const Operand& x, const Evaluator& by, const FunctionOptions& options, const std::string& what);
/// Returns exp by one polynomial on the tracked bounds of x, with a guard of the given name.
Operand exp_for(const Operand& x, const Evaluator& by, const std::string& guard);

}  // namespace heliograph::ckks
