// Order along slots, by comparisons of all pairs.
#include <algorithm>
#include <bit>
#include <cmath>

#include "circuits/ckks/comparisons.h"
#include "circuits/ckks/order.h"

namespace heliograph::ckks {

namespace {

constexpr std::size_t kMostBlocks = 256;    // maximum number of ciphertexts of all pairs
constexpr std::size_t kBlocksTogether = 8;  // number of ciphertexts of pairs in one call
constexpr double kStepGap = 0.45;           // gap of a comparison of ranks, which are integers
constexpr double kStepError = 0x1p-20;      // error of a comparison of ranks

Operand with_new_axis(const Operand& x, const Evaluator& by) {
  Shape shape = x.shape();
  shape.insert(shape.begin(), 1);
  return by.reshape(x, shape);
}

}  // namespace

SlotPairs::SlotPairs(const Bounded& values, double gap, const std::optional<std::size_t>& count, const Evaluator& by,
                     std::string what)
    : x_(values.x),
      low_(values.low),
      high_(values.high),
      gap_(gap),
      by_(by),
      what_(std::move(what)),
      period_(x_.slots()),
      n_(count.value_or(period_)) {
  require_full(x_, what_);
  if (n_ < 1 || n_ > period_)
    throw ParameterError("count must be 1 to " + std::to_string(period_) + ", the number of slots, not " +
                         std::to_string(n_));
  m_ = std::min(period_, std::max<std::size_t>(2, std::bit_ceil(n_)));
  rows_ = period_ / m_;
  blocks_ = (n_ + rows_ - 1) / rows_;
  if (blocks_ > kMostBlocks)
    throw ParameterError(what_ + " along slots compares all pairs of " + std::to_string(n_) + " values, which fill " +
                         std::to_string(blocks_) + " ciphertexts of " + std::to_string(period_) + " slots; at most " +
                         std::to_string(kMostBlocks) +
                         " are allowed. Pass a smaller count=, choose a set with more slots, or put the values along an "
                         "axis of ciphertexts");
  by_.require_rotations(sort_rotations(period_), what_);
}

SlotPairs::Place SlotPairs::at(std::size_t block, std::size_t slot) const { return {slot / m_ + rows_ * block, slot % m_}; }

/// Returns f of the pair in each slot of some ciphertexts, as clear numbers [ciphertexts, 1 for each axis of x, slots].
template <class F>
Values SlotPairs::each(std::size_t first, std::size_t blocks, const F& f) const {
  Values values{.data = {}, .shape = Shape(x_.shape().size() + 1, 1), .width = period_, .complex = false};
  values.shape[0] = blocks;
  for (std::size_t b = first; b < first + blocks; ++b)
    for (std::size_t s = 0; s < period_; ++s) values.data.emplace_back(f(at(b, s)));
  return values;
}

/// Returns f of each slot's index, as clear numbers [slots].
template <class F>
Values SlotPairs::every_slot(const F& f) const {
  Values values{.data = {}, .shape = {}, .width = period_, .complex = false};
  for (std::size_t s = 0; s < period_; ++s) values.data.emplace_back(f(s));
  return values;
}

Operand SlotPairs::sorted() const {
  const auto picked = [&](std::size_t first, std::size_t blocks, const Operand& rows, const Operand& ranks_of_rows) {
    // The filler values in the slots from n to m have the lowest ranks.
    const Values places = each(
        first, blocks, [&](const Place& p) { return p.row < n_ ? 0.5 - static_cast<double>(p.column + m_ - n_) : 0.0; });
    const Operand shifted = by_.plus_each(ranks_of_rows, places);
    const Operand steps = signs(shifted, 2.0 * static_cast<double>(m_), kStepGap, kStepError);  // rank >= place
    const auto last = [&](std::size_t slot) { return slot % m_ == m_ - 1; };
    const Operand next = by_.rotate(steps, 1, false);
    const Operand following = by_.times_each(next, every_slot([&](std::size_t s) { return last(s) ? 0.0 : 0.5; }));
    const Operand difference = by_.subtract(by_.times(steps, 0.5), following);
    const Operand hot = by_.plus_each(difference, every_slot([&](std::size_t s) { return last(s) ? 0.5 : 0.0; }));
    return by_.multiply(rows, inside_unit(hot, by_, kStepError));  // the rows from n on are 0
  };
  return down(summed(picked));
}

Operand SlotPairs::largest(bool one_hot) const {
  const auto weight = [&](const Place& p) {
    const bool own = p.column == (one_hot ? p.row : 0) && p.row < n_;
    return !own ? 0.0 : one_hot ? 1.0 : static_cast<double>(p.row);
  };
  const auto weighted = [&](std::size_t first, std::size_t blocks, const Operand& /*rows*/, const Operand& ranks_of_rows) {
    const Operand shifted = by_.plus(ranks_of_rows, 1.5 - static_cast<double>(m_));
    const Operand steps = signs(shifted, 2.0 * static_cast<double>(m_), kStepGap, kStepError);
    return by_.times_each(by_.plus(by_.times(steps, 0.5), 0.5), each(first, blocks, weight));
  };
  const Operand total = summed(weighted);
  const auto count = static_cast<double>(n_);
  if (!one_hot) return by_.inside(by_.sum_slots(total), -0.5, count - 0.5);
  const Values used = every_slot([&](std::size_t s) { return s < n_ ? 1.0 : 0.0; });
  return inside_unit(by_.times_each(down(total), used), by_, count * kStepError);
}

/// Returns the sum over all ciphertexts of compute(rows, ranks), which is called for a few ciphertexts at a time.
template <class F>
Operand SlotPairs::summed(const F& compute) const {
  const double least = low_ - 2 * gap_;  // value of the slots from n to m
  const double low = std::min(least, 0.0), high = std::max(high_, 0.0);
  const Operand own = by_.times_each(x_, every_slot([&](std::size_t s) { return s < n_ ? 1.0 : 0.0; }));
  const Values filling = every_slot([&](std::size_t s) { return s >= n_ && s < m_ ? least : 0.0; });
  const Operand one = by_.inside(by_.plus_each(own, filling), low, high);
  std::vector<std::int64_t> back = steps_down();
  for (std::int64_t& step : back) step = -step;
  const Operand columns = with_new_axis(by_.inside(repeated(one, back), low, high), by_);
  std::vector<Operand> sums;
  for (std::size_t first = 0; first < blocks_; first += kBlocksTogether) {
    const std::size_t blocks = std::min(kBlocksTogether, blocks_ - first);
    const Values diagonal = each(first, blocks, [&](const Place& p) { return p.row == p.column && p.row < n_ ? 1.0 : 0.0; });
    const Operand rows = by_.inside(across(columns, diagonal, first, blocks), low, high);
    const Operand ranks_of_rows = ranks(rows, columns, first, blocks, high_ - least);
    sums.push_back(by_.sum(compute(first, blocks, rows, ranks_of_rows), 0));
  }
  std::size_t level = sums[0].level();
  for (const Operand& sum : sums) level = std::min(level, sum.level());
  for (Operand& sum : sums) sum = with_new_axis(by_.lower(sum, level), by_);
  return by_.sum(by_.concatenate(sums), 0);
}

/// Returns the rank of each row's value in all slots of the row: the number of smaller values. Of equal values, the first
/// has the largest rank.
Operand SlotPairs::ranks(const Operand& rows, const Operand& columns, std::size_t first, std::size_t blocks,
                         double spread) const {
  const Values ties = each(first, blocks, [&](const Place& p) {
    return p.row == p.column ? gap_ : p.column > p.row ? gap_ / 2 : -gap_ / 2;
  });
  const Operand differences = by_.plus_each(by_.subtract(rows, columns), ties);
  const auto m = static_cast<double>(m_);
  const Operand larger = signs(differences, spread + gap_, gap_ / 2, kRankError / m);
  // Computes half the sum of the signs of a row.
  const Values halves = each(first, blocks, [&](const Place& p) { return p.row < n_ ? 0.5 : 0.0; });
  return by_.inside(by_.plus(across(larger, halves, first, blocks), m / 2 - 1), -m, m);
}

Operand SlotPairs::signs(const Operand& x, double largest, double gap, double error) const {
  return rank_signs(by_.inside(x, -largest, largest), by_, largest, gap, error, what_);
}

/// Returns the rotations whose sum adds the rows of a ciphertext.
std::vector<std::int64_t> SlotPairs::steps_down() const {
  std::vector<std::int64_t> steps;
  for (std::size_t step = m_; step < period_; step *= 2) steps.push_back(static_cast<std::int64_t>(step));
  return steps;
}

/// Returns the sum of all rows of a ciphertext, in each row.
Operand SlotPairs::down(const Operand& x) const {
  Operand sum = x;
  for (const std::int64_t step : steps_down()) sum = by_.add(sum, by_.rotate(sum, step, false));
  return sum;
}

/// Returns for each row the sum of its slots times weights, in all slots of the row.
Operand SlotPairs::across(const Operand& x, const Values& weights, std::size_t first, std::size_t blocks) const {
  Operand sum = by_.times_each(x, weights);
  std::vector<std::int64_t> back;
  for (std::size_t step = 1; step < m_; step *= 2) {
    const auto turn = static_cast<std::int64_t>(step);
    sum = by_.add(sum, by_.rotate(sum, turn, false));
    back.push_back(-turn);
  }
  const Values head = each(first, blocks, [&](const Place& p) { return p.column == 0 && p.row < n_ ? 1.0 : 0.0; });
  return repeated(by_.times_each(sum, head), back);
}

/// Copies values to the zeros between them, by rotations and sums. Each slot has the error of one value, plus the rotations'
/// errors.
Operand SlotPairs::repeated(const Operand& x, const std::vector<std::int64_t>& steps) const {
  const ErrorBounds of_one = error_bounds(x);
  Operand sum = without_errors(x, by_);
  for (const std::int64_t step : steps) sum = by_.add(sum, by_.rotate(sum, step, false));
  const ErrorBounds rounding = error_bounds(sum);
  return by_.with_error(sum, {of_one.trusted + rounding.trusted, of_one.assumed + rounding.assumed});
}

}  // namespace heliograph::ckks
