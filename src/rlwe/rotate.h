// Automorphisms of ciphertexts, in either domain.
#pragma once

#include "rlwe/keys.h"

namespace heliograph::rlwe {

/// Applies several automorphisms to every item of `x` (two components), which is decomposed once. Writes one tensor of `out`
/// for each Galois element, in the domain of `x`. Galois element 1 copies `x`, and its key is null. `plan` must have the
/// level and the domain of `x`. In the NTT domain, component 1 is multiplied by `scale` before it is decomposed. BGV passes
/// t^-1 as `scale`, and the division of its plan multiplies by t.
void rotate(const RnsTensor& x, const std::vector<math::u64>& galois, const std::vector<const SwitchKey*>& keys,
            const std::vector<RnsTensor>& out, const std::shared_ptr<const device::KeySwitchPlan>& plan,
            const device::LimbConstants* scale = nullptr);

}  // namespace heliograph::rlwe
