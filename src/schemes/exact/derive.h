// Construction of one ciphertext tensor from another.
#pragma once

#include "schemes/exact/context.h"

namespace heliograph::exact {

/// Copies everything except parts and seeds; the padding slots (tails) and the bounds become unknown.
CiphertextData derived(const CiphertextData& a);
/// Makes the ciphertext. Sets the tails to zero if there are no padding slots.
Ciphertext finish(CiphertextData data);
/// Returns the product level (heliograph/exact.h) for operands with this metadata at these levels.
std::size_t product_level(const CiphertextData& x, std::size_t x_level, const CiphertextData& y, std::size_t y_level);
/// Returns `a` with one part's factor changed to `factor`, by multiplication with an integer.
Ciphertext of_factor(const Ciphertext& a, std::size_t part, u64 factor);

}  // namespace heliograph::exact
