// Extremes, ranks and order, by comparisons of all pairs or in rounds.
#include "circuits/ckks/order.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/errors.h"
#include "circuits/ckks/blocks.h"
#include "circuits/ckks/comparisons.h"
#include "circuits/ckks/signs.h"

namespace heliograph::ckks {

namespace {

constexpr double kTableError = 0x1p-12;  // error of a table of ranks
constexpr double kPackedError = 0x1p-7;  // error of packed values, in gaps: half of the error that signs allow

/// The smallest distance of two different values. `method`: for integers, how to compare them.
struct Separation {
  double gap;
  std::optional<SignMethod> method;
};

Separation separation_of(const OrderOptions& options, const Axis& axis, const std::string& what) {
  const double gap = checked_gap(options.gap, options.integers, options.method, what);
  if (!axis && options.method == SignMethod::bootstrap)
    throw ParameterError(what + ": method=\"bootstrap\" needs an axis of ciphertexts, not axis=\"slots\"");
  return {gap, options.integers ? std::optional(options.method) : std::nullopt};
}

Bounded bounds_for_order(const Operand& x, const Evaluator& by, const OrderOptions& options, const std::string& what) {
  return bounded_by(x, by, {.error = {}, .domain = options.domain, .guard = options.guard}, what);
}

void require_axis(const Ciphertext& x, const Axis& axis, const std::string& what) {
  if (axis && *axis >= x.shape().size())
    throw ShapeError(what + ": axis " + std::to_string(*axis) + " is not among the " + std::to_string(x.shape().size()) +
                     " axes of this tensor");
}

void require_whole(const OrderOptions& options, const std::string& what) {
  if (options.count) throw ParameterError(what + ": count belongs to axis=\"slots\"; an axis of ciphertexts is taken whole");
}

/// Returns x with an axis moved to the front.
Operand axis_first(const Operand& x, std::size_t axis, const Evaluator& by) {
  if (axis == 0) return x;
  std::vector<std::size_t> order = {axis};
  for (std::size_t i = 0; i < x.shape().size(); ++i)
    if (i != axis) order.push_back(i);
  return by.transpose(x, order);
}

/// Returns the values along an axis of ciphertexts, moved to the front.
Operand checked_values(const Operand& x, std::size_t axis, const Evaluator& by, const std::string& what) {
  require_axis(x, axis, what);
  Operand first = axis_first(x, axis, by);
  if (first.shape()[0] == 0) throw ShapeError("cannot compute " + what + " of no values: the axis has length 0");
  return first;
}

Operand with_first_axis(const Operand& x, const Evaluator& by) {
  Shape shape = x.shape();
  shape.insert(shape.begin(), 1);
  return by.reshape(x, shape);
}

/// Returns one clear number for each entry of the first axis, as a tensor with `axes` axes.
Values along_first(const std::vector<double>& numbers, std::size_t axes) {
  Values values{.data = {numbers.begin(), numbers.end()}, .shape = Shape(axes, 1), .width = 1, .complex = false};
  values.shape[0] = numbers.size();
  return values;
}

Operand rounds_of_extremes(const Operand& given, const Axis& axis, const Evaluator& by, const FunctionOptions& options,
                           bool larger, const std::string& what) {
  const double error = required_error(options, what);
  require_axis(given, axis, what);
  Operand x = bounded_by(given, by, options, what).x;
  if (axis)
    x = checked_values(x, *axis, by, what);
  else
    require_full(x, what);
  const std::size_t count = axis ? x.shape()[0] : x.slots();
  const double rounds = std::max(1.0, std::ceil(std::log2(static_cast<double>(count))));
  double spent = 0;
  const auto better = [&](const Operand& a, const Operand& b) {
    const Operand difference = by.subtract(a, b);
    const Approximate found = approximate_extreme_of(a, b, difference, larger, by, error / rounds * 0.95, what);
    spent = std::max(spent, found.error);
    return found.x;
  };
  if (!axis) {
    for (std::size_t step = 1; step < count; step *= 2) x = better(x, by.rotate(x, static_cast<std::int64_t>(step), false));
  } else {
    for (std::size_t left = count; left > 1; left = x.shape()[0]) {
      const std::size_t half = left / 2;
      const Operand best = better(by.slice(x, 0, half), by.slice(x, half, half));
      if (left == 2 * half) {
        x = best;
        continue;
      }
      const Operand rest = by.slice(x, 2 * half, 1);
      x = by.concatenate({best, by.lower(rest, std::min(best.level(), rest.level()))});
    }
    x = by.index(x, 0);
  }
  return promised({x, spent * rounds}, by, error, what);
}

/// Returns each value's rank along the first axis: the number of smaller values. Of equal values, the first has the largest
/// rank.
Unpacked ranks_of(const Operand& x, const Separation& apart, double spread, const Evaluator& by, const std::string& what) {
  const std::size_t count = x.shape()[0];
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  std::vector<Operand> parts;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = i + 1; j < count; ++j) {
      pairs.emplace_back(i, j);
      const Operand a = by.slice(x, i, 1), b = by.slice(x, j, 1);
      parts.push_back(by.subtract(a, b));
    }
  Operand differences = by.concatenate(parts);
  const auto n = static_cast<double>(count);
  const double error = kRankError / n;
  const double half = apart.gap / 2, most = spread + (apart.method ? half : apart.gap);
  const Blocks blocks(differences, by, half * kPackedError);
  differences = by.inside(blocks.pack(differences), -spread, spread);
  std::optional<Operand> found;
  if (apart.method)
    found = at_least_0_by_table(differences, {-spread, spread}, by, error / 2, most, half, *apart.method, what);
  Unpacked larger;
  if (found) {
    larger = blocks.unpack(by.plus(*found, -0.5));
  } else {
    const Operand shifted = by.inside(by.plus(differences, half), -most, most);
    larger = blocks.unpack(rank_signs(shifted, by, most, half, error, what, 1), 0.5);
  }
  std::vector<Operand> ranks;
  Shape shape = x.shape();
  shape[0] = 1;
  for (std::size_t k = 0; k < count; ++k) {
    std::vector<Operand> wins;
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      if (pairs[p].first == k) wins.push_back(by.slice(larger.x, p, 1));
      if (pairs[p].second == k) wins.push_back(by.negate(by.slice(larger.x, p, 1)));
    }
    ranks.push_back(by.plus(by.reshape(by.sum(by.concatenate(wins), 0), shape), (n - 1) / 2));
  }
  const ErrorBounds padding = {(n - 1) * larger.padding.trusted, (n - 1) * larger.padding.assumed};
  return {by.inside(by.concatenate(ranks), -0.25, n - 0.75), padding};
}

/// Returns 1 for ranks of at least `least`, and 0 for others. Ranks are integers below `count`; `least` has one number for
/// each entry of the first axis. Because ranks are integers, a functional bootstrap may be cheaper than a composition.
Operand at_least(const Unpacked& given, const std::vector<double>& least, std::size_t count, const Evaluator& by,
                 const std::string& what) {
  constexpr double kGap = 0.45, kError = 0x1p-20;
  const auto n = static_cast<double>(count);
  const Operand& ranks = given.x;
  const auto [first, last] = std::minmax_element(least.begin(), least.end());
  const double low = -*last, high = n - 1 - *first;
  Operand differences;
  if (least.size() == 1) {
    differences = by.plus(ranks, -least[0]);
  } else {
    std::vector<double> shifts;
    for (const double v : least) shifts.push_back(-v);
    differences = by.plus_each(ranks, along_first(shifts, ranks.shape().size()));
  }
  differences = by.inside(differences, low - 0.25, high + 0.25);
  const Blocks blocks(differences, by, kGap * kPackedError, given.padding);
  const Operand packed = by.inside(blocks.pack(differences), low - 0.25, high + 0.25);
  if (auto found = at_least_0_by_table(packed, {low, high}, by, kTableError, n, kGap, SignMethod::automatic, what))
    return inside_unit(blocks.unpack(*found).x, by, kTableError);
  const Operand steps = rank_signs(by.inside(by.plus(packed, 0.5), -n, n), by, n, kGap, kError, what, 1);
  return inside_unit(by.plus(blocks.unpack(steps, 0.5).x, 0.5), by, kError);
}

/// Returns the values that have the wanted ranks along the first axis.
Operand of_ranks(const Bounded& given, const std::vector<std::size_t>& wanted, const Separation& apart, const Evaluator& by,
                 const std::string& what) {
  const std::size_t n = given.x.shape()[0];
  const Unpacked ranks = ranks_of(given.x, apart, given.high - given.low, by, what);
  std::set<std::size_t> edges;
  for (const std::size_t w : wanted)
    for (const std::size_t edge : {w, w + 1})
      if (edge > 0 && edge < n) edges.insert(edge);
  std::map<std::size_t, Operand> steps;
  const Operand one = with_first_axis(ranks.x, by);
  const Operand found = at_least({by.concatenate(std::vector<Operand>(edges.size(), one)), ranks.padding},
                                 std::vector<double>(edges.begin(), edges.end()), n, by, what);
  for (const std::size_t edge : edges) steps.emplace(edge, by.index(found, steps.size()));
  Shape shape = given.x.shape();
  shape[0] = 1;
  std::vector<Operand> results;
  for (const std::size_t r : wanted) {
    const Operand hot = r == 0       ? by.plus(by.negate(steps.at(1)), 1)
                        : r == n - 1 ? steps.at(r)
                                     : by.subtract(steps.at(r), steps.at(r + 1));
    results.push_back(by.reshape(by.sum(by.multiply(given.x, hot), 0), shape));
  }
  return by.concatenate(results);  // values closer than the gap may be added, so these are bounds of the sum
}

Bounded negated(const Bounded& given, const Evaluator& by) { return {by.negate(given.x), -given.high, -given.low}; }

Operand index_of_extreme(const Operand& x, const Axis& axis, const Evaluator& by, const OrderOptions& options, bool one_hot,
                         bool largest, const std::string& what) {
  const Bounded given = bounds_for_order(x, by, options, what);
  const Separation apart = separation_of(options, axis, what);
  if (!axis) return SlotPairs(largest ? given : negated(given, by), apart.gap, options.count, by, what).largest(one_hot);
  require_whole(options, what);
  const Operand values = checked_values(given.x, *axis, by, what);
  const std::size_t count = values.shape()[0], axes = values.shape().size();
  Operand hot;
  if (count == 1) {
    hot = by.plus(by.times(values, 0), 1);
  } else {
    const Unpacked ranks = ranks_of(largest ? values : by.negate(values), apart, given.high - given.low, by, what);
    hot = at_least(ranks, {static_cast<double>(count - 1)}, count, by, what);
  }
  if (one_hot) {
    std::vector<std::size_t> back;  // the front axis returns to its place
    for (std::size_t i = 0; i < axes; ++i) back.push_back(i < *axis ? i + 1 : i == *axis ? 0 : i);
    return by.transpose(hot, back);
  }
  std::vector<double> places(count);
  std::iota(places.begin(), places.end(), 0.0);
  return by.inside(by.sum(by.times_each(hot, along_first(places, axes)), 0), -0.5, static_cast<double>(count) - 0.5);
}

}  // namespace

void require_full(const Ciphertext& x, const std::string& what) {
  const std::size_t period = x.parameters().period();
  if (x.slots() != period)
    throw ShapeError(what + " along slots needs a tensor that fills the set's " + std::to_string(period) + " slots, not " +
                     std::to_string(x.slots()) + "; append zeros to the array before encryption, and pass count=");
}

Operand rank_signs(const Operand& x, const Evaluator& by, double largest, double gap, double error, const std::string& what,
                   std::size_t after) {
  return signs_of(x, by, largest, gap, error / 0.75, what, after);
}

std::vector<std::int64_t> sort_rotations(std::size_t period) {
  std::vector<std::int64_t> steps;
  for (std::size_t step = 1; 2 * step <= period; step *= 2) steps.push_back(static_cast<std::int64_t>(step));
  const std::size_t count = steps.size();
  for (std::size_t i = 0; i < count; ++i) steps.push_back(-steps[i]);
  return steps;
}

Operand max(const Operand& x, const Axis& axis, const Evaluator& by, const FunctionOptions& options) {
  return rounds_of_extremes(x, axis, by, options, true, "max");
}

Operand min(const Operand& x, const Axis& axis, const Evaluator& by, const FunctionOptions& options) {
  return rounds_of_extremes(x, axis, by, options, false, "min");
}

Operand argmax(const Operand& x, const Axis& axis, const Evaluator& by, const OrderOptions& options, bool one_hot) {
  return index_of_extreme(x, axis, by, options, one_hot, true, "argmax");
}

Operand argmin(const Operand& x, const Axis& axis, const Evaluator& by, const OrderOptions& options, bool one_hot) {
  return index_of_extreme(x, axis, by, options, one_hot, false, "argmin");
}

Operand sort(const Operand& x, const Axis& axis, const Evaluator& by, const OrderOptions& options) {
  const Bounded given = bounds_for_order(x, by, options, "sort");
  const Separation apart = separation_of(options, axis, "sort");
  if (!axis) return SlotPairs(given, apart.gap, options.count, by, "sort").sorted();
  require_whole(options, "sort");
  const Operand values = checked_values(given.x, *axis, by, "sort");
  std::vector<std::size_t> ranks(values.shape()[0]);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks.size() > 1 ? of_ranks({values, given.low, given.high}, ranks, apart, by, "sort") : values;
}

Operand top_k(const Operand& x, std::size_t k, const Axis& axis, const Evaluator& by, const OrderOptions& options) {
  const Bounded given = bounds_for_order(x, by, options, "top_k");
  const Separation apart = separation_of(options, axis, "top_k");
  const auto require_some = [&](std::size_t n) {
    if (k < 1 || k > n)
      throw ParameterError("k must be 1 to " + std::to_string(n) + ", the number of values, not " + std::to_string(k));
  };
  if (!axis) {
    const SlotPairs pairs(negated(given, by), apart.gap, options.count, by, "top_k");
    require_some(pairs.count());
    Values chosen{.data = {}, .shape = {}, .width = x.slots(), .complex = false};
    for (std::size_t i = 0; i < x.slots(); ++i) chosen.data.emplace_back(i < k ? -1.0 : 0.0);
    return by.times_each(pairs.sorted(), chosen);
  }
  require_whole(options, "top_k");
  const Operand values = checked_values(given.x, *axis, by, "top_k");
  const std::size_t n = values.shape()[0];
  require_some(n);
  std::vector<std::size_t> ranks;
  for (std::size_t i = 0; i < k; ++i) ranks.push_back(n - 1 - i);
  return n > 1 ? of_ranks({values, given.low, given.high}, ranks, apart, by, "top_k") : values;
}

Operand quantile(const Operand& x, double q, const Axis& axis, const Evaluator& by, const OrderOptions& options) {
  if (!(q >= 0 && q <= 1)) throw ParameterError("a quantile must be a number from 0 to 1, not " + number_text(q));
  const Bounded given = bounds_for_order(x, by, options, "quantile");
  if (axis) require_whole(options, "quantile");
  const Separation apart = separation_of(options, axis, "quantile");
  const Operand values = axis ? checked_values(given.x, *axis, by, "quantile") : given.x;
  const std::size_t n = axis ? values.shape()[0] : options.count.value_or(x.slots());
  if (n == 0) throw ParameterError("count must be at least 1");
  const double place = q * static_cast<double>(n - 1);
  const std::size_t below = std::min(static_cast<std::size_t>(std::floor(place)), n - 1);
  const double share = place - static_cast<double>(below);
  const auto mixed = [&](const Operand& a, const Operand& b) {
    const Operand first = by.times(a, 1 - share);
    return by.add(first, by.times(b, share));
  };
  if (!axis) {
    const Operand ordered = SlotPairs(given, apart.gap, options.count, by, "quantile").sorted();
    const Operand value = below > 0 ? by.rotate(ordered, static_cast<std::int64_t>(below), true) : ordered;
    if (share == 0) return value;
    return mixed(value, by.rotate(ordered, static_cast<std::int64_t>(below + 1), true));
  }
  if (n == 1) return by.index(values, 0);
  std::vector<std::size_t> wanted = {below};
  if (share > 0) wanted.push_back(below + 1);
  const Operand found = of_ranks({values, given.low, given.high}, wanted, apart, by, "quantile");
  return share > 0 ? mixed(by.index(found, 0), by.index(found, 1)) : by.index(found, 0);
}

Operand histogram(const Operand& x, const std::vector<double>& edges, const Evaluator& by, const OrderOptions& options) {
  const double gap = checked_gap(options.gap, options.integers, options.method, "histogram");
  const Bounded given = bounds_for_order(x, by, options, "histogram");
  require_full(given.x, "histogram");
  const bool ascending =
      std::adjacent_find(edges.begin(), edges.end(), [](double a, double b) { return !(a < b); }) == edges.end();
  const bool finite = std::all_of(edges.begin(), edges.end(), [](double v) { return std::isfinite(v); });
  require<ParameterError>(edges.size() >= 2 && ascending && finite, "edges must be at least two ascending finite numbers");
  const std::size_t slots = given.x.slots(), n = options.count.value_or(slots);
  if (n < 1 || n > slots)
    throw ShapeError("count must be 1 to " + std::to_string(slots) + ", the number of slots, not " + std::to_string(n));
  const double spread = std::max({given.high - edges.front(), edges.back() - given.low, gap});
  std::vector<double> offsets;
  for (const double edge : edges) offsets.push_back(-edge);
  const Operand one = with_first_axis(given.x, by);
  const Operand all = by.concatenate(std::vector<Operand>(edges.size(), one));
  const Operand shifted = by.inside(by.plus_each(all, along_first(offsets, all.shape().size())), -spread, spread);
  const Operand steps = rank_signs(shifted, by, spread, gap, 0x1p-20, "histogram");
  Values halves{.data = {}, .shape = {}, .width = slots, .complex = false};
  for (std::size_t i = 0; i < slots; ++i) halves.data.emplace_back(i < n ? 0.5 : 0.0);
  const std::size_t bins = edges.size() - 1;
  const Operand above = by.slice(steps, 0, bins);
  const Operand inner = by.times_each(by.subtract(above, by.slice(steps, 1, bins)), halves);
  return by.inside(by.sum_slots(inside_unit(inner, by, 0x1p-20)), -0.5, static_cast<double>(n) + 0.5);
}

}  // namespace heliograph::ckks
