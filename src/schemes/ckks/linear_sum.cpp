#include "schemes/ckks/linear_sum.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/progress.h"
#include "rlwe/transformed.h"
#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

namespace {

std::vector<u64> galois_of(const Context& c, const std::vector<std::int64_t>& rotations, std::size_t places) {
  std::vector<u64> elements;
  for (const std::int64_t r : rotations) elements.push_back(c.galois(r, places));
  return elements;
}

/// Computes noise and bounds of the sum before rescaling. On entry `r` has the properties of the operand.
void describe(CiphertextData& r, const LinearSum& sum, double scale, std::size_t key_level) {
  const Context& c = *sum.context;
  const auto& plan = *sum.plan;
  const double rounding = c.noise().rounding(), product = c.key_product_noise(sum.level, key_level);
  const rlwe::Figure values = r.peak() + std::log2(r.scale), turned = rlwe::log2_sum(r.noise, product);
  const CiphertextData x = r;
  r.noise = -1e9;
  double most = 0;
  for (std::size_t t = 0; t < plan.terms.size(); ++t) {
    const double norm = rlwe::log2_sum(sum.bounds[t] + std::log2(scale), rounding);
    const rlwe::Figure& noise = plan.babies[plan.terms[t].baby] ? turned : x.noise;
    r.noise = rlwe::log2_sum(r.noise, rlwe::log2_sum(noise + norm, values + rounding));
    most += std::exp2(sum.bounds[t]);
  }
  // A giant step that rotates divides the second component by P, with rounding, and switches its key.
  const double giants = static_cast<double>(device::LinearPlan::turning(plan.giants));
  if (giants > 0) r.noise = rlwe::log2_sum(r.noise, c.key_switch_noise(sum.level, key_level) + std::log2(giants));
  r.scale = x.scale * scale;
  r.ranges = x.ranges.map([&](const Range& a) {  // each slot is a sum of as many values as there are terms
    const double largest = a.peak * most;
    return Range{-largest, largest, largest, std::min(largest, a.rms * most), largest, a.declared};
  });
}

/// Terms that repeat are encoded in runs of this many times as many, because they take less memory on the host.
constexpr std::size_t kRepeatedStretch = 16;

/// Form of encoded terms: words per limb, or coefficients modulo the first `few` primes.
struct TermForm {
  std::size_t words = 1, few = 0;
};

double log2_of(const Context& c, const device::PrimeList& primes) { return rlwe::log2_product(c.rlwe().moduli(primes)); }

device::PrimeList first_of(const device::PrimeList& primes, std::size_t count) {
  return device::PrimeList(primes.begin(), count);
}

/// Returns the number of primes whose product is at least four times a coefficient, so that conversions are exact.
std::size_t primes_for(const Context& c, const device::PrimeList& primes, double largest) {
  std::size_t few = 1;
  while (few < primes.size() && log2_of(c, first_of(primes, few)) < std::log2(std::max(1.0, largest)) + 2) ++few;
  return few;
}

/// Extends coefficients from a few primes, whose product exceeds four times each coefficient, to `primes`, and transforms.
void transform(Context& c, const RnsTensor& coefficients, const device::PrimeList& primes, const device::View& out) {
  ring::Engine& e = c.engine();
  const std::size_t few = coefficients.primes().size(), rest = primes.size() - few;
  e.enqueue(device::Copy{coefficients.view(), out.with_limbs(0, few)});
  if (rest > 0) {
    const device::PrimeList others(primes.begin() + few, rest);
    e.enqueue(device::Convert{c.rlwe().extension(coefficients.primes(), others), coefficients.view(), std::nullopt,
                              out.with_limbs(few, rest)});
  }
  e.enqueue(device::ForwardNtt{e.prepared(), primes, out, out});
}

/// Encodes terms in a form. If a term does not fit the form, returns the form that it needs.
std::optional<TermForm> encode_in(Context& c, std::size_t level, std::size_t places, const device::PrimeList& primes,
                                  const std::function<Values(std::size_t first, std::size_t count)>& values,
                                  std::size_t count, bool store, bool repeats, const TermForm& form, EncodedTerms& terms) {
  ring::Engine& e = c.engine();
  const std::size_t n = c.spec().n, words = form.words;
  terms.stored = form.few > 0;
  const device::PrimeList kept = terms.stored ? first_of(primes, form.few) : primes;
  e.require_memory(checked_mul(count, c.rlwe().polynomial_bytes(kept.size()) / n * words), "the diagonals of this matrix");
  terms.words = RnsTensor(c.rlwe().engine(), {}, count, kept, terms.stored ? Domain::coefficient : Domain::ntt,
                          ring::Secrecy::open, words);
  terms.bounds.clear(), terms.complex = false;
  const double scale = c.scale(level);  // the rescaled product then has the scale of the level below
  const std::size_t stretch = encoding_stretch(c, primes.size()) * (repeats ? kRepeatedStretch : 1);
  for (std::size_t first = 0; first < count; first += stretch) {
    const std::size_t some = std::min(stretch, count - first);
    const Values part = values(first, some);
    check_values(c, part, level, scale, places);
    for (std::size_t i = 0; i < some; ++i) {
      double largest = 0x1p-60;
      for (std::size_t k = i * part.width; k < (i + 1) * part.width; ++k)
        largest = std::max(largest, std::abs(part.data[k]));
      terms.bounds.push_back(std::log2(largest));
    }
    terms.complex = terms.complex || part.complex;
    const std::vector<double> polynomials =
        repeats ? repeated_polynomials(part, scale) : rounded_polynomials(c, part, scale, 0, some);
    const std::size_t size = polynomials.size() / some;
    if (const std::size_t needed = distinct_words(polynomials, size); needed > words) {
      const bool smaller = store && checked_mul(needed, primes.size()) > 2 * n;  // most coefficients fit one or two primes
      return smaller ? TermForm{n, 1} : TermForm{needed, 0};
    }
    const RnsTensor to = terms.words.with_components(first, some);
    if (words < n) {
      upload_transforms(c, polynomials, size, to);
      continue;
    }
    double largest = 0;
    for (const double v : polynomials) largest = std::max(largest, std::abs(v));
    const std::size_t few = primes_for(c, primes, largest);
    if (terms.stored && few > form.few) return TermForm{n, few < primes.size() ? few : 0};
    // The host computes residues modulo a few primes only, which determine the others.
    const RnsTensor coefficients =
        upload_polynomials(c, polynomials, terms.stored ? kept : first_of(primes, few), ring::Secrecy::open, true);
    if (terms.stored)
      e.enqueue(device::Copy{coefficients.view(), to.view()});
    else
      transform(c, coefficients, primes, to.view());
  }
  return {};
}

}  // namespace

EncodedTerms encode_terms(Context& c, std::size_t level, std::size_t places, const device::PrimeList& primes,
                          std::size_t count, const std::function<Values(std::size_t first, std::size_t count)>& values,
                          bool store, bool repeats) {
  EncodedTerms terms;
  for (std::optional<TermForm> form = TermForm{}; form;)
    form = encode_in(c, level, places, primes, values, count, store, repeats, *form, terms);
  return terms;
}

RnsTensor transformed_terms(Context& c, const EncodedTerms& terms, const device::PrimeList& primes, std::size_t first,
                            std::size_t count) {
  const RnsTensor some = terms.words.with_components(first, count);
  if (!terms.stored) return some.with_limbs(0, primes.size());
  const RnsTensor out(c.rlwe().engine(), {}, count, primes, Domain::ntt);
  transform(c, some, primes, out.view());
  return out;
}

LinearSum make_linear_sum(Context& c, std::size_t level, std::size_t places, const std::vector<std::int64_t>& babies,
                          const std::vector<std::int64_t>& giants, std::vector<LinearTerm> terms,
                          const std::function<Values(std::size_t first, std::size_t count)>& values, const OwnKeys* own,
                          bool repeats) {
  LinearSum sum{.context = &c, .level = level, .places = places, .rotations = babies};
  sum.rotations.insert(sum.rotations.end(), giants.begin(), giants.end());
  sum.own_keys = own != nullptr;
  auto key_switch =
      own ? c.rlwe().own_switch_plan(c.rlwe().chain(level), own->special, c.rlwe().chain(level - 1), own->primes)
          : c.rlwe().ntt_switch_plan(level, level - 1);
  auto mod_down = own ? key_switch->mod_down : c.rlwe().key_switch_plan(level)->mod_down;
  sum.plan = rlwe::linear_plan(c.rlwe(), std::move(key_switch), std::move(mod_down), galois_of(c, babies, places),
                               galois_of(c, giants, places), std::move(terms));
  EncodedTerms encoded =
      encode_terms(c, level, places, sum.plan->key_switch->extended, sum.plan->terms.size(), values, false, repeats);
  sum.plaintexts = std::move(encoded.words), sum.bounds = std::move(encoded.bounds), sum.complex = encoded.complex;
  return sum;
}

namespace {

/// Returns the level for which the keys of a sum were made; 0: usual keys, or the sum's own.
std::size_t key_level_of(const LinearSum& sum, const EvaluationKeys& keys) {
  if (sum.own_keys || keys.data().keys.level_rotations.empty()) return 0;
  return key_level_of(keys, galois_of(*sum.context, sum.rotations, sum.places), sum.level);
}

std::shared_ptr<const device::LinearPlan> plan_for(const LinearSum& sum, std::size_t key_level) {
  if (key_level == 0) return sum.plan;
  const std::lock_guard lock(sum.level_plans->mutex);
  auto& plan = sum.level_plans->plans[key_level];
  if (!plan) {
    auto made = std::make_shared<device::LinearPlan>(*sum.plan);
    made->key_switch = sum.context->switch_plan(key_level, sum.level, sum.level - 1);
    made->mod_down = sum.context->mod_down(key_level, sum.level);
    plan = std::move(made);
  }
  return plan;
}

}  // namespace

RnsTensor apply(const LinearSum& sum, const RnsTensor& x, const EvaluationKeys& keys) {
  const std::size_t key_level = key_level_of(sum, keys);
  std::vector<const rlwe::SwitchKey*> switch_keys;
  for (const std::int64_t r : sum.rotations) {
    if (r == 0) continue;
    const u64 galois = sum.context->galois(r, sum.places);
    switch_keys.push_back(sum.own_keys ? &keys.data().keys.bootstrapping->to_coefficients.at(galois)
                                       : &rotation_key(keys, galois, r, key_level, sum.level));
  }
  const auto plan = plan_for(sum, key_level);
  // Keys for a level have the first of the special primes; plaintexts have all of them.
  return rlwe::linear_sum(x, plan, switch_keys, sum.plaintexts.with_limbs(0, plan->key_switch->extended.size()));
}

namespace {

/// Returns the metadata of the rescaled sum.
CiphertextData described(const LinearSum& sum, const CiphertextData& x, const EvaluationKeys& keys) {
  CiphertextData r = derived(x);
  describe(r, sum, sum.context->scale(sum.level), key_level_of(sum, keys));
  r.complex = x.complex || sum.complex;
  r = rescaled(r, 2, -1e9);
  r.noise = after_keys(r.noise, keys.data());
  return r;
}

/// Terms of a sum whose steps have keys. The terms apply to the operand rotated by `before`; the terms' sum is rotated by
/// `after`.
struct Part {
  std::int64_t before = 0, after = 0;
  std::vector<std::size_t> terms;            // indices of terms of the whole sum
  std::vector<std::int64_t> babies, giants;  // steps of each term
};

/// A step, written as the sum of a step that has a key and the remaining steps. The remaining steps of a baby step are
/// applied before it, the remaining steps of a giant step after it.
struct Split {
  std::int64_t key = 0, rest = 0;
};

/// Returns the parts of a sum, in ascending order of `after`; empty if every step has a key. Throws MissingKeyError.
std::vector<Part> parts_of(const LinearSum& sum, const EvaluationKeys& keys) {
  const Context& c = *sum.context;
  const auto period = static_cast<std::int64_t>(c.period());
  const auto has_key = [&](std::int64_t r) {
    return r == 0 || keys.data().keys.rotations.contains(c.galois(r, sum.places));
  };
  const bool composes =
      keys.data().most_switches > 1 && !sum.own_keys && sum.places == c.period() && key_level_of(sum, keys) == 0;
  if (!composes || std::all_of(sum.rotations.begin(), sum.rotations.end(), has_key)) return {};
  const std::size_t babies = sum.plan->babies.size();
  std::vector<Split> splits;
  for (std::size_t i = 0; i < sum.rotations.size(); ++i) {
    const std::int64_t r = sum.rotations[i];
    if (has_key(r)) {
      splits.push_back({r, 0});
      continue;
    }
    const std::vector<std::int64_t> steps = schemes::composition_of(keys, r);
    const std::int64_t key = i < babies ? steps.back() : steps.front();
    splits.push_back({key, ((r - key) % period + period) % period});
  }
  std::map<std::pair<std::int64_t, std::int64_t>, Part> parts;
  for (std::size_t t = 0; t < sum.plan->terms.size(); ++t) {
    const Split &baby = splits[sum.plan->terms[t].baby], &giant = splits[babies + sum.plan->terms[t].giant];
    Part& part = parts[{giant.rest, baby.rest}];
    part.before = baby.rest, part.after = giant.rest;
    part.terms.push_back(t), part.babies.push_back(baby.key), part.giants.push_back(giant.key);
  }
  std::vector<Part> list;
  for (auto& [rests, part] : parts) list.push_back(std::move(part));
  return list;
}

LinearSum taken(const LinearSum& sum, const Part& part) {
  Context& c = *sum.context;
  const std::set<std::int64_t> babies(part.babies.begin(), part.babies.end());
  const std::set<std::int64_t> giants(part.giants.begin(), part.giants.end());
  const auto place_in = [](const std::set<std::int64_t>& all, std::int64_t step) {
    return static_cast<math::u32>(std::distance(all.begin(), all.find(step)));
  };
  std::map<std::pair<math::u32, math::u32>, std::size_t> ordered;  // term of each pair (giant step, baby step)
  for (std::size_t i = 0; i < part.terms.size(); ++i)
    ordered[{place_in(giants, part.giants[i]), place_in(babies, part.babies[i])}] = part.terms[i];
  LinearSum some{.context = &c, .level = sum.level, .places = sum.places, .rotations = {babies.begin(), babies.end()}};
  some.rotations.insert(some.rotations.end(), giants.begin(), giants.end());
  some.complex = sum.complex;
  some.plaintexts = RnsTensor(sum.plaintexts.engine(), {}, ordered.size(), sum.plaintexts.primes(), Domain::ntt,
                              ring::Secrecy::open, sum.plaintexts.view().n);
  std::vector<LinearTerm> terms;
  device::Gather gather;
  for (const auto& [place, t] : ordered) {
    gather.pieces.push_back(
        {sum.plaintexts.with_components(t, 1).view(), some.plaintexts.with_components(terms.size(), 1).view()});
    terms.push_back({place.first, place.second});
    some.bounds.push_back(sum.bounds[t]);
  }
  c.engine().enqueue(gather);
  some.plan = rlwe::linear_plan(c.rlwe(), sum.plan->key_switch, sum.plan->mod_down,
                                galois_of(c, {babies.begin(), babies.end()}, sum.places),
                                galois_of(c, {giants.begin(), giants.end()}, sum.places), std::move(terms));
  return some;
}

void accumulate(std::optional<CiphertextData>& a, CiphertextData b) {
  if (!a) {
    a = std::move(b);
    return;
  }
  a->tensor = ring::add(a->tensor, b.tensor);
  a->noise = rlwe::log2_sum(a->noise, b.noise);
}

/// Computes the sum from its parts. The operand's composed rotations come first, each from a previous one. The rotations
/// after giant steps follow, one level down.
CiphertextData composed(const LinearSum& sum, const std::vector<Part>& parts, const Ciphertext& a,
                        const EvaluationKeys& keys) {
  const Context& c = *sum.context;
  std::vector<std::int64_t> before;
  for (const Part& part : parts)
    if (part.before != 0) before.push_back(part.before);
  std::sort(before.begin(), before.end());
  before.erase(std::unique(before.begin(), before.end()), before.end());
  ProgressSteps steps(parts.size());
  CiphertextData rotated;
  if (!before.empty()) rotated = turned(a, galois_of(c, before, sum.places), before, keys, true);
  std::optional<CiphertextData> total, group;  // sum of all parts; sum of the parts with the same later rotation
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    CiphertextData x = a.data();
    if (part.before != 0) {
      const auto at = static_cast<std::size_t>(std::lower_bound(before.begin(), before.end(), part.before) - before.begin());
      x.tensor = rotated.tensor.drop_axis(0, at), x.noise = rotated.noise;
    }
    const LinearSum some = taken(sum, part);
    CiphertextData made = described(some, x, keys);
    made.tensor = apply(some, x.tensor, keys);
    accumulate(group, std::move(made));
    if (i + 1 < parts.size() && parts[i + 1].after == part.after) continue;
    if (part.after != 0) {
      const Ciphertext whole = finish(std::move(*group));
      group = turned(whole, {c.galois(part.after, sum.places)}, {part.after}, keys, false);
    }
    accumulate(total, std::move(*group));
    group.reset();
    steps.add_until(i + 1);
  }
  return std::move(*total);
}

}  // namespace

Ciphertext apply(const LinearSum& sum, const Ciphertext& a, const EvaluationKeys& keys) {
  const CiphertextData& x = a.data();
  require_same(x, keys.data().context, keys.data().keys.id, "these evaluation keys");
  require<InternalError>(x.context.get() == sum.context && x.level == sum.level && a.degree() == 1,
                         "the operand of a linear sum must have its parameters and level, and degree one");
  require_room(x, x.scale * sum.context->scale(sum.level));
  CiphertextData r = described(sum, x, keys);
  if (const std::vector<Part> parts = parts_of(sum, keys); !parts.empty()) {
    const CiphertextData made = composed(sum, parts, a, keys);
    r.tensor = made.tensor, r.noise = made.noise;
  } else {
    r.tensor = apply(sum, x.tensor, keys);
  }
  return finish(std::move(r));
}

}  // namespace heliograph::ckks
