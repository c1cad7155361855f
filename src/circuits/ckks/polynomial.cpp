// Polynomials of ciphertexts in the fewest levels: baby-step giant-step (Paterson and Stockmeyer). Each sum is formed at the
// level and scale at which it is needed (Bossuat, Mouchet, Troncoso-Pastoriza, Hubaux, ePrint 2020/1203, section 5); the
// products of a sum are relinearized together.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/errors.h"
#include "base/progress.h"
#include "circuits/ckks/guards.h"
#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

namespace {

using Complex = std::complex<double>;
using Coefficients = std::vector<Complex>;

/// Returns the number of levels that x^power, or the Chebyshev polynomial T_power of x, takes.
std::size_t depth_of(std::size_t power) { return power <= 1 ? 0 : std::bit_width(power - 1); }

/// Returns the two factors of a power. The larger is a power of two, so that odd polynomials need odd powers only.
std::pair<std::size_t, std::size_t> factors_of(std::size_t power) {
  const std::size_t a = std::size_t{1} << (depth_of(power) - 1);
  return {a, power - a};
}

std::size_t degree_of(const Coefficients& p) {
  std::size_t degree = p.size();
  while (degree > 1 && p[degree - 1] == Complex(0)) --degree;
  return degree - 1;
}

// A Chebyshev series is evaluated with C_k = 2 T_k(x / 2), where C_(a+b) = C_a C_b - C_(a-b) needs no doubling.

/// Divides by the power g: p = quotient * (power g) + remainder. The remainder, of degree below g, replaces p in place.
Coefficients divide(Coefficients& p, std::size_t g, Basis basis) {
  Coefficients quotient(p.begin() + static_cast<std::ptrdiff_t>(g), p.end());
  if (basis == Basis::chebyshev)
    for (std::size_t i = 1; i < quotient.size(); ++i) p[g - i] -= quotient[i];
  p.resize(g);
  return quotient;
}

struct Product;

/// A sum of terms, `depth` levels below x. A term is a number times a power of x, or a quotient times a power of x whose
/// exponent is a power of two.
struct Sum {
  std::size_t depth = 0;
  Complex constant = 0;
  std::vector<std::pair<std::size_t, Complex>> terms;
  std::vector<Product> products;
};

struct Product {
  std::size_t power;
  Sum quotient;
};

Sum sum_of(Coefficients p, std::size_t depth, std::size_t baby, Basis basis) {
  Sum sum{depth, {}, {}, {}};
  for (;;) {
    p.resize(degree_of(p) + 1);
    const std::size_t degree = p.size() - 1;
    if ((degree < baby || degree <= 1) && depth_of(degree) <= depth) break;
    const std::size_t g = std::bit_floor(degree);
    Coefficients quotient = divide(p, g, basis);
    if (quotient.size() == 1)
      sum.terms.emplace_back(g, quotient[0]);
    else
      sum.products.push_back({g, sum_of(std::move(quotient), depth - 1, baby, basis)});
  }
  sum.constant = p[0];
  for (std::size_t i = 1; i < p.size(); ++i)
    if (p[i] != Complex(0)) sum.terms.emplace_back(i, p[i]);
  return sum;
}

void need(std::size_t power, Basis basis, std::set<std::size_t>& powers) {
  if (power == 0 || !powers.insert(power).second || power == 1) return;
  const auto [a, b] = factors_of(power);
  need(a, basis, powers);
  need(b, basis, powers);
  if (basis == Basis::chebyshev) need(a - b, basis, powers);
}

/// Collects the powers that a sum needs, and adds its cost: number of relinearizations, number of products.
void survey(const Sum& sum, Basis basis, std::set<std::size_t>& powers, std::pair<std::size_t, std::size_t>& cost) {
  for (const auto& [power, factor] : sum.terms) need(power, basis, powers);
  if (!sum.products.empty()) ++cost.first;
  for (const auto& [power, quotient] : sum.products) {
    need(power, basis, powers);
    ++cost.second;
    survey(quotient, basis, powers, cost);
  }
}

struct Plan {
  Sum sum;
  std::set<std::size_t> powers;
  std::pair<std::size_t, std::size_t> cost;
};

Plan plan_of(const Coefficients& p, std::size_t depth, Basis basis) {
  std::optional<Plan> best;
  for (std::size_t baby = 2; baby <= std::bit_ceil(p.size()); baby *= 2) {
    Plan plan{sum_of(p, depth - 1, baby, basis), {}, {}};
    survey(plan.sum, basis, plan.powers, plan.cost);
    const std::size_t made = plan.powers.size() - plan.powers.count(1);
    plan.cost.first += made;
    plan.cost.second += made;
    if (!best || plan.cost < best->cost) best = std::move(plan);
  }
  return *best;
}

/// Largest number of summands that are held in memory; one call sums them.
constexpr std::size_t kHeld = 8;

/// Tolerated excess of a Chebyshev argument over 1, for the rounding of doubles (kReach) and of bounds in files (kRounded).
constexpr double kReach = 0x1p-30, kRounded = 0x1p-14;

/// Largest number of ciphertexts whose ranges are evaluated one by one.
constexpr std::size_t kEach = 64;

Values complex_number(Complex value) { return {{value}, {}, 1, value.imag() != 0}; }

/// Returns bounds on C_k(x), k up to `degree`. x is twice an argument in [-reach, reach], so |C_k| is at most 2 cosh(k
/// arcosh(reach)). Tracked bounds may be larger. The bounds hold for padding slots only if the contents of these slots are
/// in [-reach, reach], too.
RangePair within_two(const CiphertextData& x, double reach, std::size_t degree) {
  const double two = 2 * std::cosh(static_cast<double>(degree) * std::acosh(reach)) * (1 + kReach);
  const bool behind = x.tail.is_zero() || x.tail.kind() == Tail::Kind::even;
  const auto most = [&](const Range& r) {
    const double largest = behind || r.peak <= 2 * reach * (1 + kReach) ? two : std::numeric_limits<double>::infinity();
    return Range{.low = -two, .high = two, .peak = largest, .rms = largest, .mean = two};
  };
  const RangePair all = x.ranges.merged();
  return {most(all.vouched), most(all.assumed)};
}

Ciphertext narrowed_to(const Ciphertext& a, const RangePair& most) {
  CiphertextData data = a.data();
  data.ranges = Ranges::both(data.ranges, a.shape(), Ranges(most), a.shape(), a.shape(), narrowed);
  return finish(std::move(data));
}

/// Returns the largest magnitude of a Chebyshev argument: 1, or its rounded bound. Throws PlaintextRangeError if the
/// bounds of `a` exceed [-1, 1]. If no bound is known, the caller must ensure that all arguments are in [-1, 1].
double reach_of(const Ciphertext& a) {
  const double most = known_bound(a.data());
  if (most > 1 + kRounded)
    throw PlaintextRangeError(
        "a Chebyshev series needs values in [-1, 1], but these may reach " + std::to_string(most) +
        "; scale them, encrypt with a bound (bound=1), or declare that they stay inside (within(x, 1))");
  return most > 1 + kReach ? most : 1;
}

class Evaluation {
 public:
  /// For the Chebyshev basis, x is twice the argument. `most`: bounds on each C_k; nullopt for complex values, which have
  /// no such bounds.
  Evaluation(const Ciphertext& x, Basis basis, const EvaluationKeys& keys, const std::optional<RangePair>& most,
             const Weights& weights = {})
      : x_(most ? narrowed_to(x, *most) : x),
        context_(*x.data().context),
        basis_(basis),
        keys_(keys),
        most_(most),
        weights_(weights) {
    powers_.emplace(std::pair(std::size_t{1}, x_.level()), x_);
  }

  Ciphertext run(const Plan& plan) {
    ProgressSteps steps(plan.cost.first + 1);
    steps_ = &steps;
    for (const std::size_t power : plan.powers)  // ascending, so that the factors of a power are computed first
      if (power > 1) make(power);
    const std::size_t level = x_.level() - plan.sum.depth;
    return formed(plan.sum, context_.scale(level - 1));
  }

  /// Returns a power at the highest level, after `run`; nullopt if it was not computed.
  std::optional<Ciphertext> computed(std::size_t power) const {
    const auto found = powers_.find({power, x_.level() - depth_of(power)});
    return found == powers_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  /// Returns a power of x at a level.
  const Ciphertext& at(std::size_t power, std::size_t level) {
    const auto found = powers_.find({power, level});
    if (found != powers_.end()) return found->second;
    return powers_.emplace(std::pair(power, level), confined(made(power), level)).first->second;
  }
  const Ciphertext& made(std::size_t power) const { return powers_.at({power, x_.level() - depth_of(power)}); }

  /// Returns the divisor of rescaling that keeps the scales of the levels.
  double ratio(std::size_t level) const {
    const double scale = context_.scale(level);
    return scale * scale / context_.scale(level - 1);
  }
  Summand times(std::size_t power, double factor, std::size_t level, double scale) {
    const Ciphertext& a = at(power, level);
    return {a, factor, scale / a.scale()};
  }

  void make(std::size_t power) {
    const auto [a, b] = factors_of(power);
    const std::size_t level = x_.level() - depth_of(a);
    const Ciphertext& one = at(a, level);
    const Ciphertext& other = at(b, level);
    Ciphertext product = multiply(one, other);
    if (basis_ == Basis::chebyshev && a == b) add_constants_into(product, number(-2));
    if (basis_ == Basis::chebyshev && a != b) {
      const Summand less = times(a - b, -1, level, product.scale());
      std::vector<Summand> parts;
      parts.push_back({std::move(product)}), parts.push_back(less);
      product = weighted_sum(std::move(parts));
    }
    Ciphertext result = relinearize_rescale(product, keys_);
    if (most_) result = narrowed_to(result, *most_);
    powers_.insert_or_assign(std::pair(power, level - 1), std::move(result));
    steps_->add();
  }

  /// Computes a sum and rescales it, one level lower, to `scale`.
  Ciphertext formed(const Sum& sum, double scale) {
    const std::size_t level = x_.level() - sum.depth;
    const double wide = scale * ratio(level);
    std::vector<Summand> parts, imaginary;
    const auto include = [&](Ciphertext part) {
      if (parts.size() == kHeld) {
        Ciphertext all = weighted_sum(std::exchange(parts, {}));
        parts.push_back({std::move(all)});
      }
      parts.push_back({std::move(part)});
    };
    for (const auto& [power, quotient] : sum.products) {
      const Ciphertext& factor = at(power, level);
      include(multiply(formed(quotient, wide / factor.scale()), factor));
    }
    for (const auto& [power, factor] : sum.terms) {
      if (weights_) {
        const Ciphertext& a = at(power, level);
        include(multiply(a, weights_(factor, level, wide / a.scale())));
        continue;
      }
      if (factor.real() != 0) parts.push_back(times(power, factor.real(), level, wide));
      if (factor.imag() != 0) imaginary.push_back(times(power, factor.imag(), level, wide));
    }
    if (!imaginary.empty()) include(multiply_i(weighted_sum(std::move(imaginary))));
    const bool real = !weights_ && sum.constant.imag() == 0;
    Ciphertext total = weighted_sum(std::move(parts), real ? sum.constant.real() : 0);
    if (weights_)
      total = add(total, weights_(sum.constant, level, total.scale()));
    else if (!real)
      total = add_constants(total, complex_number(sum.constant));
    const bool wider = total.degree() > 1;
    total = wider ? relinearize_rescale(total, keys_) : rescale(total);
    if (wider) steps_->add();
    return total;
  }

  Ciphertext x_;
  const Context& context_;
  Basis basis_;
  const EvaluationKeys& keys_;
  const std::optional<RangePair> most_;
  const Weights weights_;
  std::map<std::pair<std::size_t, std::size_t>, Ciphertext> powers_;  // computed powers, by exponent and level
  ProgressSteps* steps_ = nullptr;                                    // during `run`
};

}  // namespace

std::size_t polynomial_depth(std::size_t degree) { return std::bit_width(degree); }

namespace {

/// Returns a Chebyshev argument without noise. The result of an evaluation then has the noise of the evaluation alone.
Ciphertext noiseless(const Ciphertext& x) {
  CiphertextData data = x.data();
  data.noise = 0;  // noise of one unit at the scale, far below the noise of a product
  return finish(std::move(data));
}

/// Adds the effect of the argument's noise to the noise of p(x): this noise times the largest derivative of p. The noise may
/// be complex, so x with noise lies in an ellipse with foci -1 and 1, whose half axes have the sum rho. In this ellipse the
/// derivative is at most rho^(d - 1) times its largest value on [-1, 1] (Bernstein).
Ciphertext with_noise_of(const Ciphertext& result, const Ciphertext& x, const Coefficients& p, double reach) {
  std::vector<double> slope(p.size() - 1);  // the derivative's series
  for (std::size_t k = p.size() - 1; k > 0; --k)
    slope[k - 1] = 2 * static_cast<double>(k) * p[k].real() + (k + 1 < slope.size() ? slope[k + 1] : 0);
  slope[0] /= 2;
  const Range steepest = polynomial_of(Range::of(-1, 1, 1, 1), slope, Basis::chebyshev);
  CiphertextData data = result.data();
  const bool behind = x.data().tail.is_zero() || x.data().tail.kind() == Tail::Kind::even;
  const RangePair ranges = x.data().ranges.merged();
  const auto grown = [&](double noise, const Range& range) {
    const double most_of_all =
        std::clamp(range.peak, reach, reach * (1 + kRounded));  // largest magnitude, including padding slots
    const double beyond = std::exp2(noise) / x.scale() + (most_of_all - 1);
    const double rho = 1 + beyond + std::sqrt(beyond * (2 + beyond));
    const double most = std::log2(steepest.largest()) + static_cast<double>(slope.size() - 1) * std::log2(rho);
    const bool inside = behind || range.peak <= reach * (1 + kRounded);
    return inside ? noise + most + std::log2(data.scale / x.scale()) : std::numeric_limits<double>::infinity();
  };
  const rlwe::Figure noise = x.data().noise.norm();
  data.noise = both(data.noise, rlwe::Figure(grown(noise.vouched, ranges.vouched), grown(noise.assumed, ranges.assumed)));
  return finish(std::move(data));
}

/// Tightens the bounds of the result to the polynomial's extremes on the argument's interval. Bounds that are sums of the
/// terms' bounds are much larger.
Ciphertext bounded(const Ciphertext& result, const Ciphertext& x, const Coefficients& p, Basis basis, double reach = 1) {
  std::vector<double> real;
  for (const Complex& c : p) {
    if (c.imag() != 0 || x.complex()) return result;
    real.push_back(c.real());
  }
  const Ranges arguments = x.data().ranges.list().size() <= kEach ? x.data().ranges : Ranges(x.data().ranges.merged());
  const auto inside = [&](Range r) {
    if (basis != Basis::chebyshev) return r;
    // The interval follows from a caller's declaration, or from the other kind of bound (trusted or assumed).
    if (r.largest() > reach * (1 + kReach)) r.declared = r.declared | Declaration(true);
    r.low = std::max(r.low, -reach), r.high = std::min(r.high, reach);
    return r;
  };
  const Ranges image = arguments.map([&](const Range& r) { return polynomial_of(inside(r), real, basis); });
  CiphertextData data = result.data();
  data.ranges = Ranges::both(data.ranges, x.shape(), image, x.shape(), x.shape(), narrowed);
  return finish(std::move(data));
}

}  // namespace

namespace {

/// Replaces bounds that the caller declared by bounds that a guard tests.
Ciphertext declared_within(const Ciphertext& x, double reach) {
  CiphertextData data = x.data();
  data.ranges = data.ranges.map([&](Range r) {
    if (!r.declared.unguarded) return r;
    r.low = std::min(r.low, -reach), r.high = std::max(r.high, reach);
    r.peak = std::max(r.peak, reach), r.rms = std::max(r.rms, reach), r.mean = std::max(r.mean, reach);
    return r;
  });
  return finish(std::move(data));
}

/// Evaluates a series of real coefficients of a real argument in [-reach, reach], and guards the argument.
Ciphertext evaluate_real(const Ciphertext& given, const Coefficients& p, const Plan& plan, double reach,
                         const EvaluationKeys& keys, const std::string& guard) {
  const bool guards = !guard.empty() && needs_guard(given, reach);
  const Ciphertext start = guards ? declared_within(given, reach) : given;
  const Ciphertext argument = within(start, 1), exact = noiseless(argument), twice = add(exact, exact);
  const std::size_t degree = p.size() - 1;
  Evaluation evaluation(twice, Basis::chebyshev, keys, within_two(twice.data(), reach, degree));
  CiphertextData result =
      bounded(with_noise_of(evaluation.run(plan), argument, p, reach), start, p, Basis::chebyshev, reach).data();
  if (guards || guard.empty()) result.ranges = result.ranges.guarded();
  if (guards) {
    const auto chebyshev = [&](std::size_t k) { return evaluation.computed(k); };
    const RangePair all = given.data().ranges.merged();
    const bool strong = all.vouched.declared.strong || all.assumed.declared.strong;
    for (const Guards::Item& made : guards_of_argument({start, degree, strong, chebyshev}, guard, keys))
      result.guards = Guards::joined(result.guards, Guards::of({made}));
  }
  return finish(std::move(result));
}

}  // namespace

Ciphertext evaluate_complex(const Ciphertext& x, const std::vector<Complex>& coefficients, Basis basis,
                            const EvaluationKeys& keys, const std::string& guard) {
  require<ParameterError>(!coefficients.empty(), "a polynomial must have at least one coefficient");
  for (const Complex& c : coefficients)
    if (!std::isfinite(c.real()) || !std::isfinite(c.imag()))
      throw PlaintextRangeError("coefficients of a polynomial must be finite");
  Coefficients p = coefficients;
  p.resize(degree_of(p) + 1);
  const std::size_t degree = p.size() - 1, depth = polynomial_depth(degree);
  if (x.level() <= depth)
    throw LevelError("a polynomial of degree " + std::to_string(degree) + " needs " + std::to_string(depth) +
                     " levels; this ciphertext is at level " + std::to_string(x.level()) + " and has " +
                     std::to_string(x.level() - 1) + " left");
  if (degree == 0) return add_constants(subtract(x, x), complex_number(p[0]));
  Ciphertext start = of_degree_one(x, keys);
  if (basis == Basis::monomial)
    return bounded(Evaluation(start, basis, keys, {}).run(plan_of(p, depth, basis)), start, p, basis);
  // Chebyshev polynomials grow fast beyond [-1, 1], so padding outside this interval is set to 0.
  const auto& behind = start.data().tail.numbers();
  if (start.data().tail.is_number() &&
      std::any_of(behind.begin(), behind.end(), [](const Complex& v) { return std::abs(v) > 1; }))
    start = cleared(start);
  Coefficients halves = p;
  for (std::size_t k = 1; k < p.size(); ++k) halves[k] /= 2;
  const double reach = reach_of(start);
  const Plan plan = plan_of(halves, depth, basis);
  if (start.complex() || std::any_of(p.begin(), p.end(), [](const Complex& c) { return c.imag() != 0; })) {
    const Ciphertext argument = within(start, 1), twice = add(argument, argument);
    std::optional<RangePair> most;
    if (!twice.complex()) most = within_two(twice.data(), reach, degree);
    return bounded(Evaluation(twice, basis, keys, most).run(plan), start, p, basis, reach);
  }
  return evaluate_real(start, p, plan, reach, keys, guard);
}

Ciphertext evaluate_polynomial(const Ciphertext& x, const std::vector<double>& coefficients, Basis basis,
                               const EvaluationKeys& keys, const std::string& guard) {
  return evaluate_complex(x, {coefficients.begin(), coefficients.end()}, basis, keys, guard);
}

Ciphertext evaluate_doubled(const Ciphertext& x, const std::vector<Complex>& coefficients, const EvaluationKeys& keys,
                            const Weights& weights) {
  const Plan plan = plan_of(coefficients, polynomial_depth(coefficients.size() - 1), Basis::chebyshev);
  return Evaluation(x, Basis::chebyshev, keys, within_two(x.data(), 1, 1), weights).run(plan);
}

}  // namespace heliograph::ckks
