#include "backend/cuda/kernels.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/passes.h"

namespace heliograph::backend::cuda {

void CudaKernels::do_forward_ntt(Queue& q, const Ring& ring, const Primes& primes, const View& a, const View& out) {
  const CudaRing& r = own_ring(ring);
  if (out.items() == 0) return;
  with_field(r.kind(), [&](auto f) { cuda::forward_ntt<decltype(f)>(q, r, primes, a, out); });
}

void CudaKernels::do_inverse_ntt(Queue& q, const Ring& ring, const Primes& primes, const View& a, const View& out) {
  const CudaRing& r = own_ring(ring);
  if (out.items() == 0) return;
  with_field(r.kind(), [&](auto f) { cuda::inverse_ntt<decltype(f)>(q, "inverse_ntt", r, primes, a, out); });
}

}  // namespace heliograph::backend::cuda
