// Bounds on the values of each ciphertext: what decides whether they fit their modulus.
//
// A polynomial with the values v_j at its N/2 places (slots, used or not) has coefficients whose squares sum to the mean of |v_j|^2
// (Parseval). So each coefficient is at most S, the root mean square over all places. A ciphertext decrypts right if S fits the
// room, even if max |v_j| does not.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <optional>
#include <span>
#include <vector>

#include "heliograph/ckks.h"
#include "io/json.h"
#include "rlwe/noise.h"
#include "schemes/tail.h"

namespace heliograph::ckks {

using Tail = schemes::Tail<std::complex<double>>;

/// Bounds on one ciphertext's values, as real numbers. An infinite bound says nothing.
struct Range {
  double low = 0, high = 0;  // of the real parts; of complex values: of |v|, and its negative
  double peak = 0;           // of |v| at all places, those behind the values included
  double rms = 0;            // of the root mean square over all places
  double mean = 0;           // of |the mean of the values|
  bool word = false;         // it holds on somebody's word (`within`, a Chebyshev argument), not by computation

  /// Bounds of `n` of `period` places whose values lie in [low, high]; zeros behind them.
  static Range of(double low, double high, std::size_t n, std::size_t period);
  /// Those values' own.
  static Range of_values(std::span<const std::complex<double>> values, bool complex, std::size_t period);
  static Range unknown();
  bool operator==(const Range&) const = default;

  bool known() const { return std::isfinite(rms) && std::isfinite(peak); }
  /// The largest |value|.
  double largest() const { return std::max(-low, high); }
  /// Whether each bound is at most the other's.
  bool inside(const Range& other) const;
};

/// Bounds of a ciphertext, kept for two purposes.
struct RangePair {
  Range vouched;  // from values that this process encrypted: secret, never in files
  Range assumed;  // from bounds said in public and in files
  bool operator==(const RangePair&) const = default;
};

/// How a ciphertext is packed: `width` values in each `period` of places.
struct Packing {
  std::size_t width = 0, period = 0;
  bool complex = false;
};

// Rules for one ciphertext. Figures of doubles: the comparison at decryption leaves room for their roundings.
Range sum(const Range& a, const Range& b);
Range negated(const Range& a);
/// Times a real number.
Range scaled(const Range& a, double factor);
/// As bounds of complex values, which a product with i makes of them.
Range magnitudes(const Range& a);
/// Plus a number at every place.
Range shifted(const Range& a, std::complex<double> number);
/// `square`: both factors are one.
Range product(const Range& a, const Range& b, const Packing& packing, bool square = false);
/// The sum of the values at every place.
Range summed_values(const Range& a, const Packing& packing);
/// Bounds after values moved: places behind them may have become values.
Range moved(const Range& a, const Packing& from, const Tail& tail);
/// The tighter of two ranges of the same values, bound by bound.
Range narrowed(const Range& a, const Range& b);
/// The smallest range that holds two ciphertexts' ranges.
Range merged(const Range& a, const Range& b);
/// The range of a polynomial or a Chebyshev series on [low, high], coefficients lowest first.
Range polynomial_of(const Range& x, const std::vector<double>& coefficients, Basis basis);
/// The mean square of the values alone, at most.
double mean_square(const Range& a, const Packing& packing);

/// The bounds of all ciphertexts of a tensor: one for all, or one for each. Tensors of more than kMost items have one for all.
class Ranges {
 public:
  static constexpr std::size_t kMost = 4096;

  Ranges() : items_(RangePair{Range::unknown(), Range::unknown()}) {}
  explicit Ranges(RangePair all) : items_(all) {}
  /// The same for both purposes, as public constants have.
  explicit Ranges(Range all) : items_(RangePair{all, all}) {}
  static Ranges of(std::vector<RangePair> list);

  bool uniform() const { return items_.uniform(); }
  const std::vector<RangePair>& list() const { return items_.list(); }
  const RangePair& at(std::size_t item) const { return items_.at(item); }
  RangePair merged() const;
  /// log2 of the largest |v| at any place of any item; NaN where it is unknown.
  rlwe::Figure peak() const;
  /// log2 of the largest coefficient: of rms over the items.
  rlwe::Figure coefficient() const;

  /// op(range) for both purposes.
  template <class Op>
  Ranges map(Op op) const {
    return Ranges(items_.map([&](const RangePair& r) { return RangePair{op(r.vouched), op(r.assumed)}; }));
  }
  template <class Op>
  static Ranges both(const Ranges& a, const Shape& of_a, const Ranges& b, const Shape& of_b, const Shape& to, Op op) {
    const auto each = [&](const RangePair& x, const RangePair& y) {
      return RangePair{op(x.vouched, y.vouched), op(x.assumed, y.assumed)};
    };
    const Ranges p = a.few(to), q = b.few(to);
    return Ranges(schemes::PerItem<RangePair>::both(p.items_, of_a, q.items_, of_b, to, each));
  }
  Ranges broadcast(const Shape& shape, const Shape& to) const { return Ranges(few(to).items_.broadcast(shape, to)); }
  Ranges transposed(const Shape& shape, const std::vector<std::size_t>& order) const {
    return Ranges(items_.transposed(shape, order));
  }
  Ranges sliced(const Shape& shape, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count) const;
  /// The sum along an axis, which goes to length 1.
  Ranges summed(const Shape& shape, std::size_t axis) const;
  /// A matrix product along the items: weights are real.
  Ranges gathered(const std::vector<double>& weights, const device::GatheredProduct& p) const;
  static Ranges joined(const Ranges& a, const Shape& of_a, const Ranges& b, const Shape& of_b, std::size_t axis);
  /// Tightens the ranges by the packing (values in each period) and the tail (known numbers in unused places).
  Ranges settled(const Packing& packing, const Tail& tail) const;
  /// The same assumed ranges; the vouched ones unknown.
  Ranges unvouched() const;
  /// Whether the assumed bounds of each item are at most the other's.
  bool inside(const Ranges& other) const;

  // In a file: the assumed bounds, rounded outward.

  std::optional<io::Json> stored() const;
  /// `items`: of the tensor. DamagedFileError.
  static Ranges from(const io::Json& stored, std::size_t items);

 private:
  explicit Ranges(schemes::PerItem<RangePair> items) : items_(std::move(items)) {}
  Ranges few(const Shape& to) const;

  schemes::PerItem<RangePair> items_;
};

/// Rounds outward to 16 significant bits, as files keep bounds: the last bits of another machine's library make the same file.
Range rounded(const Range& a);
/// Rounds outward to quarters of a bit, the root mean square and the mean more coarsely: tensors of similar data then have equal ranges
/// and share one recording of a program.
Range coarse(const Range& a);

}  // namespace heliograph::ckks
