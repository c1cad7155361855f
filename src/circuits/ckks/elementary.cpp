// Elementary functions by one polynomial.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>

#include "base/errors.h"
#include "circuits/ckks/approximation.h"
#include "circuits/ckks/elementary.h"
#include "circuits/ckks/fit_cache.h"

namespace heliograph::ckks {

namespace {

using Real = double (*)(double);

constexpr double kMostWidth = 8;  // maximum width of the interval of exp's polynomial, before squarings
constexpr int kMostSquarings = 16;
constexpr double kMostExponent = 700;

double logistic(double v) { return 1 / (1 + std::exp(-v)); }
double gaussian_error_unit(double v) { return v * (1 + std::erf(v / std::numbers::sqrt2)) / 2; }

/// Returns the fit of a function whose name identifies it.
Approximation fitted(const FitKey& key, Real f) {
  thread_local FitCache<Approximation> cache;
  return cache.get(key, [&] {
    return approximate(f, key.low, key.high, {.error = key.error, .relative = false, .depth = {}, .name = key.name});
  });
}

std::optional<double> half_of(std::optional<double> error) {
  if (!error) return std::nullopt;
  return error_or_default(error, 1) / 2;
}

/// Returns a function by one polynomial on the interval of x.
Operand by_polynomial(const std::string& name, Real f, const Bounded& given, const Evaluator& by,
                      const std::optional<double>& error, const std::string& guard) {
  const auto [low, high] = not_a_point(given.low, given.high);
  const Approximation fit = fitted({name, low, high, half_of(error)}, f);
  const Operand y = evaluate(fit, given.x, by, guard);
  return with_promise(y, by, error_bounds(y), error, name);
}

Operand simple(const std::string& name, Real f, const Operand& x, const Evaluator& by, const FunctionOptions& options) {
  return by_polynomial(name, f, bounded_by(x, by, options, name), by, options.error, name);
}

/// A polynomial and the number of squarings after it.
struct ExpPlan {
  Approximation f;
  int squarings;

  auto cost() const { return std::tuple(f.depth() + static_cast<std::size_t>(squarings), f.degree()); }
};

ExpPlan squaring_plan(double low, double high, const std::optional<double>& error) {
  const double relative = error ? std::min(0.5, *error / 2 / std::exp(high)) : kDefaultError;
  std::optional<ExpPlan> best;
  std::optional<ParameterError> refused;
  for (int r = 1; r <= kMostSquarings; ++r) {
    const double parts = std::exp2(r);
    if ((high - low) / parts > kMostWidth) continue;
    try {
      const auto part = [&](double v) { return std::exp(v / parts); };
      Approximation f =
          approximate(part, low, high, {.error = relative / parts / 1.05, .relative = true, .depth = {}, .name = "exp"});
      ExpPlan found{std::move(f), r};
      if (!best || found.cost() < best->cost()) best = std::move(found);
    } catch (const ParameterError& why) {
      refused = why;
      continue;
    }
    if ((high - low) / parts < 2) break;
  }
  if (best) return *best;
  if (refused) throw ParameterError(*refused);
  throw ParameterError("exp: the interval " + interval_text(low, high) + " is too wide");
}

/// Returns the plan with the fewest levels.
ExpPlan exp_plan(double low, double high, const std::optional<double>& error, ExpMethod method) {
  if (high > kMostExponent)
    throw PlaintextRangeError("exp of values up to " + number_text(high) + " exceeds the largest float");
  if (method == ExpMethod::squaring) return squaring_plan(low, high, error);
  try {
    return {fitted({"exp", low, high, half_of(error)}, [](double v) { return std::exp(v); }), 0};
  } catch (const ParameterError&) {
    if (method == ExpMethod::polynomial) throw;
  }
  return squaring_plan(low, high, error);
}

}  // namespace

std::pair<double, double> not_a_point(double low, double high) {
  const double margin = 0x1p-10 * (low == 0 ? 1 : std::abs(low));
  return low < high ? std::pair(low, high) : std::pair(low - margin, high + margin);
}

Bounded positive(const Operand& x, const Evaluator& by, const FunctionOptions& options, const std::string& what) {
  Bounded given = bounded_by(x, by, options, what);
  if (given.low <= 0)
    throw ParameterError(what + " needs an interval above 0, not " + interval_text(given.low, given.high) +
                         "; pass domain=(low, high)");
  std::tie(given.low, given.high) = not_a_point(given.low, given.high);
  return given;
}

Operand exp_for(const Operand& x, const Evaluator& by, const std::string& guard) {
  return by_polynomial(
      "exp", [](double v) { return std::exp(v); }, bounded_by(x, by, {}, "exp"), by, {}, guard);
}

Operand exp(const Operand& x, const Evaluator& by, const FunctionOptions& options, ExpMethod method) {
  thread_local FitCache<ExpPlan> plans;
  const Bounded given = bounded_by(x, by, options, "exp");
  const auto [low, high] = not_a_point(given.low, given.high);
  std::optional<double> error = options.error;
  if (error) error = error_or_default(error, 1);
  const std::string key = "exp by method " + std::to_string(static_cast<int>(method));
  const ExpPlan plan =
      plans.get({key, low, high, error}, [&, low = low, high = high] { return exp_plan(low, high, error, method); });
  Operand y = evaluate(plan.f, given.x, by, "exp");
  const double parts = std::exp2(plan.squarings);
  double least = std::exp(low / parts), most = std::exp(high / parts);
  double slack = plan.f.is_relative() ? 2 * plan.f.error() : 0;
  for (int i = 0; i < plan.squarings; ++i) {
    y = by.ready(by.inside(y, least * (1 - slack), most * (1 + slack)), 1);
    y = by.multiply(y, y);
    least *= least, most *= most, slack = 2 * slack + slack * slack;
  }
  return with_promise(y, by, error_bounds(y), error, "exp");
}

Operand log(const Operand& x, const Evaluator& by, const FunctionOptions& options) {
  return by_polynomial(
      "log", [](double v) { return std::log(v); }, positive(x, by, options, "log"), by, options.error, "log");
}

Operand sigmoid(const Operand& x, const Evaluator& by, const FunctionOptions& options) {
  return simple("sigmoid", &logistic, x, by, options);
}

Operand tanh(const Operand& x, const Evaluator& by, const FunctionOptions& options) {
  return simple(
      "tanh", [](double v) { return std::tanh(v); }, x, by, options);
}

Operand gelu(const Operand& x, const Evaluator& by, const FunctionOptions& options) {
  return simple("gelu", &gaussian_error_unit, x, by, options);
}

Operand erf(const Operand& x, const Evaluator& by, const FunctionOptions& options) {
  return simple(
      "erf", [](double v) { return std::erf(v); }, x, by, options);
}

Operand sin(const Operand& x, const Evaluator& by, const FunctionOptions& options) {
  return simple(
      "sin", [](double v) { return std::sin(v); }, x, by, options);
}

Operand cos(const Operand& x, const Evaluator& by, const FunctionOptions& options) {
  return simple(
      "cos", [](double v) { return std::cos(v); }, x, by, options);
}

Operand power(const Operand& x, double exponent, const Evaluator& by, const FunctionOptions& options) {
  if (!std::isfinite(exponent)) throw ParameterError("an exponent must be a finite number, not " + number_text(exponent));
  const Bounded given = bounded_by(x, by, options, "power");
  const bool whole = std::nearbyint(exponent) == exponent;
  if ((!whole && given.low <= 0) || (exponent < 0 && given.low <= 0 && given.high >= 0))
    throw ParameterError("the power " + number_text(exponent) + " needs an interval " + (whole ? "without 0" : "above 0") +
                         ", not " + interval_text(given.low, given.high) + "; pass domain=(low, high)");
  const auto [low, high] = not_a_point(given.low, given.high);
  const Approximation f = approximate([&](double v) { return std::pow(v, exponent); }, low, high,
                                      {.error = half_of(options.error), .relative = false, .depth = {}, .name = "power"});
  const Operand y = evaluate(f, given.x, by);
  return with_promise(y, by, error_bounds(y), options.error, "power");
}

}  // namespace heliograph::ckks
