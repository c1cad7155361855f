#include "device/shape.h"

#include <algorithm>
#include <array>

#include "device/address.h"

namespace heliograph::device {

std::size_t element_count(const Shape& shape) {
  const std::size_t count = bounded_product(1, shape);
  return std::find(shape.begin(), shape.end(), std::size_t{0}) == shape.end() ? count : 0;
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

Shape concatenate_shapes(const std::vector<Shape>& parts, std::size_t axis) {
  require<ShapeError>(!parts.empty(), "cannot concatenate an empty list of tensors");
  Shape whole = parts.front();
  require<ShapeError>(axis < whole.size(), "no such axis");
  std::size_t length = 0;
  for (const Shape& part : parts) {
    require<ShapeError>(part.size() == whole.size(), "cannot concatenate tensors with different numbers of axes");
    length += part[axis];
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (i != axis && part[i] != whole[i])
        throw ShapeError("shapes " + to_string(parts.front()) + " and " + to_string(part) +
                         " cannot be concatenated: only the lengths along the axis may differ");
    }
  }
  whole[axis] = length;
  return whole;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::size_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      throw ShapeError("shapes " + to_string(a) + " and " + to_string(b) + " do not broadcast");
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

std::string form_of(const View& v) {
  const auto step = [](std::size_t count, std::size_t stride) { return count > 1 ? stride : 0; };
  std::array<std::size_t, 7 + 2 * kMaxAxes> form{
      v.word_size(), static_cast<std::size_t>(v.axes), v.components, step(v.components, v.component_stride),
      v.limbs,       step(v.limbs, v.limb_stride),     v.n};
  for (int i = 0; i < v.axes; ++i)
    form[7 + 2 * i] = v.shape[i], form[8 + 2 * i] = step(v.shape[i], static_cast<std::size_t>(v.stride[i]));
  return {reinterpret_cast<const char*>(form.data()), (7 + 2 * static_cast<std::size_t>(v.axes)) * sizeof form[0]};
}

bool is_dense(const View& v) {
  const View d = View::dense(v.data, v.word, shape_of(v), v.components, v.limbs, v.n);
  for (int i = 0; i < v.axes; ++i) {
    if (v.shape[i] > 1 && v.stride[i] != d.stride[i]) return false;
  }
  return (v.components == 1 || v.component_stride == d.component_stride) && (v.limbs == 1 || v.limb_stride == d.limb_stride);
}

View broadcast_view(const View& view, const Shape& target) {
  require<ShapeError>(target.size() <= kMaxAxes, "a ciphertext tensor has at most 6 axes");
  if (broadcast_shapes(shape_of(view), target) != target)
    throw ShapeError(to_string(shape_of(view)) + " does not broadcast to " + to_string(target));
  View r = view;
  const int added = static_cast<int>(target.size()) - view.axes;
  r.axes = static_cast<int>(target.size());
  for (int i = 0; i < r.axes; ++i) {
    const bool own = i >= added;
    r.shape[i] = target[i];
    r.stride[i] = own && view.shape[i - added] == target[i] ? view.stride[i - added] : 0;
  }
  r.check_extent();
  return r;
}

View transpose_view(const View& view, const std::vector<std::size_t>& order) {
  View r = view;
  std::vector<bool> used(view.axes);
  require<ShapeError>(order.size() == static_cast<std::size_t>(view.axes), "a transposition must list each axis once");
  for (std::size_t i = 0; i < order.size(); ++i) {
    require<ShapeError>(order[i] < order.size() && !used[order[i]], "a transposition must list each axis once");
    used[order[i]] = true;
    r.shape[i] = view.shape[order[i]];
    r.stride[i] = view.stride[order[i]];
  }
  return r;
}

View slice_view(const View& view, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count) {
  require<ShapeError>(axis < static_cast<std::size_t>(view.axes), "no such axis");
  View r = view;
  r.shape[axis] = count;
  if (count == 0) return r;
  const std::size_t length = view.shape[axis], room = step < 0 ? start : length - 1 - start;
  const std::size_t each = step < 0 ? std::size_t{0} - static_cast<std::size_t>(step) : static_cast<std::size_t>(step);
  require<ShapeError>(start < length && (count == 1 || (each > 0 && count - 1 <= room / each)),
                      "a slice must stay within its axis");
  if (view.items() == 0) return r;  // without items the address has no meaning
  r.data = displaced(r.data,
                     static_cast<std::ptrdiff_t>(start) * view.stride[axis] * static_cast<std::ptrdiff_t>(view.word_size()));
  if (count > 1) r.stride[axis] *= step;
  return r;
}

View drop_axis_view(const View& view, std::size_t axis, std::size_t index) {
  View r = slice_view(view, axis, index, 1, 1);
  for (int i = static_cast<int>(axis); i + 1 < r.axes; ++i) {
    r.shape[i] = r.shape[i + 1];
    r.stride[i] = r.stride[i + 1];
  }
  --r.axes;
  return r;
}

std::optional<View> reshape_view(const View& view, const Shape& target) {
  require<ShapeError>(target.size() <= kMaxAxes, "a ciphertext tensor has at most 6 axes");
  if (element_count(target) != view.items())
    throw ShapeError("shape " + to_string(shape_of(view)) + " cannot become " + to_string(target));
  View r = view;
  r.axes = static_cast<int>(target.size());
  std::copy(target.begin(), target.end(), r.shape.begin());
  std::fill(r.stride.begin(), r.stride.begin() + r.axes, 0);
  std::array<int, kMaxAxes> axis{};  // the view's axes whose length is not 1
  int axes = 0;
  for (int i = 0; i < view.axes; ++i) {
    if (view.shape[i] != 1) axis[axes++] = i;
  }
  // The axes of both shapes are divided into groups of adjacent axes such that corresponding groups have the same number of
  // items. In the view the items of a group must have a constant stride; the strides of the result's axes are multiples of
  // it. If there are no items, strides do not matter.
  for (int from = 0, to = 0; view.items() > 0 && from < axes;) {
    const int first = from, place = to;
    std::size_t have = view.shape[axis[from++]], want = target[to++];
    while (have != want) have < want ? have *= view.shape[axis[from++]] : want *= target[to++];
    for (int i = first; i + 1 < from; ++i) {
      const int outer = axis[i], inner = axis[i + 1];
      if (view.stride[outer] != view.stride[inner] * static_cast<std::ptrdiff_t>(view.shape[inner])) return std::nullopt;
    }
    std::ptrdiff_t step = view.stride[axis[from - 1]];
    for (int i = to - 1; i >= place; --i) {
      r.stride[i] = step;
      step *= static_cast<std::ptrdiff_t>(target[i]);
    }
  }
  r.check_extent();
  return r;
}

}  // namespace heliograph::device
