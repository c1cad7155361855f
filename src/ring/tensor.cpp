#include "ring/tensor.h"

#include <algorithm>

namespace heliograph::ring {

std::size_t element_count(const Shape& shape) {
  std::size_t count = 1;
  for (std::size_t s : shape) {
    if (__builtin_mul_overflow(count, s, &count)) throw ShapeError("a shape has too many elements");
  }
  return count;
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
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

RnsTensor::RnsTensor(std::shared_ptr<Engine> engine, const Shape& shape, std::size_t components, PrimeList primes,
                     Domain domain)
    : engine_(std::move(engine)), primes_(primes), domain_(domain) {
  const math::Ring& ring = engine_->ring();
  view_ = View::dense(nullptr, ring.word(), shape, components, primes.size(), ring.n());
  element_count(shape);  // refuses what overflows
  buffer_ = engine_->allocate(view_, primes);
  view_.data = buffer_->address();
}

bool RnsTensor::dense() const {
  const View d = View::dense(view_.data, view_.word, shape(), view_.components, view_.limbs, view_.n);
  for (int i = 0; i < view_.axes; ++i) {
    if (view_.shape[i] > 1 && view_.stride[i] != d.stride[i]) return false;
  }
  return (view_.components == 1 || view_.component_stride == d.component_stride) &&
         (view_.limbs == 1 || view_.limb_stride == d.limb_stride);
}

RnsTensor RnsTensor::with_components(std::size_t first, std::size_t count) const {
  RnsTensor r = *this;
  r.view_ = view_.with_components(first, count);
  return r;
}

RnsTensor RnsTensor::with_limbs(std::size_t first, std::size_t count) const {
  RnsTensor r = *this;
  r.view_ = view_.with_limbs(first, count);
  r.primes_ = PrimeList(std::vector<PrimeIndex>(primes_.begin() + first, primes_.begin() + first + count));
  return r;
}

RnsTensor RnsTensor::broadcast_to(const Shape& target) const {
  require<ShapeError>(target.size() <= device::kMaxAxes, "a ciphertext tensor has at most 6 axes");
  if (broadcast_shapes(shape(), target) != target)
    throw ShapeError(to_string(shape()) + " does not broadcast to " + to_string(target));
  RnsTensor r = *this;
  const int added = static_cast<int>(target.size()) - view_.axes;
  r.view_.axes = static_cast<int>(target.size());
  for (int i = 0; i < r.view_.axes; ++i) {
    const bool own = i >= added;
    r.view_.shape[i] = target[i];
    r.view_.stride[i] = own && view_.shape[i - added] == target[i] ? view_.stride[i - added] : 0;
  }
  return r;
}

RnsTensor RnsTensor::transpose(const std::vector<std::size_t>& order) const {
  RnsTensor r = *this;
  std::vector<bool> used(view_.axes);
  require<ShapeError>(order.size() == static_cast<std::size_t>(view_.axes), "a transposition names each axis once");
  for (std::size_t i = 0; i < order.size(); ++i) {
    require<ShapeError>(order[i] < order.size() && !used[order[i]], "a transposition names each axis once");
    used[order[i]] = true;
    r.view_.shape[i] = view_.shape[order[i]];
    r.view_.stride[i] = view_.stride[order[i]];
  }
  return r;
}

RnsTensor RnsTensor::slice(std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count) const {
  require<ShapeError>(axis < static_cast<std::size_t>(view_.axes), "no such axis");
  RnsTensor r = *this;
  r.view_.shape[axis] = count;
  if (count == 0) return r;
  if (step < 0) {  // strides are unsigned: a reversed axis is gathered
    std::vector<RnsTensor> parts;
    for (std::size_t i = 0; i < count; ++i)
      parts.push_back(slice(axis, start + static_cast<std::size_t>(static_cast<std::ptrdiff_t>(i) * step), 1, 1));
    return concatenate(parts, axis);
  }
  require<ShapeError>(start + (count - 1) * static_cast<std::size_t>(step) < view_.shape[axis], "a slice leaves its axis");
  r.view_.data += start * view_.stride[axis] * view_.word_size();
  r.view_.stride[axis] = view_.stride[axis] * static_cast<std::size_t>(step);
  return r;
}

RnsTensor RnsTensor::drop_axis(std::size_t axis, std::size_t index) const {
  RnsTensor r = slice(axis, index, 1, 1);
  for (int i = static_cast<int>(axis); i + 1 < r.view_.axes; ++i) {
    r.view_.shape[i] = r.view_.shape[i + 1];
    r.view_.stride[i] = r.view_.stride[i + 1];
  }
  --r.view_.axes;
  return r;
}

RnsTensor RnsTensor::reshape(const Shape& target) const {
  require<ShapeError>(target.size() <= device::kMaxAxes, "a ciphertext tensor has at most 6 axes");
  if (element_count(target) != items())
    throw ShapeError("shape " + to_string(shape()) + " cannot become " + to_string(target));
  // The batch axes collapse into one wherever each stride is the next axis's whole extent.
  std::size_t step = 0;
  bool regular = true;
  for (int i = view_.axes - 1, seen = 0; i >= 0; --i) {
    if (view_.shape[i] == 1) continue;
    if (!seen++) step = view_.stride[i];
    std::size_t inner = 1;
    for (int k = i + 1; k < view_.axes; ++k) inner *= view_.shape[k];
    regular = regular && view_.stride[i] == step * inner;
  }
  if (!regular) return copy(*this).reshape(target);
  RnsTensor r = *this;
  r.view_.axes = static_cast<int>(target.size());
  for (int i = r.view_.axes - 1; i >= 0; --i) {
    r.view_.shape[i] = target[i];
    r.view_.stride[i] = step;
    step *= target[i];
  }
  return r;
}

RnsTensor RnsTensor::contiguous() const { return dense() ? *this : copy(*this); }

void for_stretches(const Engine& engine, const std::vector<View>& views,
                   const std::function<std::size_t(std::size_t)>& bytes, const Progress& progress,
                   const std::function<void(const std::vector<View>&, device::Workspace)>& step) {
  const std::size_t all = std::max<std::size_t>(1, views.front().items());
  if (engine.kernels().brings_scratch()) {
    device::for_chunks(views, all, progress, [&](const std::vector<View>& v) { step(v, device::Workspace(nullptr, 0)); });
    return;
  }
  const std::size_t preferred = std::min(engine.kernels().preferred_items(bytes(1)), all), scratch = bytes(preferred);
  const device::Buffer workspace = engine.allocate(scratch);
  device::for_chunks(views, preferred, progress,
                     [&](const std::vector<View>& v) { step(v, device::Workspace(workspace->address(), scratch)); });
}

}  // namespace heliograph::ring
