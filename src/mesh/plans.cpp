#include "mesh/plans.h"

#include <algorithm>

#include "device/chunks.h"

namespace heliograph::mesh {

namespace {

device::DividePlan divide_plan_on(const device::DividePlan& plan, std::size_t m) {
  device::DividePlan mine = plan;
  mine.ring = ring_on(plan.ring, m);
  mine.rest = conversion_on(plan.rest, m);
  return mine;
}

}  // namespace

std::shared_ptr<const PreparedRing> ring_on(const std::shared_ptr<const PreparedRing>& ring, std::size_t m) {
  if (!ring) return nullptr;
  const auto* const mesh = dynamic_cast<const MeshRing*>(ring.get());
  require<MismatchError>(mesh != nullptr, "a plan of another device");
  return mesh->on(m);
}

const MeshConversion& mesh_of(const std::shared_ptr<const PreparedConversion>& c) {
  const auto* const mesh = dynamic_cast<const MeshConversion*>(c.get());
  require<MismatchError>(mesh != nullptr, "a plan of another device");
  return *mesh;
}

std::shared_ptr<const PreparedConversion> conversion_on(const std::shared_ptr<const PreparedConversion>& c, std::size_t m) {
  return c ? mesh_of(c).on(m) : nullptr;
}

PermutationHandle permutation_on(const PermutationHandle& permutation, std::size_t m) {
  if (!permutation) return nullptr;
  const auto* const mesh = dynamic_cast<const MeshPermutation*>(permutation.get());
  require<MismatchError>(mesh != nullptr, "a permutation of another device");
  return mesh->on(m);
}

static std::shared_ptr<device::DividePlan> plan_on(const device::DividePlan& plan, std::size_t m) {
  return std::make_shared<device::DividePlan>(divide_plan_on(plan, m));
}

std::shared_ptr<KeySwitchPlan> plan_on(const KeySwitchPlan& plan, std::size_t m) {
  auto mine = std::make_shared<KeySwitchPlan>(plan);
  mine->ring = ring_on(plan.ring, m);
  for (auto& digit : mine->digits) digit.raise = conversion_on(digit.raise, m);
  mine->mod_down = conversion_on(plan.mod_down, m);
  mine->down = divide_plan_on(plan.down, m);
  return mine;
}

static std::shared_ptr<MultiplyPlan> plan_on(const MultiplyPlan& plan, std::size_t m) {
  auto mine = std::make_shared<MultiplyPlan>(plan);
  mine->ring = ring_on(plan.ring, m);
  mine->lift = conversion_on(plan.lift, m), mine->scale = conversion_on(plan.scale, m);
  mine->lower = conversion_on(plan.lower, m);
  return mine;
}

static std::shared_ptr<LinearPlan> plan_on(const LinearPlan& plan, std::size_t m) {
  auto mine = std::make_shared<LinearPlan>(plan);
  mine->key_switch = plan_on(*plan.key_switch, m);
  mine->mod_down = conversion_on(plan.mod_down, m);
  for (auto* steps : {&mine->babies, &mine->giants}) {
    for (PermutationHandle& step : *steps) step = permutation_on(step, m);
  }
  return mine;
}

template <class Plan, class Change>
std::shared_ptr<const Plan> MeshPlans::known(const std::shared_ptr<const Plan>& plan, std::size_t m,
                                             const PrimeList& key_limbs, Change change) {
  if (!plan) return nullptr;
  const auto [first, last] = known_.equal_range(plan.get());
  for (auto k = first; k != last; ++k) {
    if (k->second.member == m && !k->second.source.expired() && k->second.key_limbs == key_limbs)
      return std::static_pointer_cast<const Plan>(k->second.plan);
  }
  if (known_.size() >= most_) {
    std::erase_if(known_, [](const auto& k) { return k.second.source.expired(); });
    most_ = std::max<std::size_t>(64, 2 * known_.size());
  }
  auto mine = plan_on(*plan, m);
  change(*mine);
  known_.emplace(plan.get(), Known{plan, m, key_limbs, mine});
  return mine;
}

template <class Plan>
std::shared_ptr<const Plan> MeshPlans::on(const std::shared_ptr<const Plan>& plan, std::size_t m) {
  return known(plan, m, {}, [](Plan&) {});
}
template std::shared_ptr<const device::DividePlan> MeshPlans::on(const std::shared_ptr<const device::DividePlan>&,
                                                                 std::size_t);
template std::shared_ptr<const KeySwitchPlan> MeshPlans::on(const std::shared_ptr<const KeySwitchPlan>&, std::size_t);
template std::shared_ptr<const MultiplyPlan> MeshPlans::on(const std::shared_ptr<const MultiplyPlan>&, std::size_t);
template std::shared_ptr<const LinearPlan> MeshPlans::on(const std::shared_ptr<const LinearPlan>&, std::size_t);

std::shared_ptr<const KeySwitchPlan> MeshPlans::on(const std::shared_ptr<const KeySwitchPlan>& plan, std::size_t m,
                                                   const PrimeList& key_limbs) {
  if (plan && plan->key_limbs == key_limbs) return on(plan, m);
  return known(plan, m, key_limbs, [&](KeySwitchPlan& mine) { mine.key_limbs = key_limbs; });
}

std::shared_ptr<const LinearPlan> MeshPlans::on(const std::shared_ptr<const LinearPlan>& plan, std::size_t m,
                                                const PrimeList& key_limbs) {
  if (plan && plan->key_switch->key_limbs == key_limbs) return on(plan, m);
  return known(plan, m, key_limbs, [&](LinearPlan& mine) {
    auto key_switch = std::make_shared<KeySwitchPlan>(*mine.key_switch);
    key_switch->key_limbs = key_limbs;
    mine.key_switch = std::move(key_switch);
  });
}

void post_in_stretches(Operation& op, std::size_t m, const Call& call) {
  if (!op.state().here(m)) return;
  const std::size_t each = scratch_bytes(call, 1);
  if (each == 0) return op.post(m, call);
  const std::size_t items = stretch_of(call, op.state().member(m).device->kernels().preferred_items(each));
  const std::size_t bytes = scratch_bytes(call, items);
  op.post(m, [call, items, bytes, scratch = op.scratch(m, bytes)](Device&, Queue& queue) {
    for_stretches(call, items, {}, [&](Call& part) {
      give_scratch(part, Workspace(scratch, bytes));
      queue.enqueue(part);
    });
  });
}

}  // namespace heliograph::mesh
