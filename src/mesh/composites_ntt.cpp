// Division and key switching in the NTT domain. If members hold complete items, each member computes its items;
// otherwise each computes some limbs.
#include <algorithm>
#include <optional>

#include "mesh/composites.h"

namespace heliograph::mesh {

void MeshKernels::run(Queue& q, const Divide& c) {
  if (!by_items(q, c)) divide_over_limbs(q, *c.plan, c.x, c.out);
}

namespace {

/// Limbs of a part that a division keeps. Limb `to` of the part is limb `from` of the fetched limbs of x.
struct Kept {
  struct Run {
    std::size_t from, to, count;
  };
  std::vector<std::size_t> limbs;  // limbs of x to fetch, ascending
  std::vector<Run> runs;
  LimbConstants own{};  // one constant for each of `limbs`
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

WeightedSum onto(const device::RingHandle& ring, const PrimeList& primes, const View& x, const LimbConstants& weight,
                 const View& sum) {
  std::vector<LimbConstants> weights(2, weight);
  weights[0].fill(1);
  return {.ring = ring, .primes = primes, .x = {sum, x}, .weights = weights, .constant = {}, .out = sum};
}

}  // namespace

/// Divides by the primes of some limbs and moves only these limbs. The owners of these limbs apply the inverse transform,
/// and each member converts the coefficients to the primes of its own limbs.
void MeshKernels::divide_over_limbs(Queue& q, const DividePlan& plan, const View& x, const View& out) {
  if (Operation(*state_, q).home(out) != Layout::limb) {
    const Temporary t = over_limbs(q, out, out.components, plan.out);
    divide_over_limbs(q, plan, x, t.view);
    run(q, Copy{t.view, out});
    return;
  }
  std::optional<Temporary> last, rest;  // coefficients of the limbs to divide; coefficients of their conversion
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
    std::shared_ptr<const ConversionConstant> conversion;  // null: `in` is already converted
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

// ---- key switches of some limbs on each member

void MeshKernels::run(Queue& q, const PartialKeySwitch& c) {
  if (c.out.items() > 0 && !by_items(q, c)) expand_over_limbs(q, c, c.out);
}

/// Returns the plan of a part's member for the limbs `chain` of a polynomial. The plan keeps the limbs of `part` and divides
/// by all others.
std::shared_ptr<const KeySwitchPlan> MeshKernels::share_of(const std::shared_ptr<const KeySwitchPlan>& plan,
                                                           const Block& part, const std::vector<std::size_t>& chain,
                                                           const PrimeList& key_limbs) {
  prepare(*plan);
  const auto& share = form_on<MeshPlan<KeySwitchPlan>>(*plan, slot()).share(part.limbs, key_limbs, [&] {
    const std::size_t m = part.member, special = plan->special.size();
    auto mine = std::make_shared<KeySwitchPlan>();
    mine->ring = plan->ring;
    for (const std::size_t l : chain) mine->chain.push_back(plan->chain[l]);
    mine->special = plan->special, mine->extended = mine->chain;
    mine->extended.append(plan->special);
    mine->key_limbs = key_limbs;
    for (std::size_t i = 0; i < chain.size(); ++i) mine->weight[i] = plan->weight[chain[i]];
    std::vector<std::size_t> extended = chain;  // the same limbs in the complete plan
    for (std::size_t k = 0; k < special; ++k) extended.push_back(plan->chain.size() + k);
    for (const KeySwitchPlan::Digit& digit : plan->digits) {
      KeySwitchPlan::Digit d{.first = 0, .count = 0, .others = {}, .raise = nullptr};
      std::vector<std::size_t> targets;
      for (std::size_t i = 0; i < extended.size(); ++i) {
        const std::size_t l = extended[i];
        if (l >= digit.first && l < digit.first + digit.count) {
          if (d.count++ == 0) d.first = i;
          continue;
        }
        d.others.push_back(static_cast<PrimeIndex>(i));
        targets.push_back(
            static_cast<std::size_t>(std::lower_bound(digit.others.begin(), digit.others.end(), l) - digit.others.begin()));
      }
      if (d.count == 0) d.first = mine->digits.empty() ? 0 : mine->digits.back().first + mine->digits.back().count;
      d.raise = on(digit.raise, m, targets);
      d.source = {digit.first, digit.count};
      mine->digits.push_back(std::move(d));
    }
    const DividePlan& down = plan->down;
    const std::size_t kept = part.limbs.size(), divided = mine->extended.size() - kept;
    mine->down.ring = plan->ring, mine->down.primes = mine->extended;
    for (std::size_t i = 0; i < kept; ++i)
      mine->down.out.push_back(mine->chain[i]), mine->down.own[i] = down.own[part.limbs[i]];
    mine->down.kept = {{0, 0, kept}}, mine->down.divided = {{kept, 0, divided}};
    mine->down.rest = on(down.rest, m, part.limbs);
    return mine;
  });
  return on(share, part.member);
}

/// Switches a key over limbs with one exchange. Every member has the limbs to divide, gathers the polynomial and computes
/// its limbs of the result. Returns false if the result has another layout or the plan another form.
bool MeshKernels::shares_key_switch(Queue& q, const KeySwitch& c) {
  const KeySwitchPlan& plan = *c.plan;
  const bool fits = c.domain == math::Domain::ntt && plan.special.size() > 0 && plan.down.simple() && plan.down.rest &&
                    state_->options().key_switch != SwitchMethod::output &&
                    std::all_of(plan.digits.begin(), plan.digits.end(), [](const auto& d) { return d.raise != nullptr; }) &&
                    std::equal(plan.down.out.begin(), plan.down.out.end(), plan.chain.begin());
  if (!fits || Operation(*state_, q).home(c.out) != Layout::limb) return false;
  const Temporary whole = over_limbs(q, c.out, 1, plan.chain);
  run(q, InverseNtt{plan.ring, plan.chain, c.x, whole.view});
  Operation op(*state_, q);
  const std::vector<Block> parts = op.parts(c.out);
  std::vector<std::vector<std::size_t>> chains;
  std::vector<Block> chain_parts, extended_parts;
  for (const Block& part : parts) {
    std::vector<std::size_t> chain = part.limbs;
    for (std::size_t l = plan.down.out.size(); l < plan.chain.size(); ++l) chain.push_back(l);
    std::vector<std::size_t> extended = chain;
    for (std::size_t k = 0; k < plan.special.size(); ++k) extended.push_back(plan.chain.size() + k);
    chain_parts.push_back(with_limbs({part}, chain)[0]), extended_parts.push_back(with_limbs({part}, extended)[0]);
    chains.push_back(std::move(chain));
  }
  std::vector<Block> coefficients, x, add;
  op.together([&] {
    coefficients = op.fetch(whole.view, with_limbs(parts, range(0, plan.chain.size())));
    x = op.fetch(c.x, chain_parts);
    if (c.add) add = op.fetch(*c.add, chain_parts);
  });
  const std::vector<LocalKey> keys = fetch_key(op, c.key, plan.key_limbs, extended_parts);
  op.writes(c.out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t m = parts[i].member;
    PartialKeySwitch mine{.plan = share_of(c.plan, parts[i], chains[i], keys[i].limbs),
                          .x = x[i].view,
                          .coefficients = coefficients[i].view,
                          .key = keys[i].view,
                          .add = {},
                          .out = parts[i].view,
                          .scratch = {},
                          .turn = on(c.turn, m)};
    if (c.add) mine.add = add[i].view;
    post_in_stretches(op, m, mine);
  }
  return true;
}

// ---- linear sums

template <class C>
void MeshKernels::expand_over_limbs(Queue& q, const C& c, const View& like) {
  std::vector<Temporary> held;
  const std::vector<Call> calls = expand(c, [&](std::size_t items, std::size_t components, const PrimeList& primes) {
    held.push_back(over_limbs(q, like, items, components, primes));
    return held.back().view;
  });
  for (const Call& part : calls) q.enqueue(part);
}

void MeshKernels::run(Queue& q, const LinearSum& c) {
  if (c.out.items() > 0 && !linear_sum_by_items(q, c)) expand_over_limbs(q, c, c.out);
}

void MeshKernels::run(Queue& q, const LimbSums& c) {
  if (c.to[0].items() > 0) expand_over_limbs(q, c, c.to[0]);
}

template <class C>
std::optional<std::vector<std::vector<MeshKernels::LocalKey>>> MeshKernels::step_keys(
    Operation& op, const C& c, const std::vector<Block>& parts) const {
  std::vector<std::vector<LocalKey>> keys;
  for (const View& key : c.keys) {
    keys.push_back(fetch_key(op, key, c.key_limbs, parts));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!(keys.back()[i].limbs == keys[0][i].limbs)) return {};
    }
  }
  return keys;
}

namespace {

/// Removes the limbs from `count` on from each part.
std::vector<Block> first_limbs(std::vector<Block> parts, std::size_t count) {
  for (Block& b : parts) std::erase_if(b.limbs, [&](std::size_t l) { return l >= count; });
  return parts;
}

}  // namespace

/// Computes baby steps over limbs: each member computes its own limbs of every sum.
void MeshKernels::run(Queue& q, const BabySteps& c) {
  if (c.sums.items() == 0) return;
  {
    Operation op(*state_, q);
    const std::vector<Block> parts = with_items(op.parts(c.sums), c.x.items());
    const auto has_ciphertext = [&](const Block& b) { return b.limbs.front() < c.x.limbs; };
    const bool alone = op.home(c.sums) == Layout::limb && std::all_of(parts.begin(), parts.end(), has_ciphertext);
    const auto keys = alone ? step_keys(op, c, parts) : std::nullopt;
    if (keys) {
      const std::vector<Block> x = op.fetch(c.x, first_limbs(parts, c.x.limbs)), digits = op.fetch(c.digits, parts);
      View one = c.plaintexts;
      one.axes = 0;
      const std::vector<Block> plaintexts = op.fetch(one, with_words(with_items(parts, 1), one.n), true);
      const std::vector<Block> sums = op.parts(c.sums);
      op.writes(c.sums);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::size_t m = parts[i].member;
        BabySteps mine = c;
        mine.ring = on(c.ring, m), mine.primes = primes_of(parts[i], c.primes);
        for (const auto& turn : c.turns) on(turn, m);
        LimbConstants weight{};
        for (std::size_t l = 0; l < x[i].limbs.size(); ++l) weight[l] = c.weight[x[i].limbs[l]];
        mine.weight = weight;
        mine.x = x[i].view, mine.digits = digits[i].view, mine.plaintexts = plaintexts[i].view, mine.sums = sums[i].view;
        for (std::size_t k = 0; k < keys->size(); ++k) mine.keys[k] = (*keys)[k][i].view;
        if (!keys->empty())
          mine.key_limbs = (*keys)[0][i].limbs;
        else
          mine.key_limbs = PrimeList::range(0, mine.primes.size());
        post_in_stretches(op, m, mine);
      }
      return;
    }
  }
  expand_over_limbs(q, c, c.sums);
}

void MeshKernels::run(Queue& q, const GiantSteps& c) {
  if (c.total.items() == 0) return;
  {
    Operation op(*state_, q);
    const std::vector<Block> parts = op.parts(c.total);
    const auto keys = op.home(c.total) == Layout::limb ? step_keys(op, c, parts) : std::nullopt;
    if (keys) {
      const std::vector<Block> steps = with_items(parts, c.digits.items());
      const std::vector<Block> sums = op.fetch(c.sums, steps), digits = op.fetch(c.digits, steps);
      op.writes(c.total);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::size_t m = parts[i].member;
        GiantSteps mine = c;
        mine.ring = on(c.ring, m), mine.primes = primes_of(parts[i], c.primes);
        for (const auto& turn : c.turns) on(turn, m);
        mine.sums = sums[i].view, mine.digits = digits[i].view, mine.total = parts[i].view;
        for (std::size_t k = 0; k < keys->size(); ++k) mine.keys[k] = (*keys)[k][i].view;
        mine.key_limbs = (*keys)[0][i].limbs;
        post_in_stretches(op, m, mine);
      }
      return;
    }
  }
  expand_over_limbs(q, c, c.total);
}

/// Computes a linear sum by items if members hold complete items. Returns false for other layouts of the result.
bool MeshKernels::linear_sum_by_items(Queue& q, const LinearSum& c) {
  Operation op(*state_, q);
  if (runs_over_limbs(op, c.out)) return false;
  const KeySwitchPlan& plan = *c.plan->key_switch;
  const std::vector<Block> parts = op.parts(c.out), all = with_limbs(parts, range(0, plan.extended.size()));
  std::vector<std::vector<LocalKey>> keys;
  for (const View& key : c.keys) {
    keys.push_back(fetch_key(op, key, plan.key_limbs, all));
    for (std::size_t i = 0; i < parts.size(); ++i) {  // the plan requires that all keys have the layout of the first
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
