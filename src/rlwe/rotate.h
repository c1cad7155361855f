// Automorphisms of ciphertexts, in either domain.
#pragma once

#include "rlwe/keys.h"

namespace heliograph::rlwe {

/// Applies automorphisms to every item (two components), from one decomposition, and writes one result for each to `out`, in the
/// domain of `x`; Galois element 1 gives a copy. `keys` has null for it. `plan` is that of the level of `x` in its domain. In
/// the NTT domain `scale` multiplies what is decomposed (BGV: t^-1; the plan's weight takes it back).
void rotate(const RnsTensor& x, const std::vector<math::u64>& galois, const std::vector<const SwitchKey*>& keys,
            const std::vector<RnsTensor>& out, const std::shared_ptr<const device::KeySwitchPlan>& plan,
            const device::LimbConstants* scale = nullptr, const Progress& progress = {});

}  // namespace heliograph::rlwe
