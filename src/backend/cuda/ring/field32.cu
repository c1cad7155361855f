#include "backend/cuda/ring/field_passes.cuh"

namespace heliograph::backend::cuda {

HELIOGRAPH_INSTANTIATE(Field32)

#ifdef HELIOGRAPH_WORKBENCH_FP64
template void forward_ntt<FieldFp64>(Queue&, const CudaRing&, const PrimeList&, const View&, const View&);
template void inverse_ntt<FieldFp64>(Queue&, const char*, const CudaRing&, const PrimeList&, const View&, const View&);
#endif

}  // namespace heliograph::backend::cuda
