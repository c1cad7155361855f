// Key switching and BFV's product in a handful of launches: between the column passes of its transforms all that happens to
// a row happens in one kernel, and conversions that follow each other are one.
#include <algorithm>

#include "backend/cuda/convert.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/passes.h"

namespace heliograph::backend::cuda {

using device::KeySwitchPlan;
using device::MultiplyPlan;

namespace {

bool same_operand(const View& a, const View& b) {
  return a.data == b.data && a.axes == b.axes && a.shape == b.shape && a.stride == b.stride &&
         a.component_stride == b.component_stride && a.limb_stride == b.limb_stride;
}

/// Conversions of one field can share a launch, and Values of the ring's own field pass between its kernels.
bool all_of(FieldKind kind, std::initializer_list<const device::PreparedConversion*> conversions) {
  return std::all_of(conversions.begin(), conversions.end(),
                     [&](const auto* c) { return own_as<CudaConversion>(*c).kind() == kind; });
}

}  // namespace

void CudaKernels::do_bfv_multiply(Queue& q, const MultiplyPlan& plan, const View& a, const View& b, const View& out,
                                  Workspace w) {
  const CudaRing& ring = own_ring(*plan.ring);
  if (a.components != 2 || b.components != 2 || !has_columns(out.n) || out.items() == 0 ||
      !all_of(ring.kind(), {plan.lift.get(), plan.scale.get(), plan.lower.get()})) {
    if (out.items() > 0) Kernels::do_bfv_multiply(q, plan, a, b, out, w);
    return;
  }
  constexpr const char* kName = "bfv_multiply";
  const bool square = same_operand(a, b);
  const std::size_t chain = plan.chain.size(), auxiliary = plan.auxiliary.size(), factors = square ? 2 : 4;
  const View e = w.take(out.word, out.items(), square ? 3 : 4, chain + auxiliary, out.n);
  const View raised = e.with_components(0, factors), product = e.with_components(0, 3);
  Source source{};
  source.kind = Source::product;
  source.split = 2;
  source.chain = static_cast<u32>(chain);
  source.a = strided(a), source.b = strided(b), source.raised = strided(e);
  run(q, {.name = kName, .x = source, .steps = {{.conversion = &own_as<CudaConversion>(*plan.lift)}}}, out.word,
      raised.with_limbs(chain, auxiliary));
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    forward_columns<F>(q, kName, ring, plan.extended, source, raised);
    tensor_rows<F>(q, ring, plan.extended, e, square);
    inverse_columns<F>(q, kName, ring, plan.extended, product, product);
  });
  const View own = product.with_limbs(chain, auxiliary);
  run(q,
      {.name = kName,
       .x = plain_source(product),
       .steps = {{.conversion = &own_as<CudaConversion>(*plan.scale)}},
       .lower = &own_as<CudaConversion>(*plan.lower),
       .own = &own},
      out.word, out);
}

void CudaKernels::do_key_switch(Queue& q, const KeySwitchPlan& plan, const View& x, const View& key, const View* add,
                                const View& out, Workspace w) {
  const CudaRing& ring = own_ring(*plan.ring);
  bool fused = has_columns(out.n) && plan.digits.size() <= kMostSteps;
  std::size_t raised = 0;
  for (const auto& digit : plan.digits) {
    if (!digit.raise) continue;
    ++raised;
    fused = fused && all_of(ring.kind(), {digit.raise.get()});
  }
  // A digit that is the whole base is not raised; then it is the only one.
  if (!fused || raised != plan.digits.size() || (plan.mod_down && !all_of(ring.kind(), {plan.mod_down.get()}))) {
    if (out.items() > 0) Kernels::do_key_switch(q, plan, x, key, add, out, w);
    return;
  }
  if (out.items() == 0) return;
  constexpr const char* kName = "key_switch";
  const std::size_t limbs = plan.extended.size(), count = plan.digits.size();
  const View digits = w.take(out.word, out.items(), count, limbs, out.n);
  const View sum = w.take(out.word, out.items(), 2, limbs, out.n);
  Source source{};
  source.kind = Source::digits;
  source.a = strided(x), source.raised = strided(digits);
  ConvertPass raise{.name = kName, .x = {}, .steps = {}};
  raise.x.kind = Source::digits;  // a digit's limbs are the polynomial's own
  raise.x.a = source.a, raise.x.raised = source.raised;
  for (std::size_t j = 0; j < count; ++j) {
    const KeySwitchPlan::Digit& digit = plan.digits[j];
    const u32 first = static_cast<u32>(digit.first), own = static_cast<u32>(digit.count);
    source.first[j] = raise.x.first[j] = static_cast<unsigned char>(first);
    source.count[j] = raise.x.count[j] = static_cast<unsigned char>(own);
    raise.steps.push_back(
        {.conversion = &own_as<CudaConversion>(*digit.raise), .first = first, .skip_at = first, .skip = own});
  }
  run(q, raise, out.word, digits);
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    forward_columns<F>(q, kName, ring, plan.extended, source, digits);
    key_rows<F>(q, kName, ring, plan.extended, digits, false, key, plan.key_limbs, sum);
  });
  finish_key_switch(q, kName, plan, add, out, sum);
}

void CudaKernels::do_apply_key(Queue& q, const KeySwitchPlan& plan, const View& digits, const View& key, const View* add,
                               const View& out, Workspace w) {
  const CudaRing& ring = own_ring(*plan.ring);
  if (out.items() == 0) return;
  if (!has_columns(out.n) || (plan.mod_down && !all_of(ring.kind(), {plan.mod_down.get()}))) {
    Kernels::do_apply_key(q, plan, digits, key, add, out, w);
    return;
  }
  constexpr const char* kName = "apply_key";
  const View sum = w.take(out.word, out.items(), 2, plan.extended.size(), out.n);
  with_field(ring.kind(),
             [&](auto f) { key_rows<decltype(f)>(q, kName, ring, plan.extended, digits, true, key, plan.key_limbs, sum); });
  finish_key_switch(q, kName, plan, add, out, sum);
}

/// From the rows of the two sums to the result.
void CudaKernels::finish_key_switch(Queue& q, const char* name, const KeySwitchPlan& plan, const View* add, const View& out,
                                    const View& sum) {
  const CudaRing& ring = own_ring(*plan.ring);
  const View whole = plan.mod_down ? sum : out;
  with_field(ring.kind(), [&](auto f) { inverse_columns<decltype(f)>(q, name, ring, plan.extended, sum, whole); });
  if (plan.mod_down) {
    const std::size_t chain = plan.chain.size();
    const View own = sum.with_limbs(0, chain);
    run(q,
        {.name = name,
         .x = plain_source(sum.with_limbs(chain, plan.special.size())),
         .steps = {{.conversion = &own_as<CudaConversion>(*plan.mod_down)}},
         .own = &own,
         .add = add},
        out.word, out);
  } else if (add) {
    const View part = out.with_components(0, add->components);
    do_add(q, *plan.ring, plan.chain, part, *add, part);
  }
}

std::size_t CudaKernels::preferred_items(std::size_t bytes_an_item) const {
  // Full launches are worth more than a second-level cache: measured, two gigabytes of scratch on an H200.
  const std::size_t scratch = state_->properties().memory / 64;
  return std::max<std::size_t>(1, scratch / std::max<std::size_t>(1, bytes_an_item));
}

}  // namespace heliograph::backend::cuda
