#include "backend/cuda/ring/field_passes.cuh"

namespace heliograph::backend::cuda {

HELIOGRAPH_INSTANTIATE(Field32)

}  // namespace heliograph::backend::cuda
