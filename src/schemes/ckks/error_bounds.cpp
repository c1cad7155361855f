// Error bounds that a function sets: of an approximation, or smaller than the sum of its operations' bounds.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/errors.h"
#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

ErrorBounds error_bounds(const Ciphertext& x) {
  const auto absolute = [&](double noise) { return std::exp2(noise) / x.scale(); };
  return {absolute(x.data().noise.vouched), absolute(x.data().noise.assumed)};
}

Ciphertext with_error(const Ciphertext& x, const ErrorBounds& error) {
  const auto stored = [&](double bound) {
    require<ParameterError>(!(bound < 0), "an error bound must be at least 0");
    return std::log2(std::max(bound * x.scale(), 1.0));  // preserves NaN
  };
  CiphertextData data = x.data();
  data.noise = rlwe::Figure(stored(error.trusted), stored(error.assumed));
  return finish(std::move(data));
}

Ciphertext inside(const Ciphertext& x, double low, double high) {
  require<ParameterError>(low <= high && std::isfinite(low) && std::isfinite(high),
                          "an interval's bounds must be finite and in ascending order");
  CiphertextData data = x.data();
  const double most = std::max(-low, high);
  Range all{.low = low, .high = high, .peak = most, .rms = most, .mean = most};
  if (!data.tail.is_zero() && data.tail.kind() != Tail::Kind::even)  // padding slots may have other contents
    all.peak = all.rms = std::numeric_limits<double>::infinity();
  data.ranges = data.ranges.map([&](const Range& r) { return narrowed(r, all); });
  return finish(std::move(data));
}

}  // namespace heliograph::ckks
