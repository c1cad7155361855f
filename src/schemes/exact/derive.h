// Building one ciphertext tensor from another.
#pragma once

#include "schemes/exact/context.h"

namespace heliograph::exact {

/// Everything but the parts and the seeds; the tails and the bounds are unknown.
CiphertextData derived(const CiphertextData& a);
/// The ciphertext, its tails zero where there are none.
Ciphertext finish(CiphertextData data);
/// The level for a product (heliograph/exact.h) of what is described, at these levels.
std::size_t product_level(const CiphertextData& x, std::size_t x_level, const CiphertextData& y, std::size_t y_level);
/// The same with one part's factor brought to `factor`, by an integer.
Ciphertext of_factor(const Ciphertext& a, std::size_t part, u64 factor);

}  // namespace heliograph::exact
