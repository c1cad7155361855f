// Shapes, and operations on views that move no words, for all kinds of tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/view.h"

namespace heliograph::device {

using Shape = std::vector<std::size_t>;

/// Returns the number of elements. Throws ShapeError if the number exceeds kMaxViewBytes.
std::size_t element_count(const Shape& shape);
/// Broadcasts shapes by NumPy's rule. Throws ShapeError with both shapes in its message.
Shape broadcast_shapes(const Shape& a, const Shape& b);
/// Returns the shape of tensors concatenated along an axis. Throws ShapeError if the shapes do not fit together.
Shape concatenate_shapes(const std::vector<Shape>& parts, std::size_t axis);
std::string to_string(const Shape& shape);

inline Shape shape_of(const View& view) { return Shape(view.shape.begin(), view.shape.begin() + view.axes); }
/// Returns all properties of a view except its address, as bytes that are equal for views of one layout. The stride of an
/// axis of length 1 is ignored.
std::string form_of(const View& view);
/// Returns whether the words have the layout of View::dense.
bool is_dense(const View& view);
// These functions return views of the same memory; they throw ShapeError for invalid arguments.
View broadcast_view(const View& view, const Shape& shape);
View transpose_view(const View& view, const std::vector<std::size_t>& order);
/// Selects `count` entries of one axis from `start` on, at distance `step` (may be negative).
View slice_view(const View& view, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count);
View drop_axis_view(const View& view, std::size_t axis, std::size_t index);
/// Returns nullopt if the strides permit no such view.
std::optional<View> reshape_view(const View& view, const Shape& shape);

}  // namespace heliograph::device
