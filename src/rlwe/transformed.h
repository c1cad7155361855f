// Operations of BGV and CKKS on ciphertexts in the NTT domain.
#pragma once

#include "rlwe/keys.h"

namespace heliograph::rlwe {

/// Multiplies limb l by scale[l]; returns x itself if `scale` is null.
RnsTensor scaled(const RnsTensor& x, const device::LimbConstants* scale);

/// Returns the product of ciphertexts as polynomials in the secret; it has one component fewer than the operands together.
/// The operands must be at the same level; their shapes are broadcast.
RnsTensor multiply(const RnsTensor& a, const RnsTensor& b);

/// Divides by the ratio of two levels' moduli (Context::divide_plan); the result is at the lower level.
RnsTensor divide(Context& context, const RnsTensor& x, std::size_t level, std::size_t to_level, math::u64 keep = 1);

/// Switches the last component of each item with `key`, adds the other components, and divides down to `to_level`, with one
/// rounding. The switched part is multiplied by `times`; the added components are not. The last component is multiplied by
/// `scale` before the switch.
RnsTensor switch_last(Context& context, const RnsTensor& x, const SwitchKey& key, std::size_t level, std::size_t to_level,
                      math::u64 times = 1, const device::LimbConstants* scale = nullptr);

/// Returns the plan of a sum of plaintexts times rotations (device/plans.h). The rotations use `key_switch`; `mod_down`
/// divides by the special primes. `babies` and `giants` are Galois elements, with 1 first if present.
std::shared_ptr<const device::LinearPlan> linear_plan(Context& context,
                                                      std::shared_ptr<const device::KeySwitchPlan> key_switch,
                                                      std::shared_ptr<const device::ConversionConstant> mod_down,
                                                      const std::vector<math::u64>& babies,
                                                      const std::vector<math::u64>& giants,
                                                      std::vector<device::LinearPlan::Term> terms);

/// Returns the sum for every item (two components). `keys` has the keys of all steps except the identity; all are on the
/// device during the call. `plaintexts` has one item, and one component for each term, over the plan's extended primes.
RnsTensor linear_sum(const RnsTensor& x, const std::shared_ptr<const device::LinearPlan>& plan,
                     const std::vector<const SwitchKey*>& keys, const RnsTensor& plaintexts);

}  // namespace heliograph::rlwe
