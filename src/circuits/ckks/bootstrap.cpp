// Bootstrapping: restores the top level with the same values (method: schemes/ckks/bootstrapping.h).
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/errors.h"
#include "base/progress.h"
#include "circuits/ckks/bootstrap_stages.h"

namespace heliograph::ckks {

namespace {

/// Returns log2 of the smallest ratio of q to the values; the bootstrap uses a ratio at most one bit larger. At this
/// ratio the sine of 2 pi values / q, with the set's cubic correction if any, deviates from a line by about a bootstrap's
/// noise.
double straight_enough(const Bootstrapping& b) {
  const bool corrected = corrections(b) > 0;
  return b.log_scale > kLongest64 ? (corrected ? 9 : 14) : (corrected ? 7.5 : 10);
}

/// A quarter of a bit is allowed, with a margin, because bounds of values that this process encrypted are rounded to
/// quarters (`coarse`).
constexpr double kQuarterBit = 1.1893;

class Bootstrap {
 public:
  Bootstrap(const Ciphertext& x, const EvaluationKeys& keys, double bound, std::size_t period)
      : stages_(x, keys, true, period),
        context_(stages_.context()),
        sine_(sine_of(context_.spec().bootstrapping)),
        bound_(bound) {}

  Ciphertext run() {
    const Bootstrapping& b = context_.spec().bootstrapping;
    const double q = context_.bootstrapper().lowest_modulus();
    // The ratio of values to q is just small enough for the sine to be nearly linear. A smaller ratio would increase the
    // noise relative to the values.
    const double more = std::ceil(straight_enough(b) - std::log2(q / context_.scale(1)));
    const double factor = std::exp2(-std::ceil(std::log2(bound_)) - more);
    scale_ = stages_.unit() * factor;
    Ciphertext halves = sine(stages_.angles(factor));
    if (corrections(b) > 0) halves = corrected(halves);
    CiphertextData r = stages_.result(context_.top_level());
    r.tensor = stages_.joined(halves);
    r.tail = stages_.low().tail;
    r.ranges = stages_.low().ranges;
    r.noise = rlwe::log2_sum(stages_.noise(), error()) + std::log2(r.scale);
    return finish(std::move(r));
  }

  double log_growth() const { return stages_.log_growth(); }
  /// Returns log2 of the error that the bootstrap adds to a value. Call this function after `run`.
  rlwe::Figure error() const { return after_keys(rlwe::Figure(own_noise()), stages_.keys().data()); }

 private:
  /// Returns sin(2 pi t / q), which removes multiples of q from t. The scale is chosen so that the sine has the magnitude of
  /// the value.
  Ciphertext sine(Ciphertext t) {
    const std::size_t first = context_.sine_level(), last = first + 1;
    const double end = context_.scale(last) * context_.scale(last) / context_.ratio(last);  // scale after the last squaring
    const double q = context_.bootstrapper().lowest_modulus();
    // With a factor f the sine has its final level's scale: sin(2 pi m / q) is about 2 pi m / q for m = value * scale_.
    // With f_(i+1) = f_i^2 / 2, f_(i+1) cos(2 a) = (f_i cos(a))^2 - f_(i+1).
    double factor = stages_.share() * context_.scale(first) * q / (2 * std::numbers::pi * end * scale_);
    for (int i = 0; i < sine_.doublings; ++i) factor = std::sqrt(2 * factor);
    add_constants_into(t, number(-2 * (kSineShift + 0.25) / kSineRange));
    std::vector<std::complex<double>> coefficients(sine_.coefficients.begin(), sine_.coefficients.end());
    for (std::complex<double>& c : coefficients) c *= &c == coefficients.data() ? factor : factor / 2;
    t = square_less(t, 2, 0.45);
    const auto doublings = static_cast<std::size_t>(sine_.doublings);
    // The packed second half becomes imaginary: this step multiplies the half by a root of i, and the doublings square the
    // root.
    std::vector<Weights> weights(doublings + 1);
    if (stages_.packed()) {
      std::complex<double> root(0, 1);
      for (std::size_t i = weights.size(); i-- > 0; root = half_angle(root)) weights[i] = stages_.weights(root);
    }
    Ciphertext c = stages_.until(0.85, [&] { return evaluate_doubled(t, coefficients, stages_.keys(), weights[0]); });
    for (std::size_t i = 0; i < doublings; ++i) {
      factor *= factor / 2;
      c = square_less(c, factor, 0.9 + 0.03 * static_cast<double>(i), weights[i + 1]);
    }
    CiphertextData data = c.data();
    data.scale = context_.scale(first);
    data.ranges = Ranges(Range::of(-bound_, bound_, 1, 1));
    return finish(std::move(data));
  }

  /// Returns x + a x^3, which is closer to v than x = sin(angle v) / angle. a is angle^2 / 6, plus a share of the next
  /// term of the arc sine.
  Ciphertext corrected(const Ciphertext& x) {
    const double angle = 2 * std::numbers::pi * scale_ / context_.bootstrapper().lowest_modulus();
    const double square = angle * angle;
    const double a = square / 6 * (1 + kNextTerm * square * bound_ * bound_) / (stages_.share() * stages_.share());
    const std::size_t level = x.level();
    const double scale = context_.ratio(level) * (context_.scale(level - 1) / x.scale());
    // The packed second half is imaginary, so its cube has the opposite sign.
    const Ciphertext part = rescale(stages_.packed() ? multiply(x, stages_.weights(-1)(a, level, scale))
                                                     : multiply_constants(x, number(a), scale));
    const auto reduced = [&](double end, const Ciphertext& product) {
      return stages_.until(end, [&] { return relinearize_rescale(product, stages_.keys()); });
    };
    Ciphertext cube = multiply(part, reduced(0.97, multiply(x, x)));
    const Ciphertext same = confined(x, level - 1);
    const double wide = cube.scale() / same.scale();
    std::vector<Summand> parts;
    parts.push_back({std::move(cube)}), parts.push_back({same, 1, wide});
    return reduced(1, weighted_sum(std::move(parts)));
  }

  /// Halves the angle of a complex number of absolute value 1 in the first quadrant. Square roots have the same bits on
  /// every machine.
  static std::complex<double> half_angle(std::complex<double> z) {
    return {std::sqrt((1 + z.real()) / 2), std::sqrt((1 - z.real()) / 2)};
  }

  /// Returns a^2 - less. `end`: the fraction of the bootstrap that is complete after this part, for progress reports.
  Ciphertext square_less(const Ciphertext& a, double less, double end, const Weights& weights = {}) {
    Ciphertext square = multiply(a, a);
    if (weights)
      square = add(square, weights(-less, square.level(), square.scale()));
    else
      add_constants_into(square, number(-less));
    CiphertextData data = stages_.until(end, [&] { return relinearize_rescale(square, stages_.keys()); }).data();
    data.ranges = Ranges(Range::of(-2, 2, 1, 1));
    return finish(std::move(data));
  }

  /// Returns log2 of the error that the bootstrap adds, relative to the values: roundings of all steps, error of the fit,
  /// and of the sine. The error includes eight standard deviations of the error of the sine's input, a separate term for its
  /// long tails, and a bound on the last rounding.
  double own_noise() const {
    const double rho = std::log2(context_.bootstrapper().lowest_modulus() / scale_);
    // Effect of errors of y and y^2 on values. The effect of errors of y has long tails for y near 0, and a quarter of all y
    // are near 0.
    const double inside = stages_.rounding() + 5.5 + std::log2(kSineRange) + rho;
    const double angle = rho - std::log2(2 * std::numbers::pi);
    // 2.72 is log2 of (2 pi)^2 / 6; with the cubic correction, the next term of the series remains
    const double sine = corrections(context_.spec().bootstrapping) > 0 ? 4.1 - 4 * rho + 5 * std::log2(bound_)
                                                                       : 2.72 - 2 * rho + 3 * std::log2(bound_);
    const double own = rlwe::log2_sum(rlwe::log2_sum(stages_.angle_noise() + rho, inside),
                                      rlwe::log2_sum(std::log2(sine_.error) + angle, sine));
    // The last rounding. Packed halves are exchanged, and separated if they are two items: at most three roundings. Without
    // packing only the sine's last product is rounded.
    const std::size_t top = context_.top_level();
    const double last = context_.key_switch_noise(top) - std::log2(context_.scale(top));
    return rlwe::log2_sum(own, last + (stages_.packed() ? 1.5 : 0));
  }

  /// Fraction of the arc sine's fifth-order term that the cubic correction adds, relative to the cubic term: the best
  /// fraction for arguments up to 1.
  static constexpr double kNextTerm = 0.86 * 9 / 20;

  BootstrapStages stages_;
  Context& context_;
  const Sine sine_;
  const double bound_;
  double scale_ = 0;  // factor from a value to the lowest level's coefficients
};

}  // namespace

Ciphertext within(const Ciphertext& x, Interval interval) {
  const double slack = (interval.high - interval.low) * 0x1p-14;  // bounds in files are rounded to 16 bits
  require<ParameterError>(std::isfinite(interval.low) && std::isfinite(interval.high) && interval.low <= interval.high,
                          "an interval of values must have two finite bounds in ascending order");
  const double bound = std::max(-interval.low, interval.high);
  CiphertextData data = x.data();
  Range most{.low = interval.low, .high = interval.high, .peak = bound, .rms = bound, .mean = bound};
  // The declared interval applies to the values only; padding slots may have other contents. `finish` corrects the bounds if
  // the contents of the padding slots are known.
  if (!data.tail.is_zero() && data.tail.kind() != Tail::Kind::even)
    most.peak = most.rms = std::numeric_limits<double>::infinity();
  const auto holds = [&](const Range& r) { return r.low >= interval.low - slack && r.high <= interval.high + slack; };
  const auto said = [&](const Range& r) {
    if (holds(r) && r.known()) return r;
    Range both = narrowed(r, most);
    both.declared = true;
    return both;
  };
  if (!holds(data.ranges.merged().vouched)) data.noise.vouched = std::nan("");
  data.ranges = data.ranges.map(said);
  return finish(std::move(data));
}

namespace {

/// Bootstraps to a level below the top. Levels between the result and bootstrapping's own are absent, if the set allows.
Ciphertext bootstrap_below(const Ciphertext& given, const EvaluationKeys& keys, double bound, int iterations,
                           std::size_t level, std::size_t period) {
  const std::shared_ptr<Context>& context = given.data().context;
  const std::shared_ptr<Context> lowered = context->lowered(level);
  if (!lowered) return lower(bootstrap(given, keys, bound, iterations, 0, period), level);
  EvaluationKeysData own = keys.data();
  own.context = lowered, own.keys.context = lowered->rlwe_shared();
  own.keys.level_rotations.clear();  // bootstrapping's levels have other numbers there
  const auto in = [](CiphertextData data, const std::shared_ptr<Context>& to, const Guards& guards) {
    data.context = to, data.guards = guards;
    return Ciphertext(std::make_shared<const CiphertextData>(std::move(data)));
  };
  const Ciphertext x = lower(of_degree_one(given, keys), given.parameters().bootstrapping_level());
  const Ciphertext y =
      bootstrap(in(x.data(), lowered, {}), EvaluationKeys(std::make_shared<EvaluationKeysData>(std::move(own))), bound,
                iterations, 0, period);
  return lower(in(y.data(), context, given.data().guards), level);
}

/// Returns the operand of a bootstrap of repeated values. The caller declares that they repeat, so no precision is trusted.
/// Throws ParameterError, ShapeError.
Ciphertext repeated(const Ciphertext& x, std::size_t period) {
  const std::size_t all = x.data().context->period();
  if (!std::has_single_bit(period) || period > all)
    throw ParameterError("the period of a bootstrap must be a power of two of at most the set's period, " +
                         std::to_string(all) + ", not " + std::to_string(period));
  if (period == all) return x;
  if (x.data().width < all && x.data().tail.kind() != Tail::Kind::even)
    throw ShapeError("cannot bootstrap with period=" + std::to_string(period) + ": each ciphertext has " +
                     std::to_string(x.data().width) + " values and unused slots behind them, so the values do not repeat; " +
                     "encrypt copies of the values in all " + std::to_string(all) + " slots, or leave the period out");
  CiphertextData data = x.data();
  data.noise.vouched = std::nan("");
  return finish(std::move(data));
}

}  // namespace

Ciphertext bootstrap(const Ciphertext& given, const EvaluationKeys& keys, double bound, int iterations, std::size_t level,
                     std::size_t period) {
  require_bootstrapping(given, keys);
  const std::size_t top = given.parameters().top_level(), lowest = given.parameters().bootstrapping_level() + 1;
  if (level != 0 && (level < lowest || level > top))
    throw LevelError("a bootstrap gives results of levels " + std::to_string(lowest) + " to " + std::to_string(top) +
                     ", not " + std::to_string(level));
  if (level != 0 && level != top) return bootstrap_below(given, keys, bound, iterations, level, period);
  require<ParameterError>(iterations >= 1 && iterations <= 4, "iterations must be 1 to 4");
  const double known = known_bound(given.data());
  if (bound == 0) {
    if (std::isnan(known) || known > 0x1p20)
      throw PlaintextRangeError((std::isnan(known) ? std::string("no bound is known on the values of this tensor")
                                                   : "the values of this tensor may reach " + std::to_string(known)) +
                                ", but a bootstrap needs a bound of at most 2^20; declare one (within(x, 8)), or encrypt "
                                "with one (bound=)");
    bound = std::max(known, 0x1p-20);
  }
  require<ParameterError>(bound >= 0x1p-20 && bound <= 0x1p20, "the bound of a bootstrap must be between 2^-20 and 2^20");
  if (known > bound * kQuarterBit) {
    throw PlaintextRangeError("the values of this tensor may reach " + std::to_string(known) + ", above the bound of " +
                              std::to_string(bound) +
                              "; give a larger bound, or declare that they stay within this one (within)");
  }
  bound = std::fmax(bound, known);  // increases the bound by at most a quarter of a bit
  const Ciphertext x = within(period == 0 ? given : repeated(given, period), bound);
  const CiphertextData& data = x.data();
  if (data.tensor.items() == 0) return nothing(x, data.context->top_level());
  const std::size_t entry = x.parameters().bootstrapping_level();
  ProgressSteps steps(iterations);
  rlwe::Figure missing = 0;
  double growth = 0;  // log2
  const auto once = [&](const Ciphertext& from, double largest, std::size_t repeats) {
    return steps.part(1, [&] {
      Bootstrap one(from, keys, largest, repeats);
      const Ciphertext result = one.run();
      missing = one.error(), growth = std::max(growth, one.log_growth());
      return result;
    });
  };
  Ciphertext y = once(x, bound, period);
  for (int i = 1; i < iterations; ++i) {
    // The difference of x and y is a small tensor with a known bound. The error of y is the value of this tensor, and
    // therefore not part of the tensor's noise.
    const Ciphertext have = lower(x, entry);
    CiphertextData left = subtract(have, lower(y, entry)).data();
    const double most = std::exp2(missing.assumed);
    left.ranges = Ranges(RangePair{std::isnan(missing.vouched) ? Range::unknown() : Range::of(-most, most, 1, 1),
                                   Range::of(-most, most, 1, 1)});
    left.noise = rlwe::log2_sum(have.data().noise + growth, rlwe::Figure(data.context->rounding_noise(2)));
    left.complex = true;  // errors are complex even for real values, so items are not paired
    const Ciphertext more = once(finish(left), std::exp2(missing.assumed), 0);  // errors do not repeat
    CiphertextData sum = add(y, more).data();
    sum.noise = more.data().noise, sum.ranges = y.data().ranges, sum.complex = data.complex;
    y = finish(std::move(sum));
  }
  return y;
}

}  // namespace heliograph::ckks
