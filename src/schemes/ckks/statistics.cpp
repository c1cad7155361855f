// Bounds on variances and covariances. These bounds are tighter than those of the sums and products that compute variances.
#include <algorithm>
#include <cmath>

#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

namespace {

/// var <= min(mean of |v|^2, (high - low)^2 / 4) times `factor` (n / (n - ddof)) (Popoviciu).
Range variance_of(const Range& a, const Packing& packing, double factor) {
  double most = mean_square(a, packing);
  if (!packing.complex && a.known()) most = std::min(most, (a.high - a.low) * (a.high - a.low) / 4);
  most *= factor;
  return {.low = 0, .high = most, .peak = most, .rms = most, .mean = most, .declared = a.declared};
}

Ciphertext narrowed_to(const Ciphertext& results, const Ranges& known, const Shape& shape) {
  CiphertextData r = results.data();
  r.ranges = Ranges::both(r.ranges, r.shape(), known, shape, r.shape(), narrowed);
  return finish(std::move(r));
}

}  // namespace

Ciphertext with_variances(const Ciphertext& results, const Ciphertext& x, double factor) {
  const Packing packing = x.data().packing();
  const auto variance = [&](const Range& a) { return variance_of(a, packing, factor); };
  if (results.shape() == x.shape()) return narrowed_to(results, x.data().ranges.map(variance), x.shape());
  return narrowed_to(results, Ranges(x.data().ranges.merged()).map(variance), {});
}

Ciphertext with_covariances(const Ciphertext& results, const Ciphertext& x, double factor) {
  const std::size_t items = x.data().tensor.items();
  require<ShapeError>(results.shape() == Shape{items, items},
                      "covariances must be a matrix with one row and one column per variable");
  const Packing packing = x.data().packing();
  const Ranges each = x.data().ranges.map([&](const Range& a) { return variance_of(a, packing, factor); });
  const auto both = [](const Range& a, const Range& b) {
    const double most = std::sqrt(a.high) * std::sqrt(b.high);
    return Range{.low = -most, .high = most, .peak = most, .rms = most, .mean = most, .declared = a.declared | b.declared};
  };
  return narrowed_to(results, Ranges::both(each, {items, 1}, each, {1, items}, {items, items}, both), {items, items});
}

}  // namespace heliograph::ckks
