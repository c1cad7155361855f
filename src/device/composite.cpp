// The composite kernels' definition: each is this sequence of small kernels, on every backend.
#include "device/composite.h"

#include "base/checked.h"

namespace heliograph::device {

namespace {

/// Workspace of a composite for `items`: independent of how a backend cuts the batch.
std::size_t polynomials(const PreparedRing& ring, std::size_t items, std::size_t count) {
  return checked_mul(items, Workspace::bytes(ring.ring().word(), 1, 1, count, ring.ring().n()));
}

bool same_operand(const View& a, const View& b) {
  return a.data == b.data && a.axes == b.axes && a.shape == b.shape && a.stride == b.stride;
}

}  // namespace

std::size_t Kernels::decompose_workspace(const KeySwitchPlan&, std::size_t) { return 0; }

std::size_t Kernels::apply_key_workspace(const KeySwitchPlan& plan, std::size_t items) {
  return polynomials(*plan.ring, items, 2 * plan.extended.size());
}

std::size_t Kernels::key_switch_workspace(const KeySwitchPlan& plan, std::size_t items) {
  return checked_add(polynomials(*plan.ring, items, plan.digits.size() * plan.extended.size()),
                     apply_key_workspace(plan, items));
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

std::size_t Kernels::divide_workspace(const DividePlan& plan, std::size_t items, std::size_t components) {
  if (!plan.rest) return 0;
  const std::size_t all = checked_mul(items, components);
  return checked_add(polynomials(*plan.ring, all, plan.divisors()), polynomials(*plan.ring, all, plan.out.size()));
}

std::size_t Kernels::apply_key_ntt_workspace(const KeySwitchPlan& plan, std::size_t items, bool turns) {
  const auto room = [&](std::size_t limbs) { return polynomials(*plan.ring, items, limbs); };
  const std::size_t chain = room(2 * plan.chain.size());
  const std::size_t turned = turns ? checked_add(room(plan.digits.size() * plan.extended.size()), chain) : 0;
  return checked_sum(room(2 * plan.extended.size()), chain, divide_workspace(plan.down, items, 2), turned);
}

std::size_t Kernels::key_switch_ntt_workspace(const KeySwitchPlan& plan, std::size_t items, bool turns) {
  return checked_sum(polynomials(*plan.ring, items, plan.chain.size()),
                     polynomials(*plan.ring, items, plan.digits.size() * plan.extended.size()),
                     apply_key_ntt_workspace(plan, items, turns));
}

std::size_t Kernels::bfv_multiply_workspace(const MultiplyPlan& plan, std::size_t items, std::size_t a, std::size_t b) {
  // One stretch for each take() of do_bfv_multiply: each is rounded up on its own.
  const std::size_t extended = plan.extended.size(), result = a + b - 1;
  const auto room = [&](std::size_t limbs) { return polynomials(*plan.ring, items, limbs); };
  return checked_sum(room(a * extended), room(b * extended), room(result * extended), room(result * plan.auxiliary.size()));
}

void Kernels::do_tensor(Queue& q, const PreparedRing& ring, const PrimeList& primes, const View& a, const View& b,
                        const View& out) {
  for (std::size_t k = 0; k < out.components; ++k) {
    const View target = out.with_components(k, 1);
    bool first = true;
    for (std::size_t i = 0; i < a.components && i <= k; ++i) {
      if (k - i >= b.components) continue;
      const View x = a.with_components(i, 1), y = b.with_components(k - i, 1);
      first ? do_mul(q, ring, primes, x, y, target) : do_mul_accumulate(q, ring, primes, x, y, target);
      first = false;
    }
  }
}

void Kernels::do_decompose(Queue& q, const KeySwitchPlan& plan, const View& x, const View& digits, Workspace) {
  for (std::size_t j = 0; j < plan.digits.size(); ++j) {
    const KeySwitchPlan::Digit& digit = plan.digits[j];
    const View source = x.with_limbs(digit.first, digit.count), target = digits.with_components(j, 1);
    do_copy(q, source, target.with_limbs(digit.first, digit.count));
    if (digit.others.size() > 0) do_convert(q, *digit.raise, source, nullptr, target, &digit.others);
  }
  do_forward_ntt(q, *plan.ring, plan.extended, digits, digits);
}

void Kernels::do_apply_key(Queue& q, const KeySwitchPlan& plan, const View& digits, const View& key, const View* add,
                           const View& out, Workspace w) {
  const math::Ring& ring = plan.ring->ring();
  const std::size_t chain = plan.chain.size();
  const View sum = plan.mod_down ? w.take(ring.word(), out.items(), 2, plan.extended.size(), ring.n()) : out;
  do_inner_product(q, *plan.ring, plan.extended, digits, key, plan.key_limbs, sum);
  do_inverse_ntt(q, *plan.ring, plan.extended, sum, sum);
  if (plan.mod_down) {
    const View own = sum.with_limbs(0, chain);
    do_convert(q, *plan.mod_down, sum.with_limbs(chain, plan.special.size()), &own, out, nullptr);
  }
  if (add) {
    const View part = out.with_components(0, add->components);
    do_add(q, *plan.ring, plan.chain, part, *add, part);
  }
}

void Kernels::do_key_switch(Queue& q, const KeySwitchPlan& plan, const View& x, const View& key, const View* add,
                            const View& out, Workspace w) {
  const math::Ring& ring = plan.ring->ring();
  const View digits = w.take(ring.word(), x.items(), plan.digits.size(), plan.extended.size(), ring.n());
  do_decompose(q, plan, x, digits, Workspace(nullptr, 0));
  do_apply_key(q, plan, digits, key, add, out, w);
}

void Kernels::do_divide(Queue& q, const DividePlan& plan, const View& x, const View& out, Workspace w) {
  const math::Ring& ring = plan.ring->ring();
  View rest;
  if (plan.rest) {
    const View last = w.take(ring.word(), x.items(), x.components, plan.divisors(), ring.n());
    for (const auto& [from, to, count] : plan.divided) {
      const PrimeList primes(plan.primes.begin() + from, count);
      do_inverse_ntt(q, *plan.ring, primes, x.with_limbs(from, count), last.with_limbs(to, count));
    }
    rest = w.take(ring.word(), x.items(), x.components, plan.out.size(), ring.n());
    do_convert(q, *plan.rest, last, nullptr, rest, nullptr);
    do_forward_ntt(q, *plan.ring, plan.out, rest, rest);
  }
  std::size_t next = 0;  // limb of the result; those before the next run are added ones
  const auto fill_to = [&](std::size_t end) {
    if (end > next) do_copy(q, rest.with_limbs(next, end - next), out.with_limbs(next, end - next));
  };
  for (const auto& [from, to, count] : plan.kept) {
    fill_to(to);
    const PrimeList primes(plan.out.begin() + to, count);
    LimbConstants own{};
    for (std::size_t l = 0; l < count; ++l) own[l] = plan.own[to + l];
    const View target = out.with_limbs(to, count);
    do_mul_constants(q, *plan.ring, primes, x.with_limbs(from, count), own, target);
    if (plan.rest) do_add(q, *plan.ring, primes, target, rest.with_limbs(to, count), target);
    next = to + count;
  }
  fill_to(plan.out.size());
}

void Kernels::do_apply_key_ntt(Queue& q, const KeySwitchPlan& plan, const View& digits, const View& key, const View* add,
                               const View& out, Workspace w, const PreparedPermutation* turn) {
  const math::Ring& ring = plan.ring->ring();
  if (turn) {
    const View turned = w.take(ring.word(), out.items(), digits.components, plan.extended.size(), ring.n());
    do_permute(q, *plan.ring, plan.extended, *turn, digits, turned);
    View more;
    if (add) {
      more = w.take(ring.word(), out.items(), add->components, plan.chain.size(), ring.n());
      do_permute(q, *plan.ring, plan.chain, *turn, *add, more);
    }
    do_apply_key_ntt(q, plan, turned, key, add ? &more : nullptr, out, w, nullptr);
    return;
  }
  const View sum = w.take(ring.word(), out.items(), 2, plan.extended.size(), ring.n());
  const View weighted = w.take(ring.word(), out.items(), 2, plan.chain.size(), ring.n());
  do_inner_product(q, *plan.ring, plan.extended, digits, key, plan.key_limbs, sum);
  if (add) {
    const View more = weighted.with_components(0, add->components);
    const View part = sum.with_components(0, add->components).with_limbs(0, plan.chain.size());
    do_mul_constants(q, *plan.ring, plan.chain, *add, plan.weight, more);
    do_add(q, *plan.ring, plan.chain, part, more, part);
  }
  do_divide(q, plan.down, sum, out, w);
}

void Kernels::do_key_switch_ntt(Queue& q, const KeySwitchPlan& plan, const View& x, const View& key, const View* add,
                                const View& out, Workspace w, const PreparedPermutation* turn) {
  const math::Ring& ring = plan.ring->ring();
  const View coefficients = w.take(ring.word(), x.items(), 1, plan.chain.size(), ring.n());
  const View digits = w.take(ring.word(), x.items(), plan.digits.size(), plan.extended.size(), ring.n());
  do_inverse_ntt(q, *plan.ring, plan.chain, x, coefficients);
  do_decompose(q, plan, coefficients, digits, Workspace(nullptr, 0));
  do_apply_key_ntt(q, plan, digits, key, add, out, w, turn);
}

void Kernels::do_bfv_multiply(Queue& q, const MultiplyPlan& plan, const View& a, const View& b, const View& out,
                              Workspace w) {
  const math::Ring& ring = plan.ring->ring();
  const std::size_t chain = plan.chain.size(), auxiliary = plan.auxiliary.size();
  const auto raise = [&](const View& x) {
    const View extended = w.take(ring.word(), x.items(), x.components, chain + auxiliary, ring.n());
    do_copy(q, x, extended.with_limbs(0, chain));
    do_convert(q, *plan.lift, x, nullptr, extended.with_limbs(chain, auxiliary), nullptr);
    do_forward_ntt(q, *plan.ring, plan.extended, extended, extended);
    return extended;
  };
  const View ea = raise(a);
  const View eb = same_operand(a, b) ? ea : raise(b);
  const View product = w.take(ring.word(), out.items(), out.components, chain + auxiliary, ring.n());
  do_tensor(q, *plan.ring, plan.extended, ea, eb, product);
  do_inverse_ntt(q, *plan.ring, plan.extended, product, product);
  const View scaled = w.take(ring.word(), out.items(), out.components, auxiliary, ring.n());
  const View own = product.with_limbs(chain, auxiliary);
  do_convert(q, *plan.scale, product.with_limbs(0, chain), &own, scaled, nullptr);
  do_convert(q, *plan.lower, scaled, nullptr, out, nullptr);
}

}  // namespace heliograph::device
