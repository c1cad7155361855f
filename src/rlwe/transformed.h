// What BGV and CKKS do with ciphertexts that rest in the NTT domain.
#pragma once

#include "rlwe/keys.h"

namespace heliograph::rlwe {

/// Times one constant a limb; itself where there are none.
RnsTensor scaled(const RnsTensor& x, const device::LimbConstants* scale);

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

/// The plan of a sum of plaintexts times rotations by such key switches, see device/plans.h. `mod_down`: by their special primes.
/// Galois elements of the baby and giant steps; 1, where it is one of them, comes first.
std::shared_ptr<const device::LinearPlan> linear_plan(Context& context,
                                                      std::shared_ptr<const device::KeySwitchPlan> key_switch,
                                                      std::shared_ptr<const device::ConversionConstant> mod_down,
                                                      const std::vector<math::u64>& babies,
                                                      const std::vector<math::u64>& giants,
                                                      std::vector<device::LinearPlan::Term> terms);

/// The sum for every item (two components). `keys`: of the steps that turn, all of them on the device meanwhile. `plaintexts`:
/// one item, a component for each term, over the plan's extended primes.
RnsTensor linear_sum(const RnsTensor& x, const std::shared_ptr<const device::LinearPlan>& plan,
                     const std::vector<const SwitchKey*>& keys, const RnsTensor& plaintexts, const Progress& progress = {});

}  // namespace heliograph::rlwe
