// Element-wise arithmetic, products, key switching, levels.
#include <algorithm>
#include <cmath>

#include "schemes/bfv/derive.h"
#include "schemes/bfv/encode.h"

namespace heliograph::bfv {

CiphertextData derived(const CiphertextData& a) {
  CiphertextData r;
  r.context = a.context, r.key = a.key, r.packing = a.packing, r.width = a.width;
  r.noise = a.noise, r.independent = a.independent, r.distinct = a.distinct, r.first_part = a.first_part;
  return r;
}

Ciphertext finish(CiphertextData data) { return Ciphertext(std::make_shared<const CiphertextData>(std::move(data))); }

namespace {

/// Both at the lower of the two levels, of one set, key and packing.
std::pair<Ciphertext, Ciphertext> aligned(const Ciphertext& a, const Ciphertext& b) {
  require_same(b.data(), a.data().context, a.data().key, "the other operand");
  require<MismatchError>(a.packing() == b.packing(), "one operand packs slots, the other coefficients");
  require_same_moduli(a.data(), b.data());
  const std::size_t level = std::min(a.level(), b.level());
  return {switch_level(a, level), switch_level(b, level)};
}

CiphertextData derived(const CiphertextData& a, const CiphertextData& b) {
  CiphertextData r = derived(a);
  r.width = std::max(a.width, b.width);
  for (std::size_t i = 0; i < r.noise.size(); ++i) r.noise[i] = rlwe::log2_sum(a.noise[i], b.noise[i]);
  r.independent = false;
  r.distinct = a.distinct && b.distinct && a.shape() == b.shape();
  return r;
}

template <class Op>
Ciphertext combine(const Ciphertext& x, const Ciphertext& y, Op op) {
  const auto [a, b] = aligned(x, y);
  CiphertextData r = derived(a.data(), b.data());
  for (std::size_t part = 0; part < r.noise.size(); ++part) {
    const RnsTensor &p = a.data().parts[part], &q = b.data().parts[part];
    // A mixed pair meets in the coefficient domain, where BFV multiplies.
    const Domain domain = p.domain() == q.domain() ? p.domain() : Domain::coefficient;
    r.parts.push_back(op(ring::to_domain(p, domain), ring::to_domain(q, domain)));
  }
  return finish(std::move(r));
}

const EvaluationKeys& need_keys(const EvaluationKeys* keys) {
  if (!keys)
    throw MissingKeyError("a degree-two ciphertext must be relinearized here, and there are no evaluation keys at hand");
  return *keys;
}

Ciphertext of_degree_one(const Ciphertext& a, const EvaluationKeys* keys, const Progress& progress) {
  return a.degree() > 1 ? relinearize(a, need_keys(keys), progress) : a;
}

}  // namespace

Ciphertext add(const Ciphertext& a, const Ciphertext& b) { return combine(a, b, ring::add); }
Ciphertext subtract(const Ciphertext& a, const Ciphertext& b) { return combine(a, b, ring::subtract); }

Ciphertext negate(const Ciphertext& a) {
  CiphertextData r = derived(a.data());
  for (const RnsTensor& part : a.data().parts) r.parts.push_back(ring::negate(part));
  return finish(std::move(r));
}

Ciphertext multiply(const Ciphertext& x, const Ciphertext& y, const EvaluationKeys* keys, const Progress& progress) {
  const bool same = &x.data() == &y.data();
  const Ciphertext dx = of_degree_one(x, keys, {}), dy = same ? dx : of_degree_one(y, keys, {});
  const auto [a, b] = same ? std::pair{dx, dx} : aligned(dx, dy);
  Context& c = *a.data().context;
  ring::Engine& e = c.engine();
  const Shape shape = ring::broadcast_shapes(a.shape(), b.shape());
  CiphertextData r = derived(a.data(), b.data());
  r.independent = r.distinct;  // each product's noise meets a ciphertext of its own
  for (std::size_t part = 0; part < a.data().parts.size(); ++part) {
    const std::size_t modulus = r.first_part + part;
    r.noise[part] = c.multiply_noise(a.data().noise[part], b.data().noise[part], modulus);
    const device::MultiplyPlan& plan = c.multiply_plan(a.level(), modulus);
    const RnsTensor p = ring::to_domain(a.data().parts[part], Domain::coefficient).broadcast_to(shape);
    const RnsTensor q = same ? p : ring::to_domain(b.data().parts[part], Domain::coefficient).broadcast_to(shape);
    RnsTensor out(c.rlwe().engine(), shape, 3, p.primes(), Domain::coefficient);
    ring::for_stretches(
        e, {out.view(), p.view(), q.view()},
        [&](std::size_t items) { return device::Kernels::bfv_multiply_workspace(plan, items, 2, 2); }, progress,
        [&](const std::vector<device::View>& v, device::Workspace w) {
          e.kernels().bfv_multiply(e.queue(), plan, v[1], v[2], v[0], w);
        });
    r.parts.push_back(out);
  }
  return finish(std::move(r));
}

Ciphertext square(const Ciphertext& a, const EvaluationKeys* keys, const Progress& progress) {
  return multiply(a, a, keys, progress);
}

namespace {

/// One key switch of component `from` of every item; components 0..from-1 are added.
RnsTensor switch_component(Context& c, const RnsTensor& x, const rlwe::SwitchKey& key, const Progress& progress) {
  ring::Engine& e = c.engine();
  const device::KeySwitchPlan& plan = c.rlwe().key_switch_plan(x.primes().size());
  const RnsTensor pairs = key.pairs();  // held before the memory below is asked for, which may evict other keys
  const std::size_t last = x.components() - 1;
  RnsTensor out(c.rlwe().engine(), x.shape(), 2, x.primes(), Domain::coefficient);
  ring::for_stretches(
      e, {out.view(), x.view()}, [&](std::size_t items) { return device::Kernels::key_switch_workspace(plan, items); },
      progress,
      [&](const std::vector<device::View>& v, device::Workspace w) {
        const device::View rest = v[1].with_components(0, last);
        e.kernels().key_switch(e.queue(), plan, v[1].with_components(last, 1), pairs.view(), &rest, v[0], w);
      });
  return out;
}

}  // namespace

Ciphertext relinearize(const Ciphertext& a, const EvaluationKeys& keys, const Progress& progress) {
  require_same(a.data(), keys.data().context, keys.data().keys.id, "these evaluation keys");
  if (a.degree() == 1) return a;
  if (!keys.has_relinearization())
    throw MissingKeyError("these evaluation keys have no relinearization key (make them with relinearize=True)");
  Context& c = *a.data().context;
  CiphertextData r = derived(a.data());
  for (std::size_t part = 0; part < a.data().parts.size(); ++part) {
    const RnsTensor x = ring::to_domain(a.data().parts[part], Domain::coefficient);
    r.parts.push_back(switch_component(c, x, *keys.data().keys.relinearization, progress));
    r.noise[part] = rlwe::log2_sum(r.noise[part], c.key_switch_noise(a.level()));
  }
  return finish(std::move(r));
}

namespace {

const rlwe::SwitchKey& rotation_key(const EvaluationKeys& keys, u64 galois, std::int64_t steps) {
  const auto& have = keys.data().keys.rotations;
  const auto found = have.find(galois);
  if (found != have.end()) return found->second;
  if (galois == keys.data().context->column_galois())
    throw MissingKeyError("the column rotation is not among the keys (make them with columns=True)");
  std::string list;
  for (std::int64_t k : keys.rotations()) list += (list.empty() ? "" : ", ") + std::to_string(k);
  throw MissingKeyError("rotation " + std::to_string(steps) + " is not among the keys; they have " +
                        (list.empty() ? "none" : list));
}

/// Applies automorphisms to every item, one result for each, from one decomposition; galois 1 copies.
std::vector<RnsTensor> apply_automorphisms(Context& c, const RnsTensor& x, const std::vector<u64>& galois,
                                           const std::vector<const rlwe::SwitchKey*>& keys, const Progress& progress) {
  ring::Engine& e = c.engine();
  auto& k = e.kernels();
  const device::KeySwitchPlan& plan = c.rlwe().key_switch_plan(x.primes().size());
  std::vector<RnsTensor> out;
  std::vector<device::View> views = {x.view()};
  for (std::size_t i = 0; i < galois.size(); ++i) {
    out.emplace_back(c.rlwe().engine(), x.shape(), 2, x.primes(), Domain::coefficient);
    views.push_back(out.back().view());
  }
  const std::size_t digits = plan.digits.size(), n = c.spec().n, all = std::max<std::size_t>(1, x.items());
  const auto word = c.rlwe().parameters().word;
  const std::size_t each = 2 * device::Workspace::bytes(word, 1, digits, plan.extended.size(), n) +
                           device::Workspace::bytes(word, 1, 1, plan.chain.size(), n) +
                           device::Kernels::apply_key_workspace(plan, 1);
  const std::size_t preferred = k.brings_scratch() ? all : std::min(k.preferred_items(each), all);
  const RnsTensor raised(c.rlwe().engine(), {preferred}, digits, plan.extended, Domain::ntt);
  const RnsTensor turned(c.rlwe().engine(), {preferred}, digits, plan.extended, Domain::ntt);
  const RnsTensor body(c.rlwe().engine(), {preferred}, 1, plan.chain, Domain::coefficient);
  const std::size_t scratch = k.brings_scratch() ? 0 : device::Kernels::apply_key_workspace(plan, preferred);
  const device::Buffer workspace = scratch ? e.allocate(scratch) : nullptr;
  device::for_chunks(views, preferred, progress, [&](const std::vector<device::View>& v) {
    const auto first = [&](const RnsTensor& t) { return t.view().with_leading(0, v[0].items()); };
    const device::View up = first(raised), over = first(turned), rest = first(body);
    k.decompose(e.queue(), plan, v[0].with_components(1, 1), up, device::Workspace(nullptr, 0));
    for (std::size_t i = 0; i < galois.size(); ++i) {
      if (galois[i] == 1) {
        k.copy(e.queue(), v[0], v[i + 1]);
        continue;
      }
      k.permute(e.queue(), e.prepared(), plan.extended, e.automorphism(galois[i], Domain::ntt), up, over);
      k.permute(e.queue(), e.prepared(), plan.chain, e.automorphism(galois[i], Domain::coefficient),
                v[0].with_components(0, 1), rest);
      // One key at a time is held: together they may be more than the device has room for.
      const RnsTensor pairs = keys[i]->pairs();
      k.apply_key(e.queue(), plan, over, pairs.view(), &rest, v[i + 1],
                  device::Workspace(workspace ? workspace->address() : nullptr, scratch));
    }
  });
  return out;
}

Ciphertext rotate(const Ciphertext& x, const std::vector<u64>& galois, const std::vector<std::int64_t>& steps,
                  const EvaluationKeys& keys, bool stack, const Progress& progress) {
  require_same(x.data(), keys.data().context, keys.data().keys.id, "these evaluation keys");
  Context& c = *x.data().context;
  require_packing(c, Packing::slots);
  require<SlotsError>(x.packing() == Packing::slots, "this tensor packs coefficients: it has no slots to rotate");
  std::vector<const rlwe::SwitchKey*> switch_keys;
  for (std::size_t i = 0; i < galois.size(); ++i)
    switch_keys.push_back(galois[i] == 1 ? nullptr : &rotation_key(keys, galois[i], steps[i]));
  const Ciphertext a = of_degree_one(x, &keys, {});
  CiphertextData r = derived(a.data());
  r.width = c.spec().n;  // values move into slots that were padding
  r.independent = r.distinct = false;
  Shape one = a.shape();
  one.insert(one.begin(), 1);
  for (std::size_t part = 0; part < a.data().parts.size(); ++part) {
    const RnsTensor p = ring::to_domain(a.data().parts[part], Domain::coefficient);
    std::vector<RnsTensor> turned = apply_automorphisms(c, p, galois, switch_keys, progress);
    if (stack) {
      for (RnsTensor& t : turned) t = t.reshape(one);
      r.parts.push_back(turned.size() == 1 ? turned[0] : ring::concatenate(turned, 0));
    } else {
      r.parts.push_back(turned[0]);
    }
    r.noise[part] = rlwe::log2_sum(r.noise[part], c.key_switch_noise(a.level()));
  }
  return finish(std::move(r));
}

}  // namespace

Ciphertext rotate_rows(const Ciphertext& a, const std::vector<std::int64_t>& steps, const EvaluationKeys& keys,
                       const Progress& progress) {
  require<ShapeError>(!steps.empty(), "no steps to rotate by");
  std::vector<u64> galois;
  for (std::int64_t s : steps) galois.push_back(a.data().context->row_galois(s));
  return rotate(a, galois, steps, keys, true, progress);
}

Ciphertext rotate_columns(const Ciphertext& a, const EvaluationKeys& keys, const Progress& progress) {
  return rotate(a, {a.data().context->column_galois()}, {0}, keys, false, progress);
}

Ciphertext switch_level(const Ciphertext& a, std::size_t level) {
  const CiphertextData& x = a.data();
  Context& c = *x.context;
  const auto noise_at = [&](std::size_t to, std::size_t part) {
    return rlwe::log2_sum(x.noise[part] + c.log_modulus(to) - c.log_modulus(x.level()),
                          c.noise().rounding_times_secret(x.degree() + 1));
  };
  if (level == 0) {  // the fewest primes that leave two bits by the estimate
    const auto enough = [&](std::size_t to) {
      for (std::size_t part = 0; part < x.parts.size(); ++part) {
        if (c.noise_limit(to, x.first_part + part) - noise_at(to, part) < 2) return false;
      }
      return true;
    };
    for (level = 1; level < x.level() && !enough(level);) ++level;
  }
  if (level == x.level()) return a;
  if (level < 1 || level > x.level()) {
    throw LevelError("this ciphertext has " + std::to_string(x.level()) + " primes left; it cannot go to " +
                     std::to_string(level));
  }
  CiphertextData r = derived(x);
  for (std::size_t part = 0; part < x.parts.size(); ++part) {
    r.parts.push_back(rlwe::switch_level(c.rlwe(), x.parts[part], level));
    r.noise[part] = noise_at(level, part);
  }
  return finish(std::move(r));
}

}  // namespace heliograph::bfv
