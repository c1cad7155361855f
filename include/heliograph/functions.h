// Functions of encrypted real numbers with a stated error: polynomials on an interval, Newton's method and compositions of
// polynomials for signs (docs/functions.md).
//
// A function holds on an interval of values: the tracked bounds of its operand, or an interval that the caller declares. The
// error bounds of a result (`error_bounds`) include the error of the approximation, the operand's error and the roundings.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heliograph/ckks.h"

namespace heliograph::ckks {

/// An operand or a result of a function. `attached` is data of a derived Evaluator, nullptr otherwise.
class Operand : public Ciphertext {
 public:
  Operand() = default;
  Operand(Ciphertext x, std::shared_ptr<void> attached = {})  // NOLINT(google-explicit-constructor): an operand
      : Ciphertext(std::move(x)), attached_(std::move(attached)) {}
  const std::shared_ptr<void>& attached() const { return attached_; }

 private:
  std::shared_ptr<void> attached_;
};

/// Odd polynomials whose composition differs from the sign of x by at most `error` for gap <= |x| <= 1. Source: Lee, Lee,
/// No, Kang, Kang, ePrint 2020/834; scripts/sign_composites.py computes the table.
struct Composition {
  std::size_t place = 0;  // position in the table
  double gap = 0, error = 0;
  double error_of_abs = 0;  // largest difference between |x| and x times the composition, on [-1, 1]
  std::vector<std::size_t> degrees, depths;
  std::vector<std::vector<double>> stages;  // Chebyshev series of the polynomials, in order of evaluation
  std::vector<double> lows;                 // lower ends of the polynomials' domains
  std::vector<double> growths;              // per polynomial: largest derivative of the rest of the composition, from it on
  std::vector<double> growths_of_abs;       // largest product of |x| and the derivative, on [-1, 1]
};
/// Returns the table of compositions.
const std::vector<Composition>& compositions();

/// Guards of declared intervals; with a guard, decrypt throws OutOfIntervalError if an argument was outside. `usual`
/// is the guard of evaluate_polynomial, `strong` is the guard of strong_guards, `none` means no guard (skip_guards).
enum class Guarding : unsigned char { usual, strong, none };

/// Performs the operations of functions with evaluation keys. A derived class can change or observe each operation: for
/// example, `ready` can bootstrap an operand that has too few levels.
class Evaluator {
 public:
  Evaluator(EvaluationKeys keys) : keys_(std::move(keys)) {}  // NOLINT(google-explicit-constructor): keys evaluate
  virtual ~Evaluator() = default;

  /// Returns x for an operation of `levels` levels. The base class returns x unchanged.
  virtual Operand ready(const Operand& x, std::size_t levels) const;
  /// Evaluates a Chebyshev series of x in [-1, 1], like evaluate_polynomial.
  virtual Operand polynomial(const Operand& x, const std::vector<double>& coefficients, const std::string& guard) const;
  /// Multiplies, relinearizes and rescales.
  virtual Operand multiply(const Operand& a, const Operand& b) const;
  /// Multiplies by a number and rescales.
  virtual Operand times(const Operand& x, double factor) const;
  virtual Operand plus(const Operand& x, double summand) const;
  virtual Operand add(const Operand& a, const Operand& b) const;
  virtual Operand subtract(const Operand& a, const Operand& b) const;
  virtual Operand negate(const Operand& x) const;
  /// Sums over an axis of ciphertexts, which is removed.
  virtual Operand sum(const Operand& x, std::size_t axis) const;
  /// Sums over all slots of the set's period; every slot has the sum.
  virtual Operand sum_slots(const Operand& x) const;
  virtual Operand reshape(const Operand& x, const Shape& shape) const;
  virtual Operand with_error(const Operand& x, const ErrorBounds& error) const;
  virtual Operand inside(const Operand& x, double low, double high) const;
  virtual Operand within(const Operand& x, const Interval& interval) const;
  virtual Operand guarded(const Operand& x, Guarding guard) const;
  /// Returns the entry at `position` of the first axis.
  virtual Operand index(const Operand& x, std::size_t position) const;
  /// Joins tensors along the first axis.
  virtual Operand concatenate(const std::vector<Operand>& parts) const;
  /// Returns `count` entries of the first axis, from `start` on.
  virtual Operand slice(const Operand& x, std::size_t start, std::size_t count) const;
  virtual Operand transpose(const Operand& x, const std::vector<std::size_t>& order) const;
  virtual Operand lower(const Operand& x, std::size_t level) const;
  /// Rotates the slots left. `composes`: a step without a key may be composed of steps with keys.
  virtual Operand rotate(const Operand& x, std::int64_t steps, bool composes) const;
  /// Multiplies by real numbers and rescales. `values.width` is 1 (one number for each ciphertext) or the slots of x.
  virtual Operand times_each(const Operand& x, const Values& values) const;
  virtual Operand plus_each(const Operand& x, const Values& values) const;
  /// Multiplies the first `count` slots by a number, sets all other slots to 0, and rescales. The result has `count` slots.
  virtual Operand first_slots(const Operand& x, std::size_t count, double factor) const;
  /// Returns whether the keys have these rotations.
  virtual bool has_rotations(const std::vector<std::int64_t>& steps) const;
  /// Throws MissingKeyError, which names `what`, unless the keys have these rotations and relinearization.
  virtual void require_rotations(const std::vector<std::int64_t>& steps, const std::string& what) const;
  virtual Operand functional_bootstrap(const Operand& x, const std::vector<double>& table) const;
  /// Returns whether the keys include the keys of bootstrapping.
  virtual bool has_bootstrapping() const;
  /// Returns whether signs place bootstraps (`bootstrapped`) before their polynomials, by a forecast of time and error. The
  /// base class returns false, so that only `ready` may bootstrap.
  virtual bool is_automatic() const { return false; }
  virtual Operand bootstrapped(const Operand& x, int iterations) const;
  /// Returns the error bound of values up to 1 after a bootstrap. This method and the next two find the bound by a trial run
  /// on the null device.
  virtual double bootstrap_error(const Parameters& parameters, int iterations) const;
  /// Returns the error bound of the roundings when a polynomial of a composition is evaluated.
  virtual double rounding_error(const Parameters& parameters, const Composition& composition, std::size_t stage) const;
  /// Returns the error bound of a functional bootstrap by a table. `noise`: a bound on the error of the integers before it.
  virtual double table_error(const Parameters& parameters, const std::vector<double>& table, double noise) const;
  /// Returns whether this is a trial run, whose values are zeros and need not be inside a declared interval.
  virtual bool is_trial() const { return false; }

 protected:
  Evaluator() = default;
  Evaluator(const Evaluator&) = default;
  Evaluator& operator=(const Evaluator&) = default;

 private:
  std::optional<EvaluationKeys> keys_;
};

/// Options of a function.
struct FunctionOptions {
  /// Largest error of a result, including noise. The function throws NoiseError if the noise alone exceeds this error.
  /// nullopt: the approximation has an error of 2^-20 of the largest result.
  std::optional<double> error = {};
  /// Declared interval of the values; values outside give wrong results. nullopt: the tracked bounds.
  std::optional<Interval> domain = {};
  Guarding guard = Guarding::usual;  // guard of a declared interval
};

/// A function's polynomial on an interval: a Chebyshev series, with its largest distance from the function.
class Approximation {
 public:
  Approximation(std::string name, double low, double high, std::vector<double> coefficients, double error, bool relative);
  const std::string& name() const { return name_; }
  double low() const { return low_; }
  double high() const { return high_; }
  /// Returns the coefficients of the series in the Chebyshev polynomials of the interval, scaled to [-1, 1].
  const std::vector<double>& coefficients() const { return coefficients_; }
  /// Returns the largest distance from the function on the interval, divided by |f| if is_relative().
  double error() const { return error_; }
  bool is_relative() const { return relative_; }
  std::size_t degree() const { return coefficients_.size() - 1; }
  /// Returns the number of levels, including the level for scaling to [-1, 1].
  std::size_t depth() const;
  /// Returns the largest magnitude of the polynomial on the interval, rounded up.
  double largest() const;
  /// Returns the polynomial at a number that is not encrypted. Throws PlaintextRangeError outside the interval.
  double clear(double x) const;
  Approximation renamed(std::string name) const;

 private:
  std::string name_;
  double low_, high_;
  std::vector<double> coefficients_;
  double error_;
  bool relative_;
};

struct FitOptions {
  std::optional<double> error = {};       // largest distance from f; nullopt: 2^-20 times the largest |f| (relative: 2^-20)
  bool relative = false;                  // whether the distance is divided by |f|
  std::optional<std::size_t> depth = {};  // number of levels of the best polynomial, in place of `error`
  std::string name = "the function";      // name of f in errors and guards
};
/// Fits a polynomial to f on [low, high]: the polynomial of the smallest degree that reaches the error, or the best
/// polynomial of the given depth. The error is measured between the points of the fit. Throws ParameterError if no
/// polynomial of 10 levels has the error, or for an invalid option; PlaintextRangeError if f is not finite on the interval.
Approximation approximate(const std::function<double(double)>& f, double low, double high, const FitOptions& options = {});
/// Same as approximate, for a function that maps several numbers in one call.
Approximation approximate_values(const std::function<std::vector<double>(const std::vector<double>&)>& f, double low,
                                 double high, const FitOptions& options = {});
/// Evaluates an approximation. Throws PlaintextRangeError if the bounds of x are not inside the interval (`within` declares
/// other bounds); LevelError; DtypeError for complex values. A guard of the result has the name `guard`, by default the name
/// of the function.
Operand evaluate(const Approximation& f, const Operand& x, const Evaluator& by, const std::string& guard = {});

// Functions of each value. The functions throw ParameterError without an interval, for an interval with a pole, or if no
// polynomial reaches the error. The functions throw PlaintextRangeError if all values are outside the declared interval, and
// NoiseError if noise exceeds the error. The functions also throw LevelError, MissingKeyError, and DtypeError for complex
// values.

/// Methods of exp. squaring: a polynomial of x / 2^r whose result is squared r times. automatic: the method that takes fewer
/// levels.
enum class ExpMethod : unsigned char { automatic, polynomial, squaring };
Operand exp(const Operand& x, const Evaluator& by, const FunctionOptions& options = {},
            ExpMethod method = ExpMethod::automatic);
Operand log(const Operand& x, const Evaluator& by, const FunctionOptions& options = {});
Operand sigmoid(const Operand& x, const Evaluator& by, const FunctionOptions& options = {});
Operand tanh(const Operand& x, const Evaluator& by, const FunctionOptions& options = {});
Operand gelu(const Operand& x, const Evaluator& by, const FunctionOptions& options = {});
Operand erf(const Operand& x, const Evaluator& by, const FunctionOptions& options = {});
Operand sin(const Operand& x, const Evaluator& by, const FunctionOptions& options = {});
Operand cos(const Operand& x, const Evaluator& by, const FunctionOptions& options = {});
/// Returns x to the power of a known number. An exponent that is not an integer needs an interval above 0; a negative
/// exponent needs an interval without 0.
Operand power(const Operand& x, double exponent, const Evaluator& by, const FunctionOptions& options = {});
/// Returns 1 / x by a polynomial and Newton's method y (2 - x y), in two levels a step. The interval must not contain 0.
Operand inverse(const Operand& x, const Evaluator& by, const FunctionOptions& options = {});
/// Returns 1 / sqrt(x) by a polynomial and Newton's method y (3 - x y^2) / 2. The interval must be above 0.
Operand rsqrt(const Operand& x, const Evaluator& by, const FunctionOptions& options = {});
/// Returns x / sqrt(x). The interval must be above 0.
Operand sqrt(const Operand& x, const Evaluator& by, const FunctionOptions& options = {});
/// Returns a / b. The options apply to the inverse of b.
Operand divide(const Operand& a, const Operand& b, const Evaluator& by, const FunctionOptions& options = {});

/// An axis of ciphertexts; nullopt: the slots of each ciphertext, which must fill the set's period. Functions of slots need
/// keys for the rotations by powers of two below the period.
using Axis = std::optional<std::size_t>;
/// Returns exp(x) / sum(exp(x)) along an axis. For an interval of width w errors grow by up to e^(w/2). `options.error` is
/// not used: the error bounds of the result state the error. Throws the errors of `exp` and ShapeError.
Operand softmax(const Operand& x, const Axis& axis, const Evaluator& by, const FunctionOptions& options = {});
/// Returns log(sum(exp(x))) along an axis, which is removed, or over the slots. Interval, options and errors are those of
/// softmax.
Operand logsumexp(const Operand& x, const Axis& axis, const Evaluator& by, const FunctionOptions& options = {});
/// Returns the Euclidean norm along an axis, which is removed, or over the slots. `options.domain` is required: an interval
/// of the norm above 0.
Operand norm(const Operand& x, const Axis& axis, const Evaluator& by, const FunctionOptions& options);

// Signs and comparisons.

/// Methods of signs of integers. polynomial: a composition of polynomials. bootstrap: one functional bootstrap by a table of
/// at most 256 integers. automatic: the method whose error bound meets the error; if both do, the cheaper one by a forecast.
enum class SignMethod : unsigned char { automatic, polynomial, bootstrap };

struct SignOptions {
  std::optional<double> gap = {};             // smallest |x| whose sign must be right; required unless `integers`
  bool integers = false;                      // in place of `gap`: declares that all values are integers, up to their error
  SignMethod method = SignMethod::automatic;  // method for comparisons of integers
  std::optional<double> error = {};           // largest error; nullopt: 2^-20, or 2^-10 for integers
  std::optional<Interval> domain = {};        // declared interval, as in FunctionOptions
  Guarding guard = Guarding::usual;
};
/// Returns 1 for values of at least the gap and -1 for values of at most -gap, up to the error. Between -gap and gap the
/// result is between -1 and 1. Throws NoiseError if the noise of x exceeds 2^-6 of the gap, or if noise exceeds the error.
/// Throws ParameterError for a gap below 2^-20 of the largest value, an error below 2^-30 or too many integers for a table.
/// Throws LevelError, MissingKeyError, DtypeError.
Operand sign(const Operand& x, const Evaluator& by, const SignOptions& options);

enum class Relation : unsigned char { less, less_equal, greater, greater_equal, equal, not_equal };
/// Returns 1 where x has the relation to 0, and 0 where it does not. For the four relations of order, |x| must be at least
/// the gap; smaller values give a number between 0 and 1, and 0 gives 1/2. `equal` gives 1 for |x| up to gap / 2, and 0 for
/// |x| of at least 3/2 gap. For integers every relation is exact. Throws the errors of sign.
Operand compare(const Operand& x, Relation relation, const Evaluator& by, const SignOptions& options);
/// Compares a with b: the relation of a - b to 0. `options.domain` is the interval of a - b.
Operand compare(const Operand& a, Relation relation, const Operand& b, const Evaluator& by, const SignOptions& options);
Operand compare(const Operand& a, Relation relation, double b, const Evaluator& by, const SignOptions& options);
/// Returns b + condition (a - b): the value of a where the condition is 1, and the value of b where it is 0. The condition
/// is a result of compare. Throws PlaintextRangeError if the bounds of the condition exceed [-1/4, 5/4].
Operand where(const Operand& condition, const Operand& a, const Operand& b, const Evaluator& by);

// Functions that use signs. `options.error` is required. The functions throw the errors of sign.

/// Returns x sign(x).
Operand abs(const Operand& x, const Evaluator& by, const FunctionOptions& options);
/// Returns the larger of x and 0.
Operand relu(const Operand& x, const Evaluator& by, const FunctionOptions& options);
/// Returns the larger of a and b, as (a + b + |a - b|) / 2. `options.domain` is the interval of a - b.
Operand maximum(const Operand& a, const Operand& b, const Evaluator& by, const FunctionOptions& options);
/// Returns the smaller of a and b, as (a + b - |a - b|) / 2. `options.domain` is the interval of a - b.
Operand minimum(const Operand& a, const Operand& b, const Evaluator& by, const FunctionOptions& options);
/// Returns (|x - low| - |x - high| + low + high) / 2: values limited to [low, high].
Operand clip(const Operand& x, double low, double high, const Evaluator& by, const FunctionOptions& options);

// Extremes, indices, sorted values and quantiles along an axis. Extremes, indices and quantiles remove an axis of
// ciphertexts. If the axis is nullopt, the values are the slots of each ciphertext. The tensor must then fill the set's
// period (ShapeError), and every slot has the extreme or the index.

/// Returns the largest or the smallest value, in rounds of `maximum`. `options.error` is required. Slots need the rotations
/// by powers of two below the period.
Operand max(const Operand& x, const Axis& axis, const Evaluator& by, const FunctionOptions& options);
Operand min(const Operand& x, const Axis& axis, const Evaluator& by, const FunctionOptions& options);

struct OrderOptions {
  std::optional<double> gap = {};             // different values differ by at least this; required unless `integers`
  bool integers = false;                      // in place of `gap`: declares that all values are integers
  SignMethod method = SignMethod::automatic;  // method for integers along an axis of ciphertexts
  std::optional<Interval> domain = {};        // declared interval, as in FunctionOptions
  Guarding guard = Guarding::usual;
  std::optional<std::size_t> count = {};  // number of values along the slots, which are the first slots; nullopt: all slots
};
/// Returns the rotations that order along slots needs: powers of two, left and right.
std::vector<std::int64_t> sort_rotations(std::size_t period);
/// Returns the rotations by which functions of order along an axis pack tensors of `slots` values into blocks of slots, with
/// automatic bootstraps. `period`: the number of slots of the set. Throws ParameterError.
std::vector<std::int64_t> block_rotations(std::size_t slots, std::size_t period);
/// Return the index of the largest or the smallest value; if several values are equal, the first index. All pairs are
/// compared. `one_hot`: the axis stays and has 1 at the index and 0 elsewhere. Throws the errors of sign, ShapeError for no
/// values, ParameterError for a wrong count.
Operand argmax(const Operand& x, const Axis& axis, const Evaluator& by, const OrderOptions& options, bool one_hot = false);
Operand argmin(const Operand& x, const Axis& axis, const Evaluator& by, const OrderOptions& options, bool one_hot = false);
/// Returns the values in ascending order. Two values that differ by less than the gap may be replaced by mixtures of the
/// two. Along slots, the slots after the values hold copies.
Operand sort(const Operand& x, const Axis& axis, const Evaluator& by, const OrderOptions& options);
/// Returns the k largest values, the largest first. Along slots, all other slots hold 0.
Operand top_k(const Operand& x, std::size_t k, const Axis& axis, const Evaluator& by, const OrderOptions& options);
/// Returns a quantile by linear interpolation of the sorted values. Along slots, slot 0 holds the quantile.
Operand quantile(const Operand& x, double q, const Axis& axis, const Evaluator& by, const OrderOptions& options);
/// Counts each ciphertext's values between successive edges. The counts are along a new first axis, in every slot. A value
/// at least the gap from every edge counts 1 in one bin. A value at an edge counts 1/2 in both neighbouring bins.
Operand histogram(const Operand& x, const std::vector<double>& edges, const Evaluator& by, const OrderOptions& options);

// Parts of functions.

/// A tensor and the interval of its values.
struct Bounded {
  Operand x;
  double low = 0, high = 0;
};
/// Returns x with the interval of its values: the declared domain, or the tracked bounds. `what` names the function in
/// errors. Throws ParameterError without an interval; PlaintextRangeError if no value can be inside the domain; DtypeError.
Bounded bounded_by(const Operand& x, const Evaluator& by, const FunctionOptions& options, const std::string& what);
/// Returns y with these error bounds. Throws NoiseError if the assumed bound is above `error`.
Operand with_promise(const Operand& y, const Evaluator& by, const ErrorBounds& errors, std::optional<double> error,
                     const std::string& what);
/// A value y near f(x) with |y - f(x)| <= relative |f(x)| + rounding, without the effect of the error of x.
struct Relative {
  Operand y;
  double relative = 0;
  ErrorBounds rounding;
};
/// Returns 1 / sqrt(x) on the interval, with the relative error `relative` plus roundings. `guard` names the guard.
Relative inverse_root(const Operand& x, const Evaluator& by, const Interval& interval, double relative,
                      const std::string& guard);
/// Same as inverse_root, but also accepts values from 0 to `interval.low`, for which the result is between 0 and 1 /
/// sqrt(x). For larger values the stated relative error holds, and it includes the roundings.
Relative inverse_root_from_zero(const Operand& x, const Evaluator& by, const Interval& interval, double relative,
                                const std::string& guard);

/// Returns the compositions for |x| in [gap, 1]. Throws ParameterError if there is none.
std::vector<Composition> fitting_compositions(double gap, double error);
/// A composition, and for each polynomial the iterations of the bootstrap before it. 0: no bootstrap before the polynomial.
/// nullopt: Evaluator::ready decides whether to bootstrap.
struct SignPlan {
  Composition composition;
  bool has_gap = true;
  std::vector<std::optional<int>> iterations;

  const std::vector<double>& growths() const { return has_gap ? composition.growths : composition.growths_of_abs; }
};
/// Returns the cheapest plan for x. `error`: largest error of the composition and its bootstraps. `scales`: whether scaling
/// x takes a level before the first polynomial. `after`: levels above the bootstrapping level that should remain for later
/// operations. Without automatic bootstraps, or if no plan meets the error, the plan is the composition of the fewest
/// levels.
SignPlan plan_signs(const Ciphertext& x, const Evaluator& by, const std::vector<Composition>& candidates, bool has_gap,
                    double error, bool scales, std::size_t after = 0);
/// Throws PlaintextRangeError if the known bounds of a condition of `where` exceed [-1/4, 5/4].
void require_condition(const Ciphertext& condition);
/// Returns the larger or the smaller of two values, given their sum and difference. `limits`: bounds of the result, if
/// known.
Operand extreme_of(const Operand& sum, const Operand& difference, const std::optional<Interval>& limits, bool larger,
                   const Evaluator& by, double error, const std::string& what);

}  // namespace heliograph::ckks
