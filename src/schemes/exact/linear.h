// Helpers shared by matrix products, convolutions and layers computed in stretches.
#pragma once

#include "schemes/exact/derive.h"

namespace heliograph::exact {

using device::GatheredProduct;

/// Returns the product that convolves one image (channels, H, W). Throws ShapeError if the weights do not fit the image, and
/// OutOfMemoryError.
GatheredProduct convolution_product(Context& c, const Shape& image, const std::vector<std::int64_t>& weights,
                                    const Convolution& s);
/// Returns the shape of the convolution's result: (outputs, height, width).
Shape convolution_shape(const Shape& image, const Convolution& s);
/// Checks a bias: none, one integer per row, or one residue per plaintext modulus of the set and row. Throws ShapeError,
/// PlaintextRangeError.
void check_bias(Context& c, const std::vector<std::int64_t>& bias, std::size_t rows);
/// Returns the metadata of the product of x and a matrix, without tensors: noise, bounds and independence.
CiphertextData derived_by(const CiphertextData& x, const GatheredProduct& product, const std::vector<std::int64_t>& bias);
/// Returns the tail (numbers in the padding slots) of the product's result for one part.
Tail tail_of(const CiphertextData& x, std::size_t part, const GatheredProduct& product,
             const std::vector<std::int64_t>& bias);
/// Returns one part of x, flattened, times the matrix. Adds the checked `bias` along the first axis of the result, which
/// has the shape `shape`.
RnsTensor product_of(const CiphertextData& x, std::size_t part, const GatheredProduct& product, const Shape& shape,
                     const std::vector<std::int64_t>& bias);

}  // namespace heliograph::exact
