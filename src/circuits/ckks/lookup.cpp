// Tables of whole numbers (Alexandru, Kim, Polyakov, ePrint 2024/1623). An angle 2 pi u, u = m / p + e and a whole number, is found as
// in a bootstrap, z = exp(i angle), and what a table of p numbers says of m is a trigonometric polynomial of degree p - 1, whose
// derivative at each m / p is 0: e is squared.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/errors.h"
#include "circuits/ckks/bootstrap_stages.h"
#include "math/roots.h"

namespace heliograph::ckks {

namespace {

using Complex = std::complex<double>;

constexpr std::size_t kLargestTable = 64;

/// c_0 / 2, c_1, ..., where sum over |k| < p of c_k exp(2 pi i k u) is values[m] at m / p: the discrete Fourier transform, less from
/// term to term (Fejer's kernel): at each u a mean of the values, by weights that are not negative.
std::vector<Complex> turns_of(const std::vector<double>& values) {
  const std::size_t p = values.size();
  std::vector<Complex> c(p);
  double largest = 0;
  for (const double v : values) largest = std::max(largest, std::abs(v));
  std::vector<Complex> roots;  // the same on every rank, whatever its library of sines
  for (std::size_t k = 0; k < p; ++k) roots.push_back(math::turn(k, p));
  for (std::size_t k = 0; k < p; ++k) {
    double real = 0, imaginary = 0;
    for (std::size_t m = 0; m < p; ++m) {
      const Complex& root = roots[k * m % p];
      real += values[m] * root.real(), imaginary -= values[m] * root.imag();
    }
    const double less = static_cast<double>(p - k) / static_cast<double>(p * p);
    const auto rounded = [&](double v) { return std::abs(v) < 0x1p-44 * largest ? 0 : v; };  // what is 0, but for sines
    c[k] = {rounded(real * less), rounded(imaginary * less)};
  }
  c[0] /= 2;
  return c;
}

/// Throws ParameterError, PlaintextRangeError.
void check(const std::vector<Complex>& table) {
  if (table.size() < 2 || table.size() > kLargestTable)
    throw ParameterError("a table has 2 to " + std::to_string(kLargestTable) + " numbers, not " +
                         std::to_string(table.size()));
  for (const Complex& v : table)
    if (!std::isfinite(v.real()) || !std::isfinite(v.imag())) throw PlaintextRangeError("a table's numbers are finite");
}

/// How a table is read off z.
struct Reading {
  explicit Reading(const std::vector<Complex>& table) {
    std::vector<double> real, imaginary;
    for (const Complex& v : table) real.push_back(v.real()), imaginary.push_back(v.imag());
    complex = std::any_of(imaginary.begin(), imaginary.end(), [](double v) { return v != 0; });
    polynomial = turns_of(real);
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

  std::vector<Complex> polynomial;  // its value and a conjugate are the table's number:
  std::vector<Complex> conjugated;  // its own; or that of another polynomial, for complex numbers
  bool complex = false;
  double gain = 1;         // z comes times this
  std::size_t levels = 0;  // that the polynomials take
};

class Lookup {
 public:
  Lookup(const Ciphertext& x, const std::vector<Complex>& table, Reading reading, const EvaluationKeys& keys,
         const Progress& progress)
      : stages_(x, keys, progress), context_(stages_.context()), table_(table), reading_(std::move(reading)) {}

  Ciphertext run() {
    const double q = context_.bootstrapper().lowest_modulus(), p = static_cast<double>(table_.size());
    const CiphertextData& low = stages_.low();
    // The level's own scale, so that the matrices are one for all.
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
      // The weight of other numbers is at most (pi^2 / 3) e^2, e in parts of a step.
      const double own = rlwe::log2_sum(stages_.angle_noise(), std::log2(kScaleTolerance)) + std::log2(p);
      const rlwe::Figure e = rlwe::log2_sum(stages_.noise(), rlwe::Figure(own));
      r.noise = rlwe::log2_sum(r.noise, e + e + std::log2(std::numbers::pi * std::numbers::pi / 3 * apart * r.scale));
    }
    return finish(std::move(r));
  }

 private:
  /// However far off values are, results are means of the table's numbers.
  Range range() const {
    const Range r = Range::of_values(table_, reading_.complex, table_.size());
    return {.low = r.low, .high = r.high, .peak = r.peak, .rms = r.peak, .mean = r.peak};
  }

  /// z = exp(2 pi i u) times the gain, of kSineRange y = 2 u, at the top level.
  Ciphertext turned(const Ciphertext& y) {
    const std::size_t top = context_.sine_level(), last = top + 1;
    const double end = context_.scale(last) * context_.scale(last) / context_.ratio(last);  // the scale it ends at
    // The numbers become so much smaller that the scale is the top level's. Squares square it.
    const double whole = std::abs(reading_.gain) * context_.scale(top) / end;
    double factor = whole;
    for (int i = 0; i < kTurnSquares; ++i) factor = std::sqrt(factor);
    std::vector<Complex> coefficients;
    for (std::size_t k = 0; k < kTurnCoefficients.size(); ++k) {
      const double c = kTurnCoefficients[k] * (k == 0 ? factor : factor / 2);
      coefficients.push_back(k % 2 == 0 ? Complex(c, 0) : Complex(0, c));
    }
    Ciphertext z = evaluate_doubled(y, coefficients, stages_.keys(), stages_.next(0.75));
    for (int i = 0; i < kTurnSquares; ++i) {
      if (i == kTurnSquares - 1 && reading_.gain < 0) z = multiply_i(z);
      factor *= factor;
      z = of_size(relinearize_rescale(multiply(z, z), stages_.keys(), stages_.next(0.8)), factor);
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

  /// Of z, as far as it changes its size: what changes its angle is squared away with the operand's noise.
  rlwe::Figure noise() const {
    const std::size_t top = context_.top_level();
    // From y by T_2, T_4, ..., whose derivatives near 0 are large, through squares; then the last square's.
    const double inside = stages_.rounding() + 9;
    const double last = context_.key_switch_noise(top) - std::log2(context_.scale(top) * std::abs(reading_.gain)) + 0.5;
    const double fit = std::log2(kTurnError) + kTurnSquares;
    return rlwe::Figure(rlwe::log2_sum(rlwe::log2_sum(inside, last), fit));
  }

  Ciphertext read(const Ciphertext& z) {
    const Ciphertext a = value(reading_.polynomial, z, stages_.next(0.9));
    const Ciphertext b = reading_.complex ? value(reading_.conjugated, z, stages_.next(0.95)) : a;
    return add(a, conjugate(b, stages_.keys(), stages_.next(1)));
  }

  Ciphertext value(const std::vector<Complex>& polynomial, const Ciphertext& z, const Progress& progress) {
    if (reading_.levels == 0 && polynomial.size() == 2 && polynomial[1] == Complex(1))
      return add_constants(z, number(polynomial[0].real()));
    return evaluate_complex(z, polynomial, Basis::monomial, stages_.keys(), progress);
  }

  BootstrapStages stages_;
  Context& context_;
  const std::vector<Complex>& table_;
  const Reading reading_;
};

}  // namespace

Ciphertext lookup(const Ciphertext& x, const std::vector<Complex>& table, const EvaluationKeys& keys,
                  const Progress& progress) {
  check(table);
  require_bootstrapping(x, keys);
  if (x.complex()) throw DtypeError("a table is looked up by real numbers, not by complex ones");
  Reading reading(table);
  const Context& c = *x.data().context;
  if (reading.levels >= c.top_level()) {
    throw LevelError("this table of " + std::to_string(table.size()) + " numbers takes " + std::to_string(reading.levels) +
                     " levels after bootstrapping, which leaves " + std::to_string(c.top_level() - 1) +
                     " in this parameter set");
  }
  const std::size_t level = c.top_level() - reading.levels;
  for (const Complex& v : table)
    if (outgrown(std::log2(std::max(std::abs(v), 1.0)) + 1, 0, c.scale(level), c.log_modulus(level)))
      throw PlaintextRangeError("a number of the table is too large for level " + std::to_string(level) +
                                ", which the result is at");
  if (x.data().tensor.items() == 0) return nothing(x, level);
  return Lookup(x, table, std::move(reading), keys, progress).run();
}

}  // namespace heliograph::ckks
