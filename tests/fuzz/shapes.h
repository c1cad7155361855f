// Fuzzes operations that only rearrange tensors (reshape, slices...), on tensors of any scheme and shape.
#pragma once

#include <cstdint>

#include "heliograph/types.h"
#include "targets.h"

namespace heliograph::fuzz {

/// Returns the number of ciphertexts in a tensor, or a large number if their product overflows.
inline std::size_t items_of(const Shape& shape) {
  std::size_t count = 1;
  for (std::size_t axis : shape) {
    if (axis == 0) return 0;
    if (__builtin_mul_overflow(count, axis, &count)) return SIZE_MAX;
  }
  return count;
}

/// Returns whether sums along an axis are fast. If an axis has length zero, a valid result can be so large that it is
/// refused only after memory has run out. A refusal after memory has run out is slow.
inline bool is_small(const Shape& shape) {
  std::size_t count = 1;
  for (std::size_t axis : shape)
    if (axis > 0 && __builtin_mul_overflow(count, axis, &count)) return false;
  return count <= 256;
}

template <class Ciphertext>
void use_bytes(const Ciphertext& x) {
  attempt([&] {
    const Bytes once = x.to_bytes();
    expect(Ciphertext::from_bytes(once).to_bytes() == once, "an object that was read is written differently");
  });
}

template <class Ciphertext>
void use_shapes(const Ciphertext& x) {
  const Shape shape = x.shape();
  const std::size_t axes = shape.size();
  attempt([&] { reshape(x, {items_of(shape)}); });
  attempt([&] { reshape(x, {0, std::size_t{1} << 62}); });
  attempt([&] { reshape(x, {1, items_of(shape), 1}).to_bytes(); });
  attempt([&] {
    Shape wider = shape;
    wider.insert(wider.begin(), 2);
    const Ciphertext wide = broadcast_to(x, wider);
    index(wide, 0, 1);
    if (is_small(wider)) wide.to_bytes();
  });
  attempt([&] { broadcast_to(x, {std::size_t{1} << 32, std::size_t{1} << 31}); });
  attempt([&] {
    std::vector<std::size_t> order(axes);
    for (std::size_t i = 0; i < axes; ++i) order[i] = axes - 1 - i;
    const Ciphertext turned = transpose(x, order);
    if (is_small(shape)) turned.to_bytes();
  });
  attempt([&] { transpose(x, {0, 0}); });
  for (std::size_t axis = 0; axis <= axes; ++axis) {
    const std::size_t length = axis < axes ? shape[axis] : 1;
    attempt([&] { slice(x, axis, 0, 1, length); });
    attempt([&] { slice(x, axis, length - 1, -1, length).bytes(); });
    attempt([&] { slice(x, axis, length / 2, 2, length); });
    attempt([&] { slice(x, axis, SIZE_MAX, PTRDIFF_MIN, 1); });
    attempt([&] { slice(x, axis, 0, PTRDIFF_MAX, 2); });
    attempt([&] { index(x, axis, length / 2); });
    attempt([&] { index(x, axis, SIZE_MAX); });
    if (is_small(shape)) attempt([&] { concatenate(std::vector<Ciphertext>{x, x}, axis).shape(); });
  }
}

}  // namespace heliograph::fuzz
