#include "backend/cuda/lwe/blind_shape.cuh"

namespace heliograph::backend::cuda {

extern const BlindKernel kBlind512;
const BlindKernel kBlind512 = BlindShape<9, 3, 1, 2>::kernel();

}  // namespace heliograph::backend::cuda
