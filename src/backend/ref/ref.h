// The reference backend: plain scalar code. The results of this backend define every kernel.
#pragma once

#include <memory>

#include "device/device.h"

namespace heliograph::backend::ref {

std::unique_ptr<device::Device> make_device();

}  // namespace heliograph::backend::ref
