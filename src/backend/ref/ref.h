// The reference backend: plain scalar code, obviously right. Its results are the definition of every kernel.
#pragma once

#include <memory>

#include "device/device.h"

namespace heliograph::backend::ref {

std::unique_ptr<device::Device> make_device();

}  // namespace heliograph::backend::ref
