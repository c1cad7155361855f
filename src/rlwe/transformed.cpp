#include "rlwe/transformed.h"

#include <algorithm>

#include "device/expand.h"

namespace heliograph::rlwe {

namespace {

using device::View;
using device::Workspace;

void require_transformed(const RnsTensor& x) {
  require<InternalError>(x.domain() == Domain::ntt, "this operation takes polynomials in the NTT domain");
}

RnsTensor scaled(const RnsTensor& x, const device::LimbConstants* scale) {
  if (!scale) return x;
  ring::Engine& e = *x.engine();
  RnsTensor out(x.engine(), x.shape(), x.components(), x.primes(), Domain::ntt);
  if (x.items()) e.enqueue(device::MulConstants{e.prepared(), x.primes(), x.view(), *scale, out.view()});
  return out;
}

/// One rotation: nothing is kept for another, so that the digits need not be stored transformed.
void rotate_once(const RnsTensor& x, math::u64 galois, const SwitchKey& key, const RnsTensor& out,
                 const std::shared_ptr<const device::KeySwitchPlan>& plan, const device::LimbConstants* scale,
                 const Progress& progress) {
  ring::Engine& e = *x.engine();
  const RnsTensor pairs = key.pairs();  // held before the memory below is asked for, which may evict other keys
  const RnsTensor from = scaled(x.with_components(1, 1), scale);
  e.enqueue(device::KeySwitch{plan,
                              Domain::ntt,
                              from.view(),
                              pairs.view(),
                              x.with_components(0, 1).view(),
                              out.view(),
                              {},
                              e.automorphism(galois, Domain::ntt)},
            progress);
}

}  // namespace

RnsTensor multiply(const RnsTensor& a, const RnsTensor& b) {
  require_transformed(a), require_transformed(b);
  require<InternalError>(a.primes() == b.primes(), "a product's factors are at one level");
  ring::Engine& e = *a.engine();
  const Shape shape = ring::broadcast_shapes(a.shape(), b.shape());
  RnsTensor out(a.engine(), shape, a.components() + b.components() - 1, a.primes(), Domain::ntt);
  e.enqueue(
      device::Tensor{e.prepared(), a.primes(), a.broadcast_to(shape).view(), b.broadcast_to(shape).view(), out.view()});
  return out;
}

RnsTensor divide(Context& context, const RnsTensor& x, std::size_t level, std::size_t to_level, math::u64 keep,
                 const Progress& progress) {
  require_transformed(x);
  ring::Engine& e = *context.engine();
  const auto& plan = context.divide_plan(level, to_level, keep);
  RnsTensor out(context.engine(), x.shape(), x.components(), plan->out, Domain::ntt);
  e.enqueue(device::Divide{plan, x.view(), out.view()}, progress);
  return out;
}

RnsTensor switch_last(Context& context, const RnsTensor& x, const SwitchKey& key, std::size_t level, std::size_t to_level,
                      math::u64 times, const Progress& progress, const device::LimbConstants* scale) {
  require_transformed(x);
  ring::Engine& e = *context.engine();
  const auto& plan = context.ntt_switch_plan(level, to_level, times);
  const RnsTensor pairs = key.pairs();  // held before the memory below is asked for, which may evict other keys
  const std::size_t last = x.components() - 1;
  const RnsTensor from = scaled(x.with_components(last, 1), scale);
  RnsTensor out(context.engine(), x.shape(), 2, plan->down.out, Domain::ntt);
  e.enqueue(device::KeySwitch{plan, Domain::ntt, from.view(), pairs.view(), x.with_components(0, last).view(), out.view()},
            progress);
  return out;
}

void rotate(Context& context, const RnsTensor& x, const std::vector<math::u64>& galois,
            const std::vector<const SwitchKey*>& keys, const std::vector<RnsTensor>& out, std::size_t level,
            const device::LimbConstants* scale, math::u64 times, const Progress& progress) {
  require_transformed(x);
  ring::Engine& e = *context.engine();
  const device::Kernels& k = e.kernels();
  const auto& handle = context.ntt_switch_plan(level, level, times);
  const device::KeySwitchPlan& plan = *handle;
  if (galois.size() == 1 && galois[0] != 1) return rotate_once(x, galois[0], *keys[0], out[0], handle, scale, progress);
  std::vector<View> views = {x.view()};
  for (const RnsTensor& result : out) views.push_back(result.view());
  const std::size_t digits = plan.digits.size(), n = context.parameters().n, all = std::max<std::size_t>(1, x.items());
  const auto word = context.parameters().word;
  const auto turned = std::find_if(galois.begin(), galois.end(), [](math::u64 g) { return g != 1; });
  const device::ApplyKey like{.plan = handle,
                              .domain = Domain::ntt,
                              .turn = turned == galois.end() ? nullptr : e.automorphism(*turned, Domain::ntt)};
  const std::size_t each = Workspace::bytes(word, 1, digits, plan.extended.size(), n) +
                           Workspace::bytes(word, 1, 1, plan.chain.size(), n) + device::scratch_bytes(like, 1);
  const std::size_t preferred = k.brings_scratch() ? all : std::min(k.preferred_items(each), all);
  const RnsTensor raised(context.engine(), {preferred}, digits, plan.extended, Domain::ntt);
  const RnsTensor mask(context.engine(), {preferred}, 1, plan.chain, Domain::coefficient);
  const device::Scratch scratch(e, like, preferred);  // of every rotation
  device::for_chunks(views, preferred, progress, [&](const std::vector<View>& v) {
    const auto first = [&](const RnsTensor& t) { return t.view().with_leading(0, v[0].items()); };
    const View up = first(raised), low = first(mask), body = v[0].with_components(0, 1);
    e.enqueue(device::InverseNtt{e.prepared(), plan.chain, v[0].with_components(1, 1), low});
    if (scale) e.enqueue(device::MulConstants{e.prepared(), plan.chain, low, *scale, low});
    e.enqueue(device::Decompose{handle, low, up});
    for (std::size_t i = 0; i < galois.size(); ++i) {
      if (galois[i] == 1) {
        e.enqueue(device::Copy{v[0], v[i + 1]});
        continue;
      }
      // One key at a time is held: together they may be more than the device has room for.
      const RnsTensor pairs = keys[i]->pairs();
      e.enqueue(device::ApplyKey{handle, Domain::ntt, up, pairs.view(), body, v[i + 1], scratch.all(),
                                 e.automorphism(galois[i], Domain::ntt)});
    }
  });
}

std::shared_ptr<const device::LinearPlan> linear_plan(Context& context, std::size_t level, std::size_t to_level,
                                                      const std::vector<math::u64>& babies,
                                                      const std::vector<math::u64>& giants,
                                                      std::vector<device::LinearPlan::Term> terms) {
  ring::Engine& e = *context.engine();
  auto plan = std::make_shared<device::LinearPlan>();
  plan->key_switch = context.ntt_switch_plan(level, to_level);
  plan->mod_down = context.key_switch_plan(level)->mod_down;
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
                     const std::vector<const SwitchKey*>& keys, const RnsTensor& plaintexts, const Progress& progress) {
  require_transformed(x);
  std::vector<RnsTensor> pairs;  // held before the memory below is asked for, which may evict other keys
  std::vector<View> views;
  for (const SwitchKey* key : keys) {
    pairs.push_back(key->pairs());
    views.push_back(pairs.back().view());
  }
  const RnsTensor out(x.engine(), x.shape(), 2, plan->key_switch->down.out, Domain::ntt);
  x.engine()->enqueue(device::LinearSum{plan, x.view(), std::move(views), plaintexts.view(), out.view(), {}}, progress);
  return out;
}

}  // namespace heliograph::rlwe
