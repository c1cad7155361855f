// A module with the cpu backend under the CUDA module's name. With this module, tests load a backend at run time without a
// GPU. The module has its own copies of the engine's lower layers; both work in one process.
#include "backend/cuda/module.h"
#include "backend/cpu/cpu.h"

namespace heliograph::backend::cuda {

extern "C" {
[[gnu::visibility("default")]] extern const Calls heliograph_cuda_calls;
const Calls heliograph_cuda_calls{
    .count = [](std::string*) { return 1; },
    .is_usable = [](int) { return true; },
    .make_device = [](int) { return cpu::make_device("", 1); },
    .make_device_on = [](std::shared_ptr<Driver>) { return cpu::make_device("", 1); },
};
}

}  // namespace heliograph::backend::cuda
