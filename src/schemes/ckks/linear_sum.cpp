#include "schemes/ckks/linear_sum.h"

#include <algorithm>
#include <cmath>

#include "rlwe/transformed.h"
#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

namespace {

std::vector<u64> galois_of(const Context& c, const std::vector<std::int64_t>& rotations, std::size_t places) {
  std::vector<u64> elements;
  for (const std::int64_t r : rotations) elements.push_back(c.galois(r, places));
  return elements;
}

/// Noise and bounds of the sum before it is rescaled, where `r` is the operand's.
void describe(CiphertextData& r, const LinearSum& sum, double scale) {
  const Context& c = *sum.context;
  const auto& plan = *sum.plan;
  const double rounding = c.noise().rounding(), product = c.key_product_noise(sum.level);
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
  // Each giant step that turns divides its second component by P, rounded, and switches it.
  const double giants = static_cast<double>(device::LinearPlan::turning(plan.giants));
  if (giants > 0) r.noise = rlwe::log2_sum(r.noise, c.key_switch_noise(sum.level) + std::log2(giants));
  r.scale = x.scale * scale;
  r.ranges = x.ranges.map([&](const Range& a) {  // each place a sum of terms
    const double largest = a.peak * most;
    return Range{-largest, largest, largest, std::min(largest, a.rms * most), largest, a.word};
  });
}

/// Makes the plaintexts, of so many words a limb, and returns 0; or how many one of them takes, where that is more.
std::size_t encode(LinearSum& sum, const std::function<Values(std::size_t first, std::size_t count)>& values,
                   std::size_t words) {
  Context& c = *sum.context;
  ring::Engine& e = c.engine();
  const device::PrimeList& primes = sum.plan->key_switch->extended;
  const std::size_t count = sum.plan->terms.size(), n = c.spec().n;
  e.require_memory(checked_mul(count, c.rlwe().polynomial_bytes(primes.size()) / n * words), "the diagonals of this matrix");
  sum.plaintexts = RnsTensor(c.rlwe().engine(), {}, count, primes, Domain::ntt, ring::Secrecy::open, words);
  sum.bounds.clear(), sum.complex = false;
  const double scale = c.scale(sum.level);  // a rescaled product is then at the scale of the level below
  const std::size_t stretch = encoding_stretch(c, primes.size());
  for (std::size_t first = 0; first < count; first += stretch) {
    const std::size_t some = std::min(stretch, count - first);
    const Values part = values(first, some);
    check_values(c, part, sum.level, scale, sum.places);
    for (std::size_t i = 0; i < some; ++i) {
      double largest = 0x1p-60;
      for (std::size_t k = i * part.width; k < (i + 1) * part.width; ++k)
        largest = std::max(largest, std::abs(part.data[k]));
      sum.bounds.push_back(std::log2(largest));
    }
    sum.complex = sum.complex || part.complex;
    const std::vector<double> polynomials = rounded_polynomials(c, part, scale, 0, some);
    if (const std::size_t needed = distinct_words(polynomials, n); needed > words) return needed;
    const RnsTensor to = sum.plaintexts.with_components(first, some);
    if (words < n) {
      upload_transforms(c, polynomials, to);
      continue;
    }
    const RnsTensor coefficients = upload_polynomials(c, polynomials, primes, ring::Secrecy::open, true);
    e.enqueue(device::ForwardNtt{e.prepared(), primes, coefficients.view(), to.view()});
  }
  return 0;
}

}  // namespace

LinearSum make_linear_sum(Context& c, std::size_t level, std::size_t places, const std::vector<std::int64_t>& babies,
                          const std::vector<std::int64_t>& giants, std::vector<LinearTerm> terms,
                          const std::function<Values(std::size_t first, std::size_t count)>& values, const OwnKeys* own) {
  LinearSum sum{.context = &c, .level = level, .places = places, .rotations = babies};
  sum.rotations.insert(sum.rotations.end(), giants.begin(), giants.end());
  sum.own_keys = own != nullptr;
  auto key_switch =
      own ? c.rlwe().own_switch_plan(c.rlwe().chain(level), own->special, c.rlwe().chain(level - 1), own->primes)
          : c.rlwe().ntt_switch_plan(level, level - 1);
  auto mod_down = own ? key_switch->mod_down : c.rlwe().key_switch_plan(level)->mod_down;
  sum.plan = rlwe::linear_plan(c.rlwe(), std::move(key_switch), std::move(mod_down), galois_of(c, babies, places),
                               galois_of(c, giants, places), std::move(terms));
  for (std::size_t words = 1; words > 0;) words = encode(sum, values, words);
  return sum;
}

RnsTensor apply(const LinearSum& sum, const RnsTensor& x, const EvaluationKeys& keys, const Progress& progress) {
  std::vector<const rlwe::SwitchKey*> switch_keys;
  for (const std::int64_t r : sum.rotations) {
    if (r == 0) continue;
    const u64 galois = sum.context->galois(r, sum.places);
    switch_keys.push_back(sum.own_keys ? &keys.data().keys.bootstrapping->to_coefficients.at(galois)
                                       : &rotation_key(keys, galois, r));
  }
  return rlwe::linear_sum(x, sum.plan, switch_keys, sum.plaintexts, progress);
}

Ciphertext apply(const LinearSum& sum, const Ciphertext& a, const EvaluationKeys& keys, const Progress& progress) {
  const CiphertextData& x = a.data();
  Context& c = *sum.context;
  require_same(x, keys.data().context, keys.data().keys.id, "these evaluation keys");
  require<InternalError>(x.context.get() == sum.context && x.level == sum.level && a.degree() == 1,
                         "a linear sum's operand is of its parameters and level, and of degree one");
  const double scale = c.scale(sum.level);
  require_room(x, x.scale * scale);
  CiphertextData described = derived(x);
  describe(described, sum, scale);
  described.complex = x.complex || sum.complex;
  CiphertextData r = rescaled(described, 2, -1e9);
  r.noise = after_keys(r.noise, keys.data());
  r.tensor = apply(sum, x.tensor, keys, progress);
  return finish(std::move(r));
}

}  // namespace heliograph::ckks
