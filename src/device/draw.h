// Parameters of random polynomials.
#pragma once

#include <array>

#include "device/view.h"

namespace heliograph::device {

/// The distribution of random polynomials. All draws come from ChaCha20 (RFC 8439) under `key`. The block for a coefficient
/// is a function of (purpose, component, prime, object, item, coefficient): see math/sampler.h.
enum class Distribution : unsigned char {
  uniform,   // residues of each limb independently, from 128-bit draws
  ternary,   // -1, 0, 1 with equal probability; all limbs have the same small polynomial
  gaussian,  // standard deviation 3.19, by integer inversion; all limbs have the same small polynomial
};
struct Draw {
  std::array<unsigned char, 32> key{};
  Distribution distribution = Distribution::uniform;
  unsigned char purpose = 0;
  u32 object = 0;
  u32 first_item = 0;  // index in the whole batch of the view's item 0
};

}  // namespace heliograph::device
