// Splits a tensor of several plaintext moduli, and joins the parts, without copies.
#include <algorithm>

#include "schemes/exact/derive.h"

namespace heliograph::exact {

Ciphertext take_moduli(const Ciphertext& a, Moduli moduli) {
  const CiphertextData& x = a.data();
  const std::size_t all = x.context->parts(), last = moduli.count ? moduli.first + moduli.count : all;
  if (moduli.first >= all || moduli.count > all || moduli.first < x.first_part || last > x.first_part + x.parts.size())
    throw ParameterError("this tensor does not hold plaintext moduli " + std::to_string(moduli.first + 1) + " to " +
                         std::to_string(last) + " of its set");
  const std::size_t first = moduli.first - x.first_part, count = last - moduli.first;
  const auto some = [&](const auto& list) {
    const auto begin = list.begin() + static_cast<std::ptrdiff_t>(first);
    return std::decay_t<decltype(list)>(begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  CiphertextData r = derived(x);
  r.first_part = moduli.first;
  r.parts = some(x.parts);
  r.noise = some(x.noise);
  r.factors = some(x.factors);
  r.tails = some(x.tails);
  r.fresh = x.fresh, r.bounds = x.bounds;
  if (!x.seeds.empty()) r.seeds = some(x.seeds);
  return finish(std::move(r));
}

Ciphertext join_moduli(const std::vector<Ciphertext>& parts) {
  require<MismatchError>(!parts.empty(), "join_moduli needs at least one tensor");
  const CiphertextData& lead = parts.front().data();
  std::size_t level = parts.front().level();
  Domain domain = lead.front().domain();
  bool seeded = true;
  for (const Ciphertext& p : parts) {
    require_same(p.data(), lead.context, lead.key, "the other tensor");
    require<MismatchError>(p.packing() == lead.packing, "one tensor packs slots, another coefficients");
    require<ShapeError>(p.shape() == lead.shape(), "tensors to join must have one shape");
    require<MismatchError>(p.degree() == lead.degree(), "tensors to join must have one degree: relinearize all or none");
    level = std::min(level, p.level());
    if (p.data().front().domain() != domain) domain = lead.context->rules().home();
    seeded = seeded && p.seeded();
  }
  CiphertextData r = derived(lead);
  r.noise.clear(), r.factors.clear(), r.tails.clear();
  r.fresh = true, r.bounds = lead.bounds;  // all parts hold the same integers, so the bounds of the first part apply to all
  for (const Ciphertext& p : parts) r.width = std::max(r.width, p.slots());
  for (const Ciphertext& p : parts) {
    const Ciphertext low = switch_level(p, level);
    const CiphertextData& x = low.data();
    if (x.first_part != r.first_part + r.parts.size())
      throw MismatchError("tensors to join must hold adjacent plaintext moduli, in order: number " +
                          std::to_string(x.first_part + 1) + " does not follow number " +
                          std::to_string(r.first_part + r.parts.size()));
    for (const RnsTensor& part : x.parts) r.parts.push_back(ring::to_domain(part, domain));
    r.noise.insert(r.noise.end(), x.noise.begin(), x.noise.end());
    r.factors.insert(r.factors.end(), x.factors.begin(), x.factors.end());
    if (seeded) r.seeds.insert(r.seeds.end(), x.seeds.begin(), x.seeds.end());
    for (const Tail& tail : x.tails) r.tails.push_back(x.width == r.width ? tail : Tail::unknown());
    r.fresh = r.fresh && x.fresh;
    r.vouched = r.vouched && x.vouched;
    r.independent = r.independent && x.independent;
    r.distinct = r.distinct && x.distinct;
    r.bounds = Bounds::larger(r.bounds, x.bounds, r.context->most());
  }
  return finish(std::move(r));
}

}  // namespace heliograph::exact
