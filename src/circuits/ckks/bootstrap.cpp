// Bootstrapping: from the lowest levels back to the top, with the same values (schemes/ckks/bootstrapping.h says by what way).
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/errors.h"
#include "circuits/ckks/bootstrap_stages.h"

namespace heliograph::ckks {

namespace {

/// log2 of q over values, at least, and at most one more: where the sine of 2 pi values / q differs from its angle, corrected where
/// a set has levels for it, about as much as a bootstrap's noise.
double straight_enough(const Bootstrapping& b) {
  const bool corrected = corrections(b) > 0;
  return b.log_scale > kLongest64 ? (corrected ? 9 : 14) : (corrected ? 7.5 : 10);
}

/// A quarter of a bit, with room: bounds of what was encrypted here are rounded to it (`coarse`).
constexpr double kQuarterBit = 1.1893;

class Bootstrap {
 public:
  Bootstrap(const Ciphertext& x, const EvaluationKeys& keys, double bound, const Progress& progress)
      : stages_(x, keys, progress, true),
        context_(stages_.context()),
        sine_(sine_of(context_.spec().bootstrapping)),
        bound_(bound) {}

  Ciphertext run() {
    const Bootstrapping& b = context_.spec().bootstrapping;
    const double q = context_.bootstrapper().lowest_modulus();
    // So small a part of q that the sine is straight, and no smaller: noise goes with q.
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

  /// What the bootstrap itself adds to a value, log2, once it has run.
  rlwe::Figure error() const { return after_keys(rlwe::Figure(own_noise()), stages_.keys().data()); }

 private:
  /// sin(2 pi t / q) of each, at a scale where it is the values': multiples of q are gone.
  Ciphertext sine(Ciphertext t) {
    const std::size_t first = context_.sine_level(), last = first + 1;
    const double end = context_.scale(last) * context_.scale(last) / context_.ratio(last);  // the scale it ends at
    const double q = context_.bootstrapper().lowest_modulus();
    // A factor f of the sine makes its scale that of the level where it ends: sin(2 pi m / q) is 2 pi m / q, m = value * scale_. With
    // f_(i+1) = f_i^2 / 2, f_(i+1) cos(2 a) = (f_i cos(a))^2 - f_(i+1).
    double factor = stages_.share() * context_.scale(first) * q / (2 * std::numbers::pi * end * scale_);
    for (int i = 0; i < sine_.doublings; ++i) factor = std::sqrt(2 * factor);
    add_constants_into(t, number(-2 * (kSineShift + 0.25) / kSineRange));
    std::vector<std::complex<double>> coefficients(sine_.coefficients.begin(), sine_.coefficients.end());
    for (std::complex<double>& c : coefficients) c *= &c == coefficients.data() ? factor : factor / 2;
    t = square_less(t, 2, 0.45);
    const auto doublings = static_cast<std::size_t>(sine_.doublings);
    // What is behind packed real parts becomes imaginary: it is times a root of i here, and squared.
    std::vector<Weights> weights(doublings + 1);
    if (stages_.packed()) {
      std::complex<double> root(0, 1);
      for (std::size_t i = weights.size(); i-- > 0; root = half_angle(root)) weights[i] = stages_.weights(root);
    }
    Ciphertext c = evaluate_doubled(t, coefficients, stages_.keys(), stages_.next(0.85), weights[0]);
    for (std::size_t i = 0; i < doublings; ++i) {
      factor *= factor / 2;
      c = square_less(c, factor, 0.9 + 0.03 * static_cast<double>(i), weights[i + 1]);
    }
    CiphertextData data = c.data();
    data.scale = context_.scale(first);
    data.ranges = Ranges(Range::of(-bound_, bound_, 1, 1));
    return finish(std::move(data));
  }

  /// x + a x^3, which is nearer than x = sin(angle v) / angle to v: a is angle^2 / 6, and some more for the next term of the arc sine.
  Ciphertext corrected(const Ciphertext& x) {
    const double angle = 2 * std::numbers::pi * scale_ / context_.bootstrapper().lowest_modulus();
    const double square = angle * angle;
    const double a = square / 6 * (1 + kNextTerm * square * bound_ * bound_) / (stages_.share() * stages_.share());
    const std::size_t level = x.level();
    const double scale = context_.ratio(level) * (context_.scale(level - 1) / x.scale());
    // What is behind packed real parts is imaginary, and its cube of another sign.
    const Ciphertext part = rescale(stages_.packed() ? multiply(x, stages_.weights(-1)(a, level, scale))
                                                     : multiply_constants(x, number(a), scale));
    Ciphertext cube = multiply(part, relinearize_rescale(multiply(x, x), stages_.keys(), stages_.next(0.97)));
    const Ciphertext same = confined(x, level - 1);
    const double wide = cube.scale() / same.scale();
    std::vector<Summand> parts;
    parts.push_back({std::move(cube)}), parts.push_back({same, 1, wide});
    return relinearize_rescale(weighted_sum(std::move(parts)), stages_.keys(), stages_.next(0.98));
  }

  /// Of a number of size 1 with no negative part, by roots alone, which are the same everywhere.
  static std::complex<double> half_angle(std::complex<double> z) {
    return {std::sqrt((1 + z.real()) / 2), std::sqrt((1 - z.real()) / 2)};
  }

  /// `end`: of the whole, where this part ends.
  Ciphertext square_less(const Ciphertext& a, double less, double end, const Weights& weights = {}) {
    Ciphertext square = multiply(a, a);
    if (weights)
      square = add(square, weights(-less, square.level(), square.scale()));
    else
      add_constants_into(square, number(-less));
    CiphertextData data = relinearize_rescale(square, stages_.keys(), stages_.next(end)).data();
    data.ranges = Ranges(Range::of(-2, 2, 1, 1));
    return finish(std::move(data));
  }

  /// What is not the values': roundings at each step, as far as they reach, the fit, and the sine for what it stands for, in units
  /// of the values. Eight deviations of what goes through the sine, whose long tails are counted beside; the bound of the last rounding.
  double own_noise() const {
    const double rho = std::log2(context_.bootstrapper().lowest_modulus() / scale_);
    // From y and y^2 to values: near 0, where a quarter of all y are, errors have long tails.
    const double inside = stages_.rounding() + 5.5 + std::log2(kSineRange) + rho;
    const double angle = rho - std::log2(2 * std::numbers::pi);
    // (2 pi)^2 / 6; and of the term after that what a cube leaves
    const double sine = corrections(context_.spec().bootstrapping) > 0 ? 4.1 - 4 * rho + 5 * std::log2(bound_)
                                                                       : 2.72 - 2 * rho + 3 * std::log2(bound_);
    const double own = rlwe::log2_sum(rlwe::log2_sum(stages_.angle_noise() + rho, inside),
                                      rlwe::log2_sum(std::log2(sine_.error) + angle, sine));
    // The last rounding. Packed halves are swapped, and parted where they are two items: three at most, and the sine's last one doubled.
    const std::size_t top = context_.top_level();
    const double last = context_.key_switch_noise(top) - std::log2(context_.scale(top));
    return rlwe::log2_sum(own, last + (stages_.packed() ? 1.5 : 0));
  }

  /// Of the arc sine's fifth power, relative to its cube, for arguments up to 1: so much of the fifth as a cube can best be.
  static constexpr double kNextTerm = 0.86 * 9 / 20;

  BootstrapStages stages_;
  Context& context_;
  const Sine sine_;
  const double bound_;
  double scale_ = 0;  // a value is so many units of the lowest level's coefficients
};

}  // namespace

Ciphertext within(const Ciphertext& x, double bound) {
  require<ParameterError>(bound > 0 && std::isfinite(bound), "a bound on values is a number above 0");
  const double slack = 1 + 0x1p-14;  // bounds in files have 16 bits
  CiphertextData data = x.data();
  Range most = Range::of(-bound, bound, 1, 1);
  // The word is of the values: other numbers may stand behind them. `finish` knows those that are known.
  if (!data.tail.is_zero() && data.tail.kind() != Tail::Kind::even)
    most.peak = most.rms = std::numeric_limits<double>::infinity();
  const auto said = [&](const Range& r) {
    if (r.largest() <= bound * slack && r.known()) return r;
    Range both = narrowed(r, most);
    both.word = true;
    return both;
  };
  const Range vouched = data.ranges.merged().vouched;
  if (!(vouched.largest() <= bound * slack)) data.noise.vouched = std::nan("");
  data.ranges = data.ranges.map(said);
  return finish(std::move(data));
}

Ciphertext bootstrap(const Ciphertext& given, const EvaluationKeys& keys, double bound, const Progress& progress,
                     int iterations) {
  require_bootstrapping(given, keys);
  require<ParameterError>(iterations >= 1 && iterations <= 4, "a bootstrap has 1 to 4 iterations");
  const double known = known_bound(given.data());
  if (bound == 0) {
    if (std::isnan(known) || known > 0x1p20)
      throw PlaintextRangeError(
          (std::isnan(known) ? std::string("no bound is known on the values of this tensor")
                             : "the values of this tensor may reach " + std::to_string(known)) +
          ", and a bootstrap needs one of at most 2^20: give a bound that holds (within(x, 8)), or encrypt "
          "with one (bound=)");
    bound = std::max(known, 0x1p-20);
  }
  require<ParameterError>(bound >= 0x1p-20 && bound <= 0x1p20, "the bound of a bootstrap lies between 2^-20 and 2^20");
  if (known > bound * kQuarterBit) {
    throw PlaintextRangeError("the values of this tensor may reach " + std::to_string(known) + ", beyond the bound of " +
                              std::to_string(bound) +
                              ": give a larger bound, or say that they stay within this one (within)");
  }
  bound = std::fmax(bound, known);  // at most a quarter of a bit more
  const Ciphertext x = within(given, bound);
  const CiphertextData& data = x.data();
  if (data.tensor.items() == 0) return nothing(x, data.context->top_level());
  const std::size_t entry = x.parameters().bootstrapping_level();
  Parts parts(progress);
  const Progress whole = parts.next(1.0 / iterations);
  Bootstrap first(x, keys, bound, whole);
  Ciphertext y = first.run();
  rlwe::Figure missing = first.error();
  for (int i = 1; i < iterations; ++i) {
    // What is missing is small, and its values' bound is known; its noise is not y's, which is among these values.
    const Ciphertext have = lower(x, entry);
    CiphertextData left = subtract(have, lower(y, entry)).data();
    const double most = std::exp2(missing.assumed);
    left.ranges = Ranges(RangePair{std::isnan(missing.vouched) ? Range::unknown() : Range::of(-most, most, 1, 1),
                                   Range::of(-most, most, 1, 1)});
    left.noise = rlwe::log2_sum(have.data().noise, rlwe::Figure(data.context->rounding_noise(2)));
    left.complex = true;  // errors are, also those of real values: each item by itself
    const Progress part = parts.next((i + 1.0) / iterations);
    Bootstrap rest(finish(left), keys, std::exp2(missing.assumed), part);
    const Ciphertext more = rest.run();
    missing = rest.error();
    CiphertextData sum = add(y, more).data();
    sum.noise = more.data().noise, sum.ranges = y.data().ranges, sum.complex = data.complex;
    y = finish(std::move(sum));
  }
  return y;
}

}  // namespace heliograph::ckks
