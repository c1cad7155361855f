// The places behind a tensor's values (schemes/tail.h).
#pragma once

#include "schemes/exact/derive.h"

namespace heliograph::exact {

/// The numbers in the tails subtracted, by plaintexts.
Ciphertext cleared(const Ciphertext& a);
/// The values alone, whatever stands behind them: a product with a plaintext, but where that is zero.
Ciphertext masked(const Ciphertext& a);
/// What rotations may turn: nothing that is not the tensor's own stands behind its values. Masks what is unknown there.
Ciphertext own(const Ciphertext& a);
/// What may meet operands of `width` values: with zeros behind its own where they are fewer, or what it has everywhere.
Ciphertext of_width(const Ciphertext& a, std::size_t width);
/// What a file says of a tensor: zero or even where the tails of all parts are, else unknown.
Tail common_tail(const CiphertextData& x);

// Residues modulo t.
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
