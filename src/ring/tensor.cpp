#include "ring/tensor.h"

#include <algorithm>

namespace heliograph::ring {

RnsTensor::RnsTensor(std::shared_ptr<Engine> engine, const Shape& shape, std::size_t components, PrimeList primes,
                     Domain domain, Secrecy secrecy, std::size_t words)
    : engine_(std::move(engine)), primes_(primes), domain_(domain), secret_(secrecy != Secrecy::open) {
  const math::Ring& ring = engine_->ring();
  view_ = View::dense(nullptr, ring.word(), shape, components, primes.size(), words > 0 ? words : ring.n());
  view_ = view_.in(engine_->allocate(view_, primes, secrecy));
}

RnsTensor RnsTensor::with_limbs(std::size_t first, std::size_t count) const {
  RnsTensor r = over(view_.with_limbs(first, count));
  r.primes_ = PrimeList(std::vector<PrimeIndex>(primes_.begin() + first, primes_.begin() + first + count));
  return r;
}

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
