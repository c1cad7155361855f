// Plans of composite kernels for the declared cases, computed only with math/conversion.h, and shapes and settings that
// several groups of cases share.
#pragma once

#include "op_cases.h"

namespace heliograph::test {

struct SwitchShape {
  std::string name;
  PrimeList chain, special;
  std::vector<std::size_t> digits;  // number of limbs in each digit
};

/// Returns shapes over a ring of nine primes: the chain is primes 0 to 5, primes 6 and 7 are special, and prime 8 is unused.
const std::vector<SwitchShape>& switch_shapes();
std::shared_ptr<const math::Ring> switch_ring(const Field& field, std::size_t n);
std::shared_ptr<device::KeySwitchPlan> switch_plan(Rig& rig, const std::shared_ptr<const math::Ring>& ring,
                                                   const SwitchShape& shape);

/// Returns a plan from limbs `from` to limbs `to`. The result is divided by the primes that `to` lacks, and extended by the
/// primes that `from` lacks. If `keep` is above 1, divides as math::divide_keeping does; otherwise the quotient is rounded
/// and multiplied by `times`.
device::DividePlan divide_plan(Rig& rig, const std::shared_ptr<const math::Ring>& ring, const PrimeList& from,
                               const PrimeList& to, u64 times = 1, u64 keep = 1);
/// Returns the plan of the same shape for polynomials in the NTT domain, divided down to the primes `to`.
std::shared_ptr<device::KeySwitchPlan> ntt_switch_plan(Rig& rig, const std::shared_ptr<const math::Ring>& ring,
                                                       const SwitchShape& shape, const PrimeList& to, u64 times = 1);

struct Setting {
  std::size_t n;
  std::vector<std::size_t> batch;
  Layout layout;
  std::size_t added;  // number of components of `add`, or 0 without it
  Fill fill;
};

const std::vector<Setting>& settings();
/// Returns settings with degrees for which GPUs compute in fused passes.
const std::vector<Setting>& wide_settings();
/// Returns the kind of a setting. The plan with a large degree tests arithmetic, and the other plans test geometry.
Kind kind_of(const Field& field, const Setting& s);
Layout out_layout(const Setting& s);
std::size_t items(const Setting& s);

}  // namespace heliograph::test
