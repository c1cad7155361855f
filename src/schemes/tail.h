// The tail of a tensor: the contents of the padding slots after each ciphertext's values. Operations with numbers change
// these contents, and sums over all slots must subtract them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "io/container.h"
#include "schemes/per_item.h"

namespace heliograph::schemes {

/// The type T of the numbers is a residue modulo a plaintext modulus, or complex. Known contents are one number for all
/// items, or one per item. Known contents depend on public constants only. Lists longer than kMost become unknown.
template <class T>
class Tail {
 public:
  /// known: public numbers. even: each ciphertext's values are all equal, and its padding slots contain the same number.
  /// turned: zeros, and values of the tensor that rotations moved there. unknown: any contents.
  enum class Kind : unsigned char { known, even, turned, unknown };

  /// A tail of zeros, as after encryption.
  Tail() = default;
  static Tail unknown() { return Tail(Kind::unknown); }
  static Tail even() { return Tail(Kind::even); }
  static Tail turned() { return Tail(Kind::turned); }
  static Tail of(std::vector<T> numbers) { return Tail(PerItem<T>::of(std::move(numbers), T(0))); }

  Kind kind() const { return kind_; }
  bool is_zero() const { return kind_ == Kind::known && numbers_.uniform() && numbers_.at(0) == T(0); }
  /// Returns whether the padding slots contain only zeros and rotated values.
  bool is_own() const { return is_zero() || kind_ == Kind::turned; }
  /// Returns whether the contents are known and not zero.
  bool is_number() const { return kind_ == Kind::known && !is_zero(); }
  const std::vector<T>& numbers() const { return numbers_.list(); }
  const T& at(std::size_t item) const { return numbers_.at(item); }

  template <class Op>
  Tail map(Op op) const {
    return kind_ == Kind::known ? Tail(numbers_.map(op)) : *this;
  }
  Tail broadcast(const Shape& shape, const Shape& to) const {
    return few(to) ? Tail(numbers_.broadcast(shape, to)) : moved();
  }
  Tail transposed(const Shape& shape, const std::vector<std::size_t>& order) const {
    return few(shape) ? Tail(numbers_.transposed(shape, order)) : moved();
  }
  Tail sliced(const Shape& shape, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count) const {
    Shape to = shape;
    to[axis] = count;
    return few(to) ? Tail(numbers_.sliced(shape, axis, start, step, count)) : moved();
  }
  /// Returns the tail of a sum along an axis.
  template <class Op>
  Tail summed(const Shape& shape, std::size_t axis, Op add) const {
    if (kind_ != Kind::known || is_zero()) return *this;
    return few(shape) || numbers_.uniform() ? Tail(numbers_.summed(shape, axis, T(0), add)) : unknown();
  }

  /// Returns the tail of a matrix product of the items: for each output, row(output) plus the sum of times(weight index,
  /// number).
  template <class Row, class Times, class Add>
  Tail gathered(const device::GatheredProduct& p, bool biased, Row row, Times times, Add add) const {
    if (kind_ == Kind::turned && biased) return unknown();
    if (kind_ != Kind::known || (is_zero() && !biased)) return *this;
    const std::size_t rows = p.groups * p.outputs;
    if (device::element_count({rows, p.positions}) > kMost) return unknown();
    if (!is_zero()) {
      if (device::element_count({rows, p.positions, p.terms}) > 16 * kMost) return unknown();
      return Tail(PerItem<T>::gathered(numbers_, p, row, times, add));
    }
    std::vector<T> numbers;
    for (std::size_t output = 0; output < rows; ++output) numbers.insert(numbers.end(), p.positions, row(output));
    return of(std::move(numbers));
  }

  /// Returns the tail of a sum or difference of two tensors that broadcast to `to`.
  template <class Op>
  static Tail sum(const Tail& a, const Shape& of_a, const Tail& b, const Shape& of_b, const Shape& to, Op op) {
    if (a.kind_ == Kind::even && b.kind_ == Kind::even) return even();
    if (a.is_own() && b.is_own() && !(a.is_zero() && b.is_zero())) return turned();
    return both(a, of_a, b, of_b, to, op);
  }
  /// Returns the tail of a product of two tensors; the tail is zero if one factor's tail is zero.
  template <class Op>
  static Tail product(const Tail& a, const Shape& of_a, const Tail& b, const Shape& of_b, const Shape& to, Op op) {
    if (a.is_zero() || b.is_zero()) return {};
    return sum(a, of_a, b, of_b, to, op);
  }
  /// Returns the tail of op(tensor, number) for public numbers. Kind `even` is preserved; kind `turned` only if op(0,
  /// number) is 0.
  template <class Op>
  Tail with(const Shape& shape, std::vector<T> numbers, const Shape& of_numbers, const Shape& to, Op op) const {
    if (kind_ == Kind::turned)
      for (const T& number : numbers)
        if (op(T(0), number) != T(0)) return unknown();
    return kind_ == Kind::known ? both(*this, shape, of(std::move(numbers)), of_numbers, to, op) : *this;
  }
  /// Returns the tail of a concatenation along an axis; the shapes differ in that axis only.
  static Tail joined(const Tail& a, const Shape& of_a, const Tail& b, const Shape& of_b, std::size_t axis) {
    if (a.kind_ != b.kind_) return a.is_own() && b.is_own() ? turned() : unknown();
    if (a.kind_ != Kind::known) return a;
    const bool same = a.numbers_.uniform() && a.numbers() == b.numbers();
    Shape to = of_a;
    to[axis] += of_b[axis];
    if (!same && device::element_count(to) > kMost) return unknown();
    return Tail(PerItem<T>::joined(a.numbers_, of_a, b.numbers_, of_b, axis));
  }

  /// Writes the kind to a file header. Does not write the numbers, because they are constants of the party that computes.
  void describe(io::Json& header) const {
    if (is_zero() || kind_ == Kind::even || kind_ == Kind::turned)
      header["tail"] = is_zero() ? "zero" : kind_ == Kind::even ? "even" : "turned";
  }
  /// Reads the kind from a file header. `fresh`: the file has a fresh encryption. Throws DamagedFileError.
  static Tail from(const io::Json& header, bool fresh) {
    if (!header.contains("tail")) return fresh ? Tail() : unknown();
    const std::string& text = header.string_at("tail", 16);
    if (text != "zero" && text != "even" && text != "turned")
      throw DamagedFileError("the tail must be zero, even or turned");
    return text == "zero" ? Tail() : text == "even" ? even() : turned();
  }

 private:
  /// Limit on the numbers that are stored for one tensor.
  static constexpr std::size_t kMost = std::size_t{1} << 20;

  explicit Tail(Kind kind) : kind_(kind) {}
  explicit Tail(PerItem<T> numbers) : numbers_(std::move(numbers)) {}

  /// Returns whether the numbers of a tensor of this shape are stored.
  bool few(const Shape& to) const {
    return kind_ == Kind::known && (numbers_.uniform() || device::element_count(to) <= kMost);
  }
  /// Returns the tail of a rearranged tensor, if the tail's numbers are not stored.
  Tail moved() const { return kind_ == Kind::known ? unknown() : *this; }

  template <class Op>
  static Tail both(const Tail& a, const Shape& of_a, const Tail& b, const Shape& of_b, const Shape& to, Op op) {
    if (a.kind_ != Kind::known || b.kind_ != Kind::known || !a.few(to) || !b.few(to)) return unknown();
    return Tail(PerItem<T>::both(a.numbers_, of_a, b.numbers_, of_b, to, op));
  }

  Kind kind_ = Kind::known;
  PerItem<T> numbers_ = PerItem<T>(T(0));
};

}  // namespace heliograph::schemes
