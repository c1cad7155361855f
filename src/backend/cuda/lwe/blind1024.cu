#include "backend/cuda/lwe/blind_shape.cuh"

namespace heliograph::backend::cuda {

extern const BlindKernel kBlind1024;
const BlindKernel kBlind1024 = BlindShape<10, 1, 2, 2>::kernel();

}  // namespace heliograph::backend::cuda
