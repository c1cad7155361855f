#include "backend/cuda/ring/field_passes.cuh"

namespace heliograph::backend::cuda {

HELIOGRAPH_INSTANTIATE(Field60)

}  // namespace heliograph::backend::cuda
