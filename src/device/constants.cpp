#include "device/constants.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"

namespace heliograph::device {

void Permutation::check() const {
  require<ShapeError>(negate.empty() || negate.size() == source.size(),
                      "a permutation must have no signs or one for each position");
  for (math::u32 i : source) require<ShapeError>(i < source.size(), "a permutation's source is out of range");
}

void LimbSumList::check() const {
  for (const Result& r : results)
    require<ShapeError>(r.first <= terms.size() && r.count <= terms.size() - r.first,
                        "a sum of limbs refers to missing terms");
  for (const Term& t : terms) require<ShapeError>(t.a.operand != kNone, "a term of a sum of limbs must have a first factor");
}

math::u64 Permutation::galois_of_values() const {
  const std::size_t n = source.size();
  if (n < 2 || !std::has_single_bit(n) || std::find(negate.begin(), negate.end(), true) != negate.end()) return 0;
  // Position 0 holds the value at the root psi; the automorphism X -> X^g takes it from the value at psi^g.
  const math::u64 g = 2 * math::reverse_bits(source[0], math::bit_length(n) - 1) + 1;
  return math::automorphism_table(n, g) == source ? g : 0;
}

math::u64 Permutation::galois_of_coefficients() const {
  const std::size_t n = source.size();
  const auto negated = [&](std::size_t i) { return !negate.empty() && negate[i]; };
  std::size_t to = 0;
  while (to < n && source[to] != 1) ++to;
  if (to == n) return 0;
  const math::u64 g = to + (negated(to) ? n : 0);
  if (g % 2 == 0) return 0;
  for (math::u64 i = 0; i < n; ++i) {
    const math::u64 at = i * g % (2 * n);
    if (source[at % n] != i || negated(at % n) != (at >= n)) return 0;
  }
  return g;
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
  require<ShapeError>(
      std::max({groups, outputs, positions, terms}) <= kNone / 2 && checked_product(groups, outputs, positions) <= kNone / 2,
      "a matrix product has too many outputs");  // checked even if there are no terms
  require<ShapeError>(weights.size() == checked_product(groups, outputs, terms),
                      "a matrix product must have groups * outputs * terms weights");
  require<ShapeError>(index.size() == checked_product(groups, positions, terms),
                      "a matrix product must have groups * positions * terms indices");
  require<ShapeError>(inputs <= kNone / 2, "a matrix product has too many inputs");  // backends count inputs in 31 bits
  for (math::u32 i : index) require<ShapeError>(i == kNone || i < inputs, "a matrix product's index is out of range");
}

ProductConstant::ProductConstant(GatheredProduct p) : product_(std::move(p)) {
  product_.check();
  for (math::u32 i : product_.index) gathered_ += i != GatheredProduct::kNone;
}

}  // namespace heliograph::device
