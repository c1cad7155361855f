// Sums of exponentials.
#include <cmath>

#include "base/errors.h"
#include "circuits/ckks/approximation.h"
#include "circuits/ckks/elementary.h"

namespace heliograph::ckks {

namespace {

struct Exponentials {
  Operand powers, total;  // exp(x - middle) and the sum of these powers
  double middle;
};

Exponentials exponentials(const Operand& x, const Axis& axis, const Evaluator& by, const FunctionOptions& options,
                          const std::string& what) {
  const Bounded given = bounded_by(x, by, options, what);
  if (!axis && x.slots() != x.parameters().period())
    throw ShapeError(what + " along slots needs a tensor that fills the set's " + std::to_string(x.parameters().period()) +
                     " slots, not " + std::to_string(x.slots()));
  if (axis && *axis >= x.shape().size())
    throw ShapeError(what + ": axis " + std::to_string(*axis) + " is not among the " + std::to_string(x.shape().size()) +
                     " axes of this tensor");
  const std::size_t items = axis ? x.shape()[*axis] : x.slots();
  if (items == 0) throw ShapeError("cannot compute " + what + " of no values");
  const double count = static_cast<double>(items), middle = (given.low + given.high) / 2;
  const Operand powers = exp_for(by.plus(given.x, -middle), by, what);
  const double least = std::exp(given.low - middle), most = std::exp(given.high - middle);
  constexpr double kMargin = 0x1p-8;
  if (!(error_bounds(powers).assumed <= least * kMargin))  // true also for an unknown error (NaN)
    throw NoiseError(what + ": the error of exp is not below 2^-8 of its smallest value on " +
                     interval_text(given.low, given.high) + "; pass a narrower domain=, or use a set of higher precision");
  const Operand narrow = by.inside(powers, least * (1 - kMargin), most * (1 + kMargin));
  const Operand total = axis ? by.sum(narrow, *axis) : by.sum_slots(narrow);
  return {narrow, by.inside(total, count * least * (1 - 2 * kMargin), count * most * (1 + 2 * kMargin)), middle};
}

}  // namespace

Operand softmax(const Operand& x, const Axis& axis, const Evaluator& by, const FunctionOptions& options) {
  const Exponentials found = exponentials(x, axis, by, options, "softmax");
  Operand share = inverse(found.total, by);
  if (axis) {
    Shape shape = share.shape();
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(*axis), 1);
    share = by.reshape(share, shape);
  }
  return by.inside(by.multiply(found.powers, share), -0x1p-8, 1 + 0x1p-8);
}

Operand logsumexp(const Operand& x, const Axis& axis, const Evaluator& by, const FunctionOptions& options) {
  const Exponentials found = exponentials(x, axis, by, options, "logsumexp");
  return by.plus(log(found.total, by), found.middle);
}

}  // namespace heliograph::ckks
