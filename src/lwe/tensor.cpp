#include "lwe/tensor.h"

namespace heliograph::lwe {

Tensor::Tensor(std::shared_ptr<Session> session, const Shape& shape, std::size_t wires, std::size_t words)
    : session_(std::move(session)) {
  view_ = View::dense(nullptr, math::Word::w64, shape, wires, 1, words);
  view_ = view_.in(session_->allocate(view_, device::PrimeList::range(0, 1)));
}

Tensor Tensor::with_view(const View& view) const {
  Tensor t = *this;
  t.view_ = view;
  return t;
}

Tensor Tensor::with_wires(std::size_t first, std::size_t count) const {
  return with_view(view_.with_components(first, count));
}

Tensor Tensor::broadcast_to(const Shape& shape) const { return with_view(device::broadcast_view(view_, shape)); }

Tensor Tensor::transpose(const std::vector<std::size_t>& order) const {
  return with_view(device::transpose_view(view_, order));
}

Tensor Tensor::slice(std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count) const {
  return with_view(device::slice_view(view_, axis, start, step, count));
}

Tensor Tensor::drop_axis(std::size_t axis, std::size_t index) const {
  return with_view(device::drop_axis_view(view_, axis, index));
}

Tensor Tensor::reshape(const Shape& shape) const {
  const std::optional<View> view = device::reshape_view(view_, shape);
  return view ? with_view(*view) : copy(*this).reshape(shape);
}

Tensor Tensor::contiguous() const { return dense() ? *this : copy(*this); }

Tensor copy(const Tensor& a) {
  Tensor out(a.session(), a.shape(), a.wires(), a.view().n);
  if (a.items()) a.session()->enqueue(device::Copy{a.view(), out.view()});
  return out;
}

Tensor concatenate(const std::vector<Tensor>& parts, std::size_t axis) {
  require<ShapeError>(!parts.empty(), "nothing to concatenate");
  const Tensor& lead = parts.front();
  Shape shape = lead.shape();
  require<ShapeError>(axis < shape.size(), "no such axis");
  std::size_t length = 0;
  for (const Tensor& p : parts) {
    require<MismatchError>(p.session() == lead.session() && p.wires() == lead.wires() && p.view().n == lead.view().n,
                           "tensors to concatenate are of different types or parameters");
    Shape s = p.shape();
    require<ShapeError>(s.size() == shape.size(), "tensors to concatenate have different numbers of axes");
    length += s[axis];
    s[axis] = shape[axis];
    if (s != shape)
      throw ShapeError("shapes " + device::to_string(shape) + " and " + device::to_string(p.shape()) +
                       " do not concatenate");
  }
  shape[axis] = length;
  Tensor out(lead.session(), shape, lead.wires(), lead.view().n);
  std::size_t at = 0;
  for (const Tensor& p : parts) {
    const std::size_t count = p.shape()[axis];
    if (p.items() == 0) continue;
    lead.session()->enqueue(device::Copy{p.view(), out.slice(axis, at, 1, count).view()});
    at += count;
  }
  return out;
}

std::vector<math::u64> download(const Tensor& a) {
  const Tensor d = a.contiguous();
  std::vector<math::u64> words = d.session()->host_array<math::u64>(d.view().words(), "reading a tensor");
  if (!words.empty()) d.session()->download(d.view(), std::as_writable_bytes(std::span(words)));
  return words;
}

std::vector<math::u64> gather(const Tensor& a) {
  const Tensor d = a.contiguous();
  device::Device& device = d.session()->device();
  std::vector<math::u64> words =
      d.session()->host_array<math::u64>(device.key_holder() != nullptr ? d.view().words() : 0, "reading a tensor");
  if (d.bytes() > 0) d.session()->gather(d.view(), std::as_writable_bytes(std::span(words)));
  return words;
}

void upload(const Tensor& to, std::span<const math::u64> from) {
  require<InternalError>(to.dense() && from.size_bytes() == to.bytes(), "an upload needs a dense tensor of its size");
  if (!from.empty()) to.session()->upload(std::as_bytes(from), to.view());
}

}  // namespace heliograph::lwe
