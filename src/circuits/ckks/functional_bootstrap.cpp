// Functional bootstrapping by tables (Alexandru, Kim, Polyakov, ePrint 2024/1623). The angle 2 pi u with u = m / p + e plus
// an integer is computed as in a bootstrap, z = exp(i angle). The table's entry at m is a trigonometric polynomial of degree
// p - 1 whose derivative at each m / p is 0, so that e is squared. Tables of signs have odd powers of z only.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/errors.h"
#include "circuits/ckks/bootstrap_stages.h"
#include "math/roots.h"

namespace heliograph::ckks {

namespace {

using Complex = std::complex<double>;

constexpr std::size_t kLargestTable = 256;
/// Allowed size of a larger table, an odd wave, whose polynomial has the depth of a table of kLargestTable numbers.
constexpr std::size_t kLargestWave = kLargestTable + 2;

/// Returns whether values[-m] = -values[m] and values[m + p / 2] = -values[m] for all m modulo p.
bool is_odd_wave(const std::vector<Complex>& values) {
  const std::size_t p = values.size();
  if (p % 2 != 0) return false;
  for (std::size_t m = 0; m < p; ++m) {
    const Complex minus = -values[m];
    if (values[m].imag() != 0 || values[(p - m) % p] != minus || values[(m + p / 2) % p] != minus) return false;
  }
  return true;
}

/// Returns coefficients c_0 / 2, c_1, ..., for which the sum over |k| < p of c_k exp(2 pi i k u) is values[m] at u = m / p:
/// the discrete Fourier transform with decreasing weights (Fejer's kernel). At every u the sum is a mean of the values with
/// non-negative weights.
std::vector<Complex> turns_of(const std::vector<double>& values) {
  const std::size_t p = values.size();
  std::vector<Complex> c(p);
  double largest = 0;
  for (const double v : values) largest = std::max(largest, std::abs(v));
  std::vector<Complex> roots;  // the same bits on every rank and with every math library
  for (std::size_t k = 0; k < p; ++k) roots.push_back(math::turn(k, p));
  for (std::size_t k = 0; k < p; ++k) {
    double real = 0, imaginary = 0;
    for (std::size_t m = 0; m < p; ++m) {
      const Complex& root = roots[k * m % p];
      real += values[m] * root.real(), imaginary -= values[m] * root.imag();
    }
    const double less = static_cast<double>(p - k) / static_cast<double>(p * p);
    const auto rounded = [&](double v) {
      return std::abs(v) < 0x1p-44 * largest ? 0 : v;
    };  // such small coefficients would be 0 with exact sines
    c[k] = {rounded(real * less), rounded(imaginary * less)};
  }
  c[0] /= 2;
  return c;
}

void check(const std::vector<Complex>& table) {
  const bool wave = table.size() == kLargestWave && is_odd_wave(table);
  if (table.size() < 2 || (table.size() > kLargestTable && !wave))
    throw ParameterError("a table must have 2 to " + std::to_string(kLargestTable) + " numbers, not " +
                         std::to_string(table.size()));
  for (const Complex& v : table)
    if (!std::isfinite(v.real()) || !std::isfinite(v.imag()))
      throw PlaintextRangeError("the numbers of a table must be finite");
}

/// Polynomials that compute a table's entry from z.
struct Reading {
  explicit Reading(const std::vector<Complex>& table) {
    std::vector<double> real, imaginary;
    for (const Complex& v : table) real.push_back(v.real()), imaginary.push_back(v.imag());
    complex = std::any_of(imaginary.begin(), imaginary.end(), [](double v) { return v != 0; });
    polynomial = turns_of(real);
    if (table.size() > kLargestTable) shorten();
    if (complex) {
      conjugated = polynomial;
      const std::vector<Complex> i = turns_of(imaginary);
      for (std::size_t k = 0; k < i.size(); ++k) {
        polynomial[k] += Complex(-i[k].imag(), i[k].real());
        conjugated[k] -= Complex(-i[k].imag(), i[k].real());
      }
    } else if (table.size() == 2 && polynomial[1] != Complex(0)) {
      gain = polynomial[1].real(), polynomial[1] = 1;
      return;
    }
    std::size_t degree = table.size() - 1;
    while (degree > 0 && polynomial[degree] == Complex(0) && (!complex || conjugated[degree] == Complex(0))) --degree;
    levels = polynomial_depth(degree);
  }

  std::vector<Complex> polynomial;  // a table's entry is the value v of `polynomial` plus a complex conjugate:
  std::vector<Complex> conjugated;  // conj(v); for complex tables, the conjugate of the value of `conjugated`
  bool complex = false;
  double gain = 1;         // factor by which z is multiplied
  std::size_t levels = 0;  // levels that the polynomials take
  double steepness = 0;    // magnitude of the derivative at the integers 0 and p / 2, per step; 0 at other integers
  double excess = 0;       // largest amount by which results between integers exceed the table's numbers

 private:
  /// Removes the highest power of an odd wave. The function subtracts b times the sum of sin(t), sin(3 t), ...,
  /// sin((p - 1) t), which is sin^2(p t / 2) / sin(t). The sum of sines is 0 at each step and has derivative 0 there, except
  /// at t = 0 and pi. The magnitude of the sum of sines is at most 0.73 p / 2.
  void shorten() {
    const Complex last = polynomial.back();
    const double half = static_cast<double>(polynomial.size()) / 2, b = 2 * std::abs(last);
    for (std::size_t k = 1; k < polynomial.size(); k += 2) polynomial[k] -= last;
    polynomial.back() = 0;
    steepness = b * half * std::numbers::pi, excess = 0.73 * half * b;
  }
};

class Lookup {
 public:
  Lookup(const Ciphertext& x, const std::vector<Complex>& table, Reading reading, const EvaluationKeys& keys)
      : stages_(x, keys), context_(stages_.context()), table_(table), reading_(std::move(reading)) {}
  Lookup(const Ciphertext& like, const RnsTensor& phases, const std::vector<Complex>& table, Reading reading,
         const EvaluationKeys& keys)
      : stages_(like, phases, keys), context_(stages_.context()), table_(table), reading_(std::move(reading)) {}

  Ciphertext run() {
    const double q = context_.bootstrapper().lowest_modulus(), p = static_cast<double>(table_.size());
    const CiphertextData& low = stages_.low();
    // The unit belongs to the level's own scale, so that all operands share the same matrices.
    const double unit = stages_.unit() * (context_.scale(low.level) / low.scale);
    const Ciphertext found = read(turned(stages_.angles(q / (p * unit))));
    CiphertextData r = stages_.result(found.level());
    r.tensor = stages_.joined(found);
    if (low.tail.is_zero()) r.tail = Tail::of({table_[0]});
    if (low.tail.kind() == Tail::Kind::even) r.tail = Tail::even();
    r.complex = reading_.complex;
    double apart = 0;
    for (const Complex& a : table_) {
      for (const Complex& b : table_) apart = std::max(apart, std::abs(a - b));
    }
    r.ranges = Ranges(range());
    r.noise = found.data().noise;
    if (apart > 0) {
      // The result is a weighted mean of all entries. The weight of wrong entries is at most (pi^2 / 3) e^2, where e is the
      // noise as a fraction of a step.
      const double own = rlwe::log2_sum(stages_.angle_noise(), std::log2(kScaleTolerance)) + std::log2(p);
      const rlwe::Figure e = rlwe::log2_sum(stages_.noise(), rlwe::Figure(own));
      r.noise = rlwe::log2_sum(r.noise, e + e + std::log2(std::numbers::pi * std::numbers::pi / 3 * apart * r.scale));
      // The subtracted part of a wave is at most steepness (e + 2 e^2).
      if (reading_.steepness > 0)
        r.noise = rlwe::log2_sum(r.noise, rlwe::log2_sum(e, e + e + 1) + std::log2(reading_.steepness * r.scale));
    }
    return finish(std::move(r));
  }

 private:
  /// Returns the range of results, which are means of the table's numbers for any noise of the operand.
  Range range() const {
    const Range r = Range::of_values(table_, reading_.complex, table_.size());
    const double peak = r.peak + reading_.excess;
    return {.low = r.low - reading_.excess, .high = r.high + reading_.excess, .peak = peak, .rms = peak, .mean = peak};
  }

  /// Returns z = exp(2 pi i u) times the gain, for kSineRange y = 2 u, at the top level.
  Ciphertext turned(const Ciphertext& y) {
    const std::size_t top = context_.sine_level(), last = top + 1;
    const double end = context_.scale(last) * context_.scale(last) / context_.ratio(last);  // scale after the last squaring
    // The factor is chosen so that the result has the top level's scale; each squaring squares the factor.
    const double whole = std::abs(reading_.gain) * context_.scale(top) / end;
    double factor = whole;
    for (int i = 0; i < kTurnSquares; ++i) factor = std::sqrt(factor);
    std::vector<Complex> coefficients;
    for (std::size_t k = 0; k < kTurnCoefficients.size(); ++k) {
      const double c = kTurnCoefficients[k] * (k == 0 ? factor : factor / 2);
      coefficients.push_back(k % 2 == 0 ? Complex(c, 0) : Complex(0, c));
    }
    Ciphertext z = stages_.until(0.75, [&] { return evaluate_doubled(y, coefficients, stages_.keys()); });
    for (int i = 0; i < kTurnSquares; ++i) {
      if (i == kTurnSquares - 1 && reading_.gain < 0) z = multiply_i(z);
      factor *= factor;
      const double end = 0.75 + 0.05 * (i + 1) / kTurnSquares;
      z = of_size(stages_.until(end, [&] { return relinearize_rescale(multiply(z, z), stages_.keys()); }), factor);
    }
    CiphertextData data = z.data();
    data.scale = context_.scale(top);
    const double size = std::abs(reading_.gain);
    data.ranges = Ranges(Range::of(-size, size, 1, 1));
    data.noise = after_keys(noise() + std::log2(data.scale * std::abs(reading_.gain)), stages_.keys().data());
    return lower(finish(std::move(data)), context_.top_level());
  }

  static Ciphertext of_size(const Ciphertext& a, double largest) {
    CiphertextData data = a.data();
    data.ranges = Ranges(Range::of(-std::max(1.0, largest), std::max(1.0, largest), 1, 1)), data.noise = 0;
    return finish(std::move(data));
  }

  /// Returns the noise of z along its magnitude. Noise along the angle of z acts as the operand's noise, whose effect the
  /// table squares.
  rlwe::Figure noise() const {
    const std::size_t top = context_.top_level();
    // The result includes the effect of y's error through T_2, T_4, ..., whose derivatives near 0 are large, and through the
    // squarings, and the noise of the last squaring.
    const double inside = stages_.rounding() + 9;
    const double last = context_.key_switch_noise(top) - std::log2(context_.scale(top) * std::abs(reading_.gain)) + 0.5;
    const double fit = std::log2(kTurnError) + kTurnSquares;
    return rlwe::Figure(rlwe::log2_sum(rlwe::log2_sum(inside, last), fit));
  }

  Ciphertext read(const Ciphertext& z) {
    const Ciphertext a = stages_.until(0.9, [&] { return value(reading_.polynomial, z); });
    const Ciphertext b = reading_.complex ? stages_.until(0.95, [&] { return value(reading_.conjugated, z); }) : a;
    return add(a, stages_.until(1, [&] { return conjugate(b, stages_.keys()); }));
  }

  Ciphertext value(const std::vector<Complex>& polynomial, const Ciphertext& z) {
    if (reading_.levels == 0 && polynomial.size() == 2 && polynomial[1] == Complex(1))
      return add_constants(z, number(polynomial[0].real()));
    return evaluate_complex(z, polynomial, Basis::monomial, stages_.keys());
  }

  BootstrapStages stages_;
  Context& context_;
  const std::vector<Complex>& table_;
  const Reading reading_;
};

/// Returns the level of the results. Throws LevelError, PlaintextRangeError.
std::size_t level_of(const Context& c, const std::vector<Complex>& table, const Reading& reading) {
  if (reading.levels >= c.top_level()) {
    throw LevelError("this table of " + std::to_string(table.size()) + " numbers needs " + std::to_string(reading.levels) +
                     " levels after bootstrapping, but this parameter set leaves " + std::to_string(c.top_level() - 1) +
                     "; use a smaller table or a set of more depth");
  }
  const std::size_t level = c.top_level() - reading.levels;
  for (const Complex& v : table)
    if (outgrown(std::log2(std::max(std::abs(v), 1.0)) + 1, 0, c.scale(level), c.log_modulus(level)))
      throw PlaintextRangeError("a number of the table exceeds the modulus of level " + std::to_string(level) +
                                ", the result's level");
  return level;
}

}  // namespace

Ciphertext functional_bootstrap(const Ciphertext& x, const std::vector<Complex>& table, const EvaluationKeys& keys) {
  check(table);
  require_bootstrapping(x, keys);
  if (x.complex()) throw DtypeError("a table look-up needs real numbers, not complex ones");
  Reading reading(table);
  const std::size_t level = level_of(*x.data().context, table, reading);
  if (x.data().tensor.items() == 0) return nothing(x, level);
  return Lookup(x, table, std::move(reading), keys).run();
}

Ciphertext functional_bootstrap(const Ciphertext& like, const RnsTensor& phases, const std::vector<Complex>& table,
                                const EvaluationKeys& keys) {
  check(table);
  Reading reading(table);
  level_of(*like.data().context, table, reading);
  return Lookup(like, phases, table, std::move(reading), keys).run();
}

}  // namespace heliograph::ckks
