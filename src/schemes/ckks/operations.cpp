// Element-wise arithmetic, products, levels and scales.
#include "schemes/ckks/operations.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/progress.h"
#include "rlwe/transformed.h"
#include "schemes/ckks/figures.h"
#include "schemes/ckks/spec.h"
#include "schemes/in_place.h"

namespace heliograph::ckks {

namespace {

std::string bits_of(double scale) {
  std::string text = std::to_string(std::log2(scale));
  return "2^" + text.substr(0, text.find('.') + 4);
}

std::pair<Ciphertext, Ciphertext> aligned(const Ciphertext& a, const Ciphertext& b) {
  require_same(b.data(), a.data().context, a.data().key, "the other operand");
  const std::size_t width = std::max(a.slots(), b.slots());
  const Ciphertext x = of_width(a, width), y = of_width(b, width);
  const std::size_t level = std::min(x.level(), y.level());
  return {lower(x, level), lower(y, level)};
}

CiphertextData derived(const CiphertextData& a, const CiphertextData& b) {
  CiphertextData r = derived(a);
  r.width = std::max(a.width, b.width);
  r.complex = a.complex || b.complex;
  r.guards = Guards::joined(a.guards, b.guards);
  return r;
}

/// Adds the noise of another summand to r. The summand has these bounds, and its scale becomes `scale`.
void add_noise(CiphertextData& r, const Noise& noise, const Ranges& ranges, double scale) {
  r.noise = both(r.noise, added_noise(noise, ranges.peak(), scale, r.scale));
}

/// Returns the bounds of a tensor that is extended to `width` values by zeros or by its known padding.
Ranges widened(const Ranges& ranges, const Packing& packing, const Tail& tail, std::size_t width) {
  if (width <= packing.width) return ranges;
  return ranges.map([&](const Range& r) { return moved(r, packing, tail); });
}

/// Combines two tensors. `over`: writes into x's memory, if x is the tensor to which the other is added. `negative`:
/// computes the difference.
template <class Op, class TailOp>
Ciphertext combine(const Ciphertext& x, const Ciphertext& y, bool over, Op op, TailOp tail_op, bool negative) {
  const auto [p, q] = aligned(x, y);
  const CiphertextData &a = p.data(), &b = q.data();
  require_scales(a.scale, b.scale);
  CiphertextData r = derived(a, b);
  add_noise(r, b.noise, b.ranges, b.scale);
  const Shape to = ring::broadcast_shapes(a.shape(), b.shape());
  r.tail = Tail::sum(a.tail, a.shape(), b.tail, b.shape(), to, tail_op);
  const bool complex = r.complex;
  const auto added = [&](const Range& p, const Range& q) {
    return complex ? sum(magnitudes(p), magnitudes(q)) : sum(p, negative ? negated(q) : q);
  };
  r.ranges = Ranges::both(widened(a.ranges, a.packing(), a.tail, r.width), a.shape(),
                          widened(b.ranges, b.packing(), b.tail, r.width), b.shape(), to, added);
  r.tensor = op(a.tensor, b.tensor, over && &a == &x.data());
  return finish(std::move(r));
}

/// Returns the ciphertext at a level that the plaintext has, and the plaintext's limbs there.
std::pair<Ciphertext, RnsTensor> aligned(const Ciphertext& a, const Plaintext& b) {
  require<MismatchError>(
      a.data().context == b.data().context,
      "the plaintext and the ciphertext have different parameter sets; encode it for the ciphertext's set");
  const std::size_t width = std::min(b.data().width, a.data().context->slots());
  const Ciphertext wide = b.data().width > width ? cleared(of_width(a, width)) : of_width(a, width);
  const Ciphertext x = lower(wide, std::min(wide.level(), b.level()));
  return {x, ring::limbs_of(b.data().tensor, x.data().tensor.primes())};
}

CiphertextData derived(const CiphertextData& a, const PlaintextData& b) {
  CiphertextData r = derived(a);
  r.width = std::max(a.width, std::min(b.width, a.context->slots()));
  r.complex = a.complex || b.complex;
  return r;
}

/// Returns the bounds of a plaintext, whose padding slots are zero.
Ranges plain_ranges(const PlaintextData& b, std::size_t width, std::size_t period) {
  return widened(b.ranges, {b.width, period, b.complex}, Tail(), width);
}

template <class Op>
Ciphertext combine_plain(const Ciphertext& x, const Plaintext& y, bool over, Op op, bool negative) {
  const auto [p, m] = aligned(x, y);
  const PlaintextData& b = y.data();
  if (b.level != p.level() && std::abs(b.scale / p.scale() - 1) > kScaleTolerance)
    throw ScaleError("cannot combine: the plaintext was encoded for level " + std::to_string(b.level) +
                     ", the ciphertext is at level " + std::to_string(p.level()) +
                     " with another scale; encode it at that level and scale");
  require_scales(p.scale(), b.scale);
  const CiphertextData& a = p.data();
  CiphertextData r = derived(a, b);
  add_noise(r, a.context->random(a.context->noise().rounding()), b.ranges, b.scale);
  const Shape to = ring::broadcast_shapes(p.shape(), y.shape());
  if (b.width <= r.width && a.tail.kind() == Tail::Kind::known) r.tail = a.tail.broadcast(p.shape(), to);
  const bool complex = r.complex;
  const auto added = [&](const Range& u, const Range& v) {
    return complex ? sum(magnitudes(u), magnitudes(v)) : sum(u, negative ? negated(v) : v);
  };
  r.ranges = Ranges::both(widened(a.ranges, a.packing(), a.tail, r.width), p.shape(),
                          plain_ranges(b, r.width, a.context->period()), y.shape(), to, added);
  r.tensor = op(p.data().tensor, m, over && &p.data() == &x.data());
  return finish(std::move(r));
}

}  // namespace

void require_scales(double a, double b) {
  if (std::abs(a / b - 1) <= kScaleTolerance) return;
  throw ScaleError("the operands have scales of " + bits_of(a) + " and " + bits_of(b) +
                   "; rescale products first, or encode at the other operand's scale");
}

void settle_scale(CiphertextData& x, double scale) {
  if (x.scale == scale) return;
  require_scales(x.scale, scale);
  x.noise = both(x.noise, x.peak() + std::log2(scale) + std::log2(std::abs(x.scale / scale - 1)));
  x.scale = scale;
}

void require_scale(const Context& c, std::size_t level, double scale) {
  const double least = std::min(c.scale(level), std::exp2(c.rounding_noise(2)));
  if (scale >= least * (1 - kScaleTolerance)) return;
  throw ScaleError("rescaling would leave a scale of " + bits_of(scale) + " at level " + std::to_string(level) +
                   ", below the rounding error, because nothing was multiplied since the last rescaling. The "
                   "smallest scale is " +
                   bits_of(least));
}

void require_room(const CiphertextData& x, double scale) {
  if (std::log2(scale) + 1 <= x.context->log_modulus(x.level)) return;
  throw LevelError("the modulus is too small for this product at level " + std::to_string(x.level) + " of " +
                   std::to_string(x.context->top_level()) +
                   ": its scale would exceed the modulus. Rescale the factors, or choose parameters of greater depth");
}

RnsTensor times_whole(Context& c, const RnsTensor& x, double whole) {
  RnsTensor out(x.engine(), x.shape(), x.components(), x.primes(), x.domain());
  ring::Engine& e = c.engine();
  if (out.items()) {
    e.enqueue(device::MulConstants{e.prepared(), x.primes(), x.view(), constants_of(whole, c.rlwe().moduli(x.primes())),
                                   out.view()});
  }
  return out;
}

namespace {

/// Refuses complex values added in place to a real tensor, as NumPy does.
void require_place(const Ciphertext& a, bool complex) {
  if (complex && !a.complex())
    throw DtypeError("cannot add complex values in place to a tensor of real ones; make a new tensor, y = x + ...");
}

Ciphertext sum_of(const Ciphertext& a, const Ciphertext& b, bool over) {
  return combine(a, b, over, ring::add, std::plus<>(), false);
}
Ciphertext difference_of(const Ciphertext& a, const Ciphertext& b, bool over) {
  return combine(a, b, over, ring::subtract, std::minus<>(), true);
}
Ciphertext sum_of(const Ciphertext& a, const Plaintext& b, bool over) { return combine_plain(a, b, over, ring::add, false); }
Ciphertext difference_of(const Ciphertext& a, const Plaintext& b, bool over) {
  return combine_plain(a, b, over, ring::subtract, true);
}

}  // namespace

Ciphertext add(const Ciphertext& a, const Ciphertext& b) { return sum_of(a, b, false); }
Ciphertext subtract(const Ciphertext& a, const Ciphertext& b) { return difference_of(a, b, false); }
Ciphertext add(const Ciphertext& a, const Plaintext& b) { return sum_of(a, b, false); }
Ciphertext subtract(const Ciphertext& a, const Plaintext& b) { return difference_of(a, b, false); }

void add_into(Ciphertext& a, const Ciphertext& b) {
  require_place(a, b.complex());
  schemes::become(a, b.shape(), b.slots(), [&](bool over) { return sum_of(a, b, over); });
}
void subtract_into(Ciphertext& a, const Ciphertext& b) {
  require_place(a, b.complex());
  schemes::become(a, b.shape(), b.slots(), [&](bool over) { return difference_of(a, b, over); });
}
void add_into(Ciphertext& a, const Plaintext& b) {
  require_place(a, b.data().complex);
  schemes::become(a, b.shape(), std::min(b.data().width, a.parameters().slots()),
                  [&](bool over) { return sum_of(a, b, over); });
}
void subtract_into(Ciphertext& a, const Plaintext& b) {
  require_place(a, b.data().complex);
  schemes::become(a, b.shape(), std::min(b.data().width, a.parameters().slots()),
                  [&](bool over) { return difference_of(a, b, over); });
}
void add_constants_into(Ciphertext& a, const Values& values) {
  require_place(a, values.complex);
  schemes::become(a, values.shape, 0, [&](bool over) { return plus_constants(a, values, over); });
}

Ciphertext weighted_sum(std::vector<Summand> summands, double constant) {
  const Ciphertext& lead = summands.front().x;
  Context& c = *lead.data().context;
  const bool alone = summands.size() == 1 && !summands[0].factor;
  if (alone && constant == 0) return lead;
  const bool over = lead.unique() && !lead.data().shared() && !device::observed();
  // Gives the metadata of the separate operations, computed on tensors that have a shape but no words.
  std::optional<Ciphertext> figures;
  std::vector<ring::WeightedTerm> terms;
  const auto wider = [](const RnsTensor& a, const RnsTensor& b, bool) {
    return (a.components() < b.components() ? b : a).broadcast_to(ring::broadcast_shapes(a.shape(), b.shape()));
  };
  for (const Summand& s : summands) {
    const CiphertextData& x = s.x.data();
    require<InternalError>(x.level == lead.level() && x.width == lead.slots(), "summands must have one level and one width");
    double whole = 1, scale = s.scale;
    Ciphertext part = s.x;
    if (s.factor) {
      CiphertextData r = times_figures(x, number(*s.factor), x.shape(), {*s.factor}, scale);
      r.tensor = x.tensor;
      whole = std::rint(*s.factor * scale);
      part = finish(std::move(r));
    }
    terms.push_back({x.tensor, constants_of(whole, c.rlwe().moduli(x.tensor.primes()))});
    figures = figures ? combine(*figures, part, false, wider, std::plus<>(), false) : part;
  }
  CiphertextData r = figures->data();
  const double whole = std::rint(constant * r.scale);
  if (constant != 0) r = plus_figures(r, number(constant), r.shape());
  const std::vector<u64> moduli = c.rlwe().moduli(lead.data().tensor.primes());
  r.tensor = alone && whole == 0
                 ? lead.data().tensor
                 : ring::weighted_sum(terms, whole == 0 ? std::nullopt : std::optional(constants_of(whole, moduli)), over);
  return finish(std::move(r));
}

Ciphertext negate(const Ciphertext& a) {
  CiphertextData r = derived(a.data());
  r.tensor = ring::negate(a.data().tensor);
  r.ranges = r.ranges.map(negated);
  r.tail = a.data().tail.map(std::negate<>());
  return finish(std::move(r));
}

Ciphertext multiply(const Ciphertext& x, const Ciphertext& y) {
  const auto [p, q] = aligned(x, y);
  const CiphertextData &a = p.data(), &b = q.data();
  require<MismatchError>(a.degree() == 1 && b.degree() == 1, "a factor is a product of degree two; relinearize it first");
  require_room(a, a.scale * b.scale);
  CiphertextData r = derived(a, b);
  const rlwe::Figure la = a.peak() + std::log2(a.scale), lb = b.peak() + std::log2(b.scale);
  r.noise = product_noise(a.noise, la, b.noise, lb);
  r.scale = a.scale * b.scale;
  r.tensor = rlwe::multiply(a.tensor, b.tensor);
  r.tail = Tail::product(a.tail, a.shape(), b.tail, b.shape(), r.shape(), std::multiplies<>());
  const Packing packing = r.packing();
  const bool square = &x.data() == &y.data() && !r.complex;
  r.ranges = Ranges::both(widened(a.ranges, a.packing(), a.tail, r.width), a.shape(),
                          widened(b.ranges, b.packing(), b.tail, r.width), b.shape(), r.shape(),
                          [&](const Range& u, const Range& v) { return product(u, v, packing, square); });
  return finish(std::move(r));
}

Ciphertext multiply(const Ciphertext& x, const Plaintext& y) {
  const auto [p, m] = aligned(x, y);
  const CiphertextData& a = p.data();
  const PlaintextData& b = y.data();
  require_room(a, a.scale * b.scale);
  CiphertextData r = derived(a, b);
  r.noise = product_noise(a.noise, a.peak() + std::log2(a.scale), a.context->random(a.context->noise().rounding()),
                          b.bound + std::log2(b.scale));
  r.scale = a.scale * b.scale;
  r.tensor = ring::multiply_polynomial(a.tensor, m);
  if (b.width <= r.width || a.tail.is_zero()) r.tail = {};
  const Packing packing = r.packing();
  r.ranges =
      Ranges::both(widened(a.ranges, a.packing(), a.tail, r.width), a.shape(), plain_ranges(b, r.width, packing.period),
                   y.shape(), r.shape(), [&](const Range& u, const Range& v) { return product(u, v, packing); });
  return finish(std::move(r));
}

Ciphertext multiply_i(const Ciphertext& a) {
  CiphertextData r = derived(a.data());
  r.complex = true;
  r.tail = a.data().tail.map([](const auto& v) { return v * std::complex<double>(0, 1); });
  r.ranges = r.ranges.map(magnitudes);
  r.tensor =
      ring::multiply_polynomial(a.data().tensor, ring::limbs_of(r.context->imaginary_unit(), a.data().tensor.primes()));
  return finish(std::move(r));
}

const rlwe::SwitchKey& relinearization_key(const EvaluationKeys& keys) {
  if (!keys.has_relinearization())
    throw MissingKeyError("these evaluation keys have no relinearization key (make them with relinearize=True)");
  return *keys.data().keys.relinearization;
}

Ciphertext of_degree_one(const Ciphertext& a, const EvaluationKeys& keys) {
  const Unreported preparation;
  return a.degree() > 1 ? relinearize(a, keys) : a;
}

Ciphertext relinearize(const Ciphertext& a, const EvaluationKeys& keys) {
  const CiphertextData& x = a.data();
  require_same(x, keys.data().context, keys.data().keys.id, "these evaluation keys");
  if (a.degree() == 1) return a;
  const rlwe::SwitchKey& key = relinearization_key(keys);
  CiphertextData r = derived(x);
  r.tail = x.tail;
  r.noise = after_keys(both(x.noise, x.context->random(x.context->key_switch_noise(x.level))), keys.data());
  r.tensor = rlwe::switch_last(x.context->rlwe(), x.tensor, key, x.level, x.level, 1);
  return finish(std::move(r));
}

CiphertextData rescaled(const CiphertextData& x, std::size_t components, double extra) {
  Context& c = *x.context;
  if (x.level == 1) throw LevelError("cannot rescale at level 1, the lowest; choose parameters of greater depth");
  CiphertextData r = derived(x);
  r.tail = x.tail;
  const double ratio = c.ratio(x.level);
  r.level = x.level - 1;
  r.scale = x.scale / ratio;
  require_scale(c, r.level, r.scale);
  r.noise = both(both(x.noise, c.random(extra)).times(-std::log2(ratio)), c.random(c.rounding_noise(components)));
  // A product of numbers at their level's scale has the next level's scale, except for rounding.
  if (std::abs(r.scale / c.scale(r.level) - 1) < 0x1p-40) settle_scale(r, c.scale(r.level));
  return r;
}

Ciphertext rescale(const Ciphertext& a) {
  const CiphertextData& x = a.data();
  CiphertextData r = rescaled(x, x.degree() + 1, -1e9);
  r.tensor = rlwe::divide(x.context->rlwe(), x.tensor, x.level, r.level, 1);
  return finish(std::move(r));
}

Ciphertext relinearize_rescale(const Ciphertext& a, const EvaluationKeys& keys) {
  const CiphertextData& x = a.data();
  require_same(x, keys.data().context, keys.data().keys.id, "these evaluation keys");
  if (a.degree() == 1) return rescale(a);
  const rlwe::SwitchKey& key = relinearization_key(keys);
  CiphertextData r = rescaled(x, 2, x.context->key_product_noise(x.level));
  r.noise = after_keys(r.noise, keys.data());
  r.tensor = rlwe::switch_last(x.context->rlwe(), x.tensor, key, x.level, r.level, 1);
  return finish(std::move(r));
}

Ciphertext multiply_rescale(const Ciphertext& a, const Ciphertext& b, const EvaluationKeys& keys) {
  require_same(a.data(), keys.data().context, keys.data().keys.id, "these evaluation keys");
  if (std::min(a.level(), b.level()) == 1)
    throw LevelError("cannot multiply: a factor is at level 1, the lowest; choose parameters of greater depth");
  return relinearize_rescale(multiply(of_degree_one(a, keys), of_degree_one(b, keys)), keys);
}

Ciphertext lower(const Ciphertext& a, std::size_t level) {
  return level == a.level() ? a : lower_to(a, level, level >= 1 && level < a.level() ? a.data().context->scale(level) : 1);
}

Ciphertext lower_to(const Ciphertext& a, std::size_t level, double scale) {
  const CiphertextData& x = a.data();
  Context& c = *x.context;
  if (level < 1 || level >= x.level)
    throw LevelError("this ciphertext is at level " + std::to_string(x.level) + "; the level must be 1 to that, not " +
                     std::to_string(level));
  // Starts at the lowest higher level whose primes the ciphertext has.
  const device::PrimeList have = c.rlwe().chain(x.level);
  const auto within = [&](const device::PrimeList& some) {
    return std::all_of(some.begin(), some.end(),
                       [&](math::PrimeIndex p) { return std::find(have.begin(), have.end(), p) != have.end(); });
  };
  std::size_t from = level + 1;
  while (from < x.level && !within(c.rlwe().chain(from))) ++from;
  const device::PrimeList chain = c.rlwe().chain(from);
  const double ratio = modulus_ratio(c.rlwe().moduli(chain), c.rlwe().moduli(c.rlwe().chain(level)));
  const double wanted = scale * ratio / x.scale, whole = std::rint(wanted);
  if (!(whole >= 0x1p20))
    throw ScaleError("a scale of " + bits_of(x.scale) + " exceeds the limit of level " + std::to_string(level) +
                     "; rescale first");
  CiphertextData r = derived(x);
  r.tail = x.tail;
  r.level = level;
  r.noise = both(x.noise.times(std::log2(whole) - std::log2(ratio)), c.random(c.rounding_noise(x.degree() + 1)));
  r.scale = x.scale * (whole / ratio);
  settle_scale(r, scale);
  const RnsTensor scaled = times_whole(c, ring::limbs_of(x.tensor, chain), whole);
  const Unreported preparation;
  r.tensor = rlwe::divide(c.rlwe(), scaled, from, level);
  return finish(std::move(r));
}

Ciphertext confined(const Ciphertext& a, std::size_t level) {
  const CiphertextData& x = a.data();
  require<LevelError>(level >= 1 && level <= x.level, "the level must be at most the ciphertext's");
  const device::PrimeList have = x.context->rlwe().chain(x.level), chain = x.context->rlwe().chain(level);
  if (level == x.level) return a;
  for (const math::PrimeIndex p : chain)
    if (std::find(have.begin(), have.end(), p) == have.end()) return lower(a, level);
  CiphertextData r = derived(x);
  r.tail = x.tail;
  r.level = level;
  r.tensor = ring::limbs_of(x.tensor, chain);
  return finish(std::move(r));
}

}  // namespace heliograph::ckks
