#include "rlwe/transformed.h"

namespace heliograph::rlwe {

namespace {

void require_transformed(const RnsTensor& x) {
  require<InternalError>(x.domain() == Domain::ntt, "this operation needs polynomials in the NTT domain");
}

}  // namespace

RnsTensor scaled(const RnsTensor& x, const device::LimbConstants* scale) {
  if (!scale) return x;
  ring::Engine& e = *x.engine();
  RnsTensor out(x.engine(), x.shape(), x.components(), x.primes(), Domain::ntt);
  if (x.items()) e.enqueue(device::MulConstants{e.prepared(), x.primes(), x.view(), *scale, out.view()});
  return out;
}

RnsTensor multiply(const RnsTensor& a, const RnsTensor& b) {
  require_transformed(a), require_transformed(b);
  require<InternalError>(a.primes() == b.primes(), "the factors of a product must be at one level");
  ring::Engine& e = *a.engine();
  const Shape shape = ring::broadcast_shapes(a.shape(), b.shape());
  RnsTensor out(a.engine(), shape, a.components() + b.components() - 1, a.primes(), Domain::ntt);
  e.enqueue(
      device::Tensor{e.prepared(), a.primes(), a.broadcast_to(shape).view(), b.broadcast_to(shape).view(), out.view()});
  return out;
}

RnsTensor divide(Context& context, const RnsTensor& x, std::size_t level, std::size_t to_level, math::u64 keep) {
  require_transformed(x);
  ring::Engine& e = *context.engine();
  const auto& plan = context.divide_plan(level, to_level, keep);
  RnsTensor out(context.engine(), x.shape(), x.components(), plan->out, Domain::ntt);
  e.enqueue_reporting(device::Divide{plan, x.view(), out.view()});
  return out;
}

RnsTensor switch_last(Context& context, const RnsTensor& x, const SwitchKey& key, std::size_t level, std::size_t to_level,
                      math::u64 times, const device::LimbConstants* scale) {
  require_transformed(x);
  ring::Engine& e = *context.engine();
  const auto& plan = context.ntt_switch_plan(level, to_level, times);
  const RnsTensor pairs = key.pairs();  // keeps the key on the device while the allocation below evicts other keys
  const std::size_t last = x.components() - 1;
  const RnsTensor from = scaled(x.with_components(last, 1), scale);
  RnsTensor out(context.engine(), x.shape(), 2, plan->down.out, Domain::ntt);
  e.enqueue_reporting(
      device::KeySwitch{plan, Domain::ntt, from.view(), pairs.view(), x.with_components(0, last).view(), out.view()});
  return out;
}

std::shared_ptr<const device::LinearPlan> linear_plan(Context& context,
                                                      std::shared_ptr<const device::KeySwitchPlan> key_switch,
                                                      std::shared_ptr<const device::ConversionConstant> mod_down,
                                                      const std::vector<math::u64>& babies,
                                                      const std::vector<math::u64>& giants,
                                                      std::vector<device::LinearPlan::Term> terms) {
  ring::Engine& e = *context.engine();
  auto plan = std::make_shared<device::LinearPlan>();
  plan->key_switch = std::move(key_switch);
  plan->mod_down = std::move(mod_down);
  const auto turns = [&](const std::vector<math::u64>& galois) {
    std::vector<device::PermutationHandle> list;
    for (const math::u64 g : galois) list.push_back(g == 1 ? nullptr : e.automorphism(g, Domain::ntt));
    return list;
  };
  plan->babies = turns(babies), plan->giants = turns(giants);
  plan->terms = std::move(terms);
  return plan;
}

RnsTensor linear_sum(const RnsTensor& x, const std::shared_ptr<const device::LinearPlan>& plan,
                     const std::vector<const SwitchKey*>& keys, const RnsTensor& plaintexts) {
  require_transformed(x);
  std::vector<RnsTensor> pairs;  // keeps the key on the device while the allocation below evicts other keys
  std::vector<device::In> views;
  for (const SwitchKey* key : keys) {
    pairs.push_back(key->pairs());
    views.push_back(pairs.back().view());
  }
  const RnsTensor out(x.engine(), x.shape(), 2, plan->key_switch->down.out, Domain::ntt);
  x.engine()->enqueue_reporting(device::LinearSum{plan, x.view(), std::move(views), plaintexts.view(), out.view(), {}});
  return out;
}

}  // namespace heliograph::rlwe
