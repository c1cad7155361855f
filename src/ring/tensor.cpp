#include "ring/tensor.h"

#include <algorithm>

namespace heliograph::ring {

RnsTensor::RnsTensor(std::shared_ptr<Engine> engine, const Shape& shape, std::size_t components, PrimeList primes,
                     Domain domain, Secrecy secrecy)
    : engine_(std::move(engine)), primes_(primes), domain_(domain), secret_(secrecy != Secrecy::open) {
  const math::Ring& ring = engine_->ring();
  view_ = View::dense(nullptr, ring.word(), shape, components, primes.size(), ring.n());
  view_ = view_.in(engine_->allocate(view_, primes, secrecy));
}

RnsTensor RnsTensor::with_view(const View& view) const {
  RnsTensor r = *this;
  r.view_ = view;
  return r;
}

RnsTensor RnsTensor::with_components(std::size_t first, std::size_t count) const {
  return with_view(view_.with_components(first, count));
}

RnsTensor RnsTensor::with_limbs(std::size_t first, std::size_t count) const {
  RnsTensor r = with_view(view_.with_limbs(first, count));
  r.primes_ = PrimeList(std::vector<PrimeIndex>(primes_.begin() + first, primes_.begin() + first + count));
  return r;
}

RnsTensor RnsTensor::broadcast_to(const Shape& target) const { return with_view(device::broadcast_view(view_, target)); }

RnsTensor RnsTensor::transpose(const std::vector<std::size_t>& order) const {
  return with_view(device::transpose_view(view_, order));
}

RnsTensor RnsTensor::slice(std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count) const {
  return with_view(device::slice_view(view_, axis, start, step, count));
}

RnsTensor RnsTensor::drop_axis(std::size_t axis, std::size_t index) const {
  return with_view(device::drop_axis_view(view_, axis, index));
}

RnsTensor RnsTensor::reshape(const Shape& target) const {
  const std::optional<View> view = device::reshape_view(view_, target);
  return view ? with_view(*view) : copy(*this).reshape(target);
}

RnsTensor RnsTensor::contiguous() const { return dense() ? *this : copy(*this); }

Stack::Stack(const RnsTensor& like, std::size_t count, bool axis) {
  Shape shape = like.shape();
  const std::size_t last = shape.size();
  if (axis) shape.push_back(count);
  whole_ = RnsTensor(like.engine(), shape, like.components(), like.primes(), like.domain());
  if (!axis) {
    entries_.push_back(whole_);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) entries_.push_back(whole_.drop_axis(last, i));
  std::vector<std::size_t> order = {last};
  for (std::size_t i = 0; i < last; ++i) order.push_back(i);
  whole_ = whole_.transpose(order);
}

}  // namespace heliograph::ring
