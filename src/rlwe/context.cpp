#include "rlwe/context.h"

#include <numeric>

namespace heliograph::rlwe {

Context::Context(device::Device& device, RingParameters parameters) : parameters_(std::move(parameters)) {
  const std::size_t total = std::accumulate(parameters_.digits.begin(), parameters_.digits.end(), std::size_t{0});
  require<ParameterError>(!parameters_.chain.empty(), "a parameter set needs at least one prime");
  require<ParameterError>(total == parameters_.chain.size(), "the gadget's digits must take each chain prime once");
  for (std::size_t d : parameters_.digits) require<ParameterError>(d > 0, "a digit has at least one prime");
  engine_ = std::make_shared<ring::Engine>(
      device, std::make_shared<math::Ring>(parameters_.n, parameters_.word, parameters_.all_primes()));
}

PrimeList Context::auxiliary(std::size_t count) const {
  require<ParameterError>(count <= parameters_.auxiliary.size(), "the set has too few auxiliary primes");
  return PrimeList::range(parameters_.chain.size() + parameters_.special.size(), count);
}

PrimeList Context::key_primes() const { return PrimeList::range(0, parameters_.chain.size() + parameters_.special.size()); }

std::vector<u64> Context::moduli(const PrimeList& primes) const {
  std::vector<u64> values;
  for (math::PrimeIndex p : primes) values.push_back(engine_->ring().prime(p));
  return values;
}

const device::KeySwitchPlan& Context::key_switch_plan(std::size_t level) {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(level);
  if (found != plans_.end()) return found->second;
  device::KeySwitchPlan plan{.ring = engine_->prepared_shared(), .chain = chain(level), .special = special()};
  plan.extended = plan.chain;
  plan.extended.append(plan.special);
  plan.key_limbs = plan.extended;  // keys hold the chain, then the special primes
  const std::vector<u64> extended = moduli(plan.extended);
  std::size_t first = 0;
  for (std::size_t size : parameters_.digits) {
    if (first >= level) break;
    device::KeySwitchPlan::Digit digit{.first = first, .count = std::min(size, level - first)};
    std::vector<u64> from, to;
    for (std::size_t l = 0; l < extended.size(); ++l) {
      const bool inside = l >= first && l < first + digit.count;
      (inside ? from : to).push_back(extended[l]);
      if (!inside) digit.others.push_back(static_cast<math::PrimeIndex>(l));
    }
    if (!to.empty()) digit.raise = engine_->kernels().prepare(math::extend_base(from, to));
    plan.digits.push_back(digit);
    first += size;
  }
  if (plan.special.size() > 0) {
    plan.mod_down = engine_->kernels().prepare(math::divide_and_round(moduli(plan.special), moduli(plan.chain)));
  }
  return plans_.emplace(level, std::move(plan)).first->second;
}

const device::PreparedConversion& Context::drop_plan(std::size_t from_level, std::size_t to_level) {
  const std::lock_guard lock(mutex_);
  auto& plan = drops_[{from_level, to_level}];
  if (!plan) {
    plan = engine_->kernels().prepare(
        math::divide_and_round(moduli(PrimeList::range(to_level, from_level - to_level)), moduli(chain(to_level))));
  }
  return *plan;
}

RnsTensor switch_level(Context& context, const RnsTensor& x, std::size_t to_level) {
  const std::size_t from_level = x.primes().size();
  if (from_level == to_level) return x;
  require<LevelError>(to_level >= 1 && to_level < from_level, "a ciphertext can only go to a lower level, at least 1");
  const RnsTensor c = ring::to_domain(x, Domain::coefficient), own = c.with_limbs(0, to_level);
  return ring::convert(c.with_limbs(to_level, from_level - to_level), &own, context.drop_plan(from_level, to_level),
                       context.engine(), context.chain(to_level));
}

}  // namespace heliograph::rlwe
