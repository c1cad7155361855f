#include "op_plans.h"

#include <algorithm>

namespace heliograph::test {

using device::DividePlan;
using device::KeySwitchPlan;

const std::vector<SwitchShape>& switch_shapes() {
  static const std::vector<SwitchShape> shapes = {
      {"no special prime", {0, 1, 2}, {}, {1, 1, 1}},
      {"one special prime", {0, 1, 2}, {6}, {1, 1, 1}},
      {"one special, levels dropped", {0, 2, 5}, {6}, {1, 1, 1}},
      {"two special, digits of two", {0, 1, 2, 3}, {6, 7}, {2, 2}},
      {"two special, digits of two and one", {0, 1, 2, 4, 5}, {7, 6}, {2, 2, 1}},
      {"two special, digits of three", {0, 1, 2, 3, 4, 5}, {6, 7}, {3, 3}},
      {"one limb", {1}, {6}, {1}},
      {"one limb, nothing to raise to", {1}, {}, {1}},
  };
  return shapes;
}

std::shared_ptr<const math::Ring> switch_ring(const Field& field, std::size_t n) { return ring_of(field, n, 9); }

std::shared_ptr<KeySwitchPlan> switch_plan(Rig& rig, const std::shared_ptr<const math::Ring>& ring,
                                           const SwitchShape& shape) {
  auto plan = std::make_shared<KeySwitchPlan>();
  plan->ring = rig.prepare(ring);
  plan->chain = shape.chain, plan->special = shape.special;
  plan->extended = shape.chain;
  plan->extended.append(shape.special);
  plan->key_limbs = plan->extended;  // the key has all nine primes in their order
  std::size_t first = 0;
  for (const std::size_t count : shape.digits) {
    KeySwitchPlan::Digit digit{.first = first, .count = count};
    std::vector<u64> from, to;
    for (std::size_t l = 0; l < plan->extended.size(); ++l) {
      const bool inside = l >= first && l < first + count;
      (inside ? from : to).push_back(ring->prime(plan->extended[l]));
      if (!inside) digit.others.push_back(static_cast<math::PrimeIndex>(l));
    }
    if (!to.empty()) digit.raise = rig.kernels().prepare(math::extend_base(from, to));
    plan->digits.push_back(std::move(digit));
    first += count;
  }
  if (shape.special.size() > 0) {
    plan->mod_down = rig.kernels().prepare(math::divide_and_round(moduli(*ring, shape.special), moduli(*ring, shape.chain)));
  }
  return plan;
}

DividePlan divide_plan(Rig& rig, const std::shared_ptr<const math::Ring>& ring, const PrimeList& from, const PrimeList& to,
                       u64 times, u64 keep) {
  DividePlan plan{.ring = rig.prepare(ring), .primes = from, .out = to, .kept = {}, .divided = {}, .rest = nullptr};
  const auto place = [](const PrimeList& list, math::PrimeIndex p) {
    return static_cast<std::size_t>(std::find(list.begin(), list.end(), p) - list.begin());
  };
  const auto add = [](std::vector<DividePlan::Run>& runs, std::size_t limb, std::size_t at) {
    const bool next =
        !runs.empty() && limb == runs.back().from + runs.back().count && at == runs.back().to + runs.back().count;
    next ? void(++runs.back().count) : runs.push_back({limb, at, 1});
  };
  PrimeList divisors;
  std::vector<u64> added;
  for (std::size_t l = 0; l < from.size(); ++l) {
    if (place(to, from[l]) < to.size()) continue;
    add(plan.divided, l, divisors.size());
    divisors.push_back(from[l]);
  }
  for (std::size_t l = 0; l < to.size(); ++l) {
    const std::size_t at = place(from, to[l]);
    at < from.size() ? add(plan.kept, at, l) : added.push_back(ring->prime(to[l]));
  }
  if (divisors.size() == 0) {
    for (std::size_t l = 0; l < to.size(); ++l) plan.own[l] = times % ring->prime(to[l]);
    return plan;
  }
  const std::vector<u64> f = moduli(*ring, divisors), t = moduli(*ring, to);
  const math::Conversion c = keep > 1 ? math::divide_keeping(f, t, keep) : math::divide_and_round(f, t, added, times);
  std::copy(c.own.begin(), c.own.end(), plan.own.begin());
  plan.rest = rig.kernels().prepare(math::without_own(c));
  return plan;
}

std::shared_ptr<KeySwitchPlan> ntt_switch_plan(Rig& rig, const std::shared_ptr<const math::Ring>& ring,
                                               const SwitchShape& shape, const PrimeList& to, u64 times) {
  auto plan = switch_plan(rig, ring, shape);
  plan->mod_down = nullptr;
  plan->down = divide_plan(rig, ring, plan->extended, to, times);
  for (std::size_t l = 0; l < plan->chain.size(); ++l) {
    const u64 q = ring->prime(plan->chain[l]);
    u64 weight = math::inverse_mod(times % q, q);
    for (const u64 p : moduli(*ring, shape.special)) weight = math::mul_mod(weight, p % q, q);
    plan->weight[l] = weight;
  }
  return plan;
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {{1024, {3}, Layout::packed, 0, Fill::random},
                                           {512, {3, 5}, Layout::sliced, 1, Fill::random},
                                           {256, {5}, Layout::broadcast, 2, Fill::edges},
                                           {8, {}, Layout::packed, 2, Fill::top},
                                           {32, {2, 3}, Layout::reversed, 1, Fill::random}};
  return all;
}

const std::vector<Setting>& wide_settings() {
  static const std::vector<Setting> all = {{2048, {3, 2}, Layout::sliced, 1, Fill::edges},
                                           {4096, {3}, Layout::broadcast, 2, Fill::top},
                                           {8192, {2}, Layout::packed, 2, Fill::random},
                                           {32768, {}, Layout::packed, 1, Fill::edges},
                                           {4096, {3}, Layout::reversed, 1, Fill::random}};
  return all;
}

Kind kind_of(const Field& field, const Setting& s) { return s.n > 1024 ? Kind::arithmetic : kind_in(field); }

Layout out_layout(const Setting& s) {
  return s.layout == Layout::broadcast || s.layout == Layout::broadcast_last ? Layout::packed : s.layout;
}

std::size_t items(const Setting& s) {
  std::size_t r = 1;
  for (const std::size_t extent : s.batch) r *= extent;
  return r;
}

}  // namespace heliograph::test
