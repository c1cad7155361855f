// Shapes, and what can be done to a view without moving words: what every kind of tensor shares.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/view.h"

namespace heliograph::device {

using Shape = std::vector<std::size_t>;

/// Throws ShapeError as bounded_product.
std::size_t element_count(const Shape& shape);
/// NumPy's rule. Throws ShapeError naming both shapes.
Shape broadcast_shapes(const Shape& a, const Shape& b);
/// Of tensors one after another along an axis. ShapeError where they do not fit together.
Shape concatenate_shapes(const std::vector<Shape>& parts, std::size_t axis);
/// "(2, 3)"
std::string to_string(const Shape& shape);

/// The batch axes.
inline Shape shape_of(const View& view) { return Shape(view.shape.begin(), view.shape.begin() + view.axes); }
/// All that a view says but where it lies, as bytes: equal where views are of one form. An axis of one item has no stride.
std::string form_of(const View& view);
/// Whether the words lie as in View::dense.
bool is_dense(const View& view);
// ShapeError for what does not fit.
View broadcast_view(const View& view, const Shape& shape);
View transpose_view(const View& view, const std::vector<std::size_t>& order);
/// start, step (which may be negative) and count along one axis
View slice_view(const View& view, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count);
View drop_axis_view(const View& view, std::size_t axis, std::size_t index);
/// Nothing where the strides do not allow it.
std::optional<View> reshape_view(const View& view, const Shape& shape);

}  // namespace heliograph::device
