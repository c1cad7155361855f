#include "device/kernels.h"

namespace heliograph::device {

std::shared_ptr<const PreparedRing> Kernels::prepare(std::shared_ptr<const math::Ring> ring) {
  auto made = std::make_shared<const PreparedRing>(std::move(ring));
  prepare(*made);
  return made;
}

std::shared_ptr<const PreparedConversion> Kernels::prepare(math::Conversion conversion) {
  auto made = std::make_shared<const PreparedConversion>(std::move(conversion));
  prepare(*made);
  return made;
}

std::shared_ptr<const PreparedPermutation> Kernels::prepare(Permutation permutation) {
  auto made = std::make_shared<const PreparedPermutation>(std::move(permutation));
  prepare(*made);
  return made;
}

std::shared_ptr<const PreparedProduct> Kernels::prepare(GatheredProduct product) {
  auto made = std::make_shared<const PreparedProduct>(std::move(product));
  prepare(*made);
  return made;
}

template <class Plan>
void Kernels::prepare_all(const Plan& plan, const std::vector<std::shared_ptr<const PreparedConversion>>& conversions) {
  if (has(plan)) return;
  prepare(*plan.ring);
  for (const auto& conversion : conversions) {
    if (conversion) prepare(*conversion);
  }
  plan.forms.keep(slot_, form(plan));
}

void Kernels::prepare(const DividePlan& plan) { prepare_all(plan, {plan.rest}); }

void Kernels::prepare(const KeySwitchPlan& plan) {
  std::vector<std::shared_ptr<const PreparedConversion>> conversions = {plan.mod_down, plan.down.rest};
  for (const KeySwitchPlan::Digit& digit : plan.digits) conversions.push_back(digit.raise);
  prepare_all(plan, conversions);
}

void Kernels::prepare(const MultiplyPlan& plan) { prepare_all(plan, {plan.lift, plan.scale, plan.lower}); }

void Kernels::prepare(const LinearPlan& plan) {
  if (has(plan)) return;
  prepare(*plan.key_switch);
  if (plan.mod_down) prepare(*plan.mod_down);
  for (const auto* steps : {&plan.babies, &plan.giants}) {
    for (const auto& step : *steps) {
      if (step) prepare(*step);
    }
  }
  plan.forms.keep(slot_, form(plan));
}

std::shared_ptr<const PreparedBootstrap> TfheKernels::prepare(const BootstrapShape& shape, std::span<const u64> key) {
  auto made = std::make_shared<const PreparedBootstrap>(shape);
  prepare(*made, key);
  return made;
}

std::shared_ptr<const PreparedKeySwitch> TfheKernels::prepare(const KeySwitchShape& shape, std::span<const u32> key) {
  auto made = std::make_shared<const PreparedKeySwitch>(shape);
  prepare(*made, key);
  return made;
}

std::shared_ptr<const PreparedLayer> TfheKernels::prepare(GateLayer layer) {
  auto made = std::make_shared<const PreparedLayer>(std::move(layer));
  prepare(*made);
  return made;
}

void TfheKernels::prepare(const PreparedBootstrap& c, std::span<const u64> key) {
  require<ShapeError>(key.size() == c.shape().words(), "a bootstrapping key of another size than its shape says");
  if (!has(c)) c.forms.keep(slot_, form(c, key));
}

void TfheKernels::prepare(const PreparedKeySwitch& c, std::span<const u32> key) {
  require<ShapeError>(key.size() == c.shape().words(), "a key-switching key of another size than its shape says");
  if (!has(c)) c.forms.keep(slot_, form(c, key));
}

void TfheKernels::prepare(const PreparedLayer& c) {
  if (!has(c)) c.forms.keep(slot_, form(c));
}

}  // namespace heliograph::device
