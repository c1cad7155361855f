// Division and key switching in the NTT domain: whole on the members that hold whole items, else over limbs.
#include <algorithm>
#include <optional>

#include "mesh/composites.h"

namespace heliograph::mesh {

void MeshKernels::run(Queue& q, const Divide& c) {
  if (!by_items(q, c)) divide_over_limbs(q, *c.plan, c.x, c.out);
}

namespace {

/// A part's limbs that are kept: limb `to` of the part is limb `from` of what was fetched of x.
struct Kept {
  struct Run {
    std::size_t from, to, count;
  };
  std::vector<std::size_t> limbs;  // of x, ascending
  std::vector<Run> runs;
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
  for (std::size_t i = 0; i < k.limbs.size(); ++i) k.own[i] = plan.own[back[k.limbs[i]]];
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

/// sum += weight * x
WeightedSum onto(const device::RingHandle& ring, const PrimeList& primes, const View& x, const LimbConstants& weight,
                 const View& sum) {
  std::vector<LimbConstants> weights(2, weight);
  weights[0].fill(1);
  return {.ring = ring, .primes = primes, .x = {sum, x}, .weights = weights, .constant = {}, .out = sum};
}

}  // namespace

/// Only the limbs divided by move: they are inverse transformed where they lie, and each member makes its own limbs of them.
void MeshKernels::divide_over_limbs(Queue& q, const DividePlan& plan, const View& x, const View& out) {
  if (Operation(*state_, q).home(out) != Layout::limb) {
    const Temporary t = over_limbs(q, out, out.components, plan.out);
    divide_over_limbs(q, plan, x, t.view);
    run(q, Copy{t.view, out});
    return;
  }
  std::optional<Temporary> last, rest;  // coefficients: of the limbs divided by, of what takes their place
  if (plan.rest) {
    PrimeList divisors;
    for (const auto& run : plan.divided) divisors.append(part_of(plan.primes, run.from, run.count));
    last = over_limbs(q, out, out.components, divisors);
    for (const auto& [from, to, count] : plan.divided) {
      run(q, InverseNtt{plan.ring, part_of(plan.primes, from, count), x.with_limbs(from, count),
                        last->view.with_limbs(to, count)});
    }
    if (prefers_transpose({plan.rest, last->view, std::nullopt, out})) {
      rest = over_limbs(q, out, out.components, plan.out);
      convert_by_transpose(q, {plan.rest, last->view, std::nullopt, rest->view});
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
  std::vector<Block> in;
  if (rest)
    in = op.fetch(rest->view, parts);
  else if (last)
    in = op.fetch(last->view, with_limbs(parts, range(0, last->view.limbs)));
  op.writes(out);
  struct Finish {
    std::shared_ptr<const RingConstant> ring;
    std::shared_ptr<const ConversionConstant> conversion;  // null: `in` is converted already
    PrimeList primes;
    Kept kept;
    std::optional<View> in;
    View own, out;
  };
  for (std::size_t i = 0, next = 0; i < parts.size(); ++i) {
    Finish call{.ring = on(plan.ring, parts[i].member),
                .conversion = nullptr,
                .primes = primes_of(parts[i], plan.out),
                .kept = std::move(kept[i]),
                .in = {},
                .own = {},
                .out = parts[i].view};
    if (last) call.in = in[i].view;
    if (last && !rest) call.conversion = on(plan.rest, parts[i].member, parts[i].limbs);
    if (!call.kept.limbs.empty()) call.own = own[next++].view;
    op.post(parts[i].member, [call = std::move(call)](Device&, Queue& queue) {
      const auto& [ring, conversion, primes, kept, in, own, o] = call;
      if (conversion) queue.enqueue(Convert{conversion, *in, std::nullopt, o});
      if (in) queue.enqueue(ForwardNtt{ring, primes, conversion ? o : *in, o});
      for (const auto& [from, to, count] : kept.runs) {
        const View target = o.with_limbs(to, count);
        const PrimeList mine = part_of(primes, to, count);
        const View taken = own.with_limbs(from, count);
        LimbConstants c{};
        for (std::size_t l = 0; l < count; ++l) c[l] = kept.own[from + l];
        if (in)
          queue.enqueue(onto(ring, mine, taken, c, target));
        else
          queue.enqueue(MulConstants{ring, mine, taken, c, target});
      }
    });
  }
}

/// sum += weight * added
void MeshKernels::add_weighted(Queue& q, const KeySwitchPlan& plan, const View& added, const View& sum) {
  const View target = sum.with_components(0, added.components).with_limbs(0, plan.chain.size());
  Operation op(*state_, q);
  const std::vector<Block> parts = op.parts(target), in = op.fetch(added, parts);
  op.writes(target);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    LimbConstants weight{};
    for (std::size_t l = 0; l < parts[i].limbs.size(); ++l) weight[l] = plan.weight[parts[i].limbs[l]];
    op.post(parts[i].member,
            onto(on(plan.ring, parts[i].member), primes_of(parts[i], plan.chain), in[i].view, weight, parts[i].view));
  }
}

// ---- linear sums

void MeshKernels::run(Queue& q, const LinearSum& c) {
  if (c.out.items() == 0 || linear_sum_by_items(q, c)) return;
  std::vector<Temporary> held;
  const std::vector<Call> calls = expand(c, [&](std::size_t items, std::size_t components, const PrimeList& primes) {
    held.push_back(over_limbs(q, c.out, items, components, primes));
    return held.back().view;
  });
  for (const Call& part : calls) q.enqueue(part);
}

void MeshKernels::run(Queue& q, const LimbSums& c) {
  if (c.to[0].items() == 0) return;
  std::vector<Temporary> held;
  const std::vector<Call> calls = expand(c, [&](std::size_t items, std::size_t components, const PrimeList& primes) {
    held.push_back(over_limbs(q, c.to[0], items, components, primes));
    return held.back().view;
  });
  for (const Call& part : calls) q.enqueue(part);
}

/// Whole on the members that hold whole items; false where the result lies otherwise.
bool MeshKernels::linear_sum_by_items(Queue& q, const LinearSum& c) {
  Operation op(*state_, q);
  if (runs_over_limbs(op, c.out)) return false;
  const KeySwitchPlan& plan = *c.plan->key_switch;
  const std::vector<Block> parts = op.parts(c.out), all = with_limbs(parts, range(0, plan.extended.size()));
  std::vector<std::vector<LocalKey>> keys;
  for (const View& key : c.keys) {
    keys.push_back(fetch_key(op, key, plan.key_limbs, all));
    for (std::size_t i = 0; i < parts.size(); ++i) {  // all keys lie as the first does, or none is used in place
      if (!(keys.back()[i].limbs == keys[0][i].limbs)) return false;
    }
  }
  const std::vector<Block> x = op.fetch(c.x, with_limbs(parts, range(0, c.x.limbs)));
  const std::vector<LocalKey> plaintexts = fetch_key(op, c.plaintexts, PrimeList::range(0, plan.extended.size()), all);
  op.writes(c.out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t m = parts[i].member;
    LinearSum mine = c;
    mine.plan = on(c.plan, m, keys.empty() ? plan.key_limbs : keys[0][i].limbs);
    mine.x = x[i].view, mine.plaintexts = plaintexts[i].view, mine.out = parts[i].view;
    for (std::size_t k = 0; k < keys.size(); ++k) mine.keys[k] = keys[k][i].view;
    post_in_stretches(op, m, mine);
  }
  return true;
}

}  // namespace heliograph::mesh
