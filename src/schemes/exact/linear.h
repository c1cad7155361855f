// What matrix products and convolutions share with layers computed in stretches.
#pragma once

#include "schemes/exact/derive.h"

namespace heliograph::exact {

using device::GatheredProduct;

/// The product that convolves one image (channels, H, W). Throws ShapeError where the weights do not fit it,
/// OutOfMemoryError.
GatheredProduct convolution_product(Context& c, const Shape& image, const std::vector<std::int64_t>& weights,
                                    const Convolution& s);
/// (outputs, height, width) of that product's result.
Shape convolution_shape(const Shape& image, const Convolution& s);
/// A bias is empty, or one integer for each row, or for each plaintext modulus of the set and row. Throws ShapeError,
/// PlaintextRangeError.
void check_bias(Context& c, const std::vector<std::int64_t>& bias, std::size_t rows);
/// What x times a product is, but for its tensors: its noise and bounds, and what is known of its independence.
CiphertextData derived_by(const CiphertextData& x, const GatheredProduct& product, const std::vector<std::int64_t>& bias);
/// What that product leaves in the tail of one part.
Tail tail_of(const CiphertextData& x, std::size_t part, const GatheredProduct& product,
             const std::vector<std::int64_t>& bias);
/// One part of x, flattened, times the product; `bias`, checked, is added along the first axis of `shape`, the result's.
RnsTensor product_of(const CiphertextData& x, std::size_t part, const GatheredProduct& product, const Shape& shape,
                     const std::vector<std::int64_t>& bias, const Progress& progress);

}  // namespace heliograph::exact
