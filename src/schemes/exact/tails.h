// Padding slots of a tensor (schemes/tail.h).
#pragma once

#include "schemes/exact/derive.h"

namespace heliograph::exact {

/// Subtracts plaintexts with the known numbers of the padding slots, which makes these slots zero.
Ciphertext cleared(const Ciphertext& a);
/// Sets the padding slots to zero by a product with a plaintext, unless they are zero already.
Ciphertext masked(const Ciphertext& a);
/// Returns a tensor that may be rotated: masks padding slots with other contents than the tensor's own values.
Ciphertext own(const Ciphertext& a);
/// Extends `a` to `width` values. The new slots are zero, except in a tensor with Tail::even: there they equal the
/// ciphertext's one value.
Ciphertext of_width(const Ciphertext& a, std::size_t width);
/// Returns the tail that a file states: zero or even if the tails of all parts are so, else unknown.
Tail common_tail(const CiphertextData& x);

inline auto sum_modulo(u64 t) {
  return [t](u64 a, u64 b) { return math::add_mod(a, b, t); };
}
inline auto difference_modulo(u64 t) {
  return [t](u64 a, u64 b) { return math::sub_mod(a, b, t); };
}
inline auto product_modulo(u64 t) {
  return [t](u64 a, u64 b) { return math::mul_mod(a, b, t); };
}

}  // namespace heliograph::exact
