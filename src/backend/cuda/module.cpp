// The module's one symbol.
#include "backend/cuda/module.h"

namespace heliograph::backend::cuda {

extern "C" {
[[gnu::visibility("default")]] extern const Calls heliograph_cuda_calls;
const Calls heliograph_cuda_calls{
    kEngine,
    [](ProcessState& of_the_process) { share(of_the_process); },
    count,
    is_usable,
    [](int ordinal) { return make_device(ordinal); },
    [](std::shared_ptr<Driver> driver) { return make_device(std::move(driver)); },
};
}

}  // namespace heliograph::backend::cuda
