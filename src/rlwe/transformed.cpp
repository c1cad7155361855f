#include "rlwe/transformed.h"

#include <algorithm>

namespace heliograph::rlwe {

namespace {

using device::Kernels;
using device::View;
using device::Workspace;

void require_transformed(const RnsTensor& x) {
  require<InternalError>(x.domain() == Domain::ntt, "this operation takes polynomials in the NTT domain");
}

RnsTensor scaled(const RnsTensor& x, const device::LimbConstants* scale) {
  if (!scale) return x;
  ring::Engine& e = *x.engine();
  RnsTensor out(x.engine(), x.shape(), x.components(), x.primes(), Domain::ntt);
  if (x.items()) e.kernels().mul_constants(e.queue(), e.prepared(), x.primes(), x.view(), *scale, out.view());
  return out;
}

/// One rotation: nothing is kept for another, so that the digits need not be stored transformed.
void rotate_once(const RnsTensor& x, math::u64 galois, const SwitchKey& key, const RnsTensor& out,
                 const device::KeySwitchPlan& plan, const device::LimbConstants* scale, const Progress& progress) {
  ring::Engine& e = *x.engine();
  const auto& turn = e.automorphism(galois, Domain::ntt);
  const RnsTensor pairs = key.pairs();  // held before the memory below is asked for, which may evict other keys
  const RnsTensor from = scaled(x.with_components(1, 1), scale);
  ring::for_stretches(
      e, {out.view(), x.view(), from.view()},
      [&](std::size_t items) { return Kernels::key_switch_ntt_workspace(plan, items, true); }, progress,
      [&](const std::vector<View>& v, Workspace w) {
        const View body = v[1].with_components(0, 1);
        e.kernels().key_switch_ntt(e.queue(), plan, v[2], pairs.view(), &body, v[0], w, &turn);
      });
}

}  // namespace

RnsTensor multiply(const RnsTensor& a, const RnsTensor& b) {
  require_transformed(a), require_transformed(b);
  require<InternalError>(a.primes() == b.primes(), "a product's factors are at one level");
  ring::Engine& e = *a.engine();
  const Shape shape = ring::broadcast_shapes(a.shape(), b.shape());
  RnsTensor out(a.engine(), shape, a.components() + b.components() - 1, a.primes(), Domain::ntt);
  e.kernels().tensor(e.queue(), e.prepared(), a.primes(), a.broadcast_to(shape).view(), b.broadcast_to(shape).view(),
                     out.view());
  return out;
}

RnsTensor divide(Context& context, const RnsTensor& x, std::size_t level, std::size_t to_level, math::u64 keep,
                 const Progress& progress) {
  require_transformed(x);
  ring::Engine& e = *context.engine();
  const device::DividePlan& plan = context.divide_plan(level, to_level, keep);
  RnsTensor out(context.engine(), x.shape(), x.components(), plan.out, Domain::ntt);
  ring::for_stretches(
      e, {out.view(), x.view()}, [&](std::size_t items) { return Kernels::divide_workspace(plan, items, x.components()); },
      progress, [&](const std::vector<View>& v, Workspace w) { e.kernels().divide(e.queue(), plan, v[1], v[0], w); });
  return out;
}

RnsTensor switch_last(Context& context, const RnsTensor& x, const SwitchKey& key, std::size_t level, std::size_t to_level,
                      math::u64 times, const Progress& progress, const device::LimbConstants* scale) {
  require_transformed(x);
  ring::Engine& e = *context.engine();
  const device::KeySwitchPlan& plan = context.ntt_switch_plan(level, to_level, times);
  const RnsTensor pairs = key.pairs();  // held before the memory below is asked for, which may evict other keys
  const std::size_t last = x.components() - 1;
  const RnsTensor from = scaled(x.with_components(last, 1), scale);
  RnsTensor out(context.engine(), x.shape(), 2, plan.down.out, Domain::ntt);
  ring::for_stretches(
      e, {out.view(), x.view(), from.view()},
      [&](std::size_t items) { return Kernels::key_switch_ntt_workspace(plan, items); }, progress,
      [&](const std::vector<View>& v, Workspace w) {
        const View rest = v[1].with_components(0, last);
        e.kernels().key_switch_ntt(e.queue(), plan, v[2], pairs.view(), &rest, v[0], w);
      });
  return out;
}

void rotate(Context& context, const RnsTensor& x, const std::vector<math::u64>& galois,
            const std::vector<const SwitchKey*>& keys, const std::vector<RnsTensor>& out, std::size_t level,
            const device::LimbConstants* scale, math::u64 times, const Progress& progress) {
  require_transformed(x);
  ring::Engine& e = *context.engine();
  auto& k = e.kernels();
  const device::KeySwitchPlan& plan = context.ntt_switch_plan(level, level, times);
  if (galois.size() == 1 && galois[0] != 1) return rotate_once(x, galois[0], *keys[0], out[0], plan, scale, progress);
  std::vector<View> views = {x.view()};
  for (const RnsTensor& result : out) views.push_back(result.view());
  const std::size_t digits = plan.digits.size(), n = context.parameters().n, all = std::max<std::size_t>(1, x.items());
  const auto word = context.parameters().word;
  const std::size_t each = Workspace::bytes(word, 1, digits, plan.extended.size(), n) +
                           Workspace::bytes(word, 1, 1, plan.chain.size(), n) +
                           Kernels::apply_key_ntt_workspace(plan, 1, true);
  const std::size_t preferred = k.brings_scratch() ? all : std::min(k.preferred_items(each), all);
  const RnsTensor raised(context.engine(), {preferred}, digits, plan.extended, Domain::ntt);
  const RnsTensor mask(context.engine(), {preferred}, 1, plan.chain, Domain::coefficient);
  const std::size_t scratch = k.brings_scratch() ? 0 : Kernels::apply_key_ntt_workspace(plan, preferred, true);
  const device::Buffer workspace = scratch ? e.allocate(scratch) : nullptr;
  device::for_chunks(views, preferred, progress, [&](const std::vector<View>& v) {
    const auto first = [&](const RnsTensor& t) { return t.view().with_leading(0, v[0].items()); };
    const View up = first(raised), low = first(mask), body = v[0].with_components(0, 1);
    k.inverse_ntt(e.queue(), e.prepared(), plan.chain, v[0].with_components(1, 1), low);
    if (scale) k.mul_constants(e.queue(), e.prepared(), plan.chain, low, *scale, low);
    k.decompose(e.queue(), plan, low, up, Workspace(nullptr, 0));
    for (std::size_t i = 0; i < galois.size(); ++i) {
      if (galois[i] == 1) {
        k.copy(e.queue(), v[0], v[i + 1]);
        continue;
      }
      const auto& turn = e.automorphism(galois[i], Domain::ntt);
      // One key at a time is held: together they may be more than the device has room for.
      const RnsTensor pairs = keys[i]->pairs();
      k.apply_key_ntt(e.queue(), plan, up, pairs.view(), &body, v[i + 1],
                      Workspace(workspace ? workspace->address() : nullptr, scratch), &turn);
    }
  });
}

}  // namespace heliograph::rlwe
