// Signs by compositions of polynomials: the choice of a composition and of its bootstraps, and the evaluation.
#include "circuits/ckks/signs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/errors.h"

namespace heliograph::ckks {

namespace {

constexpr double kSlack = 0x1p-6;  // share of a polynomial's domain that noise may use up (scripts/sign_composites.py)
constexpr double kSecondIteration = 1.39;  // time of a bootstrap's second iteration, in bootstraps
constexpr int kMostIterations = 2;

/// Returns the time of a polynomial, in products of tensors at the top level. The numbers are ratios of modular products in
/// the set n16-b10-h.
double products_of(std::size_t degree) { return degree <= 7 ? 4.0 : degree <= 15 ? 5.6 : 7.2; }

double time_of_bootstrap(int iterations) { return kBootstrapProducts * (1 + kSecondIteration * (iterations - 1)); }

/// Returns a factor that scales values to at most 1 in magnitude.
double scale_for(double largest) { return 0.5 <= largest && largest <= 1 ? 1.0 : 1 / largest; }

std::vector<Composition> fitting_abs(double error) {
  std::vector<Composition> fitting;
  double least = 1;
  for (const Composition& c : compositions()) {
    if (c.error_of_abs <= error) fitting.push_back(c);
    least = std::min(least, c.error_of_abs);
  }
  if (fitting.empty())
    throw ParameterError("no composition gives magnitudes to " + power_text(error) + " of the largest; the limit is " +
                         power_text(least));
  return fitting;
}

/// Search for the cheapest plan with bootstraps.
class PlanSearch {
 public:
  PlanSearch(const Ciphertext& x, const Evaluator& by, bool has_gap, double error, bool scales, std::size_t after)
      : parameters_(x.parameters()),
        by_(by),
        has_gap_(has_gap),
        error_(error),
        scaling_(scales ? 1 : 0),
        after_(after),
        level_(x.level()),
        top_(parameters_.top_level()),
        entry_(parameters_.bootstrapping_level()) {
    for (int k = 1; k <= kMostIterations; ++k) after_bootstrap_.push_back(by.bootstrap_error(parameters_, k));
  }

  void add(const Composition& c) {
    std::vector<double> roundings;
    const std::size_t count = c.degrees.size();
    for (std::size_t mask = 0; mask < std::size_t{1} << count; ++mask) {
      std::vector<bool> places(count);
      for (std::size_t i = 0; i < count; ++i) places[i] = (mask >> (count - 1 - i) & 1) != 0;
      const std::optional<std::vector<std::size_t>> levels = levels_of(c, places);
      if (!levels) continue;
      double time = 0;
      for (std::size_t i = 0; i < count; ++i)
        time += products_of(c.degrees[i]) * static_cast<double>((*levels)[i]) / static_cast<double>(top_);
      const auto bootstraps = static_cast<double>(std::count(places.begin(), places.end(), true));
      if (best_ && time + bootstraps * kBootstrapProducts >= best_time_) continue;
      for (std::size_t i = roundings.size(); i < count; ++i) roundings.push_back(by_.rounding_error(parameters_, c, i));
      std::optional<std::vector<std::optional<int>>> iterations = iterations_of(c, places, roundings);
      if (!iterations) continue;
      for (const std::optional<int>& k : *iterations)
        if (*k > 0) time += time_of_bootstrap(*k);
      if (!best_ || time < best_time_) best_time_ = time, best_ = SignPlan{c, has_gap_, std::move(*iterations)};
    }
  }

  std::optional<SignPlan> best() const { return best_; }

 private:
  /// Returns the level at which each polynomial starts; nullopt if levels do not suffice.
  std::optional<std::vector<std::size_t>> levels_of(const Composition& c, const std::vector<bool>& places) const {
    std::vector<std::size_t> found;
    std::size_t level = level_;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i]) {
        if (level < entry_) return std::nullopt;
        level = top_;
      }
      found.push_back(level);
      const std::size_t depth = c.depths[i] + (i == 0 ? scaling_ : 0);
      if (level < entry_ + depth) return std::nullopt;
      level -= depth;
    }
    if (level < entry_ + after_) return std::nullopt;
    return found;
  }

  /// Returns the fewest iterations of bootstraps at these places for which the error bounds meet the error; nullopt if no
  /// number of iterations does.
  std::optional<std::vector<std::optional<int>>> iterations_of(const Composition& c, const std::vector<bool>& places,
                                                               const std::vector<double>& roundings) const {
    const std::vector<double>& growths = has_gap_ ? c.growths : c.growths_of_abs;
    double left = error_ - (has_gap_ ? c.error : c.error_of_abs) - roundings.back();
    std::vector<std::optional<int>> found;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const double before = i > 0 ? roundings[i - 1] : 0;
      left -= growths[i] * before;
      std::optional<int> chosen;
      for (int k = places[i] ? 1 : 0; k <= (places[i] ? kMostIterations : 0) && !chosen; ++k) {
        const double noise = k > 0 ? after_bootstrap_[static_cast<std::size_t>(k - 1)] : 0;
        if ((has_gap_ && before + noise > c.lows[i] * kSlack) || growths[i] * noise > left / 2) continue;
        chosen = k;
        left -= growths[i] * noise;
      }
      if (!chosen) return std::nullopt;
      found.push_back(chosen);
    }
    return found;
  }

  Parameters parameters_;
  const Evaluator& by_;
  bool has_gap_;
  double error_;
  std::size_t scaling_, after_, level_, top_, entry_;
  std::vector<double> after_bootstrap_;  // error bounds after a bootstrap of 1, 2, ... iterations
  std::optional<SignPlan> best_;
  double best_time_ = 0;
};

/// Evaluates a composition. With a gap, the noise bound applies to values of at least the gap. Without a gap, the noise is
/// relative to |u|.
Signs composed(const Operand& x, const Evaluator& by, double scale, const std::vector<Composition>& candidates, bool has_gap,
               double error, const std::string& what, std::size_t after = 0) {
  const SignPlan plan = plan_signs(x, by, candidates, has_gap, error, scale != 1, after);
  const Composition& c = plan.composition;
  const std::string guard = what + " on " + interval_text(-1 / scale, 1 / scale);
  ErrorBounds noise;
  Operand u = x;
  for (std::size_t i = 0; i < c.stages.size(); ++i) {
    const bool scales = i == 0 && scale != 1;
    if (!plan.iterations[i])
      u = by.ready(u, c.depths[i] + (scales ? 1 : 0));
    else if (*plan.iterations[i] > 0)
      u = by.bootstrapped(u, *plan.iterations[i]);
    if (scales) u = by.times(u, scale);
    const ErrorBounds before = error_bounds(u);
    if (has_gap && before.assumed > c.lows[i] * kSlack)
      throw NoiseError(what + ": the tensor's error, up to " + power_text(before.assumed) +
                       ", is above 2^-6 of the smallest value to tell from 0, " + power_text(c.lows[i]) +
                       " here; take a larger gap or a set of higher precision");
    const double growth = plan.growths()[i];
    noise = {noise.trusted + growth * before.trusted, noise.assumed + growth * before.assumed};
    const Operand y = by.polynomial(without_errors(u, by), c.stages[i], guard);
    u = by.with_error(y, error_bounds(y));
  }
  const ErrorBounds last = error_bounds(u);
  return {u, c, {noise.trusted + last.trusted, noise.assumed + last.assumed}};
}

}  // namespace

SignPlan plan_signs(const Ciphertext& x, const Evaluator& by, const std::vector<Composition>& candidates, bool has_gap,
                    double error, bool scales, std::size_t after) {
  require<ParameterError>(!candidates.empty(), "a plan of signs needs at least one composition");
  if (by.is_automatic() && x.parameters().bootstrapping_level() > 0) {
    for (const std::size_t left : {after, std::size_t{0}}) {
      PlanSearch search(x, by, has_gap, error, scales, left);
      for (const Composition& c : candidates) search.add(c);
      if (std::optional<SignPlan> found = search.best()) return *found;
      if (left == 0) break;
    }
  }
  const auto cost = [](const Composition& c) {
    double products = 0;
    for (const std::size_t degree : c.degrees) products += products_of(degree);
    return std::pair(std::accumulate(c.depths.begin(), c.depths.end(), std::size_t{0}), products);
  };
  const Composition& shortest = *std::min_element(
      candidates.begin(), candidates.end(), [&](const Composition& a, const Composition& b) { return cost(a) < cost(b); });
  return {shortest, has_gap, std::vector<std::optional<int>>(shortest.stages.size())};
}

std::optional<double> cost_of_signs(const Ciphertext& x, const Evaluator& by, double largest, double gap, double error) {
  const Parameters parameters = x.parameters();
  const double scale = scale_for(largest);
  const SignPlan plan = plan_signs(x, by, fitting_compositions(gap * scale, error * 0.75), true, error, scale != 1);
  const Composition& c = plan.composition;
  const std::size_t top = parameters.top_level(), entry = std::max<std::size_t>(1, parameters.bootstrapping_level());
  std::size_t level = x.level();
  double time = 0;
  for (std::size_t i = 0; i < c.stages.size(); ++i) {
    const int iterations = plan.iterations[i].value_or(0);
    if (iterations > 0) level = top, time += time_of_bootstrap(iterations);
    time += products_of(c.degrees[i]) * static_cast<double>(level) / static_cast<double>(top);
    const std::size_t depth = c.depths[i] + (i == 0 && scale != 1 ? 1 : 0);
    if (level < entry + depth) return std::nullopt;
    level -= depth;
  }
  if (parameters.bootstrapping_level() == 0) return time;
  const double spent = static_cast<double>(x.level()) - static_cast<double>(level);
  return time + kBootstrapProducts * spent / static_cast<double>(top - parameters.bootstrapping_level());
}

Signs compose_signs(const Operand& x, const Evaluator& by, double largest, double gap, double error, const std::string& what,
                    std::size_t after) {
  if (gap > largest)
    throw ParameterError(what + ": the gap " + number_text(gap) + " is above the largest value, " + number_text(largest));
  const double scale = scale_for(largest);
  return composed(x, by, scale, fitting_compositions(gap * scale, error * 0.75), true, error, what, after);
}

std::pair<Signs, double> compose_signs_for_abs(const Operand& x, const Evaluator& by, double largest, double error,
                                               const std::string& what) {
  const double scale = scale_for(largest);
  return {composed(x, by, scale, fitting_abs(error * 0.95 * scale), false, error * scale, what), scale};
}

Operand signs_of(const Operand& x, const Evaluator& by, double largest, double gap, double error, const std::string& what,
                 std::size_t after) {
  const Signs found = compose_signs(x, by, largest, gap, error, what, after);
  const double own = found.composition.error;
  return by.with_error(found.x, {own + found.noise.trusted, own + found.noise.assumed});
}

}  // namespace heliograph::ckks
