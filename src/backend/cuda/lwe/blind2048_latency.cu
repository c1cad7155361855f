#include "backend/cuda/lwe/blind_shape.cuh"

namespace heliograph::backend::cuda {

extern const BlindKernel kBlind2048Latency;
const BlindKernel kBlind2048Latency = BlindShape<11, 1, 1, 4>::kernel();

}  // namespace heliograph::backend::cuda
