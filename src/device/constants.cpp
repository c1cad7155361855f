#include "device/constants.h"

#include <algorithm>

#include "base/checked.h"

namespace heliograph::device {

void Permutation::check() const {
  require<ShapeError>(negate.empty() || negate.size() == source.size(), "a permutation needs one sign for each position");
  for (math::u32 i : source) require<ShapeError>(i < source.size(), "a permutation's source is out of range");
}

int GatheredProduct::weight_bits() const {
  int bits = 0;
  for (math::i64 w : weights) {
    const math::u64 magnitude = w < 0 ? math::u64{0} - static_cast<math::u64>(w) : static_cast<math::u64>(w);
    bits = std::max(bits, math::bit_length(magnitude));
  }
  return bits;
}

void GatheredProduct::check() const {
  require<ShapeError>(weights.size() == checked_product(groups, outputs, terms),
                      "a matrix product has another number of weights");
  require<ShapeError>(index.size() == checked_product(groups, positions, terms),
                      "a matrix product has another number of indices");
  require<ShapeError>(inputs <= kNone / 2, "a matrix product has too many inputs");  // backends count them in 31 bits
  for (math::u32 i : index) require<ShapeError>(i == kNone || i < inputs, "a matrix product's index is out of range");
}

ProductConstant::ProductConstant(GatheredProduct p) : product_(std::move(p)) {
  product_.check();
  for (math::u32 i : product_.index) gathered_ += i != GatheredProduct::kNone;
}

}  // namespace heliograph::device
