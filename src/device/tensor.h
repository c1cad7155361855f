// Base of all tensors: a view of a device's memory, and operations on it that move no words.
#pragma once

#include <vector>

#include "device/shape.h"

namespace heliograph::device {

/// Base of a tensor type `Tensor`, which adds the type of its elements; the function copy(tensor) makes a contiguous copy.
template <class Tensor>
class TensorOf {
 public:
  Shape shape() const { return shape_of(view_); }
  std::size_t items() const { return view_.items(); }
  const View& view() const { return view_; }
  /// Returns the bytes of the words in the view; a broadcast or a slice may use memory of other tensors.
  std::size_t bytes() const { return view_.bytes(); }
  bool dense() const { return is_dense(view_); }

  // These functions return views and move no words.
  Tensor with_components(std::size_t first, std::size_t count) const { return over(view_.with_components(first, count)); }
  Tensor broadcast_to(const Shape& shape) const { return over(broadcast_view(view_, shape)); }
  Tensor transpose(const std::vector<std::size_t>& order) const { return over(transpose_view(view_, order)); }
  /// Selects `count` entries of one axis from `start` on, at distance `step`.
  Tensor slice(std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count) const {
    return over(slice_view(view_, axis, start, step, count));
  }
  Tensor drop_axis(std::size_t axis, std::size_t index) const { return over(drop_axis_view(view_, axis, index)); }
  Tensor reshape(const Shape& shape) const {
    const std::optional<View> view = reshape_view(view_, shape);
    return view ? over(*view) : copy(self()).reshape(shape);
  }
  Tensor contiguous() const { return dense() ? self() : copy(self()); }
  Tensor over(const View& view) const {
    Tensor t = self();
    t.view_ = view;
    return t;
  }

 protected:
  View view_;

 private:
  const Tensor& self() const { return static_cast<const Tensor&>(*this); }
};

}  // namespace heliograph::device
