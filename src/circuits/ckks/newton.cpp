// Functions by Newton's method.
#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "circuits/ckks/approximation.h"
#include "circuits/ckks/elementary.h"
#include "circuits/ckks/fit_cache.h"

namespace heliograph::ckks {

namespace {

constexpr std::size_t kLeastStartDepth = 2, kMostStartDepth = 6;  // levels of the polynomial from which the method starts
constexpr int kMostSteps = 20;

/// Returns the start polynomial times `factor`. `error`: the relative error of the product.
Approximation scaled_start(const Approximation& f, double low, double high, double factor, double error) {
  std::vector<double> coefficients = f.coefficients();
  for (double& c : coefficients) c *= factor;
  return {f.name(), low, high, std::move(coefficients), error, true};
}

/// A function f(x) > 0 on a positive interval, as y = f(x) (1 - r) with a bound on |r|.
class Newton {
 public:
  Newton(std::string name, double low, double high) : name_(std::move(name)), low_(low), high_(high) {}
  virtual ~Newton() = default;
  Newton(const Newton&) = delete;
  Newton& operator=(const Newton&) = delete;

  virtual double most() const = 0;   // the largest value of f
  virtual double slope() const = 0;  // the largest |f'|

  /// Computes y, so that the method has a relative error of at most `wanted`. `guard` names the guard.
  Relative run(const Operand& given, const Evaluator& by, double wanted, const std::string& guard) const {
    const auto [start, steps] = plan(wanted);
    require_inside(given, low_, high_, name_);
    const Operand x = without_errors(given, by);
    Operand y = evaluate(start, x, by, guard);
    const double least = std::min(f(low_), f(high_)), largest = std::max(f(low_), f(high_));
    const double of_start = start.error() * start.largest();
    double r = start.error();
    ErrorBounds e = error_bounds(y);
    e = {e.trusted - of_start, e.assumed - of_start};
    Operand z = prepared(x, by);
    for (int i = 0; i < steps; ++i) {
      const double total = r + std::max(0.0, e.assumed) / least;
      y = by.inside(without_errors(y, by), std::min(0.0, least * (1 - total)), largest * (1 + total));
      y = by.ready(y, 2), z = by.ready(z, 2);
      y = step(z, y, by);
      r = squared(total), e = error_bounds(y);  // an unknown trusted bound (NaN) stays unknown
    }
    return {y, r, e};
  }

  /// Computes f to `error`; nullopt: to the default error.
  Operand of(const Operand& x, const Evaluator& by, const std::optional<double>& error) const {
    const double wanted = error_or_default(error, most()) / 2 / most();
    const Relative found = run(x, by, wanted, name_);
    const ErrorBounds noise = error_bounds(x);
    const auto total = [&](double rounding, double of_x) {
      return most() * found.relative + rounding + 1.01 * slope() * of_x;
    };
    const ErrorBounds errors{total(found.rounding.trusted, noise.trusted), total(found.rounding.assumed, noise.assumed)};
    return by.inside(with_promise(found.y, by, errors, error, name_), -most(), 2 * most());
  }

  std::pair<Approximation, int> plan(double wanted) const {
    thread_local FitCache<std::pair<Approximation, int>> plans;
    return plans.get({name_, low_, high_, wanted}, [&] { return planned(wanted); });
  }

 protected:
  virtual double f(double v) const = 0;
  /// Returns the bound on |r| after a step, without rounding errors.
  virtual double squared(double relative) const = 0;
  virtual Operand step(const Operand& x, const Operand& y, const Evaluator& by) const = 0;
  /// Returns x in the form that the steps of the method use.
  virtual Operand prepared(const Operand& x, const Evaluator& /*by*/) const { return x; }
  /// Returns the polynomial that gives the start value; it takes `depth` levels.
  virtual Approximation start_of(std::size_t depth) const {
    return approximate([&](double v) { return f(v); }, low_, high_,
                       {.error = {}, .relative = true, .depth = depth, .name = name_});
  }

  std::string name_;
  double low_, high_;

 private:
  /// Returns the start polynomial and the number of steps that reach a relative error with the fewest levels in total.
  std::pair<Approximation, int> planned(double wanted) const {
    std::optional<std::pair<Approximation, int>> best;
    std::size_t levels = 0;
    for (std::size_t depth = kLeastStartDepth; depth <= kMostStartDepth; ++depth) {
      Approximation start = start_of(depth + 1).renamed(name_);
      double reached = start.error();
      int steps = 0;
      while (reached > wanted && steps <= kMostSteps && reached < 0.999) reached = squared(reached), ++steps;
      const std::size_t needed = start.depth() + 2 * static_cast<std::size_t>(steps);
      if (reached <= wanted && (!best || needed < levels)) best.emplace(std::move(start), steps), levels = needed;
    }
    if (!best)
      throw ParameterError(name_ + " on " + interval_text(low_, high_) + " does not reach a relative error of " +
                           power_text(wanted) + "; take a narrower interval or a larger error");
    return *best;
  }
};

class Inverse final : public Newton {
 public:
  Inverse(double low, double high) : Newton("inverse", low, high) {}
  double most() const override { return 1 / low_; }
  double slope() const override { return 1 / (low_ * low_); }

 private:
  double f(double v) const override { return 1 / v; }
  double squared(double relative) const override { return relative * relative; }
  Operand step(const Operand& x, const Operand& y, const Evaluator& by) const override {
    const Operand product = by.inside(by.multiply(x, y), 0, 2);
    return by.multiply(y, by.plus(by.negate(product), 2));
  }
};

class InverseRoot : public Newton {
 public:
  InverseRoot(double low, double high, std::string name = "rsqrt") : Newton(std::move(name), low, high) {}
  double most() const override { return 1 / std::sqrt(low_); }
  double slope() const override { return 0.5 * std::pow(low_, -1.5); }

 protected:
  double f(double v) const override { return 1 / std::sqrt(v); }
  double squared(double relative) const override { return (1.5 - 0.5 * relative) * relative * relative; }
  Operand prepared(const Operand& x, const Evaluator& by) const override { return by.times(x, 0.5); }
  Operand step(const Operand& x, const Operand& y, const Evaluator& by) const override {
    const Operand more = by.times(y, 1.5), product = by.multiply(x, y), square = by.multiply(y, y);
    return by.subtract(more, by.multiply(product, square));
  }
  Approximation start_of(std::size_t depth) const override {
    const Approximation fit = Newton::start_of(depth);
    const double down = 1 / (1 + fit.error());  // below f, r is in [0, 1), where the method converges from every r
    return scaled_start(fit, fit.low(), fit.high(), down, 2 * fit.error() * down);
  }
};

/// 1 / sqrt(x), with a relative error for values from `low` to `high`; for values from 0 to `low` the result is between 0
/// and 1 / sqrt(x). The first value is at most 1 / sqrt(x + low), so Newton's method stays below 1 / sqrt(x) for every x
/// from 0 on.
class InverseRootFromZero final : public InverseRoot {
 public:
  InverseRootFromZero(double low, double high) : InverseRoot(low, high, "1 / sqrt") {}

  /// The bounds of y hold for arguments of at least `low`; for smaller arguments y is at most 1.5^steps times as large.
  Relative bounded(const Operand& given, const Evaluator& by, double wanted, const std::string& guard) const {
    const auto [start, steps] = plan(wanted);
    const Operand x = without_errors(given, by);
    Operand y = evaluate(start, x, by, guard);
    const double largest = std::sqrt(high_);
    double relative = start.error() + (error_bounds(y).assumed - start.error() * start.largest()) * largest;
    Operand z = prepared(x, by);
    for (int i = 0; i < steps; ++i) {
      y = by.inside(without_errors(y, by), 0, most());
      y = by.ready(y, 2), z = by.ready(z, 2);
      const Operand square = by.multiply(y, y), more = by.times(y, 1.5);
      y = by.subtract(more, by.multiply(by.inside(by.multiply(z, y), 0, largest), square));
      // Relative errors of a step, for y up to `most`: the error of z times y^3, and roundings of products times y^2, y and
      // 1, all divided by y.
      const double rounding = error_bounds(square).assumed;
      const double noise = error_bounds(z).assumed / low_ + rounding * (most() + 4 * largest);
      relative = squared(std::min(1.0, relative)) + noise;
    }
    return {by.inside(y, 0, most()), relative, {0, 0}};
  }

 private:
  Approximation start_of(std::size_t depth) const override {
    const Approximation fit = approximate([&](double v) { return 1 / std::sqrt(v + low_); }, 0, high_,
                                          {.error = {}, .relative = true, .depth = depth, .name = name_});
    const double down = 1 / (1 + fit.error());
    const double error = 1 - (1 - fit.error()) * down * std::sqrt(0.5);  // largest value on the interval, at `low`
    return scaled_start(fit, 0, high_, down, error);
  }
};

}  // namespace

Operand inverse(const Operand& x, const Evaluator& by, const FunctionOptions& options) {
  const Bounded given = bounded_by(x, by, options, "inverse");
  if (given.low <= 0 && given.high >= 0)
    throw ParameterError("1/x needs an interval without 0, not " + interval_text(given.low, given.high) +
                         "; pass domain=(low, high)");
  const auto [low, high] = not_a_point(given.low, given.high);
  if (high < 0) return by.negate(Inverse(-high, -low).of(by.negate(given.x), by, options.error));
  return Inverse(low, high).of(given.x, by, options.error);
}

Operand rsqrt(const Operand& x, const Evaluator& by, const FunctionOptions& options) {
  const Bounded given = positive(x, by, options, "rsqrt");
  return InverseRoot(given.low, given.high).of(given.x, by, options.error);
}

Operand sqrt(const Operand& x, const Evaluator& by, const FunctionOptions& options) {
  const Bounded given = positive(x, by, options, "sqrt");
  const double most = std::sqrt(given.high), bound = error_or_default(options.error, most);
  const Relative found = InverseRoot(given.low, given.high).run(given.x, by, bound / (2 * most), "sqrt");
  // The error bounds of a product of operands without errors are those of its roundings.
  const Operand exact = without_errors(given.x, by), product = by.multiply(exact, without_errors(found.y, by));
  const ErrorBounds last = error_bounds(product);
  const ErrorBounds noise = error_bounds(given.x);
  // The encrypted x' differs from x by at most `noise`, so sqrt(x') differs from sqrt(x) by at most noise / (2 sqrt(low)).
  const auto total = [&](double rounding, double of_product, double of_x) {
    return most * found.relative + given.high * rounding + of_product + of_x / std::sqrt(given.low);
  };
  const ErrorBounds errors{total(found.rounding.trusted, last.trusted, noise.trusted),
                           total(found.rounding.assumed, last.assumed, noise.assumed)};
  return by.inside(with_promise(product, by, errors, options.error, "sqrt"), 0, most * 1.001 + bound);
}

Operand norm(const Operand& x, const Axis& axis, const Evaluator& by, const FunctionOptions& options) {
  require<ParameterError>(options.domain.has_value(), "norm needs an interval of the norm above 0: pass domain=(low, high)");
  const double low = options.domain->low, high = options.domain->high;
  if (!(low > 0)) throw ParameterError("norm needs an interval above 0, not " + interval_text(low, high));
  const Operand squares = by.multiply(x, x), total = axis ? by.sum(squares, *axis) : by.sum_slots(squares);
  FunctionOptions of_square = options;
  of_square.domain = Interval(low * low, high * high);
  return sqrt(total, by, of_square);
}

Operand divide(const Operand& a, const Operand& b, const Evaluator& by, const FunctionOptions& options) {
  return by.multiply(inverse(b, by, options), a);
}

Relative inverse_root(const Operand& x, const Evaluator& by, const Interval& interval, double relative,
                      const std::string& guard) {
  require<ParameterError>(0 < interval.low && interval.low < interval.high, "the interval of 1 / sqrt must be above 0");
  return InverseRoot(interval.low, interval.high).run(x, by, error_or_default(relative, 1), guard);
}

Relative inverse_root_from_zero(const Operand& x, const Evaluator& by, const Interval& interval, double relative,
                                const std::string& guard) {
  require<ParameterError>(0 < interval.low && interval.low < interval.high, "the interval of 1 / sqrt must be above 0");
  return InverseRootFromZero(interval.low, interval.high).bounded(x, by, error_or_default(relative, 1), guard);
}

}  // namespace heliograph::ckks
