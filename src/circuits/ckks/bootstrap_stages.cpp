#include "circuits/ckks/bootstrap_stages.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"

namespace heliograph::ckks {

namespace {

/// Pairs real items: adds the second half times the imaginary unit to the first.
Ciphertext paired(const Ciphertext& x, std::size_t items) {
  const std::size_t second = items / 2, first = items - second;
  const Ciphertext both = add(slice(x, 0, 0, 1, second), multiply_i(slice(x, 0, first, 1, second)));
  return first == second ? both : concatenate({both, slice(x, 0, second, 1, 1)}, 0);
}

}  // namespace

void require_bootstrapping(const Ciphertext& x, const EvaluationKeys& keys) {
  const CiphertextData& data = x.data();
  const std::size_t entry = x.parameters().bootstrapping_level();
  require<ParameterError>(entry > 0, "this parameter set has no bootstrapping; choose one with bootstrap=True");
  require_same(data, keys.data().context, keys.data().keys.id, "these evaluation keys");
  if (!keys.has_bootstrapping())
    throw MissingKeyError("these evaluation keys have no bootstrapping keys (make them with bootstrap=True)");
  if (x.level() < entry)
    throw LevelError("bootstrapping needs level " + std::to_string(entry) + " or above; this ciphertext is at level " +
                     std::to_string(x.level()) + "; bootstrap it earlier");
  if (x.level() == entry)
    require_scales(x.scale(), data.context->scale(entry));  // above the entry level, `lower` adjusts the scale
}

Ciphertext nothing(const Ciphertext& x, std::size_t level) {
  CiphertextData r = derived(x.data());
  r.level = level, r.scale = r.context->scale(level);
  r.tensor = RnsTensor(r.context->rlwe().engine(), x.shape(), 2, r.context->rlwe().chain(level), Domain::ntt);
  return finish(std::move(r));
}

BootstrapStages::BootstrapStages(const Ciphertext& x, const EvaluationKeys& keys, bool packing, std::size_t period)
    : x_(x), keys_(keys), context_(*x.data().context), repetition_{period ? period : context_.period()} {
  const Ciphertext clear = cleared(of_degree_one(x_, keys_));
  const std::size_t items = x.data().tensor.items();
  low_ = reshape(lower(clear, context_.bootstrapper().stages_to_coefficients() + 1), {items});
  const Bootstrapper& how = context_.bootstrapper();
  const bool halves = packing && (x.complex() || items > 1);
  repetition_.alternating = halves && !how.packs() && 2 * repetition_.period <= context_.period() &&
                            keys.data().keys.rotations.contains(how.swap(repetition_.period));
  packed_ = halves && (how.packs() || repetition_.alternating);
  work_ = pairs() ? paired(*low_, items) : *low_;
}

BootstrapStages::BootstrapStages(const Ciphertext& like, const RnsTensor& phases, const EvaluationKeys& keys)
    : x_(like),
      keys_(keys),
      context_(*like.data().context),
      repetition_{context_.period()},
      packed_(false),
      low_(like),
      work_(like),
      phases_(phases) {}

double BootstrapStages::unit() const {
  double unit = low().scale;
  for (std::size_t level = low().level; level > 1; --level) unit *= context_.scale(level) / context_.ratio(level);
  return unit;
}

Ciphertext BootstrapStages::angles(double factor) {
  BootstrappingPlan& plan = context_.bootstrapping();
  RnsTensor t = phases_ ? *phases_ : work_->data().tensor;
  double end = 0;
  if (!phases_) {
    for (const LinearSum& sum : plan.to_coefficients(factor, repetition_))
      t = until(end += 0.04, [&] { return apply(sum, t, keys_); });
  }
  t = until(0.2, [&] { return plan.raise(t, *keys_.data().keys.bootstrapping); });
  const std::vector<LinearSum> to_slots = plan.to_slots(packed_ && !repetition_.alternating);
  end = 0.2;
  for (const LinearSum& sum : to_slots)
    t = until(end += 0.2 / static_cast<double>(to_slots.size()), [&] { return apply(sum, t, keys_); });
  CiphertextData v = derived(x_.data());
  v.tensor = t;
  v.level = to_slots.back().level - 1, v.scale = context_.scale(v.level);
  v.width = context_.period(), v.complex = true;
  v.noise = 0, v.ranges = Ranges(Range::of(-1, 1, 1, 1));
  const Ciphertext z = finish(std::move(v)), turned = conjugate(z, keys_);
  const Shape one = {1, t.items()};
  const Ciphertext real = reshape(add(z, turned), one);
  if (packed_ || (!pairs() && !x_.complex())) return real;
  return concatenate({real, reshape(multiply_i(subtract(turned, z)), one)}, 0);
}

RnsTensor BootstrapStages::joined(const Ciphertext& halves) const {
  const std::size_t items = low().tensor.items();
  Ciphertext all = index(halves, 0, 0);
  if (packed_) {
    CiphertextData swapped = turned(all, {context_.bootstrapper().swap(half())}, {0}, keys_, false);
    all = add(all, finish(std::move(swapped)));
    if (pairs()) {
      const Ciphertext conjugated = conjugate(all, keys_);
      all = concatenate({add(all, conjugated), slice(multiply_i(subtract(conjugated, all)), 0, 0, 1, items / 2)}, 0);
    }
  } else if (pairs())
    all = concatenate({all, slice(index(halves, 0, 1), 0, 0, 1, items / 2)}, 0);
  else if (x_.complex())
    all = add(all, multiply_i(index(halves, 0, 1)));
  return all.data().tensor.reshape(x_.shape());
}

Weights BootstrapStages::weights(std::complex<double> second) const {
  return [this, second](std::complex<double> number, std::size_t level, double scale) {
    const std::complex<double> other(number.real() * second.real() - number.imag() * second.imag(),
                                     number.real() * second.imag() + number.imag() * second.real());
    PlaintextData data = context_.bootstrapping().alternating(number, other, half(), level, scale);
    data.context = x_.data().context;
    return Plaintext(std::make_shared<PlaintextData>(std::move(data)));
  };
}

double BootstrapStages::deviations(std::size_t level) const {
  return context_.key_switch_noise(level) - std::log2(rlwe::NoiseModel::kProductDeviations / rlwe::NoiseModel::kDeviations);
}

double BootstrapStages::rounding() const {
  const std::size_t level = context_.raised_level() - kCoefficientsToSlots;
  return deviations(level) - std::log2(context_.scale(level));
}

double BootstrapStages::angle_noise() const {
  // Error of the lowest level, plus the error of the matrices: each matrix has about eight giant steps and a conjugation.
  const double coefficients = deviations(1) + 2.5 - std::log2(context_.bootstrapper().lowest_modulus());
  return rlwe::log2_sum(coefficients, rounding() + 2.5 + std::log2(kSineRange));
}

CiphertextData BootstrapStages::result(std::size_t level) const {
  CiphertextData r = derived(x_.data());
  r.level = level, r.scale = context_.scale(level);
  return r;
}

}  // namespace heliograph::ckks
