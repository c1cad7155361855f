// Key switching and BFV's product in few launches. Between the column passes of the transforms, one kernel does all work on
// a row. Consecutive conversions are merged into one launch.
#include <algorithm>

#include "backend/cuda/ring/convert.h"
#include "backend/cuda/ring/kernels.h"
#include "backend/cuda/ring/launch.cuh"
#include "backend/cuda/ring/passes.h"

namespace heliograph::backend::cuda {

using device::DividePlan;
using device::KeySwitchPlan;
using device::MultiplyPlan;

namespace {

/// Returns whether all conversions use the ring's field. The conversions can then share a launch, whose kernels exchange
/// Values.
bool all_of(const CudaRing& ring, std::initializer_list<const device::ConversionConstant*> conversions) {
  return std::all_of(conversions.begin(), conversions.end(),
                     [&](const auto* c) { return own_beside<CudaConversion>(ring, *c).kind() == ring.kind(); });
}

/// Returns whether one launch can extend all digits of a plan (mod up). If one digit is the whole base, the plan has no
/// other digit and no extension.
bool raises_at_once(const CudaRing& ring, const KeySwitchPlan& plan) {
  return plan.digits.size() <= kMostSteps && std::all_of(plan.digits.begin(), plan.digits.end(), [&](const auto& digit) {
           return digit.raise && all_of(ring, {digit.raise.get()});
         });
}

/// Returns whether a division in the NTT domain can be fused.
bool divides_at_once(const CudaRing& ring, const DividePlan& plan, std::size_t n) {
  return has_columns(n) && plan.simple() && all_of(ring, {plan.rest.get()});
}

/// Returns the source of the digits' column pass: a digit's own limbs are in `x`, its other limbs in `digits`.
Source digit_source(const KeySwitchPlan& plan, Source::Kind kind, const View& x, const View& digits) {
  Source source{};
  source.kind = kind;
  source.a = strided(x), source.raised = strided(digits);
  for (std::size_t j = 0; j < plan.digits.size(); ++j) {
    source.first[j] = static_cast<unsigned char>(plan.digits[j].first);
    source.count[j] = static_cast<unsigned char>(plan.digits[j].count);
  }
  return source;
}

/// Extends each digit to its other limbs (mod up).
void raise(Queue& q, const char* name, const KeySwitchPlan& plan, const View& x, const View& digits) {
  ConvertPass pass{.name = name, .x = digit_source(plan, Source::digits, x, digits), .steps = {}};
  for (const KeySwitchPlan::Digit& digit : plan.digits) {
    pass.steps.push_back({.conversion = &own_as<CudaConversion>(q, *digit.raise),
                          .first = static_cast<u32>(digit.raised_from().first),
                          .skip_at = static_cast<u32>(digit.first),
                          .skip = static_cast<u32>(digit.count)});
  }
  run_pass(q, pass, digits.word, digits);
}

/// Returns true if no work is left for a key switch in the NTT domain. In this case the key switch has no items, or no
/// composite kernel supports its plan and this function has run the plan's expansion.
template <class Call>
bool expanded_or_empty(Queue& q, const CudaRing& ring, const Call& c) {
  if (c.out.items() == 0) return true;
  if (divides_at_once(ring, c.plan->down, c.out.n) && raises_at_once(ring, *c.plan)) return false;
  q.expand(c);
  return true;
}

/// Extends the digits of x (mod up) and runs the column pass of their transform. `coefficients` has x in the coefficient
/// domain.
View raised_columns(Queue& q, const char* name, const KeySwitchPlan& plan, const View& x, const View& coefficients,
                    Workspace& w) {
  const CudaRing& ring = own_ring(q, *plan.ring);
  const View digits = w.take(x.word, x.items(), plan.digits.size(), plan.extended.size(), x.n);
  raise(q, name, plan, coefficients, digits);
  with_field(ring.kind(), [&](auto f) {
    forward_columns<decltype(f)>(q, name, ring, plan.extended, digit_source(plan, Source::others, x, digits), digits);
  });
  return digits;
}

PrimeList divided_primes(const DividePlan& plan) {
  return PrimeList(plan.primes.begin() + plan.out.size(), plan.divisors());
}

/// Returns whether one launch converts the limbs that are divided out, between the column passes.
bool divides_columns(Queue& q, const DividePlan& plan, const View& rest) {
  return fuses_columns(own_ring(q, *plan.ring), own_as<CudaConversion>(q, *plan.rest), rest);
}

/// Converts the limbs that are divided out to the remainders in the other limbs, after the column pass. `divided` has
/// coefficients; with `fused` (divides_columns) it has rows before the column pass.
void remainders(Queue& q, const char* name, const DividePlan& plan, const View& divided, const View& rest, bool fused) {
  const CudaRing& ring = own_ring(q, *plan.ring);
  if (fused) {
    const auto& conversion = own_as<CudaConversion>(q, *plan.rest);
    return convert_columns(q, name, ring, conversion, divided_primes(plan), divided, plan.out, rest);
  }
  run_pass(q, {.name = name, .x = plain_source(divided), .steps = {{.conversion = &own_as<CudaConversion>(q, *plan.rest)}}},
           rest.word, rest);
  with_field(ring.kind(), [&](auto f) { forward_columns<decltype(f)>(q, name, ring, plan.out, plain_source(rest), rest); });
}

/// Computes the result of a division. `out` may be the same memory as `rest` or as `beside`. `fused`: see remainders.
void finish_divide(Queue& q, const char* name, const DividePlan& plan, const View& divided, const View& beside,
                   const View& rest, const View& out, bool fused) {
  const CudaRing& ring = own_ring(q, *plan.ring);
  remainders(q, name, plan, divided, rest, fused);
  with_field(ring.kind(), [&](auto f) { divide_rows<decltype(f)>(q, name, ring, plan.out, rest, beside, plan.own, out); });
}

}  // namespace

void CudaKernels::run(Queue& q, const ScaledTensor& c) {
  Workspace w = c.scratch;
  const CudaRing& ring = own_ring(q, *c.plan->ring);
  if (c.a.components != 2 || c.b.components != 2 || !has_columns(c.out.n) || c.out.items() == 0 ||
      !all_of(ring, {c.plan->lift.get(), c.plan->scale.get(), c.plan->lower.get()})) {
    if (c.out.items() > 0) q.expand(c);
    return;
  }
  constexpr const char* kName = "bfv_multiply";
  const bool square = same_operand(c.a, c.b);
  const std::size_t chain = c.plan->chain.size(), auxiliary = c.plan->auxiliary.size(), factors = square ? 2 : 4;
  const View e = w.take(c.out.word, c.out.items(), square ? 3 : 4, chain + auxiliary, c.out.n);
  const View raised = e.with_components(0, factors), product = e.with_components(0, 3);
  Source source{};
  source.kind = Source::product;
  source.split = 2;
  source.chain = static_cast<u32>(chain);
  source.a = strided(c.a), source.b = strided(c.b), source.raised = strided(e);
  run_pass(q, {.name = kName, .x = source, .steps = {{.conversion = &own_as<CudaConversion>(q, *c.plan->lift)}}}, c.out.word,
           raised.with_limbs(chain, auxiliary));
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    forward_columns<F>(q, kName, ring, c.plan->extended, source, raised);
    tensor_rows<F>(q, ring, c.plan->extended, e, square);
    inverse_columns<F>(q, kName, ring, c.plan->extended, product, product);
  });
  const View own = product.with_limbs(chain, auxiliary);
  run_pass(q,
           {.name = kName,
            .x = plain_source(product),
            .steps = {{.conversion = &own_as<CudaConversion>(q, *c.plan->scale)}},
            .lower = &own_as<CudaConversion>(q, *c.plan->lower),
            .own = &own},
           c.out.word, c.out);
}

void CudaKernels::run(Queue& q, const Decompose& c) {
  const CudaRing& ring = own_ring(q, *c.plan->ring);
  if (!has_columns(c.digits.n) || !raises_at_once(ring, *c.plan)) {
    if (c.digits.items() > 0) q.expand(c);
    return;
  }
  if (c.digits.items() == 0) return;
  constexpr const char* kName = "decompose";
  raise(q, kName, *c.plan, c.x, c.digits);
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    forward_columns<F>(q, kName, ring, c.plan->extended, digit_source(*c.plan, Source::digits, c.x, c.digits), c.digits);
    forward_rows<F>(q, kName, ring, c.plan->extended, c.digits);
  });
}

void CudaKernels::run(Queue& q, const KeySwitch& c) {
  c.domain == math::Domain::ntt ? key_switch_ntt(q, c) : key_switch_coefficients(q, c);
}

void CudaKernels::run(Queue& q, const ApplyKey& c) {
  c.domain == math::Domain::ntt ? apply_key_ntt(q, c) : apply_key_coefficients(q, c);
}

void CudaKernels::key_switch_coefficients(Queue& q, const KeySwitch& c) {
  Workspace w = c.scratch;
  const CudaRing& ring = own_ring(q, *c.plan->ring);
  if (!has_columns(c.out.n) || !raises_at_once(ring, *c.plan) ||
      (c.plan->mod_down && !all_of(ring, {c.plan->mod_down.get()}))) {
    if (c.out.items() > 0) q.expand(c);
    return;
  }
  if (c.out.items() == 0) return;
  constexpr const char* kName = "key_switch";
  const std::size_t limbs = c.plan->extended.size(), count = c.plan->digits.size();
  const View digits = w.take(c.out.word, c.out.items(), count, limbs, c.out.n);
  const View sum = w.take(c.out.word, c.out.items(), 2, limbs, c.out.n);
  raise(q, kName, *c.plan, c.x, digits);
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    forward_columns<F>(q, kName, ring, c.plan->extended, digit_source(*c.plan, Source::digits, c.x, digits), digits);
    key_rows<F>(q, kName, ring, c.plan->extended, digits, false, c.key, c.plan->key_limbs, sum);
  });
  finish_key_switch(q, kName, *c.plan, c.add, c.out, sum);
}

void CudaKernels::apply_key_coefficients(Queue& q, const ApplyKey& c) {
  Workspace w = c.scratch;
  const CudaRing& ring = own_ring(q, *c.plan->ring);
  if (c.out.items() == 0) return;
  if (!has_columns(c.out.n) || (c.plan->mod_down && !all_of(ring, {c.plan->mod_down.get()}))) {
    q.expand(c);
    return;
  }
  constexpr const char* kName = "apply_key";
  const View sum = w.take(c.out.word, c.out.items(), 2, c.plan->extended.size(), c.out.n);
  with_field(ring.kind(), [&](auto f) {
    key_rows<decltype(f)>(q, kName, ring, c.plan->extended, c.digits, true, c.key, c.plan->key_limbs, sum);
  });
  finish_key_switch(q, kName, *c.plan, c.add, c.out, sum);
}

/// Computes the result of a key switch from the rows of the two sums.
void CudaKernels::finish_key_switch(Queue& q, const char* name, const KeySwitchPlan& plan,
                                    const std::optional<device::In>& add, const View& out, const View& sum) {
  const CudaRing& ring = own_ring(q, *plan.ring);
  const View whole = plan.mod_down ? sum : out;
  with_field(ring.kind(), [&](auto f) { inverse_columns<decltype(f)>(q, name, ring, plan.extended, sum, whole); });
  if (plan.mod_down) {
    const std::size_t chain = plan.chain.size();
    const View own = sum.with_limbs(0, chain);
    run_pass(q,
             {.name = name,
              .x = plain_source(sum.with_limbs(chain, plan.special.size())),
              .steps = {{.conversion = &own_as<CudaConversion>(q, *plan.mod_down)}},
              .own = &own,
              .add = add ? &*add : nullptr},
             out.word, out);
  } else if (add) {
    const View part = out.with_components(0, add->components);
    run(q, Add{plan.ring, plan.chain, part, *add, part});
  }
}

void CudaKernels::run(Queue& q, const Divide& c) {
  Workspace w = c.scratch;
  const CudaRing& ring = own_ring(q, *c.plan->ring);
  if (!divides_at_once(ring, *c.plan, c.out.n)) {
    if (c.out.items() > 0) q.expand(c);
    return;
  }
  if (c.out.items() == 0) return;
  constexpr const char* kName = "divide";
  const std::size_t stay = c.plan->out.size(), divisors = c.plan->divisors();
  const View last = w.take(c.out.word, c.x.items(), c.x.components, divisors, c.out.n);
  const bool fused = divides_columns(q, *c.plan, c.out);
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    const View divided = c.x.with_limbs(stay, divisors);
    fused ? inverse_rows<F>(q, kName, ring, divided_primes(*c.plan), divided, last)
          : cuda::inverse_ntt<F>(q, kName, ring, divided_primes(*c.plan), divided, last);
  });
  finish_divide(q, kName, *c.plan, last, c.x.with_limbs(0, stay), c.out, c.out, fused);
}

void CudaKernels::key_switch_ntt(Queue& q, const KeySwitch& c) {
  Workspace w = c.scratch;
  const CudaRing& ring = own_ring(q, *c.plan->ring);
  if (expanded_or_empty(q, ring, c)) return;
  constexpr const char* kName = "key_switch";
  const KeySwitchPlan& plan = *c.plan;
  const std::size_t chain = plan.chain.size(), special = plan.special.size();
  const View coefficients = w.take(c.out.word, c.x.items(), 1, chain, c.out.n);
  // A single digit is the whole chain, so only its limbs of the special primes are extended.
  if (plan.digits.size() == 1 && plan.digits[0].count == chain && special > 0 &&
      fuses_columns(ring, own_as<CudaConversion>(q, *plan.digits[0].raise), coefficients)) {
    const View digit = w.take(c.out.word, c.x.items(), 1, plan.extended.size(), c.out.n);
    with_field(ring.kind(), [&](auto f) { inverse_rows<decltype(f)>(q, kName, ring, plan.chain, c.x, coefficients); });
    convert_columns(q, kName, ring, own_as<CudaConversion>(q, *plan.digits[0].raise), plan.chain, coefficients, plan.special,
                    digit.with_limbs(chain, special));
    return finish_key_switch_ntt(q, kName, plan, digit, &c.x, c.turn, c.key, c.add, c.out, w);
  }
  with_field(ring.kind(), [&](auto f) { cuda::inverse_ntt<decltype(f)>(q, kName, ring, c.plan->chain, c.x, coefficients); });
  const View digits = raised_columns(q, kName, *c.plan, c.x, coefficients, w);
  finish_key_switch_ntt(q, kName, *c.plan, digits, &c.x, c.turn, c.key, c.add, c.out, w);
}

void CudaKernels::run(Queue& q, const PartialKeySwitch& c) {
  Workspace w = c.scratch;
  const CudaRing& ring = own_ring(q, *c.plan->ring);
  if (expanded_or_empty(q, ring, c)) return;
  constexpr const char* kName = "partial_key_switch";
  const View digits = raised_columns(q, kName, *c.plan, c.x, c.coefficients, w);
  finish_key_switch_ntt(q, kName, *c.plan, digits, &c.x, c.turn, c.key, c.add, c.out, w);
}

void CudaKernels::apply_key_ntt(Queue& q, const ApplyKey& c) {
  Workspace w = c.scratch;
  if (!divides_at_once(own_ring(q, *c.plan->ring), c.plan->down, c.out.n)) {
    if (c.out.items() > 0) q.expand(c);
    return;
  }
  if (c.out.items() == 0) return;
  finish_key_switch_ntt(q, "apply_key", *c.plan, c.digits, nullptr, c.turn, c.key, c.add, c.out, w);
}

/// Computes the result of a key switch from the digits. If `own` is null, all limbs of the digits are transformed; otherwise
/// `own` has the digits' own limbs. The automorphism `turn` permutes `digits`, `own` and `add`.
void CudaKernels::finish_key_switch_ntt(Queue& q, const char* name, const KeySwitchPlan& plan, const View& digits,
                                        const View* own, const device::PermutationHandle& turn, const View& key,
                                        const std::optional<device::In>& add, const View& out, Workspace& w) {
  const CudaRing& ring = own_ring(q, *plan.ring);
  const View divided = w.take(out.word, out.items(), 2, plan.down.divisors(), out.n);
  const View rest = w.take(out.word, out.items(), 2, plan.down.out.size(), out.n);
  const bool fused = divides_columns(q, plan.down, rest);
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    switch_rows<F>(q, ring,
                   {.name = name,
                    .plan = plan,
                    .digits = digits,
                    .own = own,
                    .turn = turn ? own_as<CudaPermutation>(q, *turn).table().as<u32>() : nullptr,
                    .key = key,
                    .add = add ? &*add : nullptr,
                    .kept = out,
                    .divided = divided});
    if (!fused) inverse_columns<F>(q, name, ring, divided_primes(plan.down), divided, divided);
  });
  finish_divide(q, name, plan.down, divided, out, rest, out, fused);
}

namespace {

constexpr std::size_t kMostGiantSteps = 8;  // giant steps of one launch; device/expand.cpp reserves scratch for this number

/// Merges views of one shape at equal distances, or one view for all, into a view with an additional first axis. Returns
/// nullopt for other layouts.
template <class Operand>
std::optional<View> side_by_side(const std::vector<Operand>& views, std::size_t count) {
  View all = views[0];
  if (all.axes == device::kMaxAxes) return {};
  const std::ptrdiff_t step = views.size() > 1 ? views[1].data - views[0].data : 0;
  for (std::size_t i = 0; i < views.size(); ++i) {
    View moved = views[i];
    moved.data -= static_cast<std::ptrdiff_t>(i) * step;
    if (!same_operand(moved, views[0])) return {};
  }
  for (int i = all.axes++; i > 0; --i) all.shape[i] = all.shape[i - 1], all.stride[i] = all.stride[i - 1];
  all.shape[0] = count, all.stride[0] = step / static_cast<std::ptrdiff_t>(all.word_size());
  return all;
}

bool keys_alike(const std::vector<device::In>& keys) {
  return std::all_of(keys.begin(), keys.end(), [&](const View& key) {
    return key.component_stride == keys[0].component_stride && key.limb_stride == keys[0].limb_stride;
  });
}

}  // namespace

void CudaKernels::run(Queue& q, const ApplyKeys& c) {
  const KeySwitchPlan& plan = *c.plan;
  const CudaRing& ring = own_ring(q, *plan.ring);
  const std::size_t items = c.outs[0].items(), n = c.outs[0].n, count = c.outs.size();
  if (items == 0) return;
  const std::optional<View> out = side_by_side(c.outs, count), digits = side_by_side(c.digits, count);
  const std::optional<View> added = c.added.empty() ? digits : side_by_side(c.added, count);
  if (count == 1 || !out || !digits || !added || !keys_alike(c.keys) || !divides_at_once(ring, plan.down, n))
    return q.expand(c);
  constexpr const char* kName = "apply_keys";
  const std::size_t divisors = plan.down.divisors(), stay = plan.down.out.size();
  const auto word = c.outs[0].word;
  for (std::size_t first = 0; first < count; first += device::kKeysAtOnce) {
    const std::size_t some = std::min(device::kKeysAtOnce, count - first);
    const auto part = [&](const View& all) { return all.with_leading(first, some); };
    const KeySums sums{.call = c, .first = first, .digits = part(*digits), .added = part(*added)};
    Workspace w = c.scratch;
    const View divided = w.take(word, some * items, 2, divisors, n), rest = w.take(word, some * items, 2, stay, n);
    const bool fused = divides_columns(q, plan.down, rest);
    with_field(ring.kind(), [&](auto f) {
      using F = decltype(f);
      divisor_sums<F>(q, ring, sums, divided);
      if (!fused) inverse_columns<F>(q, kName, ring, divided_primes(plan.down), divided, divided);
    });
    remainders(q, kName, plan.down, divided, rest, fused);
    with_field(ring.kind(), [&](auto f) { divided_sums<decltype(f)>(q, ring, sums, rest, part(*out)); });
  }
}

void CudaKernels::run(Queue& q, const BabySteps& c) {
  const CudaRing& ring = own_ring(q, *c.ring);
  if (c.sums.items() == 0) return;
  if (!has_columns(c.sums.n) || !keys_alike(c.keys)) return q.expand(c);
  const std::size_t giants = c.giants();
  for (std::size_t g = 0; g < giants; g += kMostGiantSteps) {
    const std::size_t some = std::min(kMostGiantSteps, giants - g);
    with_field(ring.kind(), [&](auto f) { linear_babies<decltype(f)>(q, ring, c, g, some); });
  }
}

void CudaKernels::run(Queue& q, const GiantSteps& c) {
  const CudaRing& ring = own_ring(q, *c.ring);
  if (c.total.items() == 0) return;
  if (!has_columns(c.total.n) || !keys_alike(c.keys)) return q.expand(c);
  for (std::size_t g = 0; g < c.turns.size(); g += kMostGiantSteps) {
    const std::size_t some = std::min(kMostGiantSteps, c.turns.size() - g);
    with_field(ring.kind(), [&](auto f) { linear_turned<decltype(f)>(q, ring, c, g, some); });
  }
}

void CudaKernels::run(Queue& q, const LinearSum& c) {
  const LinearPlan& plan = *c.plan;
  const KeySwitchPlan& k = *plan.key_switch;
  const CudaRing& ring = own_ring(q, *k.ring);
  if (c.out.items() == 0) return;
  if (!has_columns(c.out.n) || !raises_at_once(ring, k) || !keys_alike(c.keys) ||
      (plan.mod_down && !all_of(ring, {plan.mod_down.get()})))
    return q.expand(c);
  constexpr const char* kName = "linear_sum";
  Workspace w = c.scratch;
  const auto word = c.out.word;
  const std::size_t items = c.out.items(), n = c.out.n, limbs = k.extended.size(), chain = k.chain.size();
  const std::size_t count = k.digits.size(), giants = plan.giants.size(), first = plan.giants[0] ? 0 : 1;
  const std::size_t at_once = std::min(giants - first, kMostGiantSteps);
  const View low = w.take(word, items, 1, chain, n), digits = w.take(word, items, count, limbs, n);
  const View sums = w.take(word, giants * items, 2, limbs, n), total = w.take(word, items, 2, limbs, n);
  const View giant_low = w.take(word, at_once * items, 1, chain, n);
  const View giant_digits = w.take(word, at_once * items, count, limbs, n);
  const auto steps = [&](std::size_t from, std::size_t some, const View& all) {
    return all.with_leading(from * items, some * items);
  };
  if (LinearPlan::turning(plan.babies) > 0) {
    run(q, InverseNtt{k.ring, k.chain, c.x.with_components(1, 1), low});
    run(q, Decompose{plan.key_switch, low, digits});
  }
  const auto babies = c.keys.begin() + static_cast<std::ptrdiff_t>(LinearPlan::turning(plan.babies));
  run(q, BabySteps{.ring = k.ring,
                   .primes = k.extended,
                   .turns = plan.babies,
                   .terms = plan.terms,
                   .weight = k.weight,
                   .x = c.x,
                   .digits = digits,
                   .keys = {c.keys.begin(), babies},
                   .key_limbs = k.key_limbs,
                   .plaintexts = c.plaintexts,
                   .sums = sums,
                   .scratch = {}});
  const View* sum = first > 0 ? &sums : nullptr;  // `sums` already has the identity step's sum in its first items
  const device::In* key = c.keys.data() + LinearPlan::turning(plan.babies);
  for (std::size_t g = first; g < giants; g += kMostGiantSteps) {
    const std::size_t some = std::min(kMostGiantSteps, giants - g);
    const View batch = steps(g, some, sums), mask = batch.with_components(1, 1), up = steps(0, some, giant_digits);
    View small = mask;
    with_field(ring.kind(), [&](auto f) { cuda::inverse_ntt<decltype(f)>(q, kName, ring, k.extended, mask, mask); });
    if (plan.mod_down) {
      small = steps(0, some, giant_low);
      const View own = mask.with_limbs(0, chain);
      run_pass(q,
               {.name = kName,
                .x = plain_source(mask.with_limbs(chain, k.special.size())),
                .steps = {{.conversion = &own_as<CudaConversion>(q, *plan.mod_down)}},
                .own = &own},
               word, small);
    }
    raise(q, kName, k, small, up);
    with_field(ring.kind(), [&](auto f) {
      using F = decltype(f);
      forward_columns<F>(q, kName, ring, k.extended, digit_source(k, Source::digits, small, up), up);
      linear_giants<F>(q, ring, {plan, key}, up, batch, g, some, sum, total);
    });
    sum = &total, key += some;
  }
  const View& whole = sum == &total ? total : sums;
  run(q, Divide{device::division_of(plan.key_switch), whole.with_leading(0, items), c.out, w});
}

std::size_t CudaKernels::preferred_items(std::size_t bytes_an_item) const {
  // Many items in one launch save more time than items that fit the L2 cache. Measured with two gigabytes of scratch on an
  // H200.
  const std::size_t scratch = state_->properties().memory / 64;
  return std::max<std::size_t>(1, scratch / std::max<std::size_t>(1, bytes_an_item));
}

}  // namespace heliograph::backend::cuda
