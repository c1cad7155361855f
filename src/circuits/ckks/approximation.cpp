// Fits of polynomials to functions, and their evaluation.
#include "circuits/ckks/approximation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/errors.h"
#include "circuits/ckks/chebyshev.h"

namespace heliograph::ckks {

namespace {

using Sampled = std::function<std::vector<double>(const std::vector<double>&)>;

constexpr std::size_t kMostDepth = 10;  // maximum levels of a fitted polynomial
constexpr std::size_t kPoints = 8;      // points at which a fit is checked, per degree

/// Fits polynomials to one function.
class Fit {
 public:
  Fit(const Sampled& f, double low, double high, const FitOptions& options)
      : f_(f), low_(low), high_(high), options_(options) {}

  double largest() const {
    double most = 0;
    for (const double y : values(extreme_points(1025))) most = std::max(most, std::abs(y));
    return most > 0 ? most : 1;
  }

  /// Returns the fit of a degree. The error is measured at other points than those of the fit, with a margin.
  Approximation best(std::size_t degree) const {
    const std::vector<double> y = values(chebyshev_nodes(2 * degree + 2));
    // An interpolant at the Chebyshev points of a higher degree, truncated to this degree, is close to the minimax
    // polynomial.
    std::vector<double> coefficients = options_.relative ? relative_fit(y, degree) : interpolated(y, degree);
    const double error = error_of(coefficients);
    return {options_.name, low_, high_, std::move(coefficients), error, options_.relative};
  }

  /// Returns the polynomial of the smallest degree whose error is small enough.
  Approximation smallest(double error) const {
    std::size_t high = 1;
    Approximation found = best(high);
    while (!(found.error() <= error)) {
      if (high >= (std::size_t{1} << kMostDepth) - 1)
        throw ParameterError("no polynomial of degree " + std::to_string(high) + " approximates " + options_.name + " on " +
                             interval_text(low_, high_) + " to " + power_text(error) + "; its error is " +
                             power_text(found.error()) + ". Take a narrower interval or a larger error");
      high = 2 * high + 1;
      found = best(high);
    }
    std::size_t low = (high - 1) / 2;
    while (high - low > 1) {
      const std::size_t middle = (low + high) / 2;
      Approximation tried = best(middle);
      if (tried.error() <= error)
        high = middle, found = std::move(tried);
      else
        low = middle;
    }
    return found;
  }

 private:
  /// Returns f at points of [-1, 1], mapped to the interval.
  std::vector<double> values(const std::vector<double>& points) const {
    std::vector<double> x(points.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = std::clamp((high_ + low_) / 2 + (high_ - low_) / 2 * points[i], low_, high_);
    std::vector<double> y = f_(x);
    if (y.size() != x.size())
      throw ParameterError(options_.name + " must return one real number for each number of an array");
    for (std::size_t i = 0; i < y.size(); ++i)
      if (!std::isfinite(y[i])) throw PlaintextRangeError(options_.name + " is not finite at " + number_text(x[i]));
    if (options_.relative && std::any_of(y.begin(), y.end(), [&](double v) { return v == 0 || (v > 0) != (y[0] > 0); }))
      throw ParameterError(options_.name + " has a zero in the interval; a relative error needs a function without zeros");
    return y;
  }

  double error_of(const std::vector<double>& coefficients) const {
    constexpr std::size_t kEven = 4097;
    std::vector<double> points = extreme_points(16 * coefficients.size() + 129);
    for (std::size_t i = 0; i < kEven; ++i) points.push_back(2 * static_cast<double>(i) / (kEven - 1) - 1);
    const std::vector<double> y = values(points);
    double most = 0, rounding = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double distance = std::abs(chebyshev_value(coefficients, points[i]) - y[i]);
      most = std::max(most, options_.relative ? distance / std::abs(y[i]) : distance);
    }
    for (const double c : coefficients) rounding += std::abs(c);
    return most * 1.02 + 0x1p-50 * rounding;
  }

  const Sampled& f_;
  double low_, high_;
  const FitOptions& options_;
};

void require_interval(double low, double high) {
  if (!(std::isfinite(low) && std::isfinite(high) && low <= high))
    throw ParameterError("an interval's bounds must be finite and in ascending order, not " + interval_text(low, high));
}

bool is_known(const Interval& bounds) { return std::isfinite(bounds.low) && std::isfinite(bounds.high); }

}  // namespace

double error_or_default(std::optional<double> error, double largest) {
  if (!error) return kDefaultError * largest;
  if (!(*error > 0) || !std::isfinite(*error))
    throw ParameterError("an error must be a number above 0, not " + number_text(*error));
  return *error;
}

Approximation::Approximation(std::string name, double low, double high, std::vector<double> coefficients, double error,
                             bool relative)
    : name_(std::move(name)),
      low_(low),
      high_(high),
      coefficients_(std::move(coefficients)),
      error_(error),
      relative_(relative) {
  require<ParameterError>(!coefficients_.empty(), "a polynomial must have at least one coefficient");
  require_interval(low, high);
  if (!std::all_of(coefficients_.begin(), coefficients_.end(), [](double c) { return std::isfinite(c); }))
    throw ParameterError("the coefficients of an approximation must be finite numbers");
  if (!(error >= 0) || !std::isfinite(error))
    throw ParameterError("the error of an approximation must be a finite number of at least 0, not " + number_text(error));
}

std::size_t Approximation::depth() const { return polynomial_depth(degree()) + (low_ == -1 && high_ == 1 ? 0 : 1); }

double Approximation::largest() const {
  double most = 0;
  for (const double x : extreme_points(kPoints * std::max<std::size_t>(1, degree()) + 1))
    most = std::max(most, std::abs(chebyshev_value(coefficients_, x)));
  return most / std::cos(std::numbers::pi / (2 * kPoints));  // bound between the points (Ehlich and Zeller)
}

double Approximation::clear(double x) const {
  if (!(low_ <= x && x <= high_)) throw PlaintextRangeError("values must be in " + interval_text(low_, high_));
  if (low_ == -1 && high_ == 1) return chebyshev_value(coefficients_, x);
  const double half = (high_ - low_) / 2;
  return chebyshev_value(coefficients_, x * (1 / half) - (high_ + low_) / (2 * half));
}

Approximation Approximation::renamed(std::string name) const {
  Approximation made = *this;
  made.name_ = std::move(name);
  return made;
}

Approximation approximate_values(const Sampled& f, double low, double high, const FitOptions& options) {
  require_interval(low, high);
  if (low == high) throw ParameterError("an interval must have two different ends, not " + interval_text(low, high));
  require<ParameterError>(!options.error || !options.depth, "approximate takes an error or a depth, not both");
  const Fit fit(f, low, high, options);
  if (!options.depth) return fit.smallest(error_or_default(options.error, options.relative ? 1 : fit.largest()));
  const std::size_t scaling = low == -1 && high == 1 ? 0 : 1;
  if (*options.depth < 1 + scaling || *options.depth > kMostDepth + scaling)
    throw ParameterError("depth must be 1 to " + std::to_string(kMostDepth) +
                         " levels, and one more to scale values to [-1, 1]");
  return fit.best((std::size_t{1} << (*options.depth - scaling)) - 1);
}

Approximation approximate(const std::function<double(double)>& f, double low, double high, const FitOptions& options) {
  require<ParameterError>(static_cast<bool>(f), "approximate takes a function, not an empty std::function");
  const auto each = [&](const std::vector<double>& x) {
    std::vector<double> y(x.size());
    std::transform(x.begin(), x.end(), y.begin(), f);
    return y;
  };
  return approximate_values(each, low, high, options);
}

void require_inside(const Ciphertext& x, double low, double high, const std::string& what) {
  const Interval bounds = x.bounds();
  const double slack = (high - low) * 0x1p-14;
  if (is_known(bounds) && bounds.low >= low - slack && bounds.high <= high + slack) return;
  const std::string have = is_known(bounds) ? "may be in " + interval_text(bounds.low, bounds.high) : "have no bounds";
  throw PlaintextRangeError(what + " takes values in " + interval_text(low, high) + ", but these " + have +
                            "; widen the interval, or declare that all values are inside: within(x, (" + number_text(low) +
                            ", " + number_text(high) + "))");
}

Operand evaluate(const Approximation& f, const Operand& x, const Evaluator& by, const std::string& guard) {
  require_inside(x, f.low(), f.high(), f.name());
  if (x.complex()) throw DtypeError(f.name() + " takes real numbers, not complex ones");
  if (f.degree() == 0) return by.with_error(by.plus(by.times(x, 0), f.coefficients()[0]), {f.error(), f.error()});
  Operand u = by.ready(x, f.depth());
  if (f.low() != -1 || f.high() != 1) {
    const double half = (f.high() - f.low()) / 2;
    u = by.plus(by.times(u, 1 / half), -((f.high() + f.low()) / (2 * half)));
  }
  const std::string name = (guard.empty() ? f.name() : guard) + " on " + interval_text(f.low(), f.high());
  const Operand y = by.polynomial(u, f.coefficients(), name);
  const double more = f.is_relative() ? f.error() * f.largest() : f.error();
  const ErrorBounds errors = error_bounds(y);
  return by.with_error(y, {errors.trusted + more, errors.assumed + more});
}

Bounded bounded_by(const Operand& x, const Evaluator& by, const FunctionOptions& options, const std::string& what) {
  if (x.complex()) throw DtypeError(what + " takes real numbers, not complex ones");
  const auto guarded = [&](const Operand& y) { return options.guard == Guarding::usual ? y : by.guarded(y, options.guard); };
  const Interval bounds = x.bounds();
  if (!options.domain) {
    if (!is_known(bounds))
      throw ParameterError(what + " needs an interval of the values: this tensor has no bounds; pass domain=(low, high)");
    return {guarded(x), bounds.low, bounds.high};
  }
  const double low = options.domain->low, high = options.domain->high;
  require_interval(low, high);
  if (is_known(bounds) && (bounds.low > high || bounds.high < low)) {
    if (by.is_trial()) return {guarded(by.plus(x, (low + high) / 2)), low, high};
    throw PlaintextRangeError(what + ": all values are in " + interval_text(bounds.low, bounds.high) +
                              ", outside the domain " + interval_text(low, high));
  }
  return {guarded(by.within(x, {low, high})), low, high};
}

Operand with_promise(const Operand& y, const Evaluator& by, const ErrorBounds& errors, std::optional<double> error,
                     const std::string& what) {
  if (error && errors.assumed > *error)
    throw NoiseError(what + ": the error is at most " + power_text(errors.assumed) + ", above the " + power_text(*error) +
                     " asked for; encrypt with a set of higher precision, or pass a larger error=");
  return by.with_error(y, errors);
}

}  // namespace heliograph::ckks
