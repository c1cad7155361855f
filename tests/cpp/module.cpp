// In the CUDA module's place a module with the processor's backend: what is loaded at run time is tested where no GPU is, and with it
// that the engine and a module's copies of its lower floors live in one process.
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
