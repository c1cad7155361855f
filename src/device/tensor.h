// What tensors of every kind are: a view of a device's memory, and what can be done to it without moving words.
#pragma once

#include <vector>

#include "device/shape.h"

namespace heliograph::device {

/// `Tensor` derives from it, and has besides what its elements are; `copy(tensor)` writes its words anew, side by side.
template <class Tensor>
class TensorOf {
 public:
  Shape shape() const { return shape_of(view_); }
  std::size_t items() const { return view_.items(); }
  const View& view() const { return view_; }
  /// Bytes of the words it shows (a broadcast or slice may share storage).
  std::size_t bytes() const { return view_.bytes(); }
  bool dense() const { return is_dense(view_); }

  // Views: no words are moved.
  Tensor with_components(std::size_t first, std::size_t count) const { return over(view_.with_components(first, count)); }
  Tensor broadcast_to(const Shape& shape) const { return over(broadcast_view(view_, shape)); }
  Tensor transpose(const std::vector<std::size_t>& order) const { return over(transpose_view(view_, order)); }
  /// start, step and count along one axis
  Tensor slice(std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count) const {
    return over(slice_view(view_, axis, start, step, count));
  }
  Tensor drop_axis(std::size_t axis, std::size_t index) const { return over(drop_axis_view(view_, axis, index)); }
  /// A view where the strides allow it, else a copy.
  Tensor reshape(const Shape& shape) const {
    const std::optional<View> view = reshape_view(view_, shape);
    return view ? over(*view) : copy(self()).reshape(shape);
  }
  Tensor contiguous() const { return dense() ? self() : copy(self()); }
  /// What it says of itself, of other words: those of a view of its shape.
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
