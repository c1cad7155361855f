#include "circuits/ckks/integers.h"

#include <algorithm>
#include <cmath>

#include "circuits/ckks/signs.h"

namespace heliograph::ckks {

namespace {

constexpr std::size_t kMostIntegers = 256;  // allowed number of integers in a table
constexpr double kStepError = 0x1p-3;       // largest allowed error of an integer before a table
/// Allowed size of a table that is an odd wave; its polynomial takes the levels of a table of kMostIntegers numbers.
constexpr std::size_t kLongWave = kMostIntegers + 2;
constexpr double kLongWaveGrowth = 2.2;  // factor by which such a table increases the error of 0

/// Returns the levels of a table's polynomial.
std::size_t depth_of_table(const std::vector<double>& table) {
  return table.size() == 2 ? 0 : polynomial_depth(table.size() - (table.size() == kLongWave ? 3 : 1));
}

/// Returns whether wave[-m] = -wave[m] and wave[m + p / 2] = -wave[m] for all m modulo p.
bool is_odd(const std::vector<double>& wave) {
  const std::size_t p = wave.size();
  for (std::size_t m = 0; m < p; ++m) {
    if (wave[(p - m) % p] != -wave[m] || wave[(m + p / 2) % p] != -wave[m]) return false;
  }
  return true;
}

/// Rounds a bound up to a power of two, so that tensors of similar noise share one trial.
double rounded_up(double noise) {
  constexpr double kLeast = -40;
  return std::exp2(noise > 0 ? std::max(kLeast, std::ceil(std::log2(noise))) : kLeast);
}

}  // namespace

Integers::Integers(const Operand& x, const Interval& interval, const Evaluator& by, std::string what)
    : x_(x), by_(by), what_(std::move(what)) {
  constexpr double kMost = 0x1p53;  // above this bound not every integer is a double
  const double low = std::ceil(interval.low), high = std::floor(interval.high);
  if (!(low <= high))
    throw PlaintextRangeError(what_ + ": no integer is in the interval " + interval_text(interval.low, interval.high) +
                              " of the values");
  if (low < -kMost || high > kMost)
    throw ParameterError(what_ + ": integers must be between -2^53 and 2^53, but the interval of the values is " +
                         interval_text(interval.low, interval.high) + "; pass a narrower domain=");
  low_ = static_cast<std::int64_t>(low), high_ = static_cast<std::int64_t>(high);
  count_ = static_cast<std::size_t>(high_ - low_) + 1;
}

std::vector<double> Integers::table(const Function& f) const {
  const auto size = static_cast<std::int64_t>(std::max<std::size_t>(2, count_));
  std::vector<double> made;
  for (std::int64_t m = 0; m < size; ++m) made.push_back(f(((m - low_) % size + size) % size + low_));
  return made;
}

std::vector<double> Integers::chosen(const Function& f, double error) const {
  std::vector<double> own = table(f);
  const std::int64_t half = std::max(-low_, high_) + 1, size = 2 * half;
  if (half > static_cast<std::int64_t>(kLongWave / 2)) return own;
  std::vector<double> wave;
  for (std::int64_t m = 0; m < size; ++m) wave.push_back(m == half ? 0 : f(m < half ? m : m - size));
  if (!is_odd(wave) || depth_of_table(wave) != depth_of_table(own)) return own;
  const bool fits = wave.size() <= kMostIntegers || error_bounds(x_).assumed * kLongWaveGrowth <= error / 4;
  return fits ? wave : own;
}

Operand Integers::unchecked(const Function& f, double error) const {
  if (count_ > kMostIntegers)
    throw ParameterError(what_ + ": a table has at most " + std::to_string(kMostIntegers) +
                         " integers, but the values are in [" + std::to_string(low_) + ", " + std::to_string(high_) +
                         "]; pass a narrower domain=, or take method=\"polynomial\"");
  if (x_.awaits_guard())
    throw ParameterError(what_ +
                         ": a table has no guard, and the interval of these values is declared; pass guard=False to take "
                         "values outside without an error, or take method=\"polynomial\"");
  return by_.functional_bootstrap(x_, chosen(f, error));
}

Operand Integers::looked_up(const Function& f, double error) const {
  const Operand found = unchecked(f, error);
  return with_promise(found, by_, error_bounds(found), error, what_);
}

bool Integers::has_table(const Function& f, double error) const {
  const Parameters parameters = x_.parameters();
  const std::size_t entry = parameters.bootstrapping_level();
  if (entry == 0 || !by_.has_bootstrapping() || count_ > kMostIntegers || x_.level() < entry) return false;
  if (x_.awaits_guard()) return false;  // a table has no guard
  // A bootstrap of several real ciphertexts makes pairs of them, in which their errors are added.
  const Shape shape = x_.shape();
  const bool has_pairs = std::any_of(shape.begin(), shape.end(), [](std::size_t length) { return length > 1; });
  const double noise = error_bounds(x_).assumed * (has_pairs ? 2 : 1);
  if (!(noise <= kStepError)) return false;  // true also for unknown noise (NaN)
  const std::vector<double> numbers = chosen(f, error);
  if (depth_of_table(numbers) >= parameters.top_level()) return false;
  return by_.table_error(parameters, numbers, rounded_up(noise)) <= error;
}

/// Returns the time of a table's functional bootstrap, in products at the top level. Each level counts as a share of the
/// bootstrap that restores levels.
double Integers::cost(const Function& f) const {
  const Parameters parameters = x_.parameters();
  const auto depth = static_cast<double>(depth_of_table(table(f))), top = static_cast<double>(parameters.top_level());
  const double products = depth > 0 ? 2 * std::sqrt(static_cast<double>(count_)) + depth : 0;
  const double spent = static_cast<double>(x_.level()) - (top - depth);
  const double between = top - static_cast<double>(parameters.bootstrapping_level());
  return kBootstrapProducts + products + kBootstrapProducts * spent / between;
}

bool Integers::takes_table(SignMethod method, const Function& f, double error, double largest, double gap) const {
  if (method != SignMethod::automatic) return method == SignMethod::bootstrap;
  if (!has_table(f, error)) return false;
  const std::optional<double> other = cost_of_signs(x_, by_, largest, gap, error);
  return !other || cost(f) <= *other;
}

}  // namespace heliograph::ckks
