// How random polynomials are drawn.
#pragma once

#include <array>

#include "device/view.h"

namespace heliograph::device {

/// What random polynomials are drawn from. All draws are ChaCha20 (RFC 8439) under `key`; the block of a coefficient is
/// a function of (purpose, component, prime, object, item, coefficient): see math/sampler.h.
enum class Distribution : unsigned char {
  uniform,   // each limb on its own, from 128-bit draws
  ternary,   // -1, 0, 1 alike; one small polynomial, the same in every limb
  gaussian,  // sigma 3.19 by integer inversion; one small polynomial, the same in every limb
};
struct Draw {
  std::array<unsigned char, 32> key{};
  Distribution distribution = Distribution::uniform;
  unsigned char purpose = 0;
  u32 object = 0;
  u32 first_item = 0;  // global batch index of the view's item 0
};

}  // namespace heliograph::device
