// The module's only exported symbol.
#include "backend/cuda/module.h"

namespace heliograph::backend::cuda {

extern "C" {
[[gnu::visibility("default")]] extern const Calls heliograph_cuda_calls;
const Calls heliograph_cuda_calls{
    .count = count, .is_usable = is_usable, .make_device = make_device, .make_device_on = make_device};
}

}  // namespace heliograph::backend::cuda
