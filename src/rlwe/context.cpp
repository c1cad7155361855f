#include "rlwe/context.h"

#include <algorithm>
#include <numeric>

namespace heliograph::rlwe {

Context::Context(device::Device& device, RingParameters parameters)
    : Context(std::make_shared<ring::Engine>(
                  device, std::make_shared<math::Ring>(parameters.n, parameters.word, parameters.all_primes())),
              parameters) {}

Context::Context(std::shared_ptr<ring::Engine> engine, RingParameters parameters)
    : parameters_(std::move(parameters)), engine_(std::move(engine)) {
  const std::size_t total = std::accumulate(parameters_.digits.begin(), parameters_.digits.end(), std::size_t{0});
  require<ParameterError>(!parameters_.chain.empty(), "a parameter set must have at least one chain prime");
  require<ParameterError>(total == parameters_.chain.size(), "the gadget's digits must take each chain prime once");
  for (std::size_t d : parameters_.digits) require<ParameterError>(d > 0, "a digit must have at least one prime");
}

PrimeList Context::auxiliary(std::size_t count) const {
  require<ParameterError>(count <= parameters_.auxiliary.size(), "the parameter set has too few auxiliary primes");
  return PrimeList::range(parameters_.chain.size() + parameters_.special.size(), count);
}

PrimeList Context::key_primes() const { return PrimeList::range(0, parameters_.chain.size() + parameters_.special.size()); }

std::vector<u64> Context::moduli(const PrimeList& primes) const {
  std::vector<u64> values;
  for (math::PrimeIndex p : primes) values.push_back(engine_->ring().prime(p));
  return values;
}

device::KeySwitchPlan Context::switch_plan(std::size_t level) {
  device::KeySwitchPlan plan{.ring = engine_->prepared(), .chain = chain(level), .special = special()};
  plan.extended = plan.chain;
  plan.extended.append(plan.special);
  plan.key_limbs = plan.extended;  // a key has limbs of the chain, then of the special primes
  std::vector<std::size_t> ends(parameters_.digits.size());
  std::partial_sum(parameters_.digits.begin(), parameters_.digits.end(), ends.begin());
  add_digits(plan, ends);
  return plan;
}

void Context::add_digits(device::KeySwitchPlan& plan, const std::vector<std::size_t>& ends) const {
  for (std::size_t at = 0, size = 0, j = 0; at < plan.chain.size(); at += size, ++j) {
    for (size = 0; at + size < plan.chain.size() && j < ends.size() && plan.chain[at + size] < ends[j];) ++size;
    require<ParameterError>(size > 0, "the primes of a level must begin with the first digit and skip no digit");
    add_digit(plan, at, size);
  }
}

void Context::add_digit(device::KeySwitchPlan& plan, std::size_t at, std::size_t size) const {
  const std::vector<u64> extended = moduli(plan.extended);
  device::KeySwitchPlan::Digit digit{.first = at, .count = size};
  std::vector<u64> from, to;
  for (std::size_t l = 0; l < extended.size(); ++l) {
    const bool inside = l >= at && l < at + size;
    (inside ? from : to).push_back(extended[l]);
    if (!inside) digit.others.push_back(static_cast<math::PrimeIndex>(l));
  }
  if (!to.empty()) digit.raise = engine_->kernels().prepare(math::extend_base(from, to));
  plan.digits.push_back(digit);
}

void Context::divide_down(device::KeySwitchPlan& plan, const PrimeList& to, u64 times) const {
  plan.down = division(plan.extended, to, times, 1);
  for (std::size_t l = 0; l < plan.chain.size(); ++l) {
    const u64 q = engine_->ring().prime(plan.chain[l]);
    u64 weight = 1 % q;
    for (const math::PrimeIndex p : plan.special) weight = math::mul_mod(weight, engine_->ring().prime(p) % q, q);
    plan.weight[l] = math::mul_mod(weight, math::inverse_mod(times % q, q), q);
  }
}

std::shared_ptr<const device::KeySwitchPlan> Context::own_switch_plan(const PrimeList& chain, const PrimeList& special,
                                                                      const PrimeList& to,
                                                                      const PrimeList& key_primes) const {
  Gadget gadget{.chain = {}, .special = special, .ends = {parameters_.chain.size()}};
  for (std::size_t i = 0; i + special.size() < key_primes.size(); ++i) gadget.chain.push_back(key_primes[i]);
  return gadget_plan(gadget, chain, to);
}

std::shared_ptr<const device::KeySwitchPlan> Context::gadget_plan(const Gadget& gadget, const PrimeList& chain,
                                                                  const PrimeList& to) const {
  device::KeySwitchPlan plan{.ring = engine_->prepared(), .chain = chain, .special = gadget.special};
  plan.extended = chain;
  plan.extended.append(gadget.special);
  const PrimeList keys = gadget.primes();
  for (const math::PrimeIndex p : plan.extended) {
    const auto place = std::find(keys.begin(), keys.end(), p) - keys.begin();
    plan.key_limbs.push_back(static_cast<math::PrimeIndex>(place));
  }
  plan.mod_down = engine_->kernels().prepare(math::divide_and_round(moduli(gadget.special), moduli(chain)));
  add_digits(plan, gadget.ends);
  divide_down(plan, to, 1);
  return std::make_shared<const device::KeySwitchPlan>(std::move(plan));
}

std::shared_ptr<const device::DividePlan> Context::own_divide_plan(const PrimeList& from, const PrimeList& to) const {
  return std::make_shared<const device::DividePlan>(division(from, to, 1, 1));
}

const std::shared_ptr<const device::KeySwitchPlan>& Context::key_switch_plan(std::size_t level) {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(level);
  if (found != plans_.end()) return found->second;
  device::KeySwitchPlan plan = switch_plan(level);
  if (plan.special.size() > 0) {
    plan.mod_down = engine_->kernels().prepare(math::divide_and_round(moduli(plan.special), moduli(plan.chain)));
  }
  return plans_.emplace(level, std::make_shared<const device::KeySwitchPlan>(std::move(plan))).first->second;
}

device::DividePlan Context::division(const PrimeList& from, const PrimeList& to, u64 times, u64 keep) const {
  device::DividePlan plan{.ring = engine_->prepared(), .primes = from, .out = to};
  const auto extend = [](std::vector<device::DividePlan::Run>& runs, std::size_t at, std::size_t place) {
    if (!runs.empty() && runs.back().from + runs.back().count == at && runs.back().to + runs.back().count == place) {
      ++runs.back().count;
    } else {
      runs.push_back({at, place, 1});
    }
  };
  std::vector<u64> divisors, multipliers;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto place = static_cast<std::size_t>(std::find(to.begin(), to.end(), from[i]) - to.begin());
    if (place < to.size()) {
      extend(plan.kept, i, place);
    } else {
      extend(plan.divided, i, divisors.size());
      divisors.push_back(engine_->ring().prime(from[i]));
    }
  }
  for (math::PrimeIndex p : to) {
    if (std::find(from.begin(), from.end(), p) == from.end()) multipliers.push_back(engine_->ring().prime(p));
  }
  if (divisors.empty()) {
    for (std::size_t l = 0; l < to.size(); ++l) plan.own[l] = times % engine_->ring().prime(to[l]);
    return plan;
  }
  math::Conversion c = keep > 1 ? math::divide_keeping(divisors, moduli(to), keep)
                                : math::divide_and_round(divisors, moduli(to), multipliers, times);
  std::copy(c.own.begin(), c.own.end(), plan.own.begin());
  plan.rest = engine_->kernels().prepare(math::without_own(std::move(c)));
  return plan;
}

const std::shared_ptr<const device::KeySwitchPlan>& Context::ntt_switch_plan(std::size_t level, std::size_t to_level,
                                                                             u64 times) {
  const std::lock_guard lock(mutex_);
  const auto found = ntt_plans_.find({level, to_level, times});
  if (found != ntt_plans_.end()) return found->second;
  require<InternalError>(times == 1 || level == to_level, "a key switch to a lower level must have times = 1");
  device::KeySwitchPlan plan = switch_plan(level);
  divide_down(plan, chain(to_level), times);
  return ntt_plans_
      .emplace(std::tuple{level, to_level, times}, std::make_shared<const device::KeySwitchPlan>(std::move(plan)))
      .first->second;
}

const std::shared_ptr<const device::DividePlan>& Context::divide_plan(std::size_t from_level, std::size_t to_level,
                                                                      u64 keep) {
  const std::lock_guard lock(mutex_);
  const auto found = divisions_.find({from_level, to_level, keep});
  if (found != divisions_.end()) return found->second;
  auto plan = std::make_shared<const device::DividePlan>(division(chain(from_level), chain(to_level), 1, keep));
  return divisions_.emplace(std::tuple{from_level, to_level, keep}, std::move(plan)).first->second;
}

const std::shared_ptr<const device::ConversionConstant>& Context::drop_plan(std::size_t from_level, std::size_t to_level) {
  const std::lock_guard lock(mutex_);
  auto& plan = drops_[{from_level, to_level}];
  if (!plan) {
    plan = engine_->kernels().prepare(
        math::divide_and_round(moduli(PrimeList::range(to_level, from_level - to_level)), moduli(chain(to_level))));
  }
  return plan;
}

const std::shared_ptr<const device::ConversionConstant>& Context::extension(const PrimeList& from, const PrimeList& to) {
  const std::lock_guard lock(mutex_);
  auto& conversion = extensions_[{{from.begin(), from.end()}, {to.begin(), to.end()}}];
  if (!conversion) conversion = engine_->kernels().prepare(math::extend_base(moduli(from), moduli(to)));
  return conversion;
}

RnsTensor switch_level(Context& context, const RnsTensor& x, std::size_t to_level) {
  const std::size_t from_level = x.primes().size();
  if (from_level == to_level) return x;
  require<LevelError>(to_level >= 1 && to_level < from_level,
                      "a ciphertext can only be switched to a lower level of at least 1");
  const RnsTensor c = ring::to_domain(x, Domain::coefficient), own = c.with_limbs(0, to_level);
  return ring::convert(c.with_limbs(to_level, from_level - to_level), &own, context.drop_plan(from_level, to_level),
                       context.engine(), context.chain(to_level));
}

}  // namespace heliograph::rlwe
