#pragma once

#include "backend/inline_queue.h"
#include "device/kernels.h"

namespace heliograph::backend::ref {

class RefRing;

/// Kernels that run synchronously on the calling thread. The kernels read constants directly and need no form of the
/// device's own.
class RefKernels final : public device::Kernels {
 public:
  using Kernels::Kernels;
  std::size_t preferred_items(std::size_t) const override { return 1; }

  using Queue = device::Queue;
  using Ring = device::RingConstant;
  using Primes = device::PrimeList;
  using View = device::View;

  HELIOGRAPH_RUNS(Add, Sub, Neg, Mul, MulAccumulate, MulConstants, AddConstants, WeightedSum, ForwardNtt, InverseNtt,
                  Permute, Convert, InnerProduct, Product, Sample, Copy, Zero, ByteProduct);

 protected:
  std::unique_ptr<const device::Form> form(const device::RingConstant&) override;

 private:
  const RefRing& own(const Ring&);
};

}  // namespace heliograph::backend::ref
