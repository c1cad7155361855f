// What BGV and CKKS do with ciphertexts that rest in the NTT domain.
#pragma once

#include "rlwe/keys.h"

namespace heliograph::rlwe {

/// The product as polynomials in the secret: components of a and b less one. One level; shapes broadcast.
RnsTensor multiply(const RnsTensor& a, const RnsTensor& b);

/// At a lower level, divided by the ratio of the two levels' moduli: see Context::divide_plan.
RnsTensor divide(Context& context, const RnsTensor& x, std::size_t level, std::size_t to_level, math::u64 keep = 1,
                 const Progress& progress = {});

/// Switches the last component of each item with `key`, adds the others, and divides down to `to_level` in one rounding.
/// The switched part is `times` what the plain switch gives (`add`ed components are not multiplied); `scale` first
/// multiplies what is switched.
RnsTensor switch_last(Context& context, const RnsTensor& x, const SwitchKey& key, std::size_t level, std::size_t to_level,
                      math::u64 times = 1, const Progress& progress = {}, const device::LimbConstants* scale = nullptr);

/// Applies automorphisms to every item (two components), from one decomposition, and writes one result for each to `out`;
/// Galois element 1 gives a copy. `keys` has null for it. `scale` multiplies what is decomposed, `times` what comes back
/// (BGV: t^-1 and t).
void rotate(Context& context, const RnsTensor& x, const std::vector<math::u64>& galois,
            const std::vector<const SwitchKey*>& keys, const std::vector<RnsTensor>& out, std::size_t level,
            const device::LimbConstants* scale = nullptr, math::u64 times = 1, const Progress& progress = {});

}  // namespace heliograph::rlwe
