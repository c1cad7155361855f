// Key switching and BFV's product. If members hold complete items, each member computes its items; otherwise each
// computes some limbs.
#include <algorithm>

#include "device/chunks.h"
#include "mesh/composites.h"

namespace heliograph::mesh {

void post_in_stretches(Operation& op, std::size_t m, const Call& call) {
  if (!op.state().here(m)) return;
  const std::size_t each = scratch_bytes(call, 1);
  if (each == 0) return op.post(m, call);
  const std::size_t items = stretch_of(call, op.state().member(m).device->kernels().preferred_items(each));
  const std::size_t bytes = scratch_bytes(call, items);
  op.post(m, [call, items, bytes, scratch = op.scratch(m, bytes)](Device&, Queue& queue) {
    for_stretches(call, items, [&](Call& part) {
      give_scratch(part, Workspace(scratch, bytes));
      queue.enqueue(part);
    });
  });
}

MeshKernels::Temporary MeshKernels::over_limbs(Queue& q, const View& like, std::size_t items, std::size_t components,
                                               const PrimeList& primes) {
  const View shape = View::dense(nullptr, like.word, {items}, components, primes.size(), like.n);
  Temporary t{.memory = std::make_shared<MeshMemory>(state_, shape, primes, Placement{Layout::limb}, own(q).queues()),
              .view = shape};
  t.view.data = t.memory->address();
  return t;
}

// ---- key switching

void MeshKernels::run(Queue& q, const KeySwitch& c) {
  if (by_items(q, c) || shares_key_switch(q, c)) return;
  const KeySwitchPlan& plan = *c.plan;
  if (c.domain == math::Domain::coefficient) {
    const Temporary sum = over_limbs(q, c.out, 2, plan.extended);
    sum_over_limbs(q, plan, c.x, c.key, sum.view);
    return finish_key_switch(q, plan, sum.view, c.add, c.out);
  }
  const Temporary coefficients = over_limbs(q, c.out, 1, plan.chain);
  run(q, InverseNtt{plan.ring, plan.chain, c.x, coefficients.view});
  if (c.turn) {
    const Temporary digits = over_limbs(q, c.out, plan.digits.size(), plan.extended);
    decompose_over_limbs(q, plan, coefficients.view, digits.view);
    return run(q, ApplyKey{c.plan, c.domain, digits.view, c.key, c.add, c.out, {}, c.turn});
  }
  const Temporary sum = over_limbs(q, c.out, 2, plan.extended);
  sum_over_limbs(q, plan, coefficients.view, c.key, sum.view);
  if (c.add) add_weighted(q, plan, *c.add, sum.view);
  divide_over_limbs(q, plan.down, sum.view, c.out);
}

void MeshKernels::run(Queue& q, const ApplyKey& c) {
  if (by_items(q, c)) return;
  const KeySwitchPlan& plan = *c.plan;
  std::optional<Temporary> turned, more;
  if (c.turn) {
    turned = over_limbs(q, c.out, c.digits.components, plan.extended);
    run(q, Permute{plan.ring, plan.extended, c.turn, c.digits, turned->view});
    if (c.add) {
      more = over_limbs(q, c.out, c.add->components, plan.chain);
      run(q, Permute{plan.ring, plan.chain, c.turn, *c.add, more->view});
    }
  }
  const Temporary sum = over_limbs(q, c.out, 2, plan.extended);
  run(q, InnerProduct{plan.ring, plan.extended, c.turn ? turned->view : View(c.digits), c.key, plan.key_limbs, sum.view});
  if (c.domain == math::Domain::coefficient) return finish_key_switch(q, plan, sum.view, c.add, c.out);
  if (c.add) add_weighted(q, plan, more ? more->view : View(*c.add), sum.view);
  divide_over_limbs(q, plan.down, sum.view, c.out);
}

/// Sums the products of the key and the digits of `x`, in the coefficient domain.
void MeshKernels::sum_over_limbs(Queue& q, const KeySwitchPlan& plan, const View& x, const View& key, const View& sum) {
  if (state_->options().key_switch == SwitchMethod::output) {
    aggregate_outputs(q, plan, x, key, sum);
    return;
  }
  const Temporary digits = over_limbs(q, sum, plan.digits.size(), plan.extended);
  decompose_over_limbs(q, plan, x, digits.view);
  run(q, InnerProduct{plan.ring, plan.extended, digits.view, key, plan.key_limbs, sum});
}

void MeshKernels::run(Queue& q, const Decompose& c) {
  if (by_items(q, c)) return;
  if (Operation(*state_, q).home(c.digits) == Layout::limb) return decompose_over_limbs(q, *c.plan, c.x, c.digits);
  const Temporary t = over_limbs(q, c.digits, c.digits.components, c.plan->extended);
  decompose_over_limbs(q, *c.plan, c.x, t.view);
  run(q, Copy{t.view, c.digits});
}

/// Input broadcast: every member gathers the polynomial and computes its own limbs of every digit.
void MeshKernels::decompose_over_limbs(Queue& q, const KeySwitchPlan& plan, const View& x, const View& digits) {
  Operation op(*state_, q);
  const std::vector<Block> parts = op.parts(digits), in = op.fetch(x, with_limbs(parts, range(0, x.limbs)));
  op.writes(digits);
  struct Raise {
    std::shared_ptr<const ConversionConstant> conversion;
    PrimeList place;
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Block& part = parts[i];
    std::vector<Raise> raises;
    std::vector<Piece> pieces;
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
      if (!targets.empty()) raise.conversion = on(digit.raise, part.member, targets);
      raises.push_back(std::move(raise));
      // For the primes of a digit itself, the limbs of the raised digit are the polynomial's limbs.
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
    op.post(part.member, [raises = std::move(raises), pieces = std::move(pieces), ring = on(plan.ring, part.member),
                          primes = primes_of(part, plan.extended), in = in[i].view, o = part.view, firsts = [&] {
                            std::vector<std::pair<std::size_t, std::size_t>> f;
                            for (const auto& d : plan.digits) f.push_back({d.first, d.count});
                            return f;
                          }()](Device&, Queue& queue) {
      if (!pieces.empty()) queue.enqueue(Gather{pieces});
      for (std::size_t j = 0; j < raises.size(); ++j) {
        if (!raises[j].conversion) continue;
        queue.enqueue(Convert{raises[j].conversion, in.with_limbs(firsts[j].first, firsts[j].second), std::nullopt,
                              o.with_components(j, 1), raises[j].place});
      }
      queue.enqueue(ForwardNtt{ring, primes, o, o});
    });
  }
}

/// Output aggregation: every member raises its own digits to all limbs of Q and P. The sums are added up over the
/// members and divided by P once. The key defines the digits, so the result has the same bits as with input broadcast.
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
      state_->prepare(m, plan);
      op.post(m, [mine = std::make_shared<const KeySwitchPlan>(plan), begin, count, from, in = in[0].view, key = keys[0],
                  digits = digits[0].view, result = result[0].view](Device&, Queue& queue) {
        for (std::size_t j = 0; j < count; ++j) {
          const KeySwitchPlan::Digit& digit = mine->digits[begin + j];
          const View source = in.with_limbs(digit.first - from, digit.count), target = digits.with_components(j, 1);
          queue.enqueue(Copy{source, target.with_limbs(digit.first, digit.count)});
          if (digit.others.size() > 0) queue.enqueue(Convert{digit.raise, source, std::nullopt, target, digit.others});
        }
        queue.enqueue(ForwardNtt{mine->ring, mine->extended, digits, digits});
        queue.enqueue(InnerProduct{mine->ring, mine->extended, digits, key.view, key.limbs, result});
      });
      op.writes(partial.view);
      op.store(result, partial.view);
    }
    if (!first) run(q, Add{plan.ring, plan.extended, sum, partial.view, sum});
    first = false;
  }
}

/// Computes the result of a key switch from the sums over Q and P.
void MeshKernels::finish_key_switch(Queue& q, const KeySwitchPlan& plan, const View& sum, const std::optional<View>& added,
                                    const View& out) {
  const std::size_t chain = plan.chain.size();
  run(q, InverseNtt{plan.ring, plan.extended, sum, sum});
  if (plan.mod_down)
    run(q, Convert{plan.mod_down, sum.with_limbs(chain, plan.special.size()), sum.with_limbs(0, chain), out});
  else
    run(q, Copy{sum, out});
  if (added) {
    const View part = out.with_components(0, added->components);
    run(q, Add{plan.ring, plan.chain, part, *added, part});
  }
}

// ---- BFV's product

void MeshKernels::run(Queue& q, const ScaledTensor& c) {
  if (!by_items(q, c)) multiply_over_limbs(q, *c.plan, c.a, c.b, c.out);
}

void MeshKernels::multiply_over_limbs(Queue& q, const MultiplyPlan& plan, const View& a, const View& b, const View& out) {
  const std::size_t chain = plan.chain.size(), auxiliary = plan.auxiliary.size();
  const bool square = same_operand(a, b);
  // The raised factors are components of one tensor, so that one exchange moves both.
  const std::size_t factors = a.components + (square ? 0 : b.components);
  const Temporary raised = over_limbs(q, out, factors, plan.extended);
  run(q, Copy{a, raised.view.with_components(0, a.components).with_limbs(0, chain)});
  if (!square) run(q, Copy{b, raised.view.with_components(a.components, b.components).with_limbs(0, chain)});
  run(q, Convert{plan.lift, raised.view.with_limbs(0, chain), std::nullopt, raised.view.with_limbs(chain, auxiliary)});
  run(q, ForwardNtt{plan.ring, plan.extended, raised.view, raised.view});
  const View ea = raised.view.with_components(0, a.components);
  const View eb = square ? ea : raised.view.with_components(a.components, b.components);
  const Temporary product = over_limbs(q, out, out.components, plan.extended);
  run(q, Tensor{plan.ring, plan.extended, ea, eb, product.view});
  run(q, InverseNtt{plan.ring, plan.extended, product.view, product.view});
  if (state_->options().exchange == Exchange::broadcast) {
    const Temporary scaled = over_limbs(q, out, out.components, plan.auxiliary);
    const View own_limbs = product.view.with_limbs(chain, auxiliary);
    run(q, Convert{plan.scale, product.view.with_limbs(0, chain), own_limbs, scaled.view});
    run(q, Convert{plan.lower, scaled.view, std::nullopt, out});
    return;
  }
  // Scales and divides in one step, in the coefficient layout.
  Operation op(*state_, q);
  std::vector<Block> parts = op.parts(out, {}, Layout::coefficient);
  const std::vector<Block> in = op.fetch(product.view, with_limbs(parts, range(0, chain + auxiliary)));
  const std::vector<Block> scaled = op.room(with_limbs(parts, range(0, auxiliary)), out.components, out.word);
  parts = op.room(parts, out.components, out.word);
  op.writes(out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    op.post(parts[i].member,
            [scale = on(plan.scale, parts[i].member), lower = on(plan.lower, parts[i].member), chain, auxiliary,
             in = in[i].view, scaled = scaled[i].view, o = parts[i].view](Device&, Queue& queue) {
              queue.enqueue(Convert{scale, in.with_limbs(0, chain), in.with_limbs(chain, auxiliary), scaled});
              queue.enqueue(Convert{lower, scaled, std::nullopt, o});
            });
  }
  op.store(parts, out);
}

}  // namespace heliograph::mesh
