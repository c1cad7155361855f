// Whether a plan is one: for plans that come from a file. Those that a context makes are right.
#include <algorithm>

#include "device/plans.h"

namespace heliograph::device {

namespace {

using Moduli = std::vector<u64>;

void require_plan(bool right, const char* what) { require<ShapeError>(right, what); }

/// Throws where a prime is none of the ring's.
Moduli moduli_of(const RingConstant& ring, const PrimeList& primes) {
  Moduli list;
  for (const PrimeIndex p : primes) {
    require_plan(p < ring.ring().primes().size(), "a plan names a prime that its ring lacks");
    list.push_back(ring.ring().prime(p));
  }
  return list;
}

void check_conversion(const std::shared_ptr<const ConversionConstant>& conversion, const Moduli& from, const Moduli& to,
                      bool own) {
  require_plan((conversion != nullptr) == (!from.empty() && !to.empty()), "a plan's conversion is missing or not wanted");
  if (!conversion) return;
  const math::Conversion& c = conversion->conversion();
  require_plan(c.from == from && c.to == to && c.own.empty() != own, "a plan's conversion is another's");
}

void check_constants(const Moduli& moduli, const LimbConstants& constants) {
  for (std::size_t l = 0; l < moduli.size(); ++l) require_plan(constants[l] < moduli[l], "a plan's constant is not reduced");
}

PrimeList joined(PrimeList list, const PrimeList& more) {
  list.append(more);
  return list;
}

/// Runs of limbs that follow each other at their target; how many these are.
std::size_t check_runs(const std::vector<DividePlan::Run>& runs, std::size_t from_limbs, std::size_t to_limbs, bool close) {
  std::size_t next = 0;
  for (const DividePlan::Run& run : runs) {
    require_plan(run.count <= from_limbs && run.from <= from_limbs - run.count && run.count <= to_limbs &&
                     run.to <= to_limbs - run.count && (close ? run.to == next : run.to >= next),
                 "a division's limbs are not there, or in another order");
    next = run.to + run.count;
  }
  return next;
}

}  // namespace

void check(const DividePlan& plan) {
  require_plan(plan.ring && plan.ring->ring().transforms(), "a division is of a ring's polynomials");
  const Moduli all = moduli_of(*plan.ring, plan.primes), out = moduli_of(*plan.ring, plan.out);
  check_runs(plan.kept, all.size(), out.size(), false);
  for (const DividePlan::Run& run : plan.kept) {
    for (std::size_t i = 0; i < run.count; ++i)
      require_plan(plan.primes[run.from + i] == plan.out[run.to + i], "a division keeps a limb under another prime");
  }
  Moduli divisors(check_runs(plan.divided, all.size(), all.size(), true));
  for (const DividePlan::Run& run : plan.divided)
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(run.from), run.count,
                divisors.begin() + static_cast<std::ptrdiff_t>(run.to));
  check_conversion(plan.rest, divisors, out, false);
  // A limb that is not kept is what the division leaves there.
  std::size_t kept = 0;
  for (const DividePlan::Run& run : plan.kept) kept += run.count;
  require_plan(plan.rest || kept == out.size(), "a division that divides by nothing keeps fewer limbs than its result has");
  check_constants(out, plan.own);
}

void check(const KeySwitchPlan& plan) {
  require_plan(plan.ring && plan.ring->ring().transforms(), "a key switch is of a ring's polynomials");
  const Moduli chain = moduli_of(*plan.ring, plan.chain), special = moduli_of(*plan.ring, plan.special);
  const Moduli extended = moduli_of(*plan.ring, plan.extended);
  require_plan(!chain.empty() && plan.extended == joined(plan.chain, plan.special) &&
                   plan.key_limbs.size() == plan.extended.size() && !plan.digits.empty(),
               "a key switch's primes are not its chain's and its special ones");
  std::size_t next = 0;
  for (const KeySwitchPlan::Digit& digit : plan.digits) {
    require_plan(digit.first == next && digit.count > 0 && digit.count <= chain.size() - next,
                 "a key switch's digits are not its chain");
    next += digit.count;
    PrimeList others;
    for (std::size_t l = 0; l < extended.size(); ++l) {
      if (l < digit.first || l >= next) others.push_back(static_cast<PrimeIndex>(l));
    }
    require_plan(digit.others == others, "a digit is not raised to all other primes");
    Moduli to;
    for (const PrimeIndex l : others) to.push_back(extended[l]);
    const auto first = chain.begin() + static_cast<std::ptrdiff_t>(digit.first);
    check_conversion(digit.raise, Moduli(first, first + static_cast<std::ptrdiff_t>(digit.count)), to, false);
  }
  require_plan(next == chain.size(), "a key switch's digits are not its chain");
  if (plan.mod_down || !plan.down.ring) check_conversion(plan.mod_down, special, chain, true);
  check_constants(chain, plan.weight);
  if (!plan.down.ring) {
    require_plan(plan.down.primes.size() == 0 && plan.down.out.size() == 0, "a key switch's division has no ring");
    return;
  }
  check(plan.down);
  require_plan(plan.down.ring == plan.ring && plan.down.primes == plan.extended, "a key switch's division is another's");
}

void check(const LinearPlan& plan) {
  require_plan(plan.key_switch && plan.key_switch->down.ring, "a linear sum has the key switch of its steps");
  const KeySwitchPlan& k = *plan.key_switch;
  check_conversion(plan.mod_down, moduli_of(*k.ring, k.special), moduli_of(*k.ring, k.chain), true);
}

void check(const MultiplyPlan& plan) {
  require_plan(plan.ring && plan.ring->ring().transforms(), "a product is of a ring's polynomials");
  const Moduli chain = moduli_of(*plan.ring, plan.chain), auxiliary = moduli_of(*plan.ring, plan.auxiliary);
  require_plan(!chain.empty() && !auxiliary.empty() && plan.extended == joined(plan.chain, plan.auxiliary),
               "a product's primes are not its chain's and the auxiliary ones");
  check_conversion(plan.lift, chain, auxiliary, false);
  check_conversion(plan.scale, chain, auxiliary, true);
  check_conversion(plan.lower, auxiliary, chain, false);
}

}  // namespace heliograph::device
