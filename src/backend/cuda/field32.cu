#include "backend/cuda/field_passes.cuh"

namespace heliograph::backend::cuda {

HELIOGRAPH_INSTANTIATE(Field32)

}  // namespace heliograph::backend::cuda
