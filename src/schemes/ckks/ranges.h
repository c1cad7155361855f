// Bounds on the values of each ciphertext. The bounds decide whether the values fit the modulus.
//
// The squared coefficients of a polynomial with the values v_j in its N/2 slots (padding included) sum to the mean of
// |v_j|^2 (Parseval). So each coefficient is at most S, the root mean square over all slots. A ciphertext decrypts correctly
// if S fits the room, even if max |v_j| does not.
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

/// Whether a caller declared bounds (`within`, a Chebyshev argument's interval), whether no guard tests a declaration, and
/// whether the caller asked for a strong guard.
struct Declaration {
  bool given = false, unguarded = false, strong = false;

  Declaration() = default;
  Declaration(bool given) : given(given), unguarded(given) {}  // NOLINT(google-explicit-constructor): a new declaration
  explicit operator bool() const { return given; }
  bool operator==(const Declaration&) const = default;
};
/// Returns the declaration of bounds that follow from two ranges.
inline Declaration operator|(Declaration a, Declaration b) {
  a.given = a.given || b.given, a.unguarded = a.unguarded || b.unguarded;
  a.strong = a.strong || b.strong;
  return a;
}

/// Bounds on one ciphertext's values, as real numbers; infinite if unknown.
struct Range {
  double low = 0, high = 0;  // bounds on the real parts; for complex values: on |v| and -|v|
  double peak = 0;           // largest |v| over all slots, padding included
  double rms = 0;            // bound on the root mean square over all slots
  double mean = 0;           // bound on |the mean of the values|
  Declaration declared;      // whether the bounds rest on a caller's declaration

  /// Returns the bounds of `n` values in [low, high], padded with zeros to `period` slots.
  static Range of(double low, double high, std::size_t n, std::size_t period);
  static Range of_values(std::span<const std::complex<double>> values, bool complex, std::size_t period);
  static Range unknown();
  bool operator==(const Range&) const = default;

  bool known() const { return std::isfinite(rms) && std::isfinite(peak); }
  double largest() const { return std::max(-low, high); }
  /// Returns whether each bound is at most that of `other`.
  bool inside(const Range& other) const;
};

/// Trusted and assumed bounds of a ciphertext.
struct RangePair {
  Range vouched;  // from values that this process encrypted; secret, never in files
  Range assumed;  // from public bounds at encryption and from files
  bool operator==(const RangePair&) const = default;
};

/// Packing of a ciphertext: `width` values per period of slots.
struct Packing {
  std::size_t width = 0, period = 0;
  bool complex = false;
};

// Rules that give the range of one ciphertext. The comparison at decryption has a margin for the roundings of these
// doubles.
Range sum(const Range& a, const Range& b);
Range negated(const Range& a);
Range scaled(const Range& a, double factor);
/// Returns the same bounds as bounds on magnitudes, for complex values, for example after multiplication by i.
Range magnitudes(const Range& a);
Range shifted(const Range& a, std::complex<double> number);
/// Returns the bounds of a product. `square`: both factors are the same tensor.
Range product(const Range& a, const Range& b, const Packing& packing, bool square = false);
/// Returns the bounds of the sum of the values, in every slot.
Range summed_values(const Range& a, const Packing& packing);
/// Returns the bounds after a rotation, which may move padding to slots with values.
Range moved(const Range& a, const Packing& from, const Tail& tail);
/// Returns the tighter of each bound of two ranges for the same values.
Range narrowed(const Range& a, const Range& b);
Range merged(const Range& a, const Range& b);
/// Returns the range of a polynomial or Chebyshev series on [low, high]. The coefficients start at the constant.
Range polynomial_of(const Range& x, const std::vector<double>& coefficients, Basis basis);
/// Returns an upper bound on the mean square of the values, without padding.
double mean_square(const Range& a, const Packing& packing);

/// The bounds of all ciphertexts of a tensor: one range for all, or one per item. Tensors of more than kMost items have
/// one range for all.
class Ranges {
 public:
  static constexpr std::size_t kMost = 4096;

  Ranges() : items_(RangePair{Range::unknown(), Range::unknown()}) {}
  explicit Ranges(RangePair all) : items_(all) {}
  /// Makes equal trusted and assumed bounds, as for public constants.
  explicit Ranges(Range all) : items_(RangePair{all, all}) {}
  static Ranges of(std::vector<RangePair> list);

  bool uniform() const { return items_.uniform(); }
  const std::vector<RangePair>& list() const { return items_.list(); }
  const RangePair& at(std::size_t item) const { return items_.at(item); }
  RangePair merged() const;
  /// Returns log2 of the largest |v| over all slots and items; NaN if unknown.
  rlwe::Figure peak() const;
  /// Returns log2 of the largest coefficient: the largest rms over the items.
  rlwe::Figure coefficient() const;

  /// Applies `op` to the trusted ranges and to the assumed ranges.
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
  /// Returns the bounds of a sum along an axis, which gets length 1.
  Ranges summed(const Shape& shape, std::size_t axis) const;
  /// Returns the bounds of a matrix product along the items, with real weights.
  Ranges gathered(const std::vector<double>& weights, const device::GatheredProduct& p) const;
  static Ranges joined(const Ranges& a, const Shape& of_a, const Ranges& b, const Shape& of_b, std::size_t axis);
  /// Tightens the ranges by the packing (values per period) and the tail (known numbers in padding slots).
  Ranges settled(const Packing& packing, const Tail& tail) const;
  /// Returns the same assumed ranges, without trusted ranges.
  Ranges unvouched() const;
  /// Returns the same bounds, all declarations of which are tested by guards or need no guard.
  Ranges guarded() const;
  /// Returns the same bounds, for which a guard must be strong.
  Ranges strongly_guarded() const;
  /// Returns whether the assumed bounds of each item are at most those of `other`.
  bool inside(const Ranges& other) const;

  // Writes the assumed bounds to a header, rounded outward.

  std::optional<io::Json> stored() const;
  /// Throws DamagedFileError. `items`: number of items of the tensor.
  static Ranges from(const io::Json& stored, std::size_t items);

 private:
  explicit Ranges(schemes::PerItem<RangePair> items) : items_(std::move(items)) {}
  Ranges few(const Shape& to) const;

  schemes::PerItem<RangePair> items_;
};

/// Rounds outward to 16 significant bits, as in files, so that files do not depend on the last bits of a math library.
Range rounded(const Range& a);
/// Rounds outward to quarters of a bit; rounds root mean square and mean more coarsely. Tensors of similar data then have
/// equal ranges, so a recorded program accepts both.
Range coarse(const Range& a);

}  // namespace heliograph::ckks
