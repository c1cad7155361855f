#include "device/expand.h"

#include <algorithm>

#include "base/checked.h"
#include "device/shape.h"

namespace heliograph::device {

namespace {

using math::Domain;

/// Returns the bytes of `count` polynomials for each item, without regard to a backend's chunks.
std::size_t polynomials(const RingConstant& ring, std::size_t items, std::size_t count) {
  return checked_mul(items, Workspace::bytes(ring.ring().word(), 1, 1, count, ring.ring().n()));
}

struct Scratch {
  const math::Ring& ring;
  Workspace left;

  Scratch(const RingConstant& of, const Workspace& given) : ring(of.ring()), left(given) {}
  View take(std::size_t items, std::size_t components, std::size_t limbs) {
    return left.take(ring.word(), items, components, limbs, ring.n());
  }
};

template <class C>
std::vector<Call> expansion(const C&) {
  return {};
}

std::vector<Call> expansion(const Tensor& c) {
  std::vector<Call> calls;
  for (std::size_t k = 0; k < c.out.components; ++k) {
    const View target = c.out.with_components(k, 1);
    bool first = true;
    for (std::size_t i = 0; i < c.a.components && i <= k; ++i) {
      if (k - i >= c.b.components) continue;
      const View x = c.a.with_components(i, 1), y = c.b.with_components(k - i, 1);
      if (first)
        calls.push_back(Mul{c.ring, c.primes, x, y, target});
      else
        calls.push_back(MulAccumulate{c.ring, c.primes, x, y, target});
      first = false;
    }
  }
  return calls;
}

std::vector<Call> expansion(const Gather& c) {
  std::vector<Call> calls;
  for (const Piece& p : c.pieces) calls.push_back(Copy{p.from, p.to});
  return calls;
}

std::vector<Call> expansion(const Decompose& c) {
  const KeySwitchPlan& plan = *c.plan;
  std::vector<Call> calls;
  for (std::size_t j = 0; j < plan.digits.size(); ++j) {
    const KeySwitchPlan::Digit& digit = plan.digits[j];
    const View source = c.x.with_limbs(digit.first, digit.count), target = c.digits.with_components(j, 1);
    calls.push_back(Copy{source, target.with_limbs(digit.first, digit.count)});
    if (digit.others.size() > 0) calls.push_back(Convert{digit.raise, source, std::nullopt, target, digit.others});
  }
  calls.push_back(ForwardNtt{plan.ring, plan.extended, c.digits, c.digits});
  return calls;
}

std::vector<Call> apply_key_of_coefficients(const ApplyKey& c) {
  const KeySwitchPlan& plan = *c.plan;
  const std::size_t chain = plan.chain.size();
  Scratch w(*plan.ring, c.scratch);
  const View sum = plan.mod_down ? w.take(c.out.items(), 2, plan.extended.size()) : View(c.out);
  std::vector<Call> calls;
  calls.push_back(InnerProduct{plan.ring, plan.extended, c.digits, c.key, plan.key_limbs, sum});
  calls.push_back(InverseNtt{plan.ring, plan.extended, sum, sum});
  if (plan.mod_down)
    calls.push_back(Convert{plan.mod_down, sum.with_limbs(chain, plan.special.size()), sum.with_limbs(0, chain), c.out});
  if (c.add) {
    const View part = c.out.with_components(0, c.add->components);
    calls.push_back(Add{plan.ring, plan.chain, part, *c.add, part});
  }
  return calls;
}

std::vector<Call> expansion(const ApplyKey& c) {
  if (c.domain == Domain::coefficient) return apply_key_of_coefficients(c);
  const KeySwitchPlan& plan = *c.plan;
  Scratch w(*plan.ring, c.scratch);
  std::vector<Call> calls;
  if (c.turn) {
    const View turned = w.take(c.out.items(), c.digits.components, plan.extended.size());
    calls.push_back(Permute{plan.ring, plan.extended, c.turn, c.digits, turned});
    std::optional<View> more;
    if (c.add) {
      more = w.take(c.out.items(), c.add->components, plan.chain.size());
      calls.push_back(Permute{plan.ring, plan.chain, c.turn, *c.add, *more});
    }
    calls.push_back(ApplyKey{c.plan, c.domain, turned, c.key, more, c.out, w.left});
    return calls;
  }
  const View sum = w.take(c.out.items(), 2, plan.extended.size());
  const View weighted = w.take(c.out.items(), 2, plan.chain.size());
  calls.push_back(InnerProduct{plan.ring, plan.extended, c.digits, c.key, plan.key_limbs, sum});
  if (c.add) {
    const View more = weighted.with_components(0, c.add->components);
    const View part = sum.with_components(0, c.add->components).with_limbs(0, plan.chain.size());
    calls.push_back(MulConstants{plan.ring, plan.chain, *c.add, plan.weight, more});
    calls.push_back(Add{plan.ring, plan.chain, part, more, part});
  }
  calls.push_back(Divide{division_of(c.plan), sum, c.out, w.left});
  return calls;
}

std::vector<Call> expansion(const ApplyKeys& c) {
  std::vector<Call> calls;
  for (std::size_t i = 0; i < c.outs.size(); ++i) calls.push_back(c.one(i));
  return calls;
}

std::vector<Call> expansion(const KeySwitch& c) {
  const KeySwitchPlan& plan = *c.plan;
  Scratch w(*plan.ring, c.scratch);
  std::vector<Call> calls;
  View coefficients = c.x;
  if (c.domain == Domain::ntt) {
    coefficients = w.take(c.x.items(), 1, plan.chain.size());
    calls.push_back(InverseNtt{plan.ring, plan.chain, c.x, coefficients});
  }
  const View digits = w.take(c.x.items(), plan.digits.size(), plan.extended.size());
  calls.push_back(Decompose{c.plan, coefficients, digits});
  calls.push_back(ApplyKey{c.plan, c.domain, digits, c.key, c.add, c.out, w.left, c.turn});
  return calls;
}

std::vector<Call> expansion(const Divide& c) {
  const DividePlan& plan = *c.plan;
  Scratch w(*plan.ring, c.scratch);
  std::vector<Call> calls;
  View rest;
  if (plan.rest) {
    const View last = w.take(c.x.items(), c.x.components, plan.divisors());
    for (const auto& [from, to, count] : plan.divided) {
      const PrimeList primes(plan.primes.begin() + from, count);
      calls.push_back(InverseNtt{plan.ring, primes, c.x.with_limbs(from, count), last.with_limbs(to, count)});
    }
    rest = w.take(c.x.items(), c.x.components, plan.out.size());
    calls.push_back(Convert{plan.rest, last, std::nullopt, rest});
    calls.push_back(ForwardNtt{plan.ring, plan.out, rest, rest});
  }
  std::size_t next = 0;  // next limb of the result; kept runs of limbs skip added limbs
  const auto fill_to = [&](std::size_t end) {
    if (end > next) calls.push_back(Copy{rest.with_limbs(next, end - next), c.out.with_limbs(next, end - next)});
  };
  for (const auto& [from, to, count] : plan.kept) {
    fill_to(to);
    const PrimeList primes(plan.out.begin() + to, count);
    LimbConstants own{};
    for (std::size_t l = 0; l < count; ++l) own[l] = plan.own[to + l];
    const View target = c.out.with_limbs(to, count);
    calls.push_back(MulConstants{plan.ring, primes, c.x.with_limbs(from, count), own, target});
    if (plan.rest) calls.push_back(Add{plan.ring, primes, target, rest.with_limbs(to, count), target});
    next = to + count;
  }
  fill_to(plan.out.size());
  return calls;
}

std::vector<Call> partial_key_switch(const PartialKeySwitch& c, const View& digits, const Workspace& scratch) {
  const KeySwitchPlan& plan = *c.plan;
  std::vector<Call> calls;
  const auto copy_own = [&](std::size_t j) {
    const KeySwitchPlan::Digit& digit = plan.digits[j];
    if (digit.count > 0)
      calls.push_back(
          Copy{c.x.with_limbs(digit.first, digit.count), digits.with_components(j, 1).with_limbs(digit.first, digit.count)});
  };
  for (std::size_t j = 0; j < plan.digits.size(); ++j) {
    copy_own(j);  // zeros are valid residues for the transform, whose results the next copy_own() overwrites
    const KeySwitchPlan::Digit& digit = plan.digits[j];
    const auto [first, count] = digit.raised_from();
    if (digit.others.size() > 0)
      calls.push_back(Convert{digit.raise, c.coefficients.with_limbs(first, count), std::nullopt,
                              digits.with_components(j, 1), digit.others});
  }
  calls.push_back(ForwardNtt{plan.ring, plan.extended, digits, digits});
  for (std::size_t j = 0; j < plan.digits.size(); ++j) copy_own(j);
  calls.push_back(ApplyKey{c.plan, Domain::ntt, digits, c.key, c.add, c.out, scratch, c.turn});
  return calls;
}

std::vector<Call> expansion(const PartialKeySwitch& c) {
  Scratch w(*c.plan->ring, c.scratch);
  const View digits = w.take(c.x.items(), c.plan->digits.size(), c.plan->extended.size());
  return partial_key_switch(c, digits, w.left);
}

/// Number of giant steps whose sums are divided and decomposed together; it limits the scratch.
constexpr std::size_t kGiantsAtOnce = 8;

struct LinearRoom {
  View low, digits;              // coefficients and digits of x_1
  View sums;                     // a_g of all giant steps
  View giant_low, giant_digits;  // coefficients and digits of a batch of giant steps
  View total;                    // the sum modulo Q P
};

LinearRoom linear_room(const LinearPlan& plan, std::size_t items, const Room& room) {
  const KeySwitchPlan& k = *plan.key_switch;
  const std::size_t digits = k.digits.size(), giants = LinearPlan::turning(plan.giants);
  const std::size_t at_once = std::min(giants, kGiantsAtOnce) * items;
  LinearRoom r;
  r.low = room(items, 1, k.chain), r.digits = room(items, digits, k.extended);
  r.sums = room(plan.giants.size() * items, 2, k.extended);
  r.giant_low = room(at_once, 1, k.chain), r.giant_digits = room(at_once, digits, k.extended);
  r.total = room(items, 2, k.extended);
  return r;
}

/// Returns the calls of a linear sum, in order; all of them use `scratch`.
std::vector<Call> linear_sum(const LinearSum& c, const LinearRoom& room, const Workspace& scratch) {
  const LinearPlan& plan = *c.plan;
  const KeySwitchPlan& k = *plan.key_switch;
  const std::size_t items = c.out.items(), chain = k.chain.size(), special = k.special.size();
  const std::size_t turning = LinearPlan::turning(plan.babies), first = plan.giants[0] ? 0 : 1;
  std::vector<Call> calls;
  if (turning > 0) {
    calls.push_back(InverseNtt{k.ring, k.chain, c.x.with_components(1, 1), room.low});
    calls.push_back(Decompose{plan.key_switch, room.low, room.digits});
  }
  const auto keys = c.keys.begin();
  calls.push_back(BabySteps{.ring = k.ring,
                            .primes = k.extended,
                            .turns = plan.babies,
                            .terms = plan.terms,
                            .weight = k.weight,
                            .x = c.x,
                            .digits = room.digits,
                            .keys = {keys, keys + static_cast<std::ptrdiff_t>(turning)},
                            .key_limbs = k.key_limbs,
                            .plaintexts = c.plaintexts,
                            .sums = room.sums,
                            .scratch = scratch});
  View total = room.total;
  if (first > 0)
    total = room.sums.with_leading(0, items);
  else
    calls.push_back(Zero{total});
  std::size_t key = turning;
  for (std::size_t g = first; g < plan.giants.size(); g += kGiantsAtOnce) {
    const std::size_t count = std::min(kGiantsAtOnce, plan.giants.size() - g);
    const View batch = room.sums.with_leading(g * items, count * items), mask = batch.with_components(1, 1);
    const View digits = room.giant_digits.with_leading(0, count * items);
    calls.push_back(InverseNtt{k.ring, k.extended, mask, mask});
    View low = mask;
    if (plan.mod_down) {
      low = room.giant_low.with_leading(0, count * items);
      calls.push_back(Convert{plan.mod_down, mask.with_limbs(chain, special), mask.with_limbs(0, chain), low});
    }
    calls.push_back(Decompose{plan.key_switch, low, digits});
    const auto turns = plan.giants.begin() + static_cast<std::ptrdiff_t>(g);
    calls.push_back(
        GiantSteps{.ring = k.ring,
                   .primes = k.extended,
                   .turns = {turns, turns + static_cast<std::ptrdiff_t>(count)},
                   .sums = batch.with_components(0, 1),
                   .digits = digits,
                   .keys = {keys + static_cast<std::ptrdiff_t>(key), keys + static_cast<std::ptrdiff_t>(key + count)},
                   .key_limbs = k.key_limbs,
                   .total = total,
                   .scratch = scratch});
    key += count;
  }
  calls.push_back(Divide{{plan.key_switch, &k.down}, total, c.out, scratch});
  return calls;
}

std::vector<Call> expansion(const LinearSum& c) {
  Workspace w = c.scratch;
  const LinearRoom room =
      linear_room(*c.plan, c.out.items(), [&](std::size_t items, std::size_t components, const PrimeList& primes) {
        return w.take(c.out.word, items, components, primes.size(), c.out.n);
      });
  return linear_sum(c, room, w);
}

template <class Steps>
void switch_turned(const Steps& c, const PermutationHandle& turn, const View& digits, const View& key, const View& turned,
                   const View& to, std::vector<Call>& calls) {
  calls.push_back(Permute{c.ring, c.primes, turn, digits, turned});
  calls.push_back(InnerProduct{c.ring, c.primes, turned, key, c.key_limbs, to});
}

std::vector<Call> baby_steps(const BabySteps& c, const Room& room) {
  const std::size_t items = c.x.items(), chain = c.x.limbs, special = c.primes.size() - chain;
  const PrimeList primes(c.primes.begin(), chain);
  const View turned = room(items, c.digits.components, c.primes), u = room(items, 2, c.primes),
             body = room(items, 1, primes);
  std::vector<Call> calls;
  std::vector<bool> begun(c.giants());
  std::size_t key = 0;
  for (std::size_t b = 0; b < c.turns.size(); ++b) {
    if (const PermutationHandle& turn = c.turns[b]) {
      switch_turned(c, turn, c.digits, c.keys[key++], turned, u, calls);
      const View to = u.with_components(0, 1).with_limbs(0, chain);
      calls.push_back(Permute{c.ring, primes, turn, c.x.with_components(0, 1), body});
      calls.push_back(MulConstants{c.ring, primes, body, c.weight, body});
      calls.push_back(Add{c.ring, primes, to, body, to});
    } else {
      calls.push_back(MulConstants{c.ring, primes, c.x, c.weight, u.with_limbs(0, chain)});
      if (special > 0) calls.push_back(Zero{u.with_limbs(chain, special)});
    }
    for (std::size_t t = 0; t < c.terms.size(); ++t) {
      const auto& [giant, baby] = c.terms[t];
      if (baby != b) continue;
      const View p = broadcast_view(c.plaintexts.with_components(t, 1).item(0), {items});
      const View sum = c.sums.with_leading(giant * items, items);
      if (begun[giant])
        calls.push_back(MulAccumulate{c.ring, c.primes, u, p, sum});
      else
        calls.push_back(Mul{c.ring, c.primes, u, p, sum});
      begun[giant] = true;
    }
  }
  return calls;
}

std::vector<Call> giant_steps(const GiantSteps& c, const Room& room) {
  const std::size_t items = c.total.items();
  const View turned = room(items, c.digits.components, c.primes), switched = room(items, 2, c.primes);
  const View body = turned.with_components(0, 1), to = c.total.with_components(0, 1);
  std::vector<Call> calls;
  for (std::size_t g = 0; g < c.turns.size(); ++g) {
    const auto of_step = [&](const View& v) { return v.with_leading(g * items, items); };
    switch_turned(c, c.turns[g], of_step(c.digits), c.keys[g], turned, switched, calls);
    calls.push_back(Add{c.ring, c.primes, c.total, switched, c.total});
    calls.push_back(Permute{c.ring, c.primes, c.turns[g], of_step(c.sums), body});
    calls.push_back(Add{c.ring, c.primes, to, body, to});
  }
  return calls;
}

template <class Steps>
Room room_in(Scratch& w, const Steps&) {
  return [&w](std::size_t items, std::size_t components, const PrimeList& primes) {
    return w.take(items, components, primes.size());
  };
}

std::vector<Call> expansion(const BabySteps& c) {
  Scratch w(*c.ring, c.scratch);
  return baby_steps(c, room_in(w, c));
}

std::vector<Call> expansion(const GiantSteps& c) {
  Scratch w(*c.ring, c.scratch);
  return giant_steps(c, room_in(w, c));
}

std::vector<Call> expansion(const ScaledTensor& c) {
  const MultiplyPlan& plan = *c.plan;
  const std::size_t chain = plan.chain.size(), auxiliary = plan.auxiliary.size();
  Scratch w(*plan.ring, c.scratch);
  std::vector<Call> calls;
  const auto raise = [&](const View& x) {
    const View extended = w.take(x.items(), x.components, chain + auxiliary);
    calls.push_back(Copy{x, extended.with_limbs(0, chain)});
    calls.push_back(Convert{plan.lift, x, std::nullopt, extended.with_limbs(chain, auxiliary)});
    calls.push_back(ForwardNtt{plan.ring, plan.extended, extended, extended});
    return extended;
  };
  const View ea = raise(c.a);
  const View eb = same_operand(c.a, c.b) ? ea : raise(c.b);
  const View product = w.take(c.out.items(), c.out.components, chain + auxiliary);
  calls.push_back(Tensor{plan.ring, plan.extended, ea, eb, product});
  calls.push_back(InverseNtt{plan.ring, plan.extended, product, product});
  const View scaled = w.take(c.out.items(), c.out.components, auxiliary);
  calls.push_back(Convert{plan.scale, product.with_limbs(0, chain), product.with_limbs(chain, auxiliary), scaled});
  calls.push_back(Convert{plan.lower, scaled, std::nullopt, c.out});
  return calls;
}

std::vector<Call> limb_sums(const LimbSums& c, const Room& room) {
  const LimbSumList& list = c.sums->list();
  const std::size_t items = c.to.empty() ? 0 : c.to[0].items();
  const View turned = room(items, 1, {0}), weighted = room(items, 1, {0});
  const auto limb = [](const auto& views, const LimbSumList::At& at) {
    return views[at.operand].with_components(at.component, 1).with_limbs(at.limb, 1);
  };
  std::vector<Call> calls;
  for (const LimbSumList::Result& r : list.results) {
    const PrimeList prime = {r.prime};
    const View to = limb(c.to, r.to);
    if (r.count == 0) calls.push_back(Zero{to});
    for (u32 k = 0; k < r.count; ++k) {
      const LimbSumList::Term& t = list.terms[r.first + k];
      LimbConstants weight{};
      weight[0] = t.weight;
      View x = limb(c.from, t.a);
      if (t.turn != LimbSumList::kNone) {
        calls.push_back(Permute{c.ring, prime, c.turns[t.turn], x, turned});
        x = turned;
      }
      if (t.b.operand != LimbSumList::kNone) {
        if (t.weight != 1) {
          calls.push_back(MulConstants{c.ring, prime, x, weight, weighted});
          x = weighted;
        }
        const View y = limb(c.from, t.b);
        if (k == 0)
          calls.push_back(Mul{c.ring, prime, x, y, to});
        else
          calls.push_back(MulAccumulate{c.ring, prime, x, y, to});
        continue;
      }
      if (t.weight != 1) {
        calls.push_back(MulConstants{c.ring, prime, x, weight, k == 0 ? to : weighted});
        x = weighted;
      } else if (k == 0) {
        calls.push_back(Copy{x, to});
      }
      if (k > 0) calls.push_back(Add{c.ring, prime, to, x, to});
    }
    LimbConstants constant{};
    constant[0] = r.constant;
    if (r.constant != 0) calls.push_back(AddConstants{c.ring, prime, to, constant, Domain::ntt, to});
  }
  return calls;
}

std::vector<Call> expansion(const LimbSums& c) {
  Scratch w(*c.ring, c.scratch);
  return limb_sums(c, [&](std::size_t items, std::size_t components, const PrimeList& primes) {
    return w.take(items, components, primes.size());
  });
}

std::vector<Call> expansion(const Evaluate& c) {
  std::vector<Call> calls = {Combine{c.layer, c.wires}};
  if (c.layer->layer().linear()) return calls;
  calls.push_back(LweKeySwitch{c.switch_key, c.layer, c.wires, c.narrow});
  calls.push_back(Bootstrap{c.key, c.layer, c.narrow, c.wires});
  return calls;
}

template <class C>
std::size_t bytes_of(const C&, std::size_t) {
  return 0;
}

std::size_t bytes_to_divide(const DividePlan& plan, std::size_t items, std::size_t components) {
  if (!plan.rest) return 0;
  const std::size_t all = checked_mul(items, components);
  return checked_add(polynomials(*plan.ring, all, plan.divisors()), polynomials(*plan.ring, all, plan.out.size()));
}

std::size_t bytes_to_apply(const KeySwitchPlan& plan, Domain domain, bool turns, std::size_t items) {
  const auto room = [&](std::size_t limbs) { return polynomials(*plan.ring, items, limbs); };
  if (domain == Domain::coefficient) return room(2 * plan.extended.size());
  const std::size_t chain = room(2 * plan.chain.size());
  const std::size_t turned = turns ? checked_add(room(plan.digits.size() * plan.extended.size()), chain) : 0;
  return checked_sum(room(2 * plan.extended.size()), chain, bytes_to_divide(plan.down, items, 2), turned);
}

std::size_t bytes_of(const Divide& c, std::size_t items) { return bytes_to_divide(*c.plan, items, c.x.components); }

std::size_t bytes_of(const ApplyKey& c, std::size_t items) {
  return bytes_to_apply(*c.plan, c.domain, c.turn != nullptr, items);
}

std::size_t bytes_of(const ApplyKeys& c, std::size_t items) {
  const std::size_t at_once = std::min(c.outs.size(), kKeysAtOnce);
  return std::max(bytes_to_apply(*c.plan, Domain::ntt, true, items),
                  checked_mul(at_once, bytes_to_divide(c.plan->down, items, 2)));
}

std::size_t bytes_of(const KeySwitch& c, std::size_t items) {
  const KeySwitchPlan& plan = *c.plan;
  const std::size_t coefficients = c.domain == Domain::ntt ? polynomials(*plan.ring, items, plan.chain.size()) : 0;
  return checked_sum(coefficients, polynomials(*plan.ring, items, plan.digits.size() * plan.extended.size()),
                     bytes_to_apply(plan, c.domain, c.turn != nullptr, items));
}

/// Returns the scratch bytes of steps with `digits` digits over `limbs` limbs: permuted digits, two sums and `more`
/// polynomials.
std::size_t bytes_to_step(const RingConstant& ring, std::size_t digits, std::size_t limbs, std::size_t more,
                          std::size_t items) {
  return checked_sum(polynomials(ring, items, digits * limbs), polynomials(ring, items, 2 * limbs),
                     polynomials(ring, items, more));
}

std::size_t bytes_of(const BabySteps& c, std::size_t) {
  return bytes_to_step(*c.ring, c.digits.components, c.primes.size(), c.x.limbs, c.x.items());
}

std::size_t bytes_of(const GiantSteps& c, std::size_t items) {
  return bytes_to_step(*c.ring, c.digits.components, c.primes.size(), 0, items);
}

std::size_t bytes_of(const LinearSum& c, std::size_t items) {
  const KeySwitchPlan& plan = *c.plan->key_switch;
  std::size_t sum = std::max(bytes_to_divide(plan.down, items, 2),
                             bytes_to_step(*plan.ring, plan.digits.size(), plan.extended.size(), plan.chain.size(), items));
  linear_room(*c.plan, items, [&](std::size_t count, std::size_t components, const PrimeList& primes) {
    sum = checked_add(sum, polynomials(*plan.ring, count, components * primes.size()));
    return View();
  });
  return sum;
}

std::size_t bytes_of(const LimbSums& c, std::size_t items) { return 2 * polynomials(*c.ring, items, 1); }

/// Returns the bytes of a second copy of the words; matrix units process 32 vectors together.
std::size_t bytes_of(const ByteProduct& c, std::size_t items) {
  return Workspace::bytes(Word::w32, items < 4 ? items : (items + 31) / 32 * 32, 1, 1, c.words.n);
}

std::size_t bytes_of(const PartialKeySwitch& c, std::size_t items) {
  const KeySwitchPlan& plan = *c.plan;
  return checked_sum(polynomials(*plan.ring, items, plan.digits.size() * plan.extended.size()),
                     bytes_to_apply(plan, Domain::ntt, c.turn != nullptr, items));
}

std::size_t bytes_of(const ScaledTensor& c, std::size_t items) {
  // The terms below match the expansion's calls of take(), because each call rounds up its size.
  const MultiplyPlan& plan = *c.plan;
  const std::size_t extended = plan.extended.size(), result = c.a.components + c.b.components - 1;
  const auto room = [&](std::size_t limbs) { return polynomials(*plan.ring, items, limbs); };
  return checked_sum(room(c.a.components * extended), room(c.b.components * extended), room(result * extended),
                     room(result * plan.auxiliary.size()));
}

}  // namespace

bool same_operand(const View& a, const View& b) {
  return a.data == b.data && a.n == b.n && a.axes == b.axes && a.shape == b.shape && a.stride == b.stride &&
         a.components == b.components && a.component_stride == b.component_stride && a.limbs == b.limbs &&
         a.limb_stride == b.limb_stride;
}

std::size_t DividePlan::divisors() const {
  std::size_t sum = 0;
  for (const Run& run : divided) sum += run.count;
  return sum;
}

bool DividePlan::simple() const {
  return kept.size() == 1 && kept[0].from == 0 && kept[0].to == 0 && kept[0].count == out.size() && divided.size() == 1 &&
         divided[0].from == out.size() && divided[0].count + out.size() == primes.size();
}

std::shared_ptr<const DividePlan> division_of(const std::shared_ptr<const KeySwitchPlan>& plan) {
  return {plan, &plan->down};
}

std::vector<Call> expand(const LinearSum& call, const Room& room) {
  return linear_sum(call, linear_room(*call.plan, call.out.items(), room), {});
}
std::vector<Call> expand(const PartialKeySwitch& call, const Room& room) {
  return partial_key_switch(call, room(call.x.items(), call.plan->digits.size(), call.plan->extended), {});
}
std::vector<Call> expand(const BabySteps& call, const Room& room) { return baby_steps(call, room); }
std::vector<Call> expand(const GiantSteps& call, const Room& room) { return giant_steps(call, room); }
std::vector<Call> expand(const LimbSums& call, const Room& room) { return limb_sums(call, room); }

std::vector<Call> expand(const Call& call) {
  return std::visit([](const auto& c) { return expansion(c); }, call);
}

std::size_t scratch_bytes(const Call& call, std::size_t items) {
  return std::visit([&](const auto& c) { return bytes_of(c, items); }, call);
}

}  // namespace heliograph::device
