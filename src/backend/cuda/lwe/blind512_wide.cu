#include "backend/cuda/lwe/blind_shape.cuh"

namespace heliograph::backend::cuda {

extern const BlindKernel kBlind512Wide;
const BlindKernel kBlind512Wide = BlindShape<9, 4, 1, 2>::kernel();

}  // namespace heliograph::backend::cuda
