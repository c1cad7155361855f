// Key switching and BFV's product in a handful of launches: between the column passes of its transforms all that happens to
// a row happens in one kernel, and conversions that follow each other are one.
#include <algorithm>

#include "backend/cuda/convert.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/passes.h"

namespace heliograph::backend::cuda {

using device::DividePlan;
using device::KeySwitchPlan;
using device::MultiplyPlan;

namespace {

/// Conversions of one field can share a launch, and Values of the ring's own field pass between its kernels.
bool all_of(FieldKind kind, std::initializer_list<const device::PreparedConversion*> conversions) {
  return std::all_of(conversions.begin(), conversions.end(),
                     [&](const auto* c) { return own_as<CudaConversion>(*c).kind() == kind; });
}

/// Whether one pass raises all digits of a plan. A digit that is the whole base is not raised; then it is the only one.
bool raises_at_once(const CudaRing& ring, const KeySwitchPlan& plan) {
  return plan.digits.size() <= kMostSteps && std::all_of(plan.digits.begin(), plan.digits.end(), [&](const auto& digit) {
           return digit.raise && all_of(ring.kind(), {digit.raise.get()});
         });
}

/// Whether a division in the NTT domain is fused.
bool divides_at_once(const CudaRing& ring, const DividePlan& plan, std::size_t n) {
  return has_columns(n) && plan.simple() && all_of(ring.kind(), {plan.rest.get()});
}

/// How the column pass of digits finds them: own limbs in `x`, the others in `digits`.
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

/// Fills all limbs of the digits but their own.
void raise(Queue& q, const char* name, const KeySwitchPlan& plan, const View& x, const View& digits) {
  ConvertPass pass{.name = name, .x = digit_source(plan, Source::digits, x, digits), .steps = {}};
  for (const KeySwitchPlan::Digit& digit : plan.digits) {
    const u32 first = static_cast<u32>(digit.first), own = static_cast<u32>(digit.count);
    pass.steps.push_back(
        {.conversion = &own_as<CudaConversion>(*digit.raise), .first = first, .skip_at = first, .skip = own});
  }
  run(q, pass, digits.word, digits);
}

PrimeList divided_primes(const DividePlan& plan) {
  return PrimeList(plan.primes.begin() + plan.out.size(), plan.divisors());
}

/// From the coefficients of the limbs divided by to the result. `rest` and `out` may be one, or `beside` and `out`.
void finish_divide(Queue& q, const char* name, const DividePlan& plan, const View& divided, const View& beside,
                   const View& rest, const View& out) {
  const CudaRing& ring = own_ring(*plan.ring);
  run(q, {.name = name, .x = plain_source(divided), .steps = {{.conversion = &own_as<CudaConversion>(*plan.rest)}}},
      out.word, rest);
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    forward_columns<F>(q, name, ring, plan.out, plain_source(rest), rest);
    divide_rows<F>(q, name, ring, plan.out, rest, beside, plan.own, out);
  });
}

}  // namespace

void CudaKernels::do_bfv_multiply(Queue& q, const MultiplyPlan& plan, const View& a, const View& b, const View& out,
                                  Workspace w) {
  const CudaRing& ring = own_ring(*plan.ring);
  if (a.components != 2 || b.components != 2 || !has_columns(out.n) || out.items() == 0 ||
      !all_of(ring.kind(), {plan.lift.get(), plan.scale.get(), plan.lower.get()})) {
    if (out.items() > 0) Kernels::do_bfv_multiply(q, plan, a, b, out, w);
    return;
  }
  constexpr const char* kName = "bfv_multiply";
  const bool square = same_operand(a, b);
  const std::size_t chain = plan.chain.size(), auxiliary = plan.auxiliary.size(), factors = square ? 2 : 4;
  const View e = w.take(out.word, out.items(), square ? 3 : 4, chain + auxiliary, out.n);
  const View raised = e.with_components(0, factors), product = e.with_components(0, 3);
  Source source{};
  source.kind = Source::product;
  source.split = 2;
  source.chain = static_cast<u32>(chain);
  source.a = strided(a), source.b = strided(b), source.raised = strided(e);
  run(q, {.name = kName, .x = source, .steps = {{.conversion = &own_as<CudaConversion>(*plan.lift)}}}, out.word,
      raised.with_limbs(chain, auxiliary));
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    forward_columns<F>(q, kName, ring, plan.extended, source, raised);
    tensor_rows<F>(q, ring, plan.extended, e, square);
    inverse_columns<F>(q, kName, ring, plan.extended, product, product);
  });
  const View own = product.with_limbs(chain, auxiliary);
  run(q,
      {.name = kName,
       .x = plain_source(product),
       .steps = {{.conversion = &own_as<CudaConversion>(*plan.scale)}},
       .lower = &own_as<CudaConversion>(*plan.lower),
       .own = &own},
      out.word, out);
}

void CudaKernels::do_decompose(Queue& q, const KeySwitchPlan& plan, const View& x, const View& digits, Workspace w) {
  const CudaRing& ring = own_ring(*plan.ring);
  if (!has_columns(digits.n) || !raises_at_once(ring, plan)) {
    if (digits.items() > 0) Kernels::do_decompose(q, plan, x, digits, w);
    return;
  }
  if (digits.items() == 0) return;
  constexpr const char* kName = "decompose";
  raise(q, kName, plan, x, digits);
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    forward_columns<F>(q, kName, ring, plan.extended, digit_source(plan, Source::digits, x, digits), digits);
    forward_rows<F>(q, kName, ring, plan.extended, digits);
  });
}

void CudaKernels::do_key_switch(Queue& q, const KeySwitchPlan& plan, const View& x, const View& key, const View* add,
                                const View& out, Workspace w) {
  const CudaRing& ring = own_ring(*plan.ring);
  if (!has_columns(out.n) || !raises_at_once(ring, plan) || (plan.mod_down && !all_of(ring.kind(), {plan.mod_down.get()}))) {
    if (out.items() > 0) Kernels::do_key_switch(q, plan, x, key, add, out, w);
    return;
  }
  if (out.items() == 0) return;
  constexpr const char* kName = "key_switch";
  const std::size_t limbs = plan.extended.size(), count = plan.digits.size();
  const View digits = w.take(out.word, out.items(), count, limbs, out.n);
  const View sum = w.take(out.word, out.items(), 2, limbs, out.n);
  raise(q, kName, plan, x, digits);
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    forward_columns<F>(q, kName, ring, plan.extended, digit_source(plan, Source::digits, x, digits), digits);
    key_rows<F>(q, kName, ring, plan.extended, digits, false, key, plan.key_limbs, sum);
  });
  finish_key_switch(q, kName, plan, add, out, sum);
}

void CudaKernels::do_apply_key(Queue& q, const KeySwitchPlan& plan, const View& digits, const View& key, const View* add,
                               const View& out, Workspace w) {
  const CudaRing& ring = own_ring(*plan.ring);
  if (out.items() == 0) return;
  if (!has_columns(out.n) || (plan.mod_down && !all_of(ring.kind(), {plan.mod_down.get()}))) {
    Kernels::do_apply_key(q, plan, digits, key, add, out, w);
    return;
  }
  constexpr const char* kName = "apply_key";
  const View sum = w.take(out.word, out.items(), 2, plan.extended.size(), out.n);
  with_field(ring.kind(),
             [&](auto f) { key_rows<decltype(f)>(q, kName, ring, plan.extended, digits, true, key, plan.key_limbs, sum); });
  finish_key_switch(q, kName, plan, add, out, sum);
}

/// From the rows of the two sums to the result.
void CudaKernels::finish_key_switch(Queue& q, const char* name, const KeySwitchPlan& plan, const View* add, const View& out,
                                    const View& sum) {
  const CudaRing& ring = own_ring(*plan.ring);
  const View whole = plan.mod_down ? sum : out;
  with_field(ring.kind(), [&](auto f) { inverse_columns<decltype(f)>(q, name, ring, plan.extended, sum, whole); });
  if (plan.mod_down) {
    const std::size_t chain = plan.chain.size();
    const View own = sum.with_limbs(0, chain);
    run(q,
        {.name = name,
         .x = plain_source(sum.with_limbs(chain, plan.special.size())),
         .steps = {{.conversion = &own_as<CudaConversion>(*plan.mod_down)}},
         .own = &own,
         .add = add},
        out.word, out);
  } else if (add) {
    const View part = out.with_components(0, add->components);
    do_add(q, *plan.ring, plan.chain, part, *add, part);
  }
}

void CudaKernels::do_divide(Queue& q, const DividePlan& plan, const View& x, const View& out, Workspace w) {
  const CudaRing& ring = own_ring(*plan.ring);
  if (!divides_at_once(ring, plan, out.n)) {
    if (out.items() > 0) Kernels::do_divide(q, plan, x, out, w);
    return;
  }
  if (out.items() == 0) return;
  constexpr const char* kName = "divide";
  const std::size_t stay = plan.out.size(), divisors = plan.divisors();
  const View last = w.take(out.word, x.items(), x.components, divisors, out.n);
  with_field(ring.kind(), [&](auto f) {
    cuda::inverse_ntt<decltype(f)>(q, kName, ring, divided_primes(plan), x.with_limbs(stay, divisors), last);
  });
  finish_divide(q, kName, plan, last, x.with_limbs(0, stay), out, out);
}

void CudaKernels::do_key_switch_ntt(Queue& q, const KeySwitchPlan& plan, const View& x, const View& key, const View* add,
                                    const View& out, Workspace w, const device::PreparedPermutation* turn) {
  const CudaRing& ring = own_ring(*plan.ring);
  if (!divides_at_once(ring, plan.down, out.n) || !raises_at_once(ring, plan)) {
    if (out.items() > 0) Kernels::do_key_switch_ntt(q, plan, x, key, add, out, w, turn);
    return;
  }
  if (out.items() == 0) return;
  constexpr const char* kName = "key_switch_ntt";
  const View coefficients = w.take(out.word, x.items(), 1, plan.chain.size(), out.n);
  const View digits = w.take(out.word, x.items(), plan.digits.size(), plan.extended.size(), out.n);
  with_field(ring.kind(), [&](auto f) { cuda::inverse_ntt<decltype(f)>(q, kName, ring, plan.chain, x, coefficients); });
  raise(q, kName, plan, coefficients, digits);
  with_field(ring.kind(), [&](auto f) {
    forward_columns<decltype(f)>(q, kName, ring, plan.extended, digit_source(plan, Source::others, x, digits), digits);
  });
  finish_key_switch_ntt(q, kName, plan, digits, &x, turn, key, add, out, w);
}

void CudaKernels::do_apply_key_ntt(Queue& q, const KeySwitchPlan& plan, const View& digits, const View& key, const View* add,
                                   const View& out, Workspace w, const device::PreparedPermutation* turn) {
  if (!divides_at_once(own_ring(*plan.ring), plan.down, out.n)) {
    if (out.items() > 0) Kernels::do_apply_key_ntt(q, plan, digits, key, add, out, w, turn);
    return;
  }
  if (out.items() == 0) return;
  finish_key_switch_ntt(q, "apply_key_ntt", plan, digits, nullptr, turn, key, add, out, w);
}

/// From the digits to the result: `own` null says that they are transformed, else it holds their own limbs. `turn` permutes
/// them, and `own` and `add`.
void CudaKernels::finish_key_switch_ntt(Queue& q, const char* name, const KeySwitchPlan& plan, const View& digits,
                                        const View* own, const device::PreparedPermutation* turn, const View& key,
                                        const View* add, const View& out, Workspace& w) {
  const CudaRing& ring = own_ring(*plan.ring);
  const View divided = w.take(out.word, out.items(), 2, plan.down.divisors(), out.n);
  const View rest = w.take(out.word, out.items(), 2, plan.down.out.size(), out.n);
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    switch_rows<F>(q, ring,
                   {.name = name,
                    .plan = plan,
                    .digits = digits,
                    .own = own,
                    .turn = turn ? own_as<CudaPermutation>(*turn).table().as<u32>() : nullptr,
                    .key = key,
                    .add = add,
                    .kept = out,
                    .divided = divided});
    inverse_columns<F>(q, name, ring, divided_primes(plan.down), divided, divided);
  });
  finish_divide(q, name, plan.down, divided, out, rest, out);
}

std::size_t CudaKernels::preferred_items(std::size_t bytes_an_item) const {
  // Full launches are worth more than a second-level cache: measured, two gigabytes of scratch on an H200.
  const std::size_t scratch = state_->properties().memory / 64;
  return std::max<std::size_t>(1, scratch / std::max<std::size_t>(1, bytes_an_item));
}

}  // namespace heliograph::backend::cuda
