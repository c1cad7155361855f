// Element-wise arithmetic, products, key switching, levels.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "base/progress.h"
#include "schemes/exact/derive.h"
#include "schemes/exact/encode.h"
#include "schemes/exact/tails.h"
#include "schemes/in_place.h"

namespace heliograph::exact {

CiphertextData derived(const CiphertextData& a) {
  CiphertextData r;
  r.context = a.context, r.key = a.key, r.packing = a.packing, r.width = a.width;
  r.noise = a.noise, r.vouched = a.vouched, r.independent = a.independent, r.distinct = a.distinct,
  r.first_part = a.first_part;
  r.factors = a.factors;
  r.tails.assign(a.tails.size(), Tail::unknown());
  return r;
}

Ciphertext finish(CiphertextData data) {
  if (data.packing == Packing::coefficients || data.width >= data.context->spec().n)
    data.tails.assign(data.parts.size(), Tail());
  require<InternalError>(data.tails.size() == data.parts.size(), "a tensor must have one tail for each of its parts");
  return Ciphertext(std::make_shared<const CiphertextData>(std::move(data)));
}

namespace {

/// Multiplies one part by the small integer `times`. The part's new factor is `factor`.
Ciphertext rescaled(const Ciphertext& a, std::size_t part, std::int64_t times, u64 factor) {
  if (times == 1) return a;
  Context& c = *a.data().context;
  CiphertextData r = a.data();
  const RnsTensor& in = a.data().parts[part];
  const RnsTensor out(c.rlwe().engine(), in.shape(), in.components(), in.primes(), in.domain());
  device::LimbConstants constants{};
  for (std::size_t l = 0; l < in.primes().size(); ++l) constants[l] = math::signed_mod(times, c.spec().chain[l]);
  ring::Engine& e = c.engine();
  if (in.items()) e.enqueue(device::MulConstants{e.prepared(), in.primes(), in.view(), constants, out.view()});
  r.parts[part] = out;
  r.factors[part] = factor;
  r.noise[part] += std::log2(std::abs(static_cast<double>(times)));
  r.seeds.clear();
  r.fresh = false;
  return finish(std::move(r));
}

/// Returns small integers x, y with x f = y g modulo t, coprime to t, by Euclid's algorithm on t and f / g.
std::pair<std::int64_t, std::int64_t> meeting(u64 f, u64 g, u64 t) {
  auto last = static_cast<std::int64_t>(t), rest = static_cast<std::int64_t>(math::mul_mod(f, math::inverse_mod(g, t), t));
  std::int64_t last_x = 0, x = 1;  // invariant: x f / g = rest modulo t
  std::pair<std::int64_t, std::int64_t> best{1, math::centered(static_cast<u64>(rest), t)};
  const auto size = [](const std::pair<std::int64_t, std::int64_t>& p) {
    return std::max(std::abs(p.first), std::abs(p.second));
  };
  while (rest != 0) {
    if (std::gcd(std::abs(x), static_cast<std::int64_t>(t)) == 1 && size({x, rest}) < size(best)) best = {x, rest};
    const std::int64_t quotient = last / rest;
    std::tie(last, rest) = std::pair{rest, last - quotient * rest};
    std::tie(last_x, x) = std::pair{x, last_x - quotient * x};
  }
  return best;
}

/// Multiplies the operands by small integers, so that their factors in one part are equal.
std::pair<Ciphertext, Ciphertext> of_one_factor(const Ciphertext& a, const Ciphertext& b, std::size_t part) {
  const u64 f = a.data().factors[part], g = b.data().factors[part];
  if (f == g) return {a, b};
  const u64 t = a.data().context->plain(a.data().first_part + part).t;
  const auto [x, y] = meeting(f, g, t);
  const u64 both = math::mul_mod(math::signed_mod(x, t), f, t);
  return {rescaled(a, part, x, both), rescaled(b, part, y, both)};
}

/// Throws WrongKeyError or MismatchError unless the operands have the same set, key, packing and plaintext moduli.
void require_alike(const Ciphertext& a, const Ciphertext& b) {
  require_same(b.data(), a.data().context, a.data().key, "the other operand");
  require<MismatchError>(a.packing() == b.packing(), "one operand packs slots, the other coefficients");
  require_same_moduli(a.data(), b.data());
}

/// Switches both operands to a level, and extends them to the larger of their widths.
std::pair<Ciphertext, Ciphertext> at_level(const Ciphertext& a, const Ciphertext& b, std::size_t level) {
  const std::size_t width = std::max(a.slots(), b.slots());
  return {of_width(switch_level(a, level), width), of_width(switch_level(b, level), width)};
}

std::pair<Ciphertext, Ciphertext> aligned(const Ciphertext& a, const Ciphertext& b) {
  require_alike(a, b);
  return at_level(a, b, std::min(a.level(), b.level()));
}

CiphertextData derived(const CiphertextData& a, const CiphertextData& b) {
  CiphertextData r = derived(a);
  r.width = std::max(a.width, b.width);
  r.vouched = a.vouched && b.vouched;
  for (std::size_t i = 0; i < r.noise.size(); ++i) r.noise[i] = rlwe::log2_sum(a.noise[i], b.noise[i]);
  r.independent = false;
  r.distinct = a.distinct && b.distinct && a.shape() == b.shape();
  return r;
}

u64 modulus_of(const CiphertextData& x, std::size_t part) { return x.context->plain(x.first_part + part).t; }

/// Combines two tensors. `over`: writes into x's memory, if x is the tensor to which the other tensor is added.
template <class Op, class TailOp>
Ciphertext combine(const Ciphertext& x, const Ciphertext& y, bool over, Op op, TailOp tail_op) {
  auto [a, b] = aligned(x, y);
  for (std::size_t part = 0; part < a.data().parts.size(); ++part) std::tie(a, b) = of_one_factor(a, b, part);
  CiphertextData r = derived(a.data(), b.data());
  const Shape shape = ring::broadcast_shapes(a.shape(), b.shape());
  std::vector<std::pair<RnsTensor, RnsTensor>> operands;  // complete before the first part is overwritten
  for (std::size_t part = 0; part < r.noise.size(); ++part) {
    const RnsTensor &p = a.data().parts[part], &q = b.data().parts[part];
    const Domain domain = p.domain() == q.domain() ? p.domain() : a.data().context->rules().home();
    over = over && p.domain() == domain;
    operands.emplace_back(ring::to_domain(p, domain), ring::to_domain(q, domain));
    r.tails[part] = Tail::sum(a.data().tails[part], a.shape(), b.data().tails[part], b.shape(), shape,
                              tail_op(modulus_of(a.data(), part)));
  }
  over = over && &a.data() == &x.data();
  for (const auto& [p, q] : operands) r.parts.push_back(op(p, q, over));
  r.bounds = Bounds::sum(a.data().bounds, b.data().bounds, r.context->most());
  return finish(std::move(r));
}

const EvaluationKeys& need_keys(const EvaluationKeys* keys) {
  if (!keys) throw MissingKeyError("cannot relinearize an operand of degree two: no evaluation keys were given");
  return *keys;
}

Ciphertext of_degree_one(const Ciphertext& a, const EvaluationKeys* keys) {
  const Unreported preparation;
  return a.degree() > 1 ? relinearize(a, need_keys(keys)) : a;
}

}  // namespace

Ciphertext of_factor(const Ciphertext& a, std::size_t part, u64 factor) {
  const u64 t = a.data().context->plain(a.data().first_part + part).t, have = a.data().factors[part];
  return rescaled(a, part, math::centered(math::mul_mod(factor, math::inverse_mod(have, t), t), t), factor);
}

namespace {

Ciphertext sum_of(const Ciphertext& a, const Ciphertext& b, bool over) { return combine(a, b, over, ring::add, sum_modulo); }
Ciphertext difference_of(const Ciphertext& a, const Ciphertext& b, bool over) {
  return combine(a, b, over, ring::subtract, difference_modulo);
}

}  // namespace

Ciphertext add(const Ciphertext& a, const Ciphertext& b) { return sum_of(a, b, false); }
Ciphertext subtract(const Ciphertext& a, const Ciphertext& b) { return difference_of(a, b, false); }
void add_into(Ciphertext& a, const Ciphertext& b) {
  schemes::become(a, b.shape(), b.slots(), [&](bool over) { return sum_of(a, b, over); });
}
void subtract_into(Ciphertext& a, const Ciphertext& b) {
  schemes::become(a, b.shape(), b.slots(), [&](bool over) { return difference_of(a, b, over); });
}

Ciphertext negate(const Ciphertext& a) {
  CiphertextData r = derived(a.data());
  for (std::size_t part = 0; part < a.data().parts.size(); ++part) {
    r.parts.push_back(ring::negate(a.data().parts[part]));
    r.tails[part] = a.data().tails[part].map([t = modulus_of(a.data(), part)](u64 v) { return math::sub_mod(0, v, t); });
  }
  r.bounds = a.data().bounds;
  return finish(std::move(r));
}

namespace {

/// Returns the number of products that are summed in a slot or coefficient of a product.
std::size_t terms_of_product(const CiphertextData& a, const CiphertextData& b) {
  if (a.packing == Packing::slots) return 1;
  const auto filled = [](const CiphertextData& x) { return x.fresh ? x.width : x.context->spec().n; };
  return std::min(filled(a), filled(b));
}

/// Multiplies operands of degree one, equal level and equal width.
Ciphertext product_of(const Ciphertext& a, const Ciphertext& b) {
  const bool same = &a.data() == &b.data();
  Context& c = *a.data().context;
  exact::Rules& rules = c.rules();
  const Shape shape = ring::broadcast_shapes(a.shape(), b.shape());
  CiphertextData r = derived(a.data(), b.data());
  r.independent = r.distinct;  // the noise of each product depends on another ciphertext
  r.bounds = Bounds::product(a.data().bounds, b.data().bounds, c.most()).times(terms_of_product(a.data(), b.data()));
  ProgressSteps steps(a.data().parts.size());
  for (std::size_t part = 0; part < a.data().parts.size(); ++part) {
    const std::size_t modulus = r.first_part + part;
    r.noise[part] = rules.multiply_noise(modulus, a.data().noise[part], b.data().noise[part]);
    r.factors[part] = math::mul_mod(a.data().factors[part], b.data().factors[part], c.plain(modulus).t);
    const RnsTensor p = ring::to_domain(a.data().parts[part], rules.home()).broadcast_to(shape);
    const RnsTensor q = same ? p : ring::to_domain(b.data().parts[part], rules.home()).broadcast_to(shape);
    r.parts.push_back(steps.part(1, [&] { return rules.multiply(modulus, p, q); }));
    r.tails[part] = Tail::product(a.data().tails[part], a.shape(), b.data().tails[part], b.shape(), shape,
                                  product_modulo(c.plain(modulus).t));
  }
  return finish(std::move(r));
}

}  // namespace

Ciphertext multiply(const Ciphertext& x, const Ciphertext& y, const EvaluationKeys* keys) {
  const Ciphertext a = of_degree_one(x, keys);
  if (&x.data() == &y.data()) return product_of(a, a);
  const auto [p, q] = aligned(a, of_degree_one(y, keys));
  return product_of(p, q);
}

Ciphertext square(const Ciphertext& a, const EvaluationKeys* keys) { return multiply(a, a, keys); }

std::size_t product_level(const CiphertextData& x, std::size_t x_level, const CiphertextData& y, std::size_t y_level) {
  exact::Rules& rules = x.context->rules();
  const std::size_t top = std::min(x_level, y_level);
  if (!rules.multiplies_low()) return top;
  const auto budget = [&](std::size_t level) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t part = 0; part < x.noise.size(); ++part) {
      const std::size_t modulus = x.first_part + part;
      const auto noise = [&](const CiphertextData& z, std::size_t from) {
        return level < from ? rules.switched_noise(modulus, z.noise[part], from, level, 1) : z.noise[part];
      };
      const double product = rules.multiply_noise(modulus, noise(x, x_level), noise(y, y_level));
      if (std::isnan(product)) return product;
      least = std::min(least, rules.noise_limit(modulus, level) - product);
    }
    return least;
  };
  double best = budget(top);
  for (std::size_t level = 1; level < top; ++level) best = std::max(best, budget(level));
  for (std::size_t level = 1; level < top; ++level) {
    if (budget(level) >= best - 0.5) return level;
  }
  return top;
}

std::size_t product_level(const Ciphertext& a, const Ciphertext& b) {
  require_same_moduli(a.data(), b.data());
  return product_level(a.data(), a.level(), b.data(), b.level());
}

Ciphertext multiply_switched(const Ciphertext& x, const Ciphertext& y, const EvaluationKeys* keys) {
  const bool same = &x.data() == &y.data();
  if (!same) require_alike(x, y);
  const Ciphertext a = of_degree_one(x, keys), b = same ? a : of_degree_one(y, keys);
  const std::size_t level = product_level(a, b);
  if (same) {
    const Ciphertext low = switch_level(a, level);
    return product_of(low, low);
  }
  const auto [p, q] = at_level(a, b, level);
  return product_of(p, q);
}

Ciphertext relinearize(const Ciphertext& a, const EvaluationKeys& keys) {
  require_same(a.data(), keys.data().context, keys.data().keys.id, "these evaluation keys");
  if (a.degree() == 1) return a;
  if (!keys.has_relinearization())
    throw MissingKeyError("these evaluation keys have no relinearization key (make them with relinearize=True)");
  Context& c = *a.data().context;
  CiphertextData r = derived(a.data());
  r.vouched = r.vouched && keys.data().vouched;
  r.tails = a.data().tails, r.bounds = a.data().bounds;
  ProgressSteps steps(a.data().parts.size());
  for (std::size_t part = 0; part < a.data().parts.size(); ++part) {
    const std::size_t modulus = r.first_part + part;
    const RnsTensor x = ring::to_domain(a.data().parts[part], c.rules().home());
    const rlwe::SwitchKey& key = *keys.data().keys.relinearization;
    r.parts.push_back(steps.part(1, [&] { return c.rules().relinearize(modulus, x, key); }));
    r.noise[part] = rlwe::log2_sum(r.noise[part], c.rules().key_switch_noise(modulus, a.level()));
  }
  return finish(std::move(r));
}

namespace {

schemes::Turns turns_of(const EvaluationKeys& keys, const std::vector<u64>& galois, const std::vector<std::int64_t>& steps) {
  return schemes::turns_of(keys, galois, steps, keys.data().context->column_galois(),
                           "the column rotation is not among the keys (make them with columns=True)");
}

/// Rotates `x`, which is in the home domain, by keys or by compositions of keys.
void rotate(Context& c, std::size_t modulus, const RnsTensor& x, const std::vector<u64>& galois, const schemes::Turns& turns,
            const EvaluationKeys& keys, const std::vector<RnsTensor>& out) {
  if (!turns.plan) return c.rules().rotate(modulus, x, galois, turns.keys, out);
  const auto rotate_by = [&](const RnsTensor& from, const std::vector<std::int64_t>& steps,
                             const std::vector<RnsTensor>& to) {
    const auto elements = schemes::galois_of(steps, [&](std::int64_t s) { return c.row_galois(s); });
    c.rules().rotate(modulus, from, elements, turns_of(keys, elements, steps).keys, to);
  };
  rlwe::rotate(*turns.plan, x, out, rotate_by);
}

Ciphertext rotate(const Ciphertext& x, const std::vector<u64>& galois, const std::vector<std::int64_t>& steps,
                  const EvaluationKeys& keys, bool stack) {
  require_same(x.data(), keys.data().context, keys.data().keys.id, "these evaluation keys");
  Context& c = *x.data().context;
  require_packing(c, Packing::slots);
  require<SlotsError>(x.packing() == Packing::slots, "this tensor packs coefficients: it has no slots to rotate");
  const schemes::Turns turns = turns_of(keys, galois, steps);
  const Ciphertext a = of_degree_one(x, &keys);
  CiphertextData r = derived(a.data());
  r.width = c.spec().n;  // values move into padding slots
  r.bounds = a.data().bounds;
  r.vouched = r.vouched && keys.data().vouched;
  r.independent = r.distinct = false;
  ProgressSteps moduli(a.data().parts.size());
  for (std::size_t part = 0; part < a.data().parts.size(); ++part) {
    const std::size_t modulus = r.first_part + part;
    const RnsTensor p = ring::to_domain(a.data().parts[part], c.rules().home());
    const ring::Stack out(p, galois.size(), stack);
    moduli.part(1, [&] { rotate(c, modulus, p, galois, turns, keys, out.entries()); });
    r.parts.push_back(out.whole());
    const double key_switch = c.rules().key_switch_noise(modulus, a.level());
    r.noise[part] = turns.noise(r.noise[part], [&](double noise) { return rlwe::log2_sum(noise, key_switch); });
  }
  return finish(std::move(r));
}

}  // namespace

Ciphertext rotate_rows(const Ciphertext& a, const std::vector<std::int64_t>& steps, const EvaluationKeys& keys) {
  const auto galois = schemes::galois_of(steps, [&](std::int64_t s) { return a.data().context->row_galois(s); });
  return rotate(own(a), galois, steps, keys, true);
}

Ciphertext rotate_columns(const Ciphertext& a, const EvaluationKeys& keys) {
  return rotate(own(a), {a.data().context->column_galois()}, {0}, keys, false);
}

namespace {

/// Converts sums over all slots to sums over the values, by subtracting the known contents of padding slots.
Ciphertext sum_of_values(const CiphertextData& sums, const CiphertextData& x) {
  Context& c = *x.context;
  CiphertextData r = sums;
  r.width = x.width;
  r.bounds = x.bounds.times(x.width);
  for (std::size_t part = 0; part < r.parts.size(); ++part) {
    const Tail& tail = x.tails[part];
    r.tails[part] = Tail::even();
    if (!tail.is_number()) continue;
    const u64 t = modulus_of(r, part), behind = math::sub_mod(0, (c.spec().n - x.width) % t, t);
    r.parts[part] = ring::copy(r.parts[part]);
    const std::size_t runs = tail.numbers().size(), each = runs == 1 ? x.front().items() : 1;
    for (std::size_t i = 0; i < runs; ++i)
      ring::add_constant_in_place(
          r.parts[part], i, each,
          scaled_constant(c, r.first_part + part, r.level(), r.factors[part], math::mul_mod(tail.at(i), behind, t)));
    r.noise[part] = rlwe::log2_sum(r.noise[part], c.rules().integer_noise(r.first_part + part));
  }
  return finish(std::move(r));
}

}  // namespace

Ciphertext sum_slots(const Ciphertext& a, const EvaluationKeys& keys) {
  const Context& c = *a.data().context;
  require_same(a.data(), keys.data().context, keys.data().keys.id, "these evaluation keys");
  require_packing(c, Packing::slots);
  require<SlotsError>(a.packing() == Packing::slots, "this tensor packs coefficients: it has no slots to sum over");
  std::vector<std::pair<u64, std::int64_t>> turns;
  for (std::size_t step = 1; step < c.spec().n / 2; step *= 2)
    turns.emplace_back(c.row_galois(static_cast<std::int64_t>(step)), static_cast<std::int64_t>(step));
  turns.emplace_back(c.column_galois(), 0);
  for (const auto& [galois, step] : turns)
    turns_of(keys, {galois}, {step});  // missing keys are reported before the work starts
  Ciphertext x = of_degree_one(a, &keys);
  if (common_tail(x.data()).kind() == Tail::Kind::even)
    return multiply_integers(x, {{static_cast<std::int64_t>(x.slots())}, {}, 1});
  const auto unknown = [](const Tail& t) { return t.kind() != Tail::Kind::known; };
  if (std::any_of(x.data().tails.begin(), x.data().tails.end(), unknown)) x = masked(x);
  Ciphertext sums = x;
  ProgressSteps steps(turns.size());
  for (std::size_t i = 0; i < turns.size(); ++i) {
    CiphertextData r = rotate(sums, {turns[i].first}, {turns[i].second}, keys, false).data();
    for (std::size_t part = 0; part < r.parts.size(); ++part) {
      r.parts[part] = ring::add(ring::to_domain(sums.data().parts[part], r.parts[part].domain()), r.parts[part]);
      r.noise[part] = rlwe::log2_sum(r.noise[part], sums.data().noise[part]);
    }
    sums = finish(std::move(r));
    steps.add();
  }
  return sum_of_values(sums.data(), x.data());
}

Ciphertext switch_level(const Ciphertext& a, std::size_t level) {
  const CiphertextData& x = a.data();
  Context& c = *x.context;
  const auto noise_at = [&](std::size_t to, std::size_t part) {
    return to < x.level() ? c.rules().switched_noise(x.first_part + part, x.noise[part], x.level(), to, x.degree())
                          : x.noise[part];
  };
  if (level == 0) {  // the fewest primes that leave two bits of the estimated noise budget
    for (const double noise : x.noise) {
      if (std::isnan(noise))
        throw NoiseError(
            "cannot choose the smallest level: the noise of this ciphertext is unknown, because it came from a file that "
            "does "
            "not state it; give the level");
    }
    const auto enough = [&](std::size_t to) {
      for (std::size_t part = 0; part < x.parts.size(); ++part) {
        if (c.rules().noise_limit(x.first_part + part, to) - noise_at(to, part) < 2) return false;
      }
      return true;
    };
    for (level = 1; level < x.level() && !enough(level);) ++level;
  }
  if (level == x.level()) return a;
  if (level < 1 || level > x.level()) {
    throw LevelError("this ciphertext has " + std::to_string(x.level()) + " primes left; the level must be 1 to that, not " +
                     std::to_string(level));
  }
  CiphertextData r = derived(x);
  r.tails = x.tails, r.bounds = x.bounds;
  for (std::size_t part = 0; part < x.parts.size(); ++part) {
    const std::size_t modulus = x.first_part + part;
    r.parts.push_back(c.rules().switch_level(modulus, x.parts[part], level));
    r.factors[part] =
        math::mul_mod(x.factors[part], c.rules().switched_factor(modulus, x.level(), level), c.plain(modulus).t);
    r.noise[part] = noise_at(level, part);
  }
  return finish(std::move(r));
}

}  // namespace heliograph::exact
