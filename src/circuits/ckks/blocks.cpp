#include "circuits/ckks/blocks.h"

#include <algorithm>
#include <bit>

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

Blocks::Blocks(const Operand& x, const Evaluator& by) : by_(by), shape_(x.shape()), width_(x.slots()) {
  for (const std::size_t length : shape_) count_ *= length;
  const std::size_t period = x.parameters().period();
  std::vector<std::int64_t> both;
  for (std::size_t step = std::bit_ceil(width_), held = 1; step < period && held < count_; step *= 2, held *= 2) {
    steps_.push_back(static_cast<std::int64_t>(step));
    both.insert(both.end(), {steps_.back(), -steps_.back()});
  }
  if (!by.is_automatic() || !by.has_rotations(both)) steps_.clear();
}

Operand Blocks::pack(const Operand& x) const {
  if (steps_.empty()) return x;
  Operand packed = by_.reshape(x, {count_});
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
  return packed;
}

Operand Blocks::unpack(const Operand& y, double factor) const {
  if (steps_.empty()) return factor == 1 ? y : by_.times(y, factor);
  Operand apart = by_.ready(y, 1);
  for (std::size_t place = steps_.size(); place-- > 0;) {
    const std::size_t count = apart.shape()[0], block = std::size_t{1} << place;
    const Operand turned = by_.rotate(apart, steps_[place], false);
    const Operand both = by_.concatenate({by_.reshape(apart, {1, count}), by_.reshape(turned, {1, count})});
    apart = by_.slice(by_.reshape(by_.transpose(both, {1, 0}), {2 * count}), 0, (count_ + block - 1) / block);
  }
  return by_.reshape(by_.first_slots(apart, width_, factor), shape_);
}

}  // namespace heliograph::ckks
