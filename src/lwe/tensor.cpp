#include "lwe/tensor.h"

namespace heliograph::lwe {

Tensor::Tensor(std::shared_ptr<Session> session, const Shape& shape, std::size_t wires, std::size_t words)
    : session_(std::move(session)) {
  view_ = View::dense(nullptr, math::Word::w64, shape, wires, 1, words);
  view_ = view_.in(session_->allocate(view_, device::PrimeList::range(0, 1)));
}

Tensor copy(const Tensor& a) {
  Tensor out(a.session(), a.shape(), a.wires(), a.view().n);
  if (a.items()) a.session()->enqueue(device::Copy{a.view(), out.view()});
  return out;
}

Tensor concatenate(const std::vector<Tensor>& parts, std::size_t axis) {
  std::vector<Shape> shapes;
  for (const Tensor& p : parts) {
    require<MismatchError>(
        p.session() == parts[0].session() && p.wires() == parts[0].wires() && p.view().n == parts[0].view().n,
        "tensors to concatenate must have one type and one parameter set");
    shapes.push_back(p.shape());
  }
  const Shape shape = device::concatenate_shapes(shapes, axis);
  const Tensor& lead = parts.front();
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
