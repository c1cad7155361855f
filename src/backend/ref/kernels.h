#pragma once

#include "backend/inline_queue.h"
#include "device/kernels.h"

namespace heliograph::backend::ref {

class RefRing;

/// Each call runs before it returns, on the calling thread. Takes constants as they are, whoever prepared them.
class RefKernels final : public device::Kernels {
 public:
  using Kernels::Kernels;
  std::size_t preferred_items(std::size_t) const override { return 1; }

  using Queue = device::Queue;
  using Ring = device::RingConstant;
  using Primes = device::PrimeList;
  using View = device::View;

  void run(Queue&, const Add& c);
  void run(Queue&, const Sub& c);
  void run(Queue&, const Neg& c);
  void run(Queue&, const Mul& c);
  void run(Queue&, const MulAccumulate& c);
  void run(Queue&, const MulConstants& c);
  void run(Queue&, const AddConstants& c);
  void run(Queue&, const ForwardNtt& c);
  void run(Queue&, const InverseNtt& c);
  void run(Queue&, const Permute& c);
  void run(Queue&, const Convert& c);
  void run(Queue&, const InnerProduct& c);
  void run(Queue&, const Product& c);
  void run(Queue&, const Sample& c);
  void run(Queue&, const Copy& c);
  void run(Queue&, const Zero& c);

 protected:
  std::unique_ptr<const device::Form> form(const device::RingConstant&) override;

 private:
  const RefRing& own(const Ring&);
};

}  // namespace heliograph::backend::ref
