#include "schemes/ckks/diagonals.h"

#include <algorithm>

namespace heliograph::ckks {

namespace {

using Numbers = std::set<std::size_t>;

/// Returns the cost of groups of `baby` diagonals, in key products.
std::size_t cost(const Numbers& diagonals, std::size_t baby) {
  Numbers babies, giants;
  for (const std::size_t k : diagonals) {
    babies.insert(k % baby);
    giants.insert(k / baby);
  }
  return babies.size() - babies.count(0) + kGiantCost * (giants.size() - giants.count(0));
}

/// Returns the number of baby steps with the least cost; of equally cheap numbers the largest.
std::size_t best_baby(const Numbers& diagonals, std::size_t size) {
  Numbers candidates;
  for (std::size_t baby = 1; baby < size; baby *= 2) candidates.insert(baby);
  if (diagonals.size() <= 64)  // few diagonals, possibly at regular distances
    for (auto it = diagonals.begin(); it != diagonals.end() && std::next(it) != diagonals.end(); ++it)
      candidates.insert(*std::next(it) - *it);
  std::size_t best = size, least = cost(diagonals, size);
  for (auto it = candidates.rbegin(); it != candidates.rend(); ++it)
    if (const std::size_t taken = cost(diagonals, *it); taken < least) {
      best = *it;
      least = taken;
    }
  return best;
}

}  // namespace

Values turned_back(const PlacedDiagonal* diagonals, std::size_t count, std::size_t size, std::size_t width, bool complex) {
  Values values{{}, {count}, width, complex};
  values.data.reserve(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [diagonal, giant] = diagonals[i];
    for (std::size_t k = 0; k < width; ++k) values.data.push_back((*diagonal)[(k + size - giant) & (size - 1)]);
  }
  return values;
}

std::size_t repeated_width(const DiagonalViews& diagonals, std::size_t size) {
  std::size_t width = 4;
  for (const auto& [k, values] : diagonals) width = std::max(width, values.repeats ? values.count : size);
  return width < size ? width : 0;
}

DiagonalViews views_of(const Diagonals& diagonals) {
  DiagonalViews views;
  for (const auto& [k, values] : diagonals) views.emplace(k, DiagonalView(values));
  return views;
}

std::set<std::size_t> numbers_of(const DiagonalViews& diagonals) {
  Numbers numbers;
  for (const auto& [k, values] : diagonals) numbers.insert(k);
  return numbers;
}

bool any_complex(const DiagonalViews& diagonals) {
  return std::any_of(diagonals.begin(), diagonals.end(), [](const auto& each) {
    const DiagonalView& d = each.second;
    for (std::size_t i = 0; d.complex && i < d.count; ++i)
      if (d.numbers[2 * i + 1] != 0) return true;
    return false;
  });
}

Steps::Steps(const Numbers& diagonals, std::size_t size, std::size_t given)
    : baby(given ? given : best_baby(diagonals, size)) {
  std::set<std::int64_t> distinct;
  for (const std::size_t k : diagonals) {
    const auto first = static_cast<std::int64_t>(k - k % baby);
    distinct.insert(static_cast<std::int64_t>(k % baby));
    if (giants.empty() || giants.back() != first) giants.push_back(first);
  }
  babies.assign(distinct.begin(), distinct.end());
}

LinearSum sum_of(Context& context, const DiagonalViews& diagonals, std::size_t size, std::size_t level, std::size_t baby,
                 const OwnKeys* own) {
  const Steps steps(numbers_of(diagonals), size, baby);
  const auto place_in = [](const std::vector<std::int64_t>& all, std::int64_t step) {
    return static_cast<math::u32>(std::lower_bound(all.begin(), all.end(), step) - all.begin());
  };
  std::vector<PlacedDiagonal> places;
  std::vector<LinearTerm> terms;
  for (const auto& [k, values] : diagonals) {
    const auto first = static_cast<std::int64_t>(k - k % steps.baby), rest = static_cast<std::int64_t>(k % steps.baby);
    places.push_back({&values, static_cast<std::size_t>(first)});
    terms.push_back({place_in(steps.giants, first), place_in(steps.babies, rest)});
  }
  const bool complex = any_complex(diagonals);
  const std::size_t repeated = repeated_width(diagonals, size);
  const std::size_t whole = std::max(context.period(), size), width = repeated ? repeated : whole;
  return make_linear_sum(
      context, level, whole, steps.babies, steps.giants, std::move(terms),
      [&](std::size_t first, std::size_t count) { return turned_back(places.data() + first, count, size, width, complex); },
      own, repeated > 0);
}

}  // namespace heliograph::ckks
