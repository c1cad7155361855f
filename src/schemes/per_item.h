// A property of each item of a tensor, or one for all items.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "device/constants.h"
#include "device/shape.h"

namespace heliograph::schemes {

using device::Shape;

/// Index of each item of a tensor in a dense array of another shape: `first` plus one step per axis.
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
  /// Indices in an array of shape `shape` that is broadcast to `to`.
  static Walk broadcast(const Shape& shape, const Shape& to) {
    Walk walk = dense(shape);
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      if (shape[axis] == 1) walk.steps[axis] = 0;
    walk.steps.insert(walk.steps.begin(), to.size() - shape.size(), 0);
    return walk;
  }
  /// Indices in an array of shape `shape` with permuted axes; `to` receives the new shape.
  static Walk transposed(const Shape& shape, const std::vector<std::size_t>& order, Shape& to) {
    const Walk walk = dense(shape);
    Walk turned;
    for (const std::size_t axis : order) turned.steps.push_back(walk.steps[axis]), to.push_back(shape[axis]);
    return turned;
  }
  /// Indices of every `step`-th entry of an axis, from `start`.
  static Walk sliced(const Shape& shape, std::size_t axis, std::size_t start, std::ptrdiff_t step) {
    Walk walk = dense(shape);
    walk.first = walk.steps[axis] * static_cast<std::ptrdiff_t>(start);
    walk.steps[axis] *= step;
    return walk;
  }
};

/// A list with one entry for all items, or one per item in row-major order. T is copyable and comparable.
template <class T>
class PerItem {
 public:
  explicit PerItem(T all) : list_{std::move(all)} {}
  /// Makes a list from one entry per item. If the tensor has no items, `none` is the common entry.
  static PerItem of(std::vector<T> list, T none) {
    if (list.empty()) return PerItem(std::move(none));
    PerItem items(std::move(list.front()));
    if (std::all_of(list.begin() + 1, list.end(), [&](const T& v) { return v == items.list_.front(); })) return items;
    list.front() = std::move(items.list_.front());
    items.list_ = std::move(list);
    return items;
  }

  bool uniform() const { return list_.size() == 1; }
  const std::vector<T>& list() const { return list_; }
  const T& at(std::size_t item) const { return list_[uniform() ? 0 : item]; }

  template <class Op>
  PerItem map(Op op) const {
    std::vector<T> list;
    list.reserve(list_.size());
    for (const T& v : list_) list.push_back(op(v));
    return of(std::move(list), list_.front());
  }
  /// Returns the list of a tensor of shape `to`, whose items are at the indices that `walk` gives.
  PerItem walked(const Shape& to, const Walk& walk) const {
    if (uniform()) return *this;
    const std::size_t items = device::element_count(to);
    std::vector<T> list;
    list.reserve(items);
    Shape at(to.size());
    std::ptrdiff_t from = walk.first;
    for (std::size_t i = 0; i < items; ++i) {
      list.push_back(list_[static_cast<std::size_t>(from)]);
      for (std::size_t axis = to.size(); axis-- > 0;) {
        from += walk.steps[axis];
        if (++at[axis] < to[axis]) break;
        from -= walk.steps[axis] * static_cast<std::ptrdiff_t>(to[axis]);
        at[axis] = 0;
      }
    }
    return of(std::move(list), list_.front());
  }
  PerItem broadcast(const Shape& shape, const Shape& to) const { return walked(to, Walk::broadcast(shape, to)); }
  PerItem transposed(const Shape& shape, const std::vector<std::size_t>& order) const {
    Shape to;
    const Walk walk = Walk::transposed(shape, order, to);
    return walked(to, walk);
  }
  PerItem sliced(const Shape& shape, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count) const {
    Shape to = shape;
    to[axis] = count;
    return walked(to, Walk::sliced(shape, axis, start, step));
  }
  /// Both lists are broadcast to the shape `to`.
  template <class Op>
  static PerItem both(const PerItem& a, const Shape& of_a, const PerItem& b, const Shape& of_b, const Shape& to, Op op) {
    const PerItem p = a.broadcast(of_a, to), q = b.broadcast(of_b, to);
    std::vector<T> list;
    const std::size_t count = std::max(p.list_.size(), q.list_.size());
    list.reserve(count);
    for (std::size_t i = 0; i < count; ++i) list.push_back(op(p.at(i), q.at(i)));
    return of(std::move(list), p.list_.front());
  }
  /// Returns sums along an axis, which gets length 1.
  template <class Op>
  PerItem summed(const Shape& shape, std::size_t axis, const T& zero, Op add) const {
    Shape rest = shape;
    rest[axis] = 1;
    PerItem total(zero);
    for (std::size_t i = 0; i < shape[axis]; ++i) total = both(total, rest, sliced(shape, axis, i, 1, 1), rest, rest, add);
    return total;
  }
  /// Concatenates `a` and `b` along an axis; the shapes differ in that axis only.
  static PerItem joined(const PerItem& a, const Shape& of_a, const PerItem& b, const Shape& of_b, std::size_t axis) {
    if (a.uniform() && b.uniform() && a.list_ == b.list_) return a;
    std::size_t inner = 1, outer = 1;
    for (std::size_t i = 0; i < of_a.size(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : of_a[i];
    const std::size_t some = of_a[axis] * inner, others = of_b[axis] * inner;
    std::vector<T> list;
    list.reserve(outer * (some + others));
    for (std::size_t i = 0; i < outer; ++i) {
      for (std::size_t k = 0; k < some; ++k) list.push_back(a.at(i * some + k));
      for (std::size_t k = 0; k < others; ++k) list.push_back(b.at(i * others + k));
    }
    return of(std::move(list), a.list_.front());
  }
  /// Returns the matrix product of the items: for each output, row(output) plus the sum of times(weight index, item).
  template <class Row, class Times, class Add>
  static PerItem gathered(const PerItem& x, const device::GatheredProduct& p, Row row, Times times, Add add) {
    std::vector<T> list;
    for (std::size_t output = 0; output < p.groups * p.outputs; ++output) {
      for (std::size_t at = 0; at < p.positions; ++at) {
        T sum = row(output);
        const std::size_t window = output / p.outputs * p.positions + at;
        for (std::size_t k = 0; k < p.terms; ++k) {
          const auto from = p.index[window * p.terms + k];
          if (from != device::GatheredProduct::kNone) sum = add(sum, times(output * p.terms + k, x.at(from)));
        }
        list.push_back(sum);
      }
    }
    return of(std::move(list), x.list_.front());
  }

 private:
  std::vector<T> list_;
};

}  // namespace heliograph::schemes
