// Checks of plans that come from a file. Plans that a context makes are always valid.
#include <algorithm>

#include "device/plans.h"

namespace heliograph::device {

namespace {

using Moduli = std::vector<u64>;

void require_plan(bool right, const char* what) { require<ShapeError>(right, what); }

/// Returns the moduli of primes. Throws if the ring lacks a prime.
Moduli moduli_of(const RingConstant& ring, const PrimeList& primes) {
  Moduli list;
  for (const PrimeIndex p : primes) {
    require_plan(p < ring.ring().primes().size(), "a plan refers to a prime that its ring lacks");
    list.push_back(ring.ring().prime(p));
  }
  return list;
}

void check_conversion(const std::shared_ptr<const ConversionConstant>& conversion, const Moduli& from, const Moduli& to,
                      bool own) {
  require_plan((conversion != nullptr) == (!from.empty() && !to.empty()),
               "a plan must have a conversion exactly if both of its sides have primes");
  if (!conversion) return;
  const math::Conversion& c = conversion->conversion();
  require_plan(c.from == from && c.to == to && c.own.empty() != own,
               "a plan's conversion must be between the plan's primes");
}

void check_constants(const Moduli& moduli, const LimbConstants& constants) {
  for (std::size_t l = 0; l < moduli.size(); ++l)
    require_plan(constants[l] < moduli[l], "a plan's constant must be below its modulus");
}

PrimeList joined(PrimeList list, const PrimeList& more) {
  list.append(more);
  return list;
}

/// Checks runs of limbs, which must be in ascending order at their target; returns their number of limbs.
std::size_t check_runs(const std::vector<DividePlan::Run>& runs, std::size_t from_limbs, std::size_t to_limbs, bool close) {
  std::size_t next = 0;
  for (const DividePlan::Run& run : runs) {
    require_plan(run.count <= from_limbs && run.from <= from_limbs - run.count && run.count <= to_limbs &&
                     run.to <= to_limbs - run.count && (close ? run.to == next : run.to >= next),
                 "a division's limbs must exist and be in ascending order");
    next = run.to + run.count;
  }
  return next;
}

}  // namespace

void check(const DividePlan& plan) {
  require_plan(plan.ring && plan.ring->ring().transforms(), "a division needs a ring with transforms");
  const Moduli all = moduli_of(*plan.ring, plan.primes), out = moduli_of(*plan.ring, plan.out);
  check_runs(plan.kept, all.size(), out.size(), false);
  for (const DividePlan::Run& run : plan.kept) {
    for (std::size_t i = 0; i < run.count; ++i)
      require_plan(plan.primes[run.from + i] == plan.out[run.to + i], "a division must keep a limb under the same prime");
  }
  Moduli divisors(check_runs(plan.divided, all.size(), all.size(), true));
  for (const DividePlan::Run& run : plan.divided)
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(run.from), run.count,
                divisors.begin() + static_cast<std::ptrdiff_t>(run.to));
  check_conversion(plan.rest, divisors, out, false);
  // Every limb of the result is either kept or computed by the division.
  std::size_t kept = 0;
  for (const DividePlan::Run& run : plan.kept) kept += run.count;
  require_plan(plan.rest || kept == out.size(), "a division without divided limbs must keep all limbs of its result");
  check_constants(out, plan.own);
}

void check(const KeySwitchPlan& plan) {
  require_plan(plan.ring && plan.ring->ring().transforms(), "a key switch needs a ring with transforms");
  const Moduli chain = moduli_of(*plan.ring, plan.chain), special = moduli_of(*plan.ring, plan.special);
  const Moduli extended = moduli_of(*plan.ring, plan.extended);
  require_plan(!chain.empty() && plan.extended == joined(plan.chain, plan.special) &&
                   plan.key_limbs.size() == plan.extended.size() && !plan.digits.empty(),
               "the extended primes of a key switch must be its chain and its special primes");
  std::size_t next = 0;
  for (const KeySwitchPlan::Digit& digit : plan.digits) {
    require_plan(digit.first == next && digit.count > 0 && digit.count <= chain.size() - next,
                 "the digits of a key switch must cover its chain in order");
    next += digit.count;
    PrimeList others;
    for (std::size_t l = 0; l < extended.size(); ++l) {
      if (l < digit.first || l >= next) others.push_back(static_cast<PrimeIndex>(l));
    }
    require_plan(digit.others == others, "a digit must be extended to all other primes");
    Moduli to;
    for (const PrimeIndex l : others) to.push_back(extended[l]);
    const auto first = chain.begin() + static_cast<std::ptrdiff_t>(digit.first);
    check_conversion(digit.raise, Moduli(first, first + static_cast<std::ptrdiff_t>(digit.count)), to, false);
  }
  require_plan(next == chain.size(), "the digits of a key switch must cover its chain in order");
  if (plan.mod_down || !plan.down.ring) check_conversion(plan.mod_down, special, chain, true);
  check_constants(chain, plan.weight);
  if (!plan.down.ring) {
    require_plan(plan.down.primes.size() == 0 && plan.down.out.size() == 0, "the division of a key switch has no ring");
    return;
  }
  check(plan.down);
  require_plan(plan.down.ring == plan.ring && plan.down.primes == plan.extended,
               "the division of a key switch must have its ring and its extended primes");
}

void check(const LinearPlan& plan) {
  require_plan(plan.key_switch && plan.key_switch->down.ring, "a linear sum needs a key switch with a division");
  const KeySwitchPlan& k = *plan.key_switch;
  check_conversion(plan.mod_down, moduli_of(*k.ring, k.special), moduli_of(*k.ring, k.chain), true);
}

void check(const MultiplyPlan& plan) {
  require_plan(plan.ring && plan.ring->ring().transforms(), "a product needs a ring with transforms");
  const Moduli chain = moduli_of(*plan.ring, plan.chain), auxiliary = moduli_of(*plan.ring, plan.auxiliary);
  require_plan(!chain.empty() && !auxiliary.empty() && plan.extended == joined(plan.chain, plan.auxiliary),
               "the extended primes of a product must be its chain and its auxiliary primes");
  check_conversion(plan.lift, chain, auxiliary, false);
  check_conversion(plan.scale, chain, auxiliary, true);
  check_conversion(plan.lower, auxiliary, chain, false);
}

}  // namespace heliograph::device
