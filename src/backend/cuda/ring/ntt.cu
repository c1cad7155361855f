#include "backend/cuda/ring/kernels.h"
#include "backend/cuda/ring/launch.cuh"
#include "backend/cuda/ring/passes.h"

namespace heliograph::backend::cuda {

void CudaKernels::run(Queue& q, const ForwardNtt& c) {
  const CudaRing& r = own_ring(q, *c.ring);
  if (c.out.items() == 0) return;
  with_field(r.kind(), [&](auto f) { cuda::forward_ntt<Arithmetic<decltype(f)>>(q, r, c.primes, c.a, c.out); });
}

void CudaKernels::run(Queue& q, const InverseNtt& c) {
  const CudaRing& r = own_ring(q, *c.ring);
  if (c.out.items() == 0) return;
  with_field(r.kind(),
             [&](auto f) { cuda::inverse_ntt<Arithmetic<decltype(f)>>(q, "inverse_ntt", r, c.primes, c.a, c.out); });
}

}  // namespace heliograph::backend::cuda
