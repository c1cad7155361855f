// Key switching and BFV's product: whole on the members that hold whole items, else over limbs.
#include <algorithm>

#include "device/chunks.h"
#include "mesh/plans.h"

namespace heliograph::mesh {

MeshKernels::Temporary MeshKernels::over_limbs(Queue& q, const View& like, std::size_t components, const PrimeList& primes) {
  const View shape = View::dense(nullptr, like.word, {like.items()}, components, primes.size(), like.n);
  Temporary t{.memory = std::make_shared<MeshMemory>(state_, shape, primes, Layout::limb, own(q).queues()), .view = shape};
  t.view.data = t.memory->address();
  return t;
}

// ---- key switching

bool MeshKernels::switch_whole(Queue& q, const KeySwitchPlan& plan, const View& in, const View& key, const View* add,
                               const View& out, SwitchCall call, const SwitchBytes& bytes) {
  return switch_members(
      q, plan, in, key, add, out,
      [call](Kernels& k, std::size_t, auto&&... more) { (k.*call)(std::forward<decltype(more)>(more)...); }, bytes);
}

bool MeshKernels::switch_members(Queue& q, const KeySwitchPlan& plan, const View& in, const View& key, const View* add,
                                 const View& out, const MemberCall& call, const SwitchBytes& bytes) {
  Operation op(*state_, q);
  if (runs_over_limbs(op, out)) return false;
  const std::vector<Block> parts = op.parts(out), from = op.fetch(in, with_limbs(parts, range(0, in.limbs)));
  std::vector<Block> added;
  if (add) added = op.fetch(*add, with_limbs(parts, range(0, add->limbs)));
  const std::vector<LocalKey> keys = fetch_key(op, key, plan.key_limbs, with_limbs(parts, range(0, plan.extended.size())));
  op.writes(out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto mine = plan_on(plan, parts[i].member);
    mine->key_limbs = keys[i].limbs;
    const Scratch scratch = scratch_for(op, parts[i], [&](std::size_t items) { return bytes(*mine, items); });
    std::vector<View> views = {parts[i].view, from[i].view};
    if (add) views.push_back(added[i].view);
    op.post(parts[i].member, [mine, scratch, call, m = parts[i].member, views = std::move(views), key = keys[i].view](
                                 device::Device& d, Queue& queue) {
      device::for_chunks(views, scratch.items, {}, [&](const std::vector<View>& v) {
        call(d.kernels(), m, queue, *mine, v[1], key, v.size() > 2 ? &v[2] : nullptr, v[0],
             Workspace(scratch.address, scratch.bytes));
      });
    });
  }
  return true;
}

void MeshKernels::do_key_switch(Queue& q, const KeySwitchPlan& plan, const View& x, const View& key, const View* add,
                                const View& out, Workspace) {
  if (out.items() == 0) return;
  if (switch_whole(q, plan, x, key, add, out, &Kernels::key_switch, &Kernels::key_switch_workspace)) return;
  const Temporary sum = over_limbs(q, out, 2, plan.extended);
  sum_over_limbs(q, plan, x, key, sum.view);
  finish_key_switch(q, plan, sum.view, add, out);
}

/// The digits of `x`, in the coefficient domain, times the key.
void MeshKernels::sum_over_limbs(Queue& q, const KeySwitchPlan& plan, const View& x, const View& key, const View& sum) {
  if (state_->options().key_switch == KeySwitch::output) {
    aggregate_outputs(q, plan, x, key, sum);
    return;
  }
  const Temporary digits = over_limbs(q, sum, plan.digits.size(), plan.extended);
  decompose_over_limbs(q, plan, x, digits.view);
  inner_product(q, *plan.ring, plan.extended, digits.view, key, plan.key_limbs, sum);
}

void MeshKernels::do_decompose(Queue& q, const KeySwitchPlan& plan, const View& x, const View& digits, Workspace) {
  if (digits.items() == 0) return;
  {
    Operation op(*state_, q);
    if (!runs_over_limbs(op, digits)) {
      const std::vector<Block> parts = op.parts(digits), in = op.fetch(x, with_limbs(parts, range(0, x.limbs)));
      op.writes(digits);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        op.post(parts[i].member,
                [mine = plan_on(plan, parts[i].member), in = in[i].view, o = parts[i].view](
                    device::Device& d, Queue& queue) { d.kernels().decompose(queue, *mine, in, o, Workspace(nullptr, 0)); });
      }
      return;
    }
    if (op.home(digits) == Layout::limb) {
      decompose_over_limbs(q, plan, x, digits);
      return;
    }
  }
  const Temporary t = over_limbs(q, digits, digits.components, plan.extended);
  decompose_over_limbs(q, plan, x, t.view);
  copy(q, t.view, digits);
}

/// Input broadcast: every member gathers the polynomial and makes its own limbs of every digit.
void MeshKernels::decompose_over_limbs(Queue& q, const KeySwitchPlan& plan, const View& x, const View& digits) {
  Operation op(*state_, q);
  const std::vector<Block> parts = op.parts(digits), in = op.fetch(x, with_limbs(parts, range(0, x.limbs)));
  op.writes(digits);
  struct Raise {
    std::shared_ptr<const PreparedConversion> conversion;
    PrimeList place;
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Block& part = parts[i];
    std::vector<Raise> raises;
    std::vector<device::Piece> pieces;
    for (std::size_t j = 0; j < plan.digits.size(); ++j) {
      const KeySwitchPlan::Digit& digit = plan.digits[j];
      Raise raise;
      std::vector<std::size_t> targets;
      for (std::size_t k = 0; k < digit.others.size(); ++k) {
        const auto at = std::lower_bound(part.limbs.begin(), part.limbs.end(), std::size_t{digit.others[k]});
        if (at == part.limbs.end() || *at != digit.others[k]) continue;
        targets.push_back(k);
        raise.place.push_back(static_cast<PrimeIndex>(at - part.limbs.begin()));
      }
      if (!targets.empty()) raise.conversion = mesh_of(digit.raise).on(part.member, targets);
      raises.push_back(std::move(raise));
      // The digit's own limbs are the polynomial's.
      Block source{.member = part.member,
                   .first = 0,
                   .count = part.count,
                   .limbs = range(digit.first, digit.count),
                   .begin = 0,
                   .length = part.length,
                   .view = in[i].view.with_limbs(digit.first, digit.count)};
      Block target = part;
      target.first = 0;
      target.view = part.view.with_components(j, 1);
      for (const Pair& p : intersect(source, target)) pieces.push_back({p.from, p.to});
    }
    op.post(part.member, [raises = std::move(raises), pieces = std::move(pieces), ring = ring_on(plan.ring, part.member),
                          primes = primes_of(part, plan.extended), in = in[i].view, o = part.view, firsts = [&] {
                            std::vector<std::pair<std::size_t, std::size_t>> f;
                            for (const auto& d : plan.digits) f.push_back({d.first, d.count});
                            return f;
                          }()](device::Device& d, Queue& queue) {
      auto& k = d.kernels();
      if (!pieces.empty()) k.gather(queue, pieces);
      for (std::size_t j = 0; j < raises.size(); ++j) {
        if (!raises[j].conversion) continue;
        k.convert(queue, *raises[j].conversion, in.with_limbs(firsts[j].first, firsts[j].second), nullptr,
                  o.with_components(j, 1), &raises[j].place);
      }
      k.forward_ntt(queue, *ring, primes, o, o);
    });
  }
}

/// Output aggregation: every member raises the digits that are its own to all limbs of Q and P; the sums are added up over
/// the members, divided by P once (DESIGN: the key's fixed digits, so the bits are those of input broadcast).
void MeshKernels::aggregate_outputs(Queue& q, const KeySwitchPlan& plan, const View& x, const View& key, const View& sum) {
  const std::size_t limbs = plan.extended.size();
  const std::vector<std::size_t> bounds = shares(plan.digits.size(), state_->limb_weights());
  bool first = true;
  for (std::size_t m = 0; m < state_->size(); ++m) {
    const std::size_t begin = bounds[m], count = bounds[m + 1] - begin;
    if (count == 0) continue;
    const Temporary partial = first ? Temporary{nullptr, sum} : over_limbs(q, sum, 2, plan.extended);
    {
      Operation op(*state_, q);
      const std::size_t from = plan.digits[begin].first;
      const auto& last = plan.digits[begin + count - 1];
      const Block part{.member = m,
                       .first = 0,
                       .count = sum.items(),
                       .limbs = range(from, last.first + last.count - from),
                       .begin = 0,
                       .length = sum.n,
                       .view = {}};
      const std::vector<Block> in = op.fetch(x, {part});
      const std::vector<Block> all = {with_limbs({part}, range(0, limbs))};
      const std::vector<LocalKey> keys = fetch_key(op, key.with_components(2 * begin, 2 * count), plan.key_limbs, all);
      const std::vector<Block> digits = op.room(all, count, sum.word), result = op.room(all, 2, sum.word);
      op.post(m, [mine = plan_on(plan, m), begin, count, from, in = in[0].view, key = keys[0], digits = digits[0].view,
                  result = result[0].view](device::Device& d, Queue& queue) {
        auto& k = d.kernels();
        for (std::size_t j = 0; j < count; ++j) {
          const KeySwitchPlan::Digit& digit = mine->digits[begin + j];
          const View source = in.with_limbs(digit.first - from, digit.count), target = digits.with_components(j, 1);
          k.copy(queue, source, target.with_limbs(digit.first, digit.count));
          if (digit.others.size() > 0) k.convert(queue, *digit.raise, source, nullptr, target, &digit.others);
        }
        k.forward_ntt(queue, *mine->ring, mine->extended, digits, digits);
        k.inner_product(queue, *mine->ring, mine->extended, digits, key.view, key.limbs, result);
      });
      op.writes(partial.view);
      op.store(result, partial.view);
    }
    if (!first) add(q, *plan.ring, plan.extended, sum, partial.view, sum);
    first = false;
  }
}

void MeshKernels::do_apply_key(Queue& q, const KeySwitchPlan& plan, const View& digits, const View& key, const View* add,
                               const View& out, Workspace) {
  if (out.items() == 0) return;
  if (switch_whole(q, plan, digits, key, add, out, &Kernels::apply_key, &Kernels::apply_key_workspace)) return;
  const Temporary sum = over_limbs(q, out, 2, plan.extended);
  inner_product(q, *plan.ring, plan.extended, digits, key, plan.key_limbs, sum.view);
  finish_key_switch(q, plan, sum.view, add, out);
}

/// From the sums over Q and P to the result.
void MeshKernels::finish_key_switch(Queue& q, const KeySwitchPlan& plan, const View& sum, const View* added,
                                    const View& out) {
  const std::size_t chain = plan.chain.size();
  inverse_ntt(q, *plan.ring, plan.extended, sum, sum);
  if (plan.mod_down) {
    const View own_limbs = sum.with_limbs(0, chain);
    convert(q, *plan.mod_down, sum.with_limbs(chain, plan.special.size()), &own_limbs, out);
  } else {
    copy(q, sum, out);
  }
  if (added) {
    const View part = out.with_components(0, added->components);
    add(q, *plan.ring, plan.chain, part, *added, part);
  }
}

// ---- BFV's product

void MeshKernels::do_bfv_multiply(Queue& q, const MultiplyPlan& plan, const View& a, const View& b, const View& out,
                                  Workspace) {
  if (out.items() == 0) return;
  {
    Operation op(*state_, q);
    if (!runs_over_limbs(op, out)) {
      const bool square =
          a.data == b.data && a.axes == b.axes && a.shape == b.shape && a.stride == b.stride && a.components == b.components;
      const std::vector<Block> parts = op.parts(out), fa = op.fetch(a, parts);
      const std::vector<Block> fb = square ? fa : op.fetch(b, parts);
      op.writes(out);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto mine = plan_on(plan, parts[i].member);
        const Scratch scratch = scratch_for(op, parts[i], [&](std::size_t items) {
          return bfv_multiply_workspace(*mine, items, a.components, b.components);
        });
        op.post(parts[i].member, [mine, scratch, views = std::vector<View>{parts[i].view, fa[i].view, fb[i].view}](
                                     device::Device& d, Queue& queue) {
          device::for_chunks(views, scratch.items, {}, [&](const std::vector<View>& v) {
            d.kernels().bfv_multiply(queue, *mine, v[1], v[2], v[0], Workspace(scratch.address, scratch.bytes));
          });
        });
      }
      return;
    }
  }
  multiply_over_limbs(q, plan, a, b, out);
}

void MeshKernels::multiply_over_limbs(Queue& q, const MultiplyPlan& plan, const View& a, const View& b, const View& out) {
  const std::size_t chain = plan.chain.size(), auxiliary = plan.auxiliary.size();
  const bool square =
      a.data == b.data && a.axes == b.axes && a.shape == b.shape && a.stride == b.stride && a.components == b.components;
  // Both factors side by side: one exchange for both.
  const std::size_t factors = a.components + (square ? 0 : b.components);
  const Temporary raised = over_limbs(q, out, factors, plan.extended);
  copy(q, a, raised.view.with_components(0, a.components).with_limbs(0, chain));
  if (!square) copy(q, b, raised.view.with_components(a.components, b.components).with_limbs(0, chain));
  convert(q, *plan.lift, raised.view.with_limbs(0, chain), nullptr, raised.view.with_limbs(chain, auxiliary));
  forward_ntt(q, *plan.ring, plan.extended, raised.view, raised.view);
  const View ea = raised.view.with_components(0, a.components);
  const View eb = square ? ea : raised.view.with_components(a.components, b.components);
  const Temporary product = over_limbs(q, out, out.components, plan.extended);
  tensor(q, *plan.ring, plan.extended, ea, eb, product.view);
  inverse_ntt(q, *plan.ring, plan.extended, product.view, product.view);
  if (state_->options().exchange == Exchange::broadcast) {
    const Temporary scaled = over_limbs(q, out, out.components, plan.auxiliary);
    const View own_limbs = product.view.with_limbs(chain, auxiliary);
    convert(q, *plan.scale, product.view.with_limbs(0, chain), &own_limbs, scaled.view);
    convert(q, *plan.lower, scaled.view, nullptr, out);
    return;
  }
  // Scaled and lowered in one stay in the coefficient layout.
  Operation op(*state_, q);
  std::vector<Block> parts = op.parts(out, {}, Layout::coefficient);
  const std::vector<Block> in = op.fetch(product.view, with_limbs(parts, range(0, chain + auxiliary)));
  const std::vector<Block> scaled = op.room(with_limbs(parts, range(0, auxiliary)), out.components, out.word);
  parts = op.room(parts, out.components, out.word);
  op.writes(out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    op.post(parts[i].member,
            [scale = mesh_of(plan.scale).on(parts[i].member), lower = mesh_of(plan.lower).on(parts[i].member), chain,
             auxiliary, in = in[i].view, scaled = scaled[i].view, o = parts[i].view](device::Device& d, Queue& queue) {
              const View own_limbs = in.with_limbs(chain, auxiliary);
              d.kernels().convert(queue, *scale, in.with_limbs(0, chain), &own_limbs, scaled);
              d.kernels().convert(queue, *lower, scaled, nullptr, o);
            });
  }
  op.store(parts, out);
}

}  // namespace heliograph::mesh
