// How noise grows, for operations on tensors and for programs that are followed without them. Figures are log2 of canonical norms.
#pragma once

#include <cmath>

#include "rlwe/noise.h"

namespace heliograph::ckks {

/// Of a product. `size`: of the values at their scale. The noise of a plaintext is that of its rounding.
inline rlwe::Figure product_noise(rlwe::Figure a, rlwe::Figure size_a, rlwe::Figure b, rlwe::Figure size_b) {
  return rlwe::log2_sum(rlwe::log2_sum(a + size_b, b + size_a), a + b);
}

/// What a summand adds to a sum at scale `to`: its noise, and its values times the difference of the scales.
inline rlwe::Figure added_noise(rlwe::Figure noise, rlwe::Figure peak, double scale, double to) {
  const double off = std::abs(scale / to - 1);
  return off > 0 ? rlwe::log2_sum(noise, peak + std::log2(to) + std::log2(off)) : noise;
}

}  // namespace heliograph::ckks
