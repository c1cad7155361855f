// The passes of passes.h for one field: included by field32.cu, field50.cu and field60.cu, which instantiate them.
#pragma once

#include <algorithm>

#include "backend/cuda/ring/launch.cuh"
#include "backend/cuda/ring/linear.cuh"
#include "backend/cuda/ring/passes.h"
#include "device/expand.h"

namespace heliograph::backend::cuda {

namespace {

/// Calls body(std::integral_constant L), where a ring of degree n has columns of 2^L points.
template <int L = 1, class Body>
void with_columns(std::size_t n, Body body) {
  if constexpr (L <= 9) {
    if (n >> L == kRow) {
      body(std::integral_constant<int, L>{});
    } else {
      with_columns<L + 1>(n, body);
    }
  } else {
    throw InternalError("this degree has no column pass");
  }
}

template <class F, bool INVERSE>
void columns(Queue& q, const char* name, const CudaRing& ring, const PrimeList& primes, const Source& in, const View& out) {
  with_columns(out.n, [&](auto bits) {
    constexpr int L = decltype(bits)::value;
    using Shape = ColumnShape<F, L>;
    const auto a = ntt_arguments<F>(ring, primes, in, out, kRow / Shape::kColumns, INVERSE);
    launch(q, name, &ntt_columns<F, L, INVERSE>, a.grid.blocks(), Shape::kBlock, Shape::kShared, a);
  });
}

/// Transforms rows of 2^L points; each thread has P polynomials. WHOLE: a row is a whole polynomial.
template <class F, int L, int P, bool INVERSE, bool WHOLE>
void rows_of(Queue& q, const char* name, const CudaRing& ring, const PrimeList& primes, const View& in, const View& out) {
  constexpr u32 kThreads = Transform<F, L>::kThreads;
  const u32 each = WHOLE ? 1 : static_cast<u32>(std::min<std::size_t>(8, out.n >> L));
  auto a = ntt_arguments<F>(ring, primes, plain_source(in), out, static_cast<u32>(out.n >> L) / each, INVERSE);
  a.grid.components = Divisor((a.polynomials + P - 1) / P);
  a.grid.items = Divisor(1);
  constexpr std::size_t kBytes = sizeof(typename F::Value) * RowLayout<L, kThreads <= 16>::kWords;
  launch(q, name, &ntt_rows<F, L, P, INVERSE, WHOLE>, a.grid.blocks(), each * kThreads, each * kBytes, a);
}

/// Returns whether every multiprocessor has work if each thread has `most` polynomials.
inline bool many_rows(const View& out, std::size_t most) {
  const std::size_t polynomials = out.items() * out.components;
  return polynomials >= most && polynomials * out.limbs * out.n >= std::size_t{1} << 23;
}

/// Gives each thread as many polynomials as registers hold, if there are enough polynomials.
template <class F, int L, bool INVERSE, bool WHOLE>
void rows(Queue& q, const char* name, const CudaRing& ring, const PrimeList& primes, const View& in, const View& out) {
  constexpr int kMost = WHOLE ? 1 : 2;
  if (kMost > 1 && many_rows(out, kMost)) {
    rows_of<F, L, kMost, INVERSE, WHOLE>(q, name, ring, primes, in, out);
  } else {
    rows_of<F, L, 1, INVERSE, WHOLE>(q, name, ring, primes, in, out);
  }
}

/// Transforms in one pass if a polynomial fits a block; returns false otherwise.
template <class F, bool INVERSE>
bool whole(Queue& q, const char* name, const CudaRing& ring, const PrimeList& primes, const View& a, const View& out) {
  if (out.n < kRow) {
    const auto arguments = ntt_arguments<F>(ring, primes, plain_source(a), out, 1, INVERSE);
    launch(q, name, &ntt_small<F, INVERSE>, arguments.grid.blocks(), static_cast<u32>(out.n / 2),
           out.n * sizeof(typename F::Value), arguments);
    return true;
  }
  if constexpr (!std::is_same_v<F, Field60>) {  // no parameter set has primes of this size in such rings
    switch (out.n) {
      case 1 << 10:
        return rows<F, 10, INVERSE, true>(q, name, ring, primes, a, out), true;
      case 1 << 11:
        return rows<F, 11, INVERSE, true>(q, name, ring, primes, a, out), true;
      case 1 << 12:
        return rows<F, 12, INVERSE, true>(q, name, ring, primes, a, out), true;
      case 1 << 13:
        return rows<F, 13, INVERSE, true>(q, name, ring, primes, a, out), true;
      default:
        break;
    }
  }
  if (out.n == kRow) return rows<F, kRowBits, INVERSE, true>(q, name, ring, primes, a, out), true;
  return false;
}

}  // namespace

template <class F>
void forward_columns(Queue& q, const char* name, const CudaRing& ring, const PrimeList& primes, const Source& in,
                     const View& out) {
  columns<F, false>(q, name, ring, primes, in, out);
}

template <class F>
void inverse_columns(Queue& q, const char* name, const CudaRing& ring, const PrimeList& primes, const View& in,
                     const View& out) {
  columns<F, true>(q, name, ring, primes, plain_source(in), out);
}

template <class F>
void forward_rows(Queue& q, const char* name, const CudaRing& ring, const PrimeList& primes, const View& out) {
  rows<F, kRowBits, false, false>(q, name, ring, primes, out, out);
}

template <class F>
void inverse_rows(Queue& q, const char* name, const CudaRing& ring, const PrimeList& primes, const View& in,
                  const View& out) {
  rows<F, kRowBits, true, false>(q, name, ring, primes, in, out);
}

template <class F>
void forward_ntt(Queue& q, const CudaRing& ring, const PrimeList& primes, const View& a, const View& out) {
  constexpr const char* kName = "forward_ntt";
  if (whole<F, false>(q, kName, ring, primes, a, out)) return;
  columns<F, false>(q, kName, ring, primes, plain_source(a), out);
  forward_rows<F>(q, kName, ring, primes, out);
}

template <class F>
void inverse_ntt(Queue& q, const char* name, const CudaRing& ring, const PrimeList& primes, const View& a, const View& out) {
  if (whole<F, true>(q, name, ring, primes, a, out)) return;
  rows<F, kRowBits, true, false>(q, name, ring, primes, a, out);
  columns<F, true>(q, name, ring, primes, plain_source(out), out);
}

namespace {

template <class F>
RowArguments<F> row_arguments(const CudaRing& ring, const PrimeList& primes, const View& polynomials) {
  RowArguments<F> a{.polynomials = strided(polynomials),
                    .grid = Grid(static_cast<u32>(polynomials.n / kRow / kBlockRows), polynomials),
                    .primes = primes_of(primes),
                    .table = ring.primes().as<typename F::Prime>(),
                    .forward = ring.forward().as<typename F::Constant>(),
                    .inverse = ring.inverse().as<typename F::Constant>(),
                    .n = static_cast<u32>(polynomials.n)};
  a.grid.components = Divisor(1);  // a block holds all components
  return a;
}

}  // namespace

template <class F>
void tensor_rows(Queue& q, const CudaRing& ring, const PrimeList& primes, const View& e, bool square) {
  const auto a = row_arguments<F>(ring, primes, e);
  const u32 groups = square ? 3 : 4;
  const std::size_t shared = groups * kGroupWords * sizeof(typename F::Value);
  square ? launch(q, "bfv_multiply", &tensor_rows_kernel<F, true>, a.grid.blocks(), groups * kGroupThreads, shared, a)
         : launch(q, "bfv_multiply", &tensor_rows_kernel<F, false>, a.grid.blocks(), groups * kGroupThreads, shared, a);
}

template <class F>
void key_rows(Queue& q, const char* name, const CudaRing& ring, const PrimeList& primes, const View& digits,
              bool transformed, const View& key, const PrimeList& key_limbs, const View& sum) {
  const KeyArguments<F> a{.rows = row_arguments<F>(ring, primes, sum),
                          .digits = strided(digits),
                          .key = strided(key),
                          .key_limbs = primes_of(key_limbs),
                          .count = static_cast<u32>(digits.components)};
  launch(q, name, transformed ? &key_rows_kernel<F, true> : &key_rows_kernel<F, false>, a.rows.grid.blocks(),
         kKeyGroups * kGroupThreads, (transformed ? 2 : kKeyGroups) * kGroupWords * sizeof(typename F::Value), a);
}

template <class F>
void switch_rows(Queue& q, const CudaRing& ring, const SwitchPass& pass) {
  const device::KeySwitchPlan& plan = pass.plan;
  const auto word = [](u64 w) { return static_cast<typename F::Word>(w); };
  SwitchArguments<F> a{.key = {.rows = row_arguments<F>(ring, plan.extended, pass.digits),
                               .digits = strided(pass.digits),
                               .key = strided(pass.key),
                               .key_limbs = primes_of(plan.key_limbs),
                               .count = static_cast<u32>(pass.digits.components)},
                       .kept = strided(pass.kept),
                       .turn = pass.turn,
                       .stay = static_cast<u32>(plan.down.out.size()),
                       .chain = static_cast<u32>(plan.chain.size())};
  static_assert(sizeof a <= 4096, "kernel arguments must fit a launch");
  a.key.rows.polynomials = strided(pass.divided);
  std::fill(std::begin(a.digit), std::end(a.digit), kNoDigit);
  if (pass.own) {
    a.own = strided(*pass.own);
    for (std::size_t j = 0; j < plan.digits.size(); ++j)
      std::fill_n(a.digit + plan.digits[j].first, plan.digits[j].count, static_cast<unsigned char>(j));
  }
  if (pass.add) {
    a.added = strided(*pass.add);
    a.added_components = static_cast<u32>(pass.add->components);
    std::transform(plan.weight.begin(), plan.weight.end(), a.weight, word);
  }
  const u32 groups = pass.own ? kKeyGroups : 2;
  const auto kernel = pass.own    ? pass.turn ? &switch_rows_kernel<F, false, true> : &switch_rows_kernel<F, false, false>
                         : pass.turn ? &switch_rows_kernel<F, true, true>
                                  : &switch_rows_kernel<F, true, false>;
  launch(q, pass.name, kernel, a.key.rows.grid.blocks(), kKeyGroups * kGroupThreads,
         groups * kGroupWords * sizeof(typename F::Value), a);
}

namespace {

template <class F, int P>
void divide_rows_of(Queue& q, const char* name, const CudaRing& ring, const PrimeList& primes, const View& rest,
                    const View& beside, const device::LimbConstants& own, const View& out) {
  constexpr u32 kRows = 8;  // rows that a block transforms
  static_assert(kRows * kRowThreads == RowBlocks<F, kRowBits, false>::kMostThreads);
  const u32 each = static_cast<u32>(std::min<std::size_t>(kRows, out.n / kRow));
  DivideArguments<F> a{
      .rows = ntt_arguments<F>(ring, primes, plain_source(rest), out, static_cast<u32>(out.n / kRow) / each, false),
      .beside = strided(beside)};
  static_assert(sizeof a <= 4096, "kernel arguments must fit a launch");
  a.rows.grid.components = Divisor((a.rows.polynomials + P - 1) / P);
  a.rows.grid.items = Divisor(1);
  std::transform(own.begin(), own.end(), a.own, [](u64 w) { return static_cast<typename F::Word>(w); });
  launch(q, name, &divide_rows_kernel<F, P>, a.rows.grid.blocks(), each * kRowThreads,
         each * RowShape::kWords * sizeof(typename F::Value), a);
}

}  // namespace

template <class F>
void divide_rows(Queue& q, const char* name, const CudaRing& ring, const PrimeList& primes, const View& rest,
                 const View& beside, const device::LimbConstants& own, const View& out) {
  many_rows(out, 2) ? divide_rows_of<F, 2>(q, name, ring, primes, rest, beside, own, out)
                    : divide_rows_of<F, 1>(q, name, ring, primes, rest, beside, own, out);
}

namespace {

/// Returns the table of a step's automorphism; null for the identity.
inline const u32* turn_of(const CudaRing& ring, const device::PermutationHandle& step) {
  return step ? own_beside<CudaPermutation>(ring, *step).table().as<u32>() : nullptr;
}

/// Finds the plaintexts of one giant step. `mask`: a bit for each baby step in [from, from + babies) that has a plaintext;
/// `first`: the number of the first one.
inline void find_terms(const std::vector<device::LinearPlan::Term>& terms, std::size_t giant, std::size_t from, u32 babies,
                       u32& mask, u32& first) {
  mask = first = 0;
  for (std::size_t t = 0; t < terms.size(); ++t) {
    const auto& term = terms[t];
    if (term.giant != giant || term.baby < from || term.baby >= from + babies) continue;
    if (mask == 0) first = static_cast<u32>(t);
    mask |= u32{1} << (term.baby - from);
  }
}

}  // namespace

namespace {

inline u32 sum_rows(const View& out) { return static_cast<u32>(std::min<std::size_t>(kSumRows, out.n / kRow)); }

/// Returns the arguments for a view `out` that has the limbs of the sums from `limb` on.
template <class F>
KeySumArguments<F> key_sum_arguments(const CudaRing& ring, const KeySums& s, const View& out, std::size_t limb,
                                     bool inverse) {
  const device::ApplyKeys& c = s.call;
  const device::KeySwitchPlan& k = *c.plan;
  const std::size_t count = s.digits.shape[0];
  KeySumArguments<F> a{.digits = strided(s.digits),
                       .added = strided(s.added),
                       .out = strided(out),
                       .grid = Grid(static_cast<u32>(out.n / kRow) / sum_rows(out), c.outs[0]),
                       .primes = primes_of(k.extended),
                       .key_limbs = primes_of(k.key_limbs),
                       .table = ring.primes().as<typename F::Prime>(),
                       .key_component = c.keys[0].component_stride,
                       .key_limb = c.keys[0].limb_stride};
  static_assert(kMostKeys >= device::kKeysAtOnce);
  a.grid.components = Divisor(static_cast<u32>(count)), a.grid.limbs = Divisor(static_cast<u32>(out.limbs));
  a.items = static_cast<u32>(c.outs[0].items()), a.count = static_cast<u32>(k.digits.size());
  a.chain = static_cast<u32>(k.chain.size()), a.limb = static_cast<u32>(limb), a.n = static_cast<u32>(out.n);
  a.added_components = c.added.empty() ? 0 : static_cast<u32>(s.added.components);
  a.twiddles = (inverse ? ring.inverse() : ring.forward()).template as<typename F::Constant>();
  std::transform(k.weight.begin(), k.weight.end(), a.weight, [](u64 w) { return static_cast<typename F::Word>(w); });
  for (std::size_t i = 0; i < count; ++i) {
    a.keys[i] = c.keys[s.first + i].template at<typename F::Word>(0, 0, 0);
    a.turns[i] = turn_of(ring, c.turns[s.first + i]);
  }
  return a;
}

}  // namespace

template <class F>
void divisor_sums(Queue& q, const CudaRing& ring, const KeySums& s, const View& out) {
  const u32 rows = sum_rows(out);
  const auto a = key_sum_arguments<F>(ring, s, out, s.call.plan->down.out.size(), true);
  static_assert(sizeof a <= 4096, "kernel arguments must fit a launch");
  launch(q, "apply_keys", &divisor_sums_kernel<F>, a.grid.blocks(), 2 * rows * kRowThreads,
         2 * rows * RowShape::kWords * sizeof(typename F::Value), a);
}

template <class F>
void divided_sums(Queue& q, const CudaRing& ring, const KeySums& s, const View& rest, const View& out) {
  const u32 rows = sum_rows(out);
  DividedSumArguments<F> a{.sums = key_sum_arguments<F>(ring, s, out, 0, false), .rest = strided(rest)};
  static_assert(sizeof a <= 4096, "kernel arguments must fit a launch");
  const auto& own = s.call.plan->down.own;
  std::transform(own.begin(), own.end(), a.own, [](u64 w) { return static_cast<typename F::Word>(w); });
  launch(q, "apply_keys", &divided_sums_kernel<F>, a.sums.grid.blocks(), 2 * rows * kRowThreads,
         2 * rows * RowShape::kWords * sizeof(typename F::Value), a);
}

template <class F>
void linear_babies(Queue& q, const CudaRing& ring, const device::BabySteps& c, std::size_t first, std::size_t count) {
  const std::size_t items = c.x.items();
  const View sums = c.sums.with_leading(first * items, count * items);
  View one_step = c.x;  // a view with the size of one giant step
  one_step.limbs = c.primes.size(), one_step.components = 1;
  BabyArguments<F> a{.digits = strided(c.digits),
                     .x = strided(c.x),
                     .plaintexts = strided(c.plaintexts),
                     .sums = strided(sums),
                     .grid = Grid(static_cast<u32>(c.x.n / kBabyThreads), one_step),
                     .primes = primes_of(c.primes),
                     .key_limbs = primes_of(c.key_limbs),
                     .table = ring.primes().as<typename F::Prime>()};
  static_assert(sizeof a <= 4096, "kernel arguments must fit a launch");
  a.giants = static_cast<u32>(count), a.items = static_cast<u32>(items);
  a.count = static_cast<u32>(c.digits.components), a.chain = static_cast<u32>(c.x.limbs);
  a.shift = run_shift(c.plaintexts, c.x.n);
  const device::LimbConstants& weight = c.weight;
  std::transform(weight.begin(), weight.end(), a.weight, [](u64 w) { return static_cast<typename F::Word>(w); });
  const device::In* key = c.keys.data();
  for (std::size_t from = 0; from < c.turns.size(); from += kMostBabies) {
    a.babies = static_cast<u32>(std::min<std::size_t>(kMostBabies, c.turns.size() - from)), a.more = from > 0;
    for (u32 b = 0; b < a.babies; ++b) {
      a.turns[b] = turn_of(ring, c.turns[from + b]);
      if (!a.turns[b]) continue;
      a.key_component = key->component_stride, a.key_limb = key->limb_stride;
      a.keys[b] = (key++)->template at<typename F::Word>(0, 0, 0);
    }
    for (u32 g = 0; g < a.giants; ++g) find_terms(c.terms, first + g, from, a.babies, a.mask[g], a.first[g]);
    const auto kernel = a.giants <= 4 ? &linear_babies_kernel<F, 4> : &linear_babies_kernel<F, kMostGiants>;
    launch(q, "baby_steps", kernel, a.grid.blocks(), kBabyThreads, 0, a);
  }
}

template <class F>
void linear_turned(Queue& q, const CudaRing& ring, const device::GiantSteps& c, std::size_t first, std::size_t count) {
  const std::size_t items = c.total.items();
  const auto of_steps = [&](const View& v) { return strided(v.with_leading(first * items, count * items)); };
  TurnedArguments<F> a{.digits = of_steps(c.digits),
                       .sums = of_steps(c.sums),
                       .total = strided(c.total),
                       .grid = Grid(static_cast<u32>(c.total.n / kBabyThreads), c.total),
                       .primes = primes_of(c.primes),
                       .key_limbs = primes_of(c.key_limbs),
                       .table = ring.primes().as<typename F::Prime>(),
                       .key_component = c.keys[0].component_stride,
                       .key_limb = c.keys[0].limb_stride};
  static_assert(sizeof a <= 4096, "kernel arguments must fit a launch");
  a.grid.components = Divisor(1);  // a thread holds both components
  a.giants = static_cast<u32>(count), a.items = static_cast<u32>(items), a.count = static_cast<u32>(c.digits.components);
  for (std::size_t g = 0; g < count; ++g) {
    a.keys[g] = c.keys[first + g].template at<typename F::Word>(0, 0, 0);
    a.turns[g] = turn_of(ring, c.turns[first + g]);
  }
  launch(q, "giant_steps", &linear_turned_kernel<F>, a.grid.blocks(), kBabyThreads, 0, a);
}

template <class F>
void linear_giants(Queue& q, const CudaRing& ring, const StepKeys& steps, const View& digits, const View& sums,
                   std::size_t first, std::size_t count, const View* added, const View& total) {
  const device::LinearPlan& plan = steps.plan;
  const device::KeySwitchPlan& k = *plan.key_switch;
  GiantArguments<F> a{.digits = strided(digits),
                      .sums = strided(sums),
                      .total = strided(total),
                      .added = strided(added ? *added : total),
                      .grid = Grid(static_cast<u32>(total.n / kRow / kBlockRows), total),
                      .primes = primes_of(k.extended),
                      .key_limbs = primes_of(k.key_limbs),
                      .table = ring.primes().as<typename F::Prime>(),
                      .forward = ring.forward().as<typename F::Constant>(),
                      .key_component = steps.keys->component_stride,
                      .key_limb = steps.keys->limb_stride};
  static_assert(sizeof a <= 4096, "kernel arguments must fit a launch");
  a.grid.components = Divisor(1);  // a block holds both components
  a.giants = static_cast<u32>(count), a.items = static_cast<u32>(total.items());
  a.count = static_cast<u32>(k.digits.size()), a.adds = added != nullptr, a.n = static_cast<u32>(total.n);
  for (std::size_t g = 0; g < count; ++g) {
    a.keys[g] = steps.keys[g].template at<typename F::Word>(0, 0, 0);
    a.turns[g] = turn_of(ring, plan.giants[first + g]);
  }
  launch(q, "linear_sum", &linear_giants_kernel<F>, a.grid.blocks(), kKeyGroups * kGroupThreads,
         kKeyGroups * kGroupWords * sizeof(typename F::Value), a);
}

#define HELIOGRAPH_INSTANTIATE(F)                                                                                       \
  template void forward_columns<F>(Queue&, const char*, const CudaRing&, const PrimeList&, const Source&, const View&); \
  template void inverse_columns<F>(Queue&, const char*, const CudaRing&, const PrimeList&, const View&, const View&);   \
  template void forward_rows<F>(Queue&, const char*, const CudaRing&, const PrimeList&, const View&);                   \
  template void inverse_rows<F>(Queue&, const char*, const CudaRing&, const PrimeList&, const View&, const View&);      \
  template void forward_ntt<F>(Queue&, const CudaRing&, const PrimeList&, const View&, const View&);                    \
  template void inverse_ntt<F>(Queue&, const char*, const CudaRing&, const PrimeList&, const View&, const View&);       \
  template void tensor_rows<F>(Queue&, const CudaRing&, const PrimeList&, const View&, bool);                           \
  template void key_rows<F>(Queue&, const char*, const CudaRing&, const PrimeList&, const View&, bool, const View&,     \
                            const PrimeList&, const View&);                                                             \
  template void switch_rows<F>(Queue&, const CudaRing&, const SwitchPass&);                                             \
  template void divide_rows<F>(Queue&, const char*, const CudaRing&, const PrimeList&, const View&, const View&,        \
                               const device::LimbConstants&, const View&);                                              \
  template void divisor_sums<F>(Queue&, const CudaRing&, const KeySums&, const View&);                                  \
  template void divided_sums<F>(Queue&, const CudaRing&, const KeySums&, const View&, const View&);                     \
  template void linear_babies<F>(Queue&, const CudaRing&, const device::BabySteps&, std::size_t, std::size_t);          \
  template void linear_turned<F>(Queue&, const CudaRing&, const device::GiantSteps&, std::size_t, std::size_t);         \
  template void linear_giants<F>(Queue&, const CudaRing&, const StepKeys&, const View&, const View&, std::size_t,       \
                                 std::size_t, const View*, const View&);

}  // namespace heliograph::backend::cuda
