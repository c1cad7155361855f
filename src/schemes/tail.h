// The tail of a tensor: what stands in the places behind each ciphertext's values. Operations by numbers reach these places too,
// and sums over all places have to know what they find there.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "device/constants.h"
#include "device/shape.h"
#include "io/container.h"

namespace heliograph::schemes {

using device::Shape;

/// Where each item of a tensor lies in a dense array of another shape: an axis moves on by its step.
struct Walk {
  std::vector<std::ptrdiff_t> steps;
  std::ptrdiff_t first = 0;

  static Walk dense(const Shape& shape) {
    Walk walk{std::vector<std::ptrdiff_t>(shape.size())};
    std::ptrdiff_t step = 1;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      walk.steps[axis] = step;
      step *= static_cast<std::ptrdiff_t>(shape[axis]);
    }
    return walk;
  }
  /// Of `shape` broadcast to `to`.
  static Walk broadcast(const Shape& shape, const Shape& to) {
    Walk walk = dense(shape);
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      if (shape[axis] == 1) walk.steps[axis] = 0;
    walk.steps.insert(walk.steps.begin(), to.size() - shape.size(), 0);
    return walk;
  }
};

/// T is a number: modulo a plaintext modulus, or complex. Numbers are one for all items, or one for each in their order, and
/// follow from public constants alone; what would be too many to keep is unknown.
template <class T>
class Tail {
 public:
  /// known: these numbers; even: in each ciphertext what its values are, all the same; unknown: anything.
  enum class Kind : unsigned char { known, even, unknown };

  /// Zeros, as encryption leaves them.
  Tail() = default;
  static Tail unknown() { return Tail(Kind::unknown); }
  static Tail even() { return Tail(Kind::even); }
  static Tail of(std::vector<T> numbers) {
    if (numbers.empty()) return {};
    if (std::equal(numbers.begin() + 1, numbers.end(), numbers.begin())) numbers.erase(numbers.begin() + 1, numbers.end());
    Tail tail;
    tail.numbers_ = std::move(numbers);
    return tail;
  }

  Kind kind() const { return kind_; }
  bool is_zero() const { return kind_ == Kind::known && numbers_.size() == 1 && numbers_[0] == T(0); }
  /// Known, and not zero.
  bool is_number() const { return kind_ == Kind::known && !is_zero(); }
  const std::vector<T>& numbers() const { return numbers_; }
  const T& at(std::size_t item) const { return numbers_[numbers_.size() == 1 ? 0 : item]; }

  template <class Op>
  Tail map(Op op) const {
    if (kind_ != Kind::known) return *this;
    std::vector<T> numbers = numbers_;
    for (T& v : numbers) v = op(v);
    return of(std::move(numbers));
  }
  /// The items of `to`, which lie in this tail's tensor as `walk` says.
  Tail walked(const Shape& to, const Walk& walk) const {
    if (kind_ != Kind::known || numbers_.size() == 1) return *this;
    const std::size_t items = device::element_count(to);
    if (items > kMost) return unknown();
    std::vector<T> numbers;
    numbers.reserve(items);
    Shape at(to.size());
    std::ptrdiff_t from = walk.first;
    for (std::size_t i = 0; i < items; ++i) {
      numbers.push_back(numbers_[static_cast<std::size_t>(from)]);
      for (std::size_t axis = to.size(); axis-- > 0;) {
        from += walk.steps[axis];
        if (++at[axis] < to[axis]) break;
        from -= walk.steps[axis] * static_cast<std::ptrdiff_t>(to[axis]);
        at[axis] = 0;
      }
    }
    return of(std::move(numbers));
  }
  Tail broadcast(const Shape& shape, const Shape& to) const { return walked(to, Walk::broadcast(shape, to)); }
  Tail transposed(const Shape& shape, const std::vector<std::size_t>& order) const {
    const Walk walk = Walk::dense(shape);
    Walk turned;
    Shape to;
    for (const std::size_t axis : order) turned.steps.push_back(walk.steps[axis]), to.push_back(shape[axis]);
    return walked(to, turned);
  }
  Tail sliced(const Shape& shape, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count) const {
    Walk walk = Walk::dense(shape);
    walk.first = walk.steps[axis] * static_cast<std::ptrdiff_t>(start);
    walk.steps[axis] *= step;
    Shape to = shape;
    to[axis] = count;
    return walked(to, walk);
  }
  /// Summed along an axis.
  template <class Op>
  Tail summed(const Shape& shape, std::size_t axis, Op add) const {
    if (kind_ != Kind::known || is_zero()) return *this;
    Shape rest = shape;
    rest[axis] = 1;
    Tail total = of({T(0)});
    for (std::size_t i = 0; i < shape[axis]; ++i) total = both(total, rest, sliced(shape, axis, i, 1, 1), rest, rest, add);
    return total;
  }

  /// Of a matrix product of the items: for each output row(its number) and the sum of times(a weight's place, number).
  template <class Row, class Times, class Add>
  Tail gathered(const device::GatheredProduct& p, bool biased, Row row, Times times, Add add) const {
    if (kind_ != Kind::known || (is_zero() && !biased)) return *this;
    const std::size_t rows = p.groups * p.outputs;
    if (device::element_count({rows, p.positions}) > kMost) return unknown();
    if (!is_zero() && device::element_count({rows, p.positions, p.terms}) > 16 * kMost) return unknown();
    std::vector<T> numbers;
    for (std::size_t output = 0; output < rows; ++output) {
      for (std::size_t at = 0; at < p.positions; ++at) {
        T sum = row(output);
        const std::size_t window = output / p.outputs * p.positions + at;
        for (std::size_t k = 0; !is_zero() && k < p.terms; ++k) {
          const auto from = p.index[window * p.terms + k];
          if (from != device::GatheredProduct::kNone) sum = add(sum, times(output * p.terms + k, this->at(from)));
        }
        numbers.push_back(sum);
      }
    }
    return of(std::move(numbers));
  }

  /// Of a sum or difference of two tensors that broadcast to `to`.
  template <class Op>
  static Tail sum(const Tail& a, const Shape& of_a, const Tail& b, const Shape& of_b, const Shape& to, Op op) {
    if (a.kind_ == Kind::even && b.kind_ == Kind::even) return even();
    return both(a, of_a, b, of_b, to, op);
  }
  /// Of a product of two tensors: 0 times anything is 0.
  template <class Op>
  static Tail product(const Tail& a, const Shape& of_a, const Tail& b, const Shape& of_b, const Shape& to, Op op) {
    if (a.is_zero() || b.is_zero()) return {};
    return sum(a, of_a, b, of_b, to, op);
  }
  /// Of op(tensor, number), the numbers public: what is even stays so.
  template <class Op>
  Tail with(const Shape& shape, std::vector<T> numbers, const Shape& of_numbers, const Shape& to, Op op) const {
    return kind_ == Kind::known ? both(*this, shape, of(std::move(numbers)), of_numbers, to, op) : *this;
  }
  /// Of the second tensor's items behind the first's along an axis; both shapes differ there alone.
  static Tail joined(const Tail& a, const Shape& of_a, const Tail& b, const Shape& of_b, std::size_t axis) {
    if (a.kind_ != b.kind_) return unknown();
    if (a.kind_ != Kind::known || (a.numbers_.size() == 1 && a.numbers_ == b.numbers_)) return a;
    std::size_t inner = 1, outer = 1;
    for (std::size_t i = 0; i < of_a.size(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : of_a[i];
    const std::size_t some = of_a[axis] * inner, others = of_b[axis] * inner;
    if (outer * (some + others) > kMost) return unknown();
    std::vector<T> numbers;
    for (std::size_t i = 0; i < outer; ++i) {
      for (std::size_t k = 0; k < some; ++k) numbers.push_back(a.at(i * some + k));
      for (std::size_t k = 0; k < others; ++k) numbers.push_back(b.at(i * others + k));
    }
    return of(std::move(numbers));
  }

  /// In a header: nothing of numbers, which are whoever computed's own constants.
  void describe(io::Json& header) const {
    if (is_zero() || kind_ == Kind::even) header["tail"] = is_zero() ? "zero" : "even";
  }
  /// What a header says; `fresh`: of an encryption. DamagedFileError.
  static Tail from(const io::Json& header, bool fresh) {
    if (!header.contains("tail")) return fresh ? Tail() : unknown();
    const std::string& text = header.string_at("tail", 16);
    if (text != "zero" && text != "even") throw DamagedFileError("a tail is zero or even");
    return text == "zero" ? Tail() : even();
  }

 private:
  /// Numbers that are kept for one tensor at most.
  static constexpr std::size_t kMost = std::size_t{1} << 20;

  explicit Tail(Kind kind) : kind_(kind) {}

  template <class Op>
  static Tail both(const Tail& a, const Shape& of_a, const Tail& b, const Shape& of_b, const Shape& to, Op op) {
    if (a.kind_ != Kind::known || b.kind_ != Kind::known) return unknown();
    const Tail p = a.broadcast(of_a, to), q = b.broadcast(of_b, to);
    if (p.kind_ != Kind::known || q.kind_ != Kind::known) return unknown();
    std::vector<T> numbers(std::max(p.numbers_.size(), q.numbers_.size()));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = op(p.at(i), q.at(i));
    return of(std::move(numbers));
  }

  Kind kind_ = Kind::known;
  std::vector<T> numbers_ = {T(0)};
};

}  // namespace heliograph::schemes
