// The null backend: addresses without memory, and kernels that count instead of computing. The counts are a lower bound for
// a program: each operand of a kernel is read or written once. Products modulo a prime count once each; for TFHE's products
// see device/work.cpp.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "device/device.h"

namespace heliograph::backend::null {

using device::Count;

class NullDevice : public device::Device, public device::Counter {};

/// `preferred_items`: number of items that composites process at a time. With more items, keys are read less often and more
/// memory is needed.
std::unique_ptr<NullDevice> make_device(std::size_t preferred_items = 64);

}  // namespace heliograph::backend::null
