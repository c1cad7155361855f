// Plans of the composite kernels as the declared cases want them, from math/conversion.h alone; shapes and settings they share.
#pragma once

#include "op_cases.h"

namespace heliograph::test {

struct SwitchShape {
  std::string name;
  PrimeList chain, special;
  std::vector<std::size_t> digits;  // limbs of each
};

/// Plans over a ring of nine primes: the chain 0..5, special primes 6 and 7, and one never used.
const std::vector<SwitchShape>& switch_shapes();
std::shared_ptr<const math::Ring> switch_ring(const Field& field, std::size_t n);
std::shared_ptr<device::KeySwitchPlan> switch_plan(Rig& rig, const std::shared_ptr<const math::Ring>& ring,
                                                   const SwitchShape& shape);

/// From the limbs of some primes to those of others: what `to` lacks is divided by, what `from` lacks is added. `keep` above 1:
/// as math::divide_keeping; else rounded, and `times` the quotient.
device::DividePlan divide_plan(Rig& rig, const std::shared_ptr<const math::Ring>& ring, const PrimeList& from,
                               const PrimeList& to, u64 times = 1, u64 keep = 1);
/// The same shape for polynomials in the NTT domain, divided down to the primes `to`.
std::shared_ptr<device::KeySwitchPlan> ntt_switch_plan(Rig& rig, const std::shared_ptr<const math::Ring>& ring,
                                                       const SwitchShape& shape, const PrimeList& to, u64 times = 1);

struct Setting {
  std::size_t n;
  std::vector<std::size_t> batch;
  Layout layout;
  std::size_t added;  // components of `add`; 0: none
  Fill fill;
};

const std::vector<Setting>& settings();
/// Degrees whose composites a GPU computes in fused passes.
const std::vector<Setting>& wide_settings();
/// Wide ones are there for how they are computed.
Kind kind_of(const Field& field, const Setting& s);
Layout out_layout(const Setting& s);
std::size_t items(const Setting& s);

}  // namespace heliograph::test
