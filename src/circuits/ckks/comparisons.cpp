// Signs, comparisons, choices and extremes.
#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "circuits/ckks/comparisons.h"
#include "circuits/ckks/integers.h"
#include "circuits/ckks/signs.h"

namespace heliograph::ckks {

namespace {

double checked_error(const SignOptions& options) {
  return error_or_default(options.error ? options.error : options.integers ? 0x1p-10 : 0x1p-20, 1);
}

Bounded bounds_for(const Operand& x, const Evaluator& by, const SignOptions& options, const std::string& what) {
  return bounded_by(x, by, {.error = {}, .domain = options.domain, .guard = options.guard}, what);
}

bool is_order(Relation r) { return r != Relation::equal && r != Relation::not_equal; }
bool is_greater(Relation r) { return r == Relation::greater || r == Relation::greater_equal; }
bool includes_equal(Relation r) { return r == Relation::less_equal || r == Relation::greater_equal; }

/// Returns whether the comparison of m with 0 by this relation is true.
bool holds(Relation relation, std::int64_t m) {
  switch (relation) {
    case Relation::less:
      return m < 0;
    case Relation::less_equal:
      return m <= 0;
    case Relation::greater:
      return m > 0;
    case Relation::greater_equal:
      return m >= 0;
    case Relation::equal:
      return m == 0;
    case Relation::not_equal:
      return m != 0;
  }
  throw InternalError("unknown relation");
}

/// Returns signs with at most the error `error`. Throws NoiseError if the noise alone exceeds `error`.
Operand promised_signs(const Operand& x, const Evaluator& by, double largest, double gap, double error,
                       const std::string& what) {
  const Signs found = compose_signs(x, by, largest, gap, error, what);
  const double own = found.composition.error;
  return with_promise(found.x, by, {own + found.noise.trusted, own + found.noise.assumed}, error, what);
}

/// Returns 1 for positive values and 0 for negative values.
Operand positive_ones(const Operand& x, const Evaluator& by, double largest, double gap, double error,
                      const std::string& what) {
  return inside_unit(by.plus(by.times(promised_signs(x, by, largest, gap, 2 * error, what), 0.5), 0.5), by, error);
}

/// Joins x + first and x + second along a new first axis.
Operand shifted_pair(const Operand& x, const Evaluator& by, double first, double second) {
  Shape shape = x.shape();
  shape.insert(shape.begin(), 1);
  return by.concatenate({by.reshape(by.plus(x, first), shape), by.reshape(by.plus(x, second), shape)});
}

Operand equal_ones(const Operand& x, const Evaluator& by, double largest, double gap, bool equal, double error,
                   const std::string& what) {
  const Operand pair = shifted_pair(x, by, gap, -gap);
  const Operand signs = by.times(promised_signs(pair, by, largest + gap, gap / 2, error, what), 0.5);
  const Operand found = by.subtract(by.index(signs, 0), by.index(signs, 1));
  return inside_unit(equal ? found : by.plus(by.negate(found), 1), by, error);
}

/// Returns the magnitudes of values in [-largest, largest].
Approximate magnitudes(const Operand& x, const Evaluator& by, double largest, double error, const std::string& what) {
  if (error >= largest)
    throw ParameterError(what + ": the error " + number_text(error) + " is not below the largest value, " +
                         number_text(largest));
  const auto [s, scale] = compose_signs_for_abs(x, by, largest, error, what);
  const ErrorBounds noise = error_bounds(x);
  const Operand product = by.multiply(without_errors(x, by), without_errors(s.x, by));
  const ErrorBounds rounding = error_bounds(product);
  const ErrorBounds total{1.01 * noise.trusted + s.noise.trusted / scale + rounding.trusted,
                          1.01 * noise.assumed + s.noise.assumed / scale + rounding.assumed};
  return {by.inside(by.with_error(product, total), -error, largest + error), s.composition.error_of_abs / scale};
}

}  // namespace

double checked_gap(const std::optional<double>& gap, bool integers, SignMethod method, const std::string& what) {
  if (integers) {
    if (gap) throw ParameterError(what + ": integers are at least 1 apart; pass gap= or integers=True, not both");
    return 1;
  }
  if (method == SignMethod::bootstrap)
    throw ParameterError(what +
                         ": method=\"bootstrap\" takes a table of integers; pass integers=True, which declares that "
                         "all values are integers");
  if (!gap)
    throw ParameterError(what +
                         " needs gap=, the smallest distance to tell apart, or integers=True, which declares that all "
                         "values are integers");
  if (!(*gap > 0) || !std::isfinite(*gap)) throw ParameterError("a gap must be a number above 0, not " + number_text(*gap));
  return *gap;
}

double required_error(const FunctionOptions& options, const std::string& what) {
  if (!options.error) throw ParameterError(what + " needs the largest error of a result");
  return error_or_default(options.error, 1);
}

Operand inside_unit(const Operand& x, const Evaluator& by, double error) {
  return by.inside(x, -error - 0x1p-10, 1 + error + 0x1p-10);
}

Operand promised(const Approximate& a, const Evaluator& by, double error, const std::string& what) {
  const ErrorBounds noise = error_bounds(a.x);
  return with_promise(a.x, by, {a.error + noise.trusted, a.error + noise.assumed}, error, what);
}

Operand sign(const Operand& x, const Evaluator& by, const SignOptions& options) {
  const double gap = checked_gap(options.gap, options.integers, options.method, "sign");
  const Bounded given = bounds_for(x, by, options, "sign");
  const double error = checked_error(options), largest = std::max(-given.low, given.high);
  if (options.integers) {
    const auto f = [](std::int64_t m) { return m > 0 ? 1.0 : m < 0 ? -1.0 : 0.0; };
    const Integers numbers(given.x, {given.low, given.high}, by, "sign");
    if (numbers.takes_table(options.method, f, error, largest, gap)) return numbers.looked_up(f, error);
  }
  return promised_signs(given.x, by, largest, gap, error, "sign");
}

Operand compare(const Operand& x, Relation relation, const Evaluator& by, const SignOptions& options) {
  require<ParameterError>(relation >= Relation::less && relation <= Relation::not_equal,
                          "a relation must be one of ckks::Relation");
  const double gap = checked_gap(options.gap, options.integers, options.method, "compare");
  const Bounded given = bounds_for(x, by, options, "compare");
  const double error = checked_error(options), largest = std::max(-given.low, given.high);
  if (options.integers)
    return relation_of_integers(given.x, {given.low, given.high}, relation, by, error, options.method, "compare");
  if (!is_order(relation)) return equal_ones(given.x, by, largest, gap, relation == Relation::equal, error, "compare");
  return positive_ones(is_greater(relation) ? given.x : by.negate(given.x), by, largest, gap, error, "compare");
}

Operand compare(const Operand& a, Relation relation, const Operand& b, const Evaluator& by, const SignOptions& options) {
  return compare(by.subtract(a, b), relation, by, options);
}

Operand compare(const Operand& a, Relation relation, double b, const Evaluator& by, const SignOptions& options) {
  return compare(by.plus(a, -b), relation, by, options);
}

Operand relation_of_integers(const Operand& x, const Interval& interval, Relation relation, const Evaluator& by,
                             double error, SignMethod method, const std::string& what) {
  const Integers numbers(x, interval, by, what);
  const auto f = [&](std::int64_t m) { return holds(relation, m) ? 1.0 : 0.0; };
  const double largest = std::max(-interval.low, interval.high);
  // For equality, values are scaled to a gap of 2/3, and the signs use half of this gap.
  const double gap = is_order(relation) ? 0.5 : 1.0 / 3, most = largest + (is_order(relation) ? 0.5 : 2.0 / 3);
  if (numbers.takes_table(method, f, error, most, gap)) return inside_unit(numbers.looked_up(f, error), by, error);
  if (!is_order(relation)) return equal_ones(x, by, largest, 2.0 / 3, relation == Relation::equal, error, what);
  const Operand ordered = is_greater(relation) ? x : by.negate(x);
  return positive_ones(by.plus(ordered, includes_equal(relation) ? 0.5 : -0.5), by, most, gap, error, what);
}

std::optional<Operand> at_least_0_by_table(const Operand& x, const Interval& interval, const Evaluator& by, double error,
                                           double largest, double gap, SignMethod method, const std::string& what) {
  const Integers numbers(x, interval, by, what);
  const auto f = [](std::int64_t m) { return m >= 0 ? 1.0 : 0.0; };
  if (!numbers.takes_table(method, f, error, largest, gap)) return std::nullopt;
  const Operand found = numbers.unchecked(f, error);
  if (const double bound = error_bounds(found).assumed; !(bound <= error))
    throw NoiseError(what + ": a table compares these values with an error of up to " + power_text(bound) + ", but " +
                     power_text(error) +
                     " is needed; encrypt with a set of higher precision, or take method=\"polynomial\"");
  return inside_unit(found, by, error);
}

void require_condition(const Ciphertext& condition) {
  const Interval in = condition.bounds();
  if (std::isfinite(in.low) && std::isfinite(in.high) && !(in.low > -0.25 && in.high < 1.25))
    throw PlaintextRangeError("a condition must be 0 or 1, a result of compare, but this tensor may be in " +
                              interval_text(in.low, in.high));
}

Operand where(const Operand& condition, const Operand& a, const Operand& b, const Evaluator& by) {
  if (condition.complex()) throw DtypeError("where takes real numbers, not complex ones");
  require_condition(condition);
  return by.add(by.multiply(condition, by.subtract(a, b)), b);
}

Operand abs(const Operand& x, const Evaluator& by, const FunctionOptions& options) {
  const double error = required_error(options, "abs");
  const Bounded given = bounded_by(x, by, options, "abs");
  return promised(magnitudes(given.x, by, std::max(-given.low, given.high), error, "abs"), by, error, "abs");
}

Approximate approximate_extreme(const Operand& sum, const Operand& difference, const std::optional<Interval>& limits,
                                bool larger, const Evaluator& by, double error, const std::string& what) {
  const Interval in = difference.bounds();
  const double largest = std::isfinite(in.high - in.low) ? std::max(-in.low, in.high) / 2 : 0;
  const Approximate half = magnitudes(by.times(difference, 0.5), by, largest, error, what);
  const Operand middle = by.times(sum, 0.5);
  Operand result = larger ? by.add(middle, half.x) : by.subtract(middle, half.x);
  if (limits) result = by.inside(result, limits->low - error, limits->high + error);
  return {result, half.error};
}

Approximate approximate_extreme_of(const Operand& a, const Operand& b, const Operand& difference, bool larger,
                                   const Evaluator& by, double error, const std::string& what) {
  const Interval p = a.bounds(), q = b.bounds();
  std::optional<Interval> limits;
  if (std::isfinite(p.high - p.low) && std::isfinite(q.high - q.low))
    limits = larger ? Interval(std::max(p.low, q.low), std::max(p.high, q.high))
                    : Interval(std::min(p.low, q.low), std::min(p.high, q.high));
  return approximate_extreme(by.add(a, b), difference, limits, larger, by, error, what);
}

Operand extreme_of(const Operand& sum, const Operand& difference, const std::optional<Interval>& limits, bool larger,
                   const Evaluator& by, double error, const std::string& what) {
  return promised(approximate_extreme(sum, difference, limits, larger, by, error, what), by, error, what);
}

Operand maximum(const Operand& a, const Operand& b, const Evaluator& by, const FunctionOptions& options) {
  const double error = required_error(options, "maximum");
  const Bounded difference = bounded_by(by.subtract(a, b), by, options, "maximum");
  return promised(approximate_extreme_of(a, b, difference.x, true, by, error, "maximum"), by, error, "maximum");
}

Operand minimum(const Operand& a, const Operand& b, const Evaluator& by, const FunctionOptions& options) {
  const double error = required_error(options, "minimum");
  const Bounded difference = bounded_by(by.subtract(a, b), by, options, "minimum");
  return promised(approximate_extreme_of(a, b, difference.x, false, by, error, "minimum"), by, error, "minimum");
}

Operand relu(const Operand& x, const Evaluator& by, const FunctionOptions& options) {
  const double error = required_error(options, "relu");
  const Bounded given = bounded_by(x, by, options, "relu");
  const Operand half = by.times(given.x, 0.5);
  const Approximate magnitude = magnitudes(half, by, std::max(-given.low, given.high) / 2, error, "relu");
  const Operand result = promised({by.add(half, magnitude.x), magnitude.error}, by, error, "relu");
  return by.inside(result, -error, std::max(given.high, 0.0) + error);
}

Operand clip(const Operand& x, double low, double high, const Evaluator& by, const FunctionOptions& options) {
  if (!(std::isfinite(low) && std::isfinite(high) && low < high))
    throw ParameterError("clip needs two finite limits, the lower one first, not " + number_text(low) + ", " +
                         number_text(high));
  const double error = required_error(options, "clip");
  const Bounded given = bounded_by(x, by, options, "clip");
  const Operand both = shifted_pair(by.times(given.x, 0.5), by, -low / 2, -high / 2);
  double largest = 0;
  for (const double end : {given.low, given.high}) largest = std::max({largest, std::abs(end - low), std::abs(end - high)});
  const Approximate found = magnitudes(both, by, largest / 2, error / 2, "clip");
  const Operand distance = by.subtract(by.index(found.x, 0), by.index(found.x, 1));
  const Approximate limited{by.plus(distance, (low + high) / 2), 2 * found.error};
  return by.inside(promised(limited, by, error, "clip"), low - error, high + error);
}

}  // namespace heliograph::ckks
