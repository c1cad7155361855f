#include "backend/cuda/lwe/blind_shape.cuh"

namespace heliograph::backend::cuda {

extern const BlindKernel kBlind2048;
const BlindKernel kBlind2048 = BlindShape<11, 1, 1, 2>::kernel();

}  // namespace heliograph::backend::cuda
