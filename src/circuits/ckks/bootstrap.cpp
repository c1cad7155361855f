// Bootstrapping: from the lowest levels back to the top, with the same values (schemes/ckks/bootstrapping.h says by what way).
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/errors.h"
#include "schemes/ckks/bootstrapping.h"
#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

namespace {

/// Tells of parts of known lengths as of one whole.
class Parts {
 public:
  explicit Parts(const Progress& whole) : whole_(whole) {}
  /// The next part, which ends at `end` of the whole.
  Progress next(double end) {
    const double begin = end_;
    end_ = end;
    if (!whole_) return {};
    return [this, begin, end](double share) { whole_(begin + share * (end - begin)); };
  }

 private:
  const Progress& whole_;
  double end_ = 0;
};

/// log2 of q over values, where the sine of 2 pi values / q differs from its angle by less than a bootstrap's noise.
constexpr double kStraight = 10;

/// Real items in pairs: the second half times the imaginary unit, added to the first.
Ciphertext paired(const Ciphertext& x, std::size_t items) {
  const std::size_t second = items / 2, first = items - second;
  const Ciphertext both = add(slice(x, 0, 0, 1, second), multiply_i(slice(x, 0, first, 1, second)));
  return first == second ? both : concatenate({both, slice(x, 0, second, 1, 1)}, 0);
}

class Bootstrap {
 public:
  Bootstrap(const Ciphertext& x, const EvaluationKeys& keys, double bound, const Progress& progress)
      : x_(x), keys_(keys), context_(*x.data().context), plan_(context_.bootstrapping()), bound_(bound), parts_(progress) {}

  Ciphertext run() {
    const Ciphertext low = prepared();
    const std::size_t items = low.data().tensor.items();
    const bool pairs = !x_.complex() && items > 1;
    const Ciphertext work = pairs ? paired(low, items) : low;
    const Ciphertext halves = sine(slots_of(raised(work), pairs || x_.complex()));
    CiphertextData r = derived(x_.data());
    if (pairs)
      r.tensor = concatenate({index(halves, 0, 0), slice(index(halves, 0, 1), 0, 0, 1, items / 2)}, 0).data().tensor;
    else if (x_.complex())
      r.tensor = add(index(halves, 0, 0), multiply_i(index(halves, 0, 1))).data().tensor;
    else
      r.tensor = index(halves, 0, 0).data().tensor;
    r.tensor = r.tensor.reshape(x_.shape());
    r.level = context_.top_level(), r.scale = context_.scale(r.level);
    r.tail = low.data().tail;
    r.bound = {std::log2(bound_), std::log2(bound_)};
    describe_noise(r, low.data());
    return finish(std::move(r));
  }

 private:
  /// At the level that bootstrapping starts at, of degree one, items along one axis, with zeros behind values where they can be.
  Ciphertext prepared() {
    const Ciphertext x = cleared(of_degree_one(x_, keys_));
    const std::size_t level = x_.parameters().bootstrapping_level();
    const Ciphertext low = x.level() > level ? lower(x, level) : x;
    return reshape(low, {low.data().tensor.items()});
  }

  /// The lowest level's coefficients are the values; then the highest level, where multiples of q are added.
  RnsTensor raised(const Ciphertext& x) {
    // So small a part of q that the sine is straight.
    const double part = std::log2(context_.bootstrapper().lowest_modulus() / context_.scale(1));
    exponent_ = -static_cast<int>(std::ceil(std::log2(bound_)) + std::max(0.0, std::ceil(kStraight - part)));
    const std::vector<LinearSum>& sums = plan_.to_coefficients(exponent_);
    RnsTensor t = x.data().tensor;
    scale_ = std::ldexp(x.scale(), exponent_);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      t = apply(sums[i], t, keys_, parts_.next(0.04 * static_cast<double>(i + 1)));
      scale_ *= context_.scale(sums[i].level) / context_.ratio(sums[i].level);
    }
    return plan_.raise(t, *keys_.data().keys.bootstrapping, parts_.next(0.2));
  }

  /// Real and imaginary parts of the coefficients on the slots, along a new first axis: twice (t / q) / kSineRange.
  Ciphertext slots_of(RnsTensor t, bool both) {
    for (const LinearSum& sum : plan_.to_slots) t = apply(sum, t, keys_, parts_.next(0.4));
    CiphertextData v = derived(x_.data());
    v.tensor = t;
    v.level = plan_.to_slots.back().level - 1, v.scale = context_.scale(v.level);
    v.width = context_.period(), v.complex = true;
    v.noise = 0, v.bound = 0;
    const Ciphertext z = finish(std::move(v)), turned = conjugate(z, keys_);
    const Shape one = {1, t.items()};
    const Ciphertext real = reshape(add(z, turned), one);
    return both ? concatenate({real, reshape(multiply_i(subtract(turned, z)), one)}, 0) : real;
  }

  /// sin(2 pi t / q) of each, at a scale where it is the values': multiples of q are gone.
  Ciphertext sine(Ciphertext t) {
    const std::size_t last = context_.top_level() + 1;
    const double end = context_.scale(last) * context_.scale(last) / context_.ratio(last);  // the scale it ends at
    const double q = context_.bootstrapper().lowest_modulus();
    // A factor f of the sine makes its scale the top level's: sin(2 pi m / q) is 2 pi m / q, m = value * scale_. With
    // f_(i+1) = f_i^2 / 2, f_(i+1) cos(2 a) = (f_i cos(a))^2 - f_(i+1).
    double factor = context_.scale(last - 1) * q / (2 * std::numbers::pi * end * scale_);
    for (int i = 0; i < kSineDoublings; ++i) factor = std::sqrt(2 * factor);
    add_constants_into(t, number(-2 * (kSineShift + 0.25) / kSineRange));
    std::vector<double> coefficients(kSineCoefficients.begin(), kSineCoefficients.end());
    for (double& c : coefficients) c *= &c == coefficients.data() ? factor : factor / 2;
    Ciphertext c = evaluate_doubled(square_less(t, 2), coefficients, keys_, parts_.next(0.85));
    for (int i = 0; i < kSineDoublings; ++i) {
      factor *= factor / 2;
      c = square_less(c, factor);
    }
    return c;
  }

  Ciphertext square_less(const Ciphertext& a, double less) {
    Ciphertext square = multiply(a, a);
    add_constants_into(square, number(-less));
    CiphertextData data = relinearize_rescale(square, keys_, parts_.next(0.9)).data();
    data.bound = 1;
    return finish(std::move(data));
  }

  /// What is not the values': roundings at each step, as far as they reach, the fit, and the sine for what it stands for. By
  /// standard deviations of the model's bounds, which are 8 of them (rlwe/noise.h); in units of the values.
  void describe_noise(CiphertextData& r, const CiphertextData& low) const {
    const Context& c = context_;
    const double q = context_.bootstrapper().lowest_modulus(), rho = std::log2(q / scale_);
    const std::size_t level = plan_.to_slots.back().level - 1;
    const double rounding = c.key_switch_noise(level) - std::log2(c.scale(level));  // where the sine begins
    // To y from its matrices, each with some eight giant steps, and a conjugation; then from y and y^2, near its zero, to values.
    const double begin = rounding + 2.5 + std::log2(kSineRange) + rho;
    const double inside = rounding + 4 + std::log2(kSineRange) + rho;
    const double angle = rho - std::log2(2 * std::numbers::pi);
    const double sine = 2.72 - 2 * rho + 3 * std::log2(bound_);  // (2 pi)^2 / 6
    const double coefficients = c.key_switch_noise(1) + 2.5 - std::log2(scale_);
    double own = rlwe::log2_sum(rlwe::log2_sum(begin, inside), rlwe::log2_sum(std::log2(kSineError) + angle, sine));
    own = rlwe::log2_sum(own, coefficients);
    rlwe::Figure noise = rlwe::log2_sum(low.noise - std::log2(low.scale), rlwe::Figure(own));
    r.noise = after_keys(noise + std::log2(r.scale), keys_.data());
  }

  const Ciphertext x_;
  const EvaluationKeys& keys_;
  Context& context_;
  BootstrappingPlan& plan_;
  const double bound_;
  Parts parts_;
  int exponent_ = 0;  // values are multiplied by 2^exponent_
  double scale_ = 0;  // a value is so many units of the lowest level's coefficients
};

}  // namespace

Ciphertext within(const Ciphertext& x, double bound) {
  require<ParameterError>(bound > 0 && std::isfinite(bound), "a bound on values is a number above 0");
  const double most = std::log2(bound);
  CiphertextData data = x.data();
  if (data.bound.vouched > most + 0x1p-30) data.noise.vouched = rlwe::log2_sum(data.noise.vouched, std::nan(""));
  data.bound = {std::min(data.bound.vouched, most), std::min(data.bound.assumed, most)};
  if (std::isnan(data.bound.assumed)) data.bound.assumed = most;
  return finish(std::move(data));
}

Ciphertext bootstrap(const Ciphertext& x, const EvaluationKeys& keys, double bound, const Progress& progress,
                     int iterations) {
  const CiphertextData& data = x.data();
  const std::size_t entry = x.parameters().bootstrapping_level();
  require<ParameterError>(entry > 0, "this parameter set has no bootstrapping (choose one with bootstrap=True)");
  require_same(data, keys.data().context, keys.data().keys.id, "these evaluation keys");
  require<ParameterError>(iterations >= 1 && iterations <= 4, "a bootstrap has 1 to 4 iterations");
  require<ParameterError>(bound >= 0x1p-20 && bound <= 0x1p20, "the bound of a bootstrap lies between 2^-20 and 2^20");
  if (!keys.has_bootstrapping())
    throw MissingKeyError("these evaluation keys have none for bootstrapping (make them with bootstrap=True)");
  if (x.level() < entry)
    throw LevelError("bootstrapping starts at level " + std::to_string(entry) + "; this ciphertext is at level " +
                     std::to_string(x.level()) + ": bootstrap it earlier");
  if (data.bound.vouched > std::log2(bound) + 0x1p-30) {
    throw PlaintextRangeError("what was computed here may have values up to " +
                              std::to_string(std::exp2(data.bound.vouched)) + ", beyond the bound of " +
                              std::to_string(bound) + ": say that bound, or that values stay within this one (within)");
  }
  if (data.tensor.items() == 0) {
    CiphertextData r = derived(data);
    r.level = data.context->top_level(), r.scale = data.context->scale(r.level);
    r.tensor = RnsTensor(data.context->rlwe().engine(), x.shape(), 2, data.context->rlwe().chain(r.level), Domain::ntt);
    return finish(std::move(r));
  }
  Parts parts(progress);
  Ciphertext y = Bootstrap(x, keys, bound, parts.next(1.0 / iterations)).run();
  for (int i = 1; i < iterations; ++i) {
    // What is missing is small, and its values' bound is known; its noise is not y's, which is among these values.
    const Ciphertext have = lower(x, entry);
    CiphertextData left = subtract(have, lower(y, entry)).data();
    left.bound = y.data().noise - std::log2(y.scale());
    left.noise = rlwe::log2_sum(have.data().noise, rlwe::Figure(data.context->rounding_noise(2)));
    const double least = std::exp2(left.bound.assumed);
    const Ciphertext more = Bootstrap(finish(left), keys, least, parts.next((i + 1.0) / iterations)).run();
    CiphertextData sum = add(y, more).data();
    sum.noise = more.data().noise, sum.bound = y.data().bound;
    y = finish(std::move(sum));
  }
  return y;
}

}  // namespace heliograph::ckks
