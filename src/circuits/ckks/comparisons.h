// Parts of comparisons and extremes.
#pragma once

#include <optional>
#include <string>

#include "circuits/ckks/approximation.h"

namespace heliograph::ckks {

/// A tensor whose error bounds contain only noise, and separately the error of its approximation.
struct Approximate {
  Operand x;
  double error = 0;
};
/// Returns the tensor with both errors. Throws NoiseError if the two errors together exceed `error`.
Operand promised(const Approximate& a, const Evaluator& by, double error, const std::string& what);
/// Returns the larger or the smaller of two values, given their sum and difference.
Approximate approximate_extreme(const Operand& sum, const Operand& difference, const std::optional<Interval>& limits,
                                bool larger, const Evaluator& by, double error, const std::string& what);
/// Returns the larger or the smaller of two values, given both values and `difference`, a - b with its bounds.
Approximate approximate_extreme_of(const Operand& a, const Operand& b, const Operand& difference, bool larger,
                                   const Evaluator& by, double error, const std::string& what);
/// Returns the caller's `error`, for a function that requires this argument. Throws ParameterError.
double required_error(const FunctionOptions& options, const std::string& what);
/// Returns the gap, which is 1 for integers. Throws ParameterError unless exactly one of `gap` and `integers` is given.
double checked_gap(const std::optional<double>& gap, bool integers, SignMethod method, const std::string& what);
/// Returns x with bounds 0 and 1, up to an error.
Operand inside_unit(const Operand& x, const Evaluator& by, double error);
/// Returns 1 where a relation of integers in `interval` to 0 holds and 0 where it does not.
Operand relation_of_integers(const Operand& x, const Interval& interval, Relation relation, const Evaluator& by,
                             double error, SignMethod method, const std::string& what);
/// Returns 1 for integers of at least 0 and 0 for negative integers, by a table; nullopt if the method is a composition.
/// `largest` and `gap` are the arguments of that composition.
std::optional<Operand> at_least_0_by_table(const Operand& x, const Interval& interval, const Evaluator& by, double error,
                                           double largest, double gap, SignMethod method, const std::string& what);

}  // namespace heliograph::ckks
