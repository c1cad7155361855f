#include "device/kernels.h"

namespace heliograph::device {

std::shared_ptr<const RingConstant> Kernels::prepare(std::shared_ptr<const math::Ring> ring) {
  auto made = std::make_shared<const RingConstant>(std::move(ring));
  prepare(*made);
  return made;
}

std::shared_ptr<const ConversionConstant> Kernels::prepare(math::Conversion conversion) {
  auto made = std::make_shared<const ConversionConstant>(std::move(conversion));
  prepare(*made);
  return made;
}

std::shared_ptr<const PermutationConstant> Kernels::prepare(Permutation permutation) {
  auto made = std::make_shared<const PermutationConstant>(std::move(permutation));
  prepare(*made);
  return made;
}

std::shared_ptr<const ProductConstant> Kernels::prepare(GatheredProduct product) {
  auto made = std::make_shared<const ProductConstant>(std::move(product));
  prepare(*made);
  return made;
}

std::shared_ptr<const LimbSumConstant> Kernels::prepare(LimbSumList sums) {
  auto made = std::make_shared<const LimbSumConstant>(std::move(sums));
  prepare(*made);
  return made;
}

template <class Plan>
void Kernels::prepare_all(const Plan& plan, const std::vector<std::shared_ptr<const ConversionConstant>>& conversions) {
  if (has(plan)) return;
  prepare(*plan.ring);
  for (const auto& conversion : conversions) {
    if (conversion) prepare(*conversion);
  }
  plan.forms.keep(slot_, form(plan));
}

void Kernels::prepare(const DividePlan& plan) { prepare_all(plan, {plan.rest}); }

void Kernels::prepare(const KeySwitchPlan& plan) {
  std::vector<std::shared_ptr<const ConversionConstant>> conversions = {plan.mod_down, plan.down.rest};
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

std::shared_ptr<const BootstrapKey> TfheKernels::prepare(const BootstrapShape& shape, std::span<const u64> key) {
  auto made = std::make_shared<const BootstrapKey>(shape);
  prepare(*made, key);
  return made;
}

std::shared_ptr<const LweSwitchKey> TfheKernels::prepare(const KeySwitchShape& shape, std::span<const u32> key) {
  auto made = std::make_shared<const LweSwitchKey>(shape);
  prepare(*made, key);
  return made;
}

std::shared_ptr<const LayerConstant> TfheKernels::prepare(GateLayer layer) {
  auto made = std::make_shared<const LayerConstant>(std::move(layer));
  prepare(*made);
  return made;
}

void TfheKernels::prepare(const BootstrapKey& c, std::span<const u64> key) {
  require<ShapeError>(key.size() == c.shape().words(), "the size of a bootstrapping key must be that of its shape");
  if (!has(c)) c.forms.keep(slot_, form(c, key));
}

void TfheKernels::prepare(const LweSwitchKey& c, std::span<const u32> key) {
  require<ShapeError>(key.size() == c.shape().words(), "the size of a key-switching key must be that of its shape");
  if (!has(c)) c.forms.keep(slot_, form(c, key));
}

void TfheKernels::prepare(const LayerConstant& c) {
  if (!has(c)) c.forms.keep(slot_, form(c));
}

}  // namespace heliograph::device
