// Division and key switching in the NTT domain: whole on the members that hold whole items, else over limbs.
#include <algorithm>
#include <optional>

#include "device/chunks.h"
#include "mesh/plans.h"

namespace heliograph::mesh {

using device::DividePlan;

void MeshKernels::do_divide(Queue& q, const DividePlan& plan, const View& x, const View& out, Workspace) {
  if (out.items() == 0) return;
  {
    Operation op(*state_, q);
    if (!runs_over_limbs(op, out)) {
      const std::vector<Block> parts = op.parts(out), in = op.fetch(x, with_limbs(parts, range(0, x.limbs)));
      op.writes(out);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto mine = plan_on(plan, parts[i].member);
        const Scratch scratch =
            scratch_for(op, parts[i], [&](std::size_t items) { return divide_workspace(*mine, items, out.components); });
        op.post(parts[i].member,
                [mine, scratch, views = std::vector<View>{parts[i].view, in[i].view}](device::Device& d, Queue& queue) {
                  device::for_chunks(views, scratch.items, {}, [&](const std::vector<View>& v) {
                    d.kernels().divide(queue, *mine, v[1], v[0], Workspace(scratch.address, scratch.bytes));
                  });
                });
      }
      return;
    }
  }
  divide_over_limbs(q, plan, x, out);
}

namespace {

/// A part's limbs that are kept: limb `to` of the part is limb `from` of what was fetched of x.
struct Kept {
  struct Run {
    std::size_t from, to, count;
  };
  std::vector<std::size_t> limbs;  // of x, ascending
  std::vector<Run> runs;
  PrimeList primes;     // of `limbs`
  LimbConstants own{};  // for `limbs`
};

Kept kept_by(const DividePlan& plan, const Block& part) {
  constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<std::size_t> source(plan.out.size(), kNone), back(plan.primes.size(), kNone);
  for (const auto& [from, to, count] : plan.kept) {
    for (std::size_t l = 0; l < count; ++l) source[to + l] = from + l, back[from + l] = to + l;
  }
  Kept k;
  for (std::size_t l : part.limbs) {
    if (source[l] != kNone) k.limbs.push_back(source[l]);
  }
  std::sort(k.limbs.begin(), k.limbs.end());
  for (std::size_t l : k.limbs) {
    k.own[k.primes.size()] = plan.own[back[l]];
    k.primes.push_back(plan.primes[l]);
  }
  for (std::size_t i = 0; i < part.limbs.size(); ++i) {
    const std::size_t wanted = source[part.limbs[i]];
    if (wanted == kNone) continue;
    const auto at = static_cast<std::size_t>(std::lower_bound(k.limbs.begin(), k.limbs.end(), wanted) - k.limbs.begin());
    if (!k.runs.empty() && k.runs.back().from + k.runs.back().count == at && k.runs.back().to + k.runs.back().count == i) {
      ++k.runs.back().count;
    } else {
      k.runs.push_back({at, i, 1});
    }
  }
  return k;
}

PrimeList part_of(const PrimeList& primes, std::size_t first, std::size_t count) {
  return PrimeList(primes.begin() + first, count);
}

}  // namespace

/// Only the limbs divided by move: they are inverse transformed where they lie, and each member makes its own limbs of them.
void MeshKernels::divide_over_limbs(Queue& q, const DividePlan& plan, const View& x, const View& out) {
  if (Operation(*state_, q).home(out) != Layout::limb) {
    const Temporary t = over_limbs(q, out, out.components, plan.out);
    divide_over_limbs(q, plan, x, t.view);
    copy(q, t.view, out);
    return;
  }
  std::optional<Temporary> last, rest;  // coefficients: of the limbs divided by, of what takes their place
  if (plan.rest) {
    PrimeList divisors;
    for (const auto& run : plan.divided) divisors.append(part_of(plan.primes, run.from, run.count));
    last = over_limbs(q, out, out.components, divisors);
    for (const auto& [from, to, count] : plan.divided) {
      inverse_ntt(q, *plan.ring, part_of(plan.primes, from, count), x.with_limbs(from, count),
                  last->view.with_limbs(to, count));
    }
    const MeshConversion& c = mesh_of(plan.rest);
    if (prefers_transpose(c, last->view, nullptr, out)) {
      rest = over_limbs(q, out, out.components, plan.out);
      convert_by_transpose(q, c, last->view, nullptr, rest->view, nullptr);
    }
  }
  Operation op(*state_, q);
  const std::vector<Block> parts = op.parts(out);
  std::vector<Kept> kept;
  std::vector<Block> wanted;
  for (const Block& part : parts) {
    kept.push_back(kept_by(plan, part));
    if (!kept.back().limbs.empty()) wanted.push_back(with_limbs({part}, kept.back().limbs)[0]);
  }
  const std::vector<Block> own = op.fetch(x, wanted);
  std::vector<Block> scaled, in;
  if (rest) {
    scaled = op.room(wanted, out.components, out.word), in = op.fetch(rest->view, parts);
  } else if (last) {
    scaled = op.room(wanted, out.components, out.word);
    in = op.fetch(last->view, with_limbs(parts, range(0, last->view.limbs)));
  }
  op.writes(out);
  struct Call {
    std::shared_ptr<const PreparedRing> ring;
    std::shared_ptr<const PreparedConversion> conversion;  // null: `in` is converted already
    PrimeList primes;
    Kept kept;
    std::optional<View> in;
    View own, scaled, out;
  };
  for (std::size_t i = 0, next = 0; i < parts.size(); ++i) {
    Call call{.ring = ring_on(plan.ring, parts[i].member),
              .conversion = nullptr,
              .primes = primes_of(parts[i], plan.out),
              .kept = std::move(kept[i]),
              .in = {},
              .own = {},
              .scaled = {},
              .out = parts[i].view};
    if (last) call.in = in[i].view;
    if (last && !rest) call.conversion = mesh_of(plan.rest).on(parts[i].member, parts[i].limbs);
    if (!call.kept.limbs.empty()) {
      call.own = own[next].view;
      if (last) call.scaled = scaled[next].view;
      ++next;
    }
    op.post(parts[i].member, [call = std::move(call)](device::Device& d, Queue& queue) {
      auto& k = d.kernels();
      const auto& [ring, conversion, primes, kept, in, own, scaled, o] = call;
      if (conversion) k.convert(queue, *conversion, *in, nullptr, o);
      if (in) k.forward_ntt(queue, *ring, primes, conversion ? o : *in, o);
      if (in && !kept.limbs.empty()) k.mul_constants(queue, *ring, kept.primes, own, kept.own, scaled);
      for (const auto& [from, to, count] : kept.runs) {
        const View target = o.with_limbs(to, count);
        const PrimeList mine = part_of(primes, to, count);
        if (in) {
          k.add(queue, *ring, mine, target, scaled.with_limbs(from, count), target);
          continue;
        }
        LimbConstants c{};
        for (std::size_t l = 0; l < count; ++l) c[l] = kept.own[from + l];
        k.mul_constants(queue, *ring, mine, own.with_limbs(from, count), c, target);
      }
    });
  }
}

/// sum += weight * added
void MeshKernels::add_weighted(Queue& q, const KeySwitchPlan& plan, const View& added, const View& sum) {
  const View target = sum.with_components(0, added.components).with_limbs(0, plan.chain.size());
  Operation op(*state_, q);
  const std::vector<Block> parts = op.parts(target), in = op.fetch(added, parts);
  const std::vector<Block> weighted = op.room(parts, added.components, added.word);
  op.writes(target);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    LimbConstants weight{};
    for (std::size_t l = 0; l < parts[i].limbs.size(); ++l) weight[l] = plan.weight[parts[i].limbs[l]];
    op.post(parts[i].member, [ring = ring_on(plan.ring, parts[i].member), primes = primes_of(parts[i], plan.chain), weight,
                              in = in[i].view, w = weighted[i].view, o = parts[i].view](device::Device& d, Queue& queue) {
      d.kernels().mul_constants(queue, *ring, primes, in, weight, w);
      d.kernels().add(queue, *ring, primes, o, w, o);
    });
  }
}

/// `turn` on the members that hold whole items and will ask for it; null for null.
std::vector<std::shared_ptr<const PreparedPermutation>> MeshKernels::turns_of(Queue& q, const PreparedPermutation* turn,
                                                                              const View& out) {
  std::vector<std::shared_ptr<const PreparedPermutation>> turns(state_->size());
  if (!turn) return turns;
  const auto* const permutation = dynamic_cast<const MeshPermutation*>(turn);
  require<MismatchError>(permutation != nullptr, "constants prepared for another device");
  Operation op(*state_, q);
  if (runs_over_limbs(op, out)) return turns;
  for (const Block& b : op.parts(out)) {
    if (!turns[b.member]) turns[b.member] = permutation->shared(b.member);
  }
  return turns;
}

void MeshKernels::do_apply_key_ntt(Queue& q, const KeySwitchPlan& plan, const View& digits, const View& key, const View* add,
                                   const View& out, Workspace, const PreparedPermutation* turn) {
  if (out.items() == 0) return;
  const MemberCall call = [turns = turns_of(q, turn, out)](Kernels& k, std::size_t member, Queue& queue,
                                                           const KeySwitchPlan& mine, const View& x, const View& pairs,
                                                           const View* more, const View& to, Workspace w) {
    k.apply_key_ntt(queue, mine, x, pairs, more, to, w, turns[member].get());
  };
  const auto bytes = [turns = turn != nullptr](const KeySwitchPlan& p, std::size_t items) {
    return apply_key_ntt_workspace(p, items, turns);
  };
  if (switch_members(q, plan, digits, key, add, out, call, bytes)) return;
  std::optional<Temporary> turned, more;
  if (turn) {
    turned = over_limbs(q, out, digits.components, plan.extended);
    permute(q, *plan.ring, plan.extended, *turn, digits, turned->view);
    if (add) {
      more = over_limbs(q, out, add->components, plan.chain);
      permute(q, *plan.ring, plan.chain, *turn, *add, more->view);
    }
  }
  const Temporary sum = over_limbs(q, out, 2, plan.extended);
  inner_product(q, *plan.ring, plan.extended, turn ? turned->view : digits, key, plan.key_limbs, sum.view);
  if (add) add_weighted(q, plan, more ? more->view : *add, sum.view);
  divide_over_limbs(q, plan.down, sum.view, out);
}

void MeshKernels::do_key_switch_ntt(Queue& q, const KeySwitchPlan& plan, const View& x, const View& key, const View* add,
                                    const View& out, Workspace, const PreparedPermutation* turn) {
  if (out.items() == 0) return;
  const MemberCall call = [turns = turns_of(q, turn, out)](Kernels& k, std::size_t member, Queue& queue,
                                                           const KeySwitchPlan& mine, const View& a, const View& pairs,
                                                           const View* more, const View& to, Workspace w) {
    k.key_switch_ntt(queue, mine, a, pairs, more, to, w, turns[member].get());
  };
  const auto bytes = [turns = turn != nullptr](const KeySwitchPlan& p, std::size_t items) {
    return key_switch_ntt_workspace(p, items, turns);
  };
  if (switch_members(q, plan, x, key, add, out, call, bytes)) return;
  const Temporary coefficients = over_limbs(q, out, 1, plan.chain);
  inverse_ntt(q, *plan.ring, plan.chain, x, coefficients.view);
  if (turn) {
    const Temporary digits = over_limbs(q, out, plan.digits.size(), plan.extended);
    decompose_over_limbs(q, plan, coefficients.view, digits.view);
    do_apply_key_ntt(q, plan, digits.view, key, add, out, Workspace(nullptr, 0), turn);
    return;
  }
  const Temporary sum = over_limbs(q, out, 2, plan.extended);
  sum_over_limbs(q, plan, coefficients.view, key, sum.view);
  if (add) add_weighted(q, plan, *add, sum.view);
  divide_over_limbs(q, plan.down, sum.view, out);
}

}  // namespace heliograph::mesh
