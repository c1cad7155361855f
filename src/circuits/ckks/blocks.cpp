#include "circuits/ckks/blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/errors.h"

namespace heliograph::ckks {

std::vector<std::int64_t> block_rotations(std::size_t slots, std::size_t period) {
  require<ParameterError>(slots > 0 && std::has_single_bit(period),
                          "blocks need at least one slot and a period that is a power of two");
  std::vector<std::int64_t> steps;
  for (std::size_t step = std::bit_ceil(slots); step < period; step *= 2) steps.push_back(static_cast<std::int64_t>(step));
  const std::size_t count = steps.size();
  for (std::size_t i = 0; i < count; ++i) steps.push_back(-steps[i]);
  return steps;
}

Blocks::Blocks(const Operand& x, const Evaluator& by, double most_error, std::optional<ErrorBounds> padding)
    : by_(by), padding_(padding), shape_(x.shape()), width_(x.slots()) {
  for (const std::size_t length : shape_) count_ *= length;
  const std::size_t period = x.parameters().period();
  std::vector<std::int64_t> both;
  for (std::size_t step = std::bit_ceil(width_), held = 1; step < period && held < count_; step *= 2, held *= 2) {
    steps_.push_back(static_cast<std::int64_t>(step));
    both.insert(both.end(), {steps_.back(), -steps_.back()});
  }
  if (!by.is_automatic() || !by.has_rotations(both)) steps_.clear();
  const double own = error_bounds(x).assumed, other = padding ? padding->assumed : own;
  const auto error = [&] { return own + other * static_cast<double>((std::size_t{1} << steps_.size()) - 1); };
  while (!steps_.empty() && !(error() <= most_error)) steps_.pop_back();  // an unknown error (NaN) also removes steps
}

Operand Blocks::pack(const Operand& x) const {
  if (steps_.empty()) return x;
  // The padding slots of the other ciphertexts of a group are added to a value, so their errors are added to its error.
  const ErrorBounds own = padding_ ? error_bounds(x) : ErrorBounds{};
  Operand packed = by_.reshape(padding_ ? by_.with_error(x, *padding_) : x, {count_});
  const std::size_t group = std::size_t{1} << steps_.size(), fill = (group - count_ % group) % group;
  if (fill > 0) {
    const Operand some = by_.slice(packed, 0, fill);
    packed = by_.concatenate({packed, by_.subtract(some, some)});
  }
  for (const std::int64_t step : steps_) {
    const Operand pairs = by_.transpose(by_.reshape(packed, {packed.shape()[0] / 2, 2}), {1, 0});
    const Operand moved = by_.rotate(by_.index(pairs, 1), -step, false);
    packed = by_.add(by_.index(pairs, 0), moved);
  }
  if (!padding_) return packed;
  const ErrorBounds padding = error_bounds(packed);
  return by_.with_error(packed, {own.trusted + padding.trusted, own.assumed + padding.assumed});
}

Unpacked Blocks::unpack(const Operand& y, double factor) const {
  if (steps_.empty()) {
    const Operand same = factor == 1 ? y : by_.times(y, factor);
    return {same, error_bounds(same)};
  }
  Operand apart = by_.ready(y, 1);
  const ErrorBounds own = error_bounds(apart);
  apart = by_.with_error(apart, {});  // the errors that follow are those of the padding
  for (std::size_t place = steps_.size(); place-- > 0;) {
    const std::size_t count = apart.shape()[0], block = std::size_t{1} << place;
    const Operand turned = by_.rotate(apart, steps_[place], false);
    const Operand both = by_.concatenate({by_.reshape(apart, {1, count}), by_.reshape(turned, {1, count})});
    apart = by_.slice(by_.reshape(by_.transpose(both, {1, 0}), {2 * count}), 0, (count_ + block - 1) / block);
  }
  const Operand found = by_.reshape(by_.first_slots(apart, width_, factor), shape_);
  const ErrorBounds padding = error_bounds(found);
  const double size = std::abs(factor);
  return {by_.with_error(found, {size * own.trusted + padding.trusted, size * own.assumed + padding.assumed}), padding};
}

}  // namespace heliograph::ckks
