#include "rlwe/rotate.h"

#include <algorithm>

#include "base/progress.h"
#include "device/expand.h"
#include "rlwe/transformed.h"

namespace heliograph::rlwe {

namespace {

using device::View;

/// Performs a single rotation in the NTT domain in one call, which need not store the transformed digits.
void rotate_once(const RnsTensor& x, math::u64 galois, const SwitchKey& key, const RnsTensor& out,
                 const std::shared_ptr<const device::KeySwitchPlan>& plan, const device::LimbConstants* scale) {
  ring::Engine& e = *x.engine();
  const RnsTensor pairs = key.pairs();  // keeps the key on the device while the allocation below evicts other keys
  const RnsTensor from = scaled(x.with_components(1, 1), scale);
  e.enqueue_reporting(device::KeySwitch{plan,
                                        Domain::ntt,
                                        from.view(),
                                        pairs.view(),
                                        x.with_components(0, 1).view(),
                                        out.view(),
                                        {},
                                        e.automorphism(galois, Domain::ntt)});
}

class Between {
 public:
  Between(const RnsTensor& x, const device::KeySwitchPlan& plan, std::size_t items)
      : ntt_(x.domain() == Domain::ntt),
        digits_(x.engine(), {items}, plan.digits.size(), plan.extended, Domain::ntt),
        one_(x.engine(), {items}, 1, plan.chain, Domain::coefficient),
        turned_(x.engine(), {ntt_ ? 0 : items}, plan.digits.size(), plan.extended, Domain::ntt) {}
  static std::size_t bytes(const RnsTensor& x, const device::KeySwitchPlan& plan) {
    const View& v = x.view();
    const auto room = [&](std::size_t components, std::size_t limbs) {
      return device::Workspace::bytes(v.word, 1, components, limbs, v.n);
    };
    return (x.domain() == Domain::ntt ? 1 : 2) * room(plan.digits.size(), plan.extended.size()) + room(1, plan.chain.size());
  }
  View digits(std::size_t items) const { return digits_.view().with_leading(0, items); }
  /// In the NTT domain, the component to decompose; in the coefficient domain, the rotated body.
  View one(std::size_t items) const { return one_.view().with_leading(0, items); }
  /// Rotated digits, to which keys are applied in the coefficient domain.
  View turned(std::size_t items) const { return turned_.view().with_leading(0, items); }

 private:
  bool ntt_;
  RnsTensor digits_, one_, turned_;
};

/// Applies the keys of all Galois elements except 1, in the NTT domain. A call has several keys, as many as fit the device.
void apply_turned(ring::Engine& e, const device::ApplyKeys& like, const std::vector<math::u64>& galois,
                  const std::vector<const SwitchKey*>& keys, const View* out) {
  for (std::size_t i = 0; i < keys.size();) {
    std::vector<RnsTensor> held;
    device::ApplyKeys call = like;
    for (; i < keys.size() && held.size() < device::kKeysAtOnce; ++i) {
      if (galois[i] == 1) continue;
      try {
        held.push_back(keys[i]->pairs());
      } catch (const OutOfMemoryError&) {
        if (held.empty()) throw;
        break;
      }
      call.keys.push_back(held.back().view()), call.outs.push_back(out[i]);
      call.turns.push_back(e.automorphism(galois[i], Domain::ntt));
    }
    if (!held.empty()) e.enqueue(std::move(call));
  }
}

}  // namespace

void rotate(const RnsTensor& x, const std::vector<math::u64>& galois, const std::vector<const SwitchKey*>& keys,
            const std::vector<RnsTensor>& out, const std::shared_ptr<const device::KeySwitchPlan>& handle,
            const device::LimbConstants* scale) {
  ring::Engine& e = *x.engine();
  const bool ntt = x.domain() == Domain::ntt;
  require<InternalError>(ntt || !scale, "`scale` requires ciphertexts in the NTT domain");
  if (ntt && galois.size() == 1 && galois[0] != 1) return rotate_once(x, galois[0], *keys[0], out[0], handle, scale);
  const device::KeySwitchPlan& plan = *handle;
  std::vector<View> views = {x.view()};
  for (const RnsTensor& result : out) views.push_back(result.view());
  const device::Call like = ntt ? device::Call(device::ApplyKeys{.plan = handle, .outs = {out.size(), x.view()}})
                                : device::Call(device::ApplyKey{.plan = handle, .domain = x.domain()});
  const std::size_t preferred =
      e.items_at_once(Between::bytes(x, plan) + device::scratch_bytes(like, 1), std::max<std::size_t>(1, x.items()));
  const Between between(x, plan, preferred);
  const device::Scratch scratch(e, like, preferred);  // shared by all rotations
  ProgressSteps steps(x.items());
  device::for_chunks(views, preferred, [&](const std::vector<View>& v) {
    const std::size_t items = v[0].items();
    const View digits = between.digits(items), one = between.one(items), body = v[0].with_components(0, 1);
    const View mask = v[0].with_components(1, 1);
    if (ntt) e.enqueue(device::InverseNtt{e.prepared(), plan.chain, mask, one});
    if (scale) e.enqueue(device::MulConstants{e.prepared(), plan.chain, one, *scale, one});
    e.enqueue(device::Decompose{handle, ntt ? one : mask, digits});
    if (ntt) {
      apply_turned(e, {.plan = handle, .digits = {digits}, .added = {body}, .scratch = scratch.all()}, galois, keys,
                   v.data() + 1);
    }
    for (std::size_t i = 0; i < galois.size(); ++i) {
      if (galois[i] == 1) e.enqueue(device::Copy{v[0], v[i + 1]});
      if (galois[i] == 1 || ntt) continue;
      e.enqueue(device::Permute{e.prepared(), plan.extended, e.automorphism(galois[i], Domain::ntt), digits,
                                between.turned(items)});
      e.enqueue(device::Permute{e.prepared(), plan.chain, e.automorphism(galois[i], Domain::coefficient), body, one});
      // Keeps one key at a time on the device, because all keys together may exceed its memory.
      const RnsTensor pairs = keys[i]->pairs();
      e.enqueue(device::ApplyKey{handle, x.domain(), between.turned(items), pairs.view(), one, v[i + 1], scratch.all()});
    }
    steps.add(items);
  });
}

}  // namespace heliograph::rlwe
