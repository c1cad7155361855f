// The CUDA backend: the kernels of device/call.h on a GPU. The module defines these functions, and loader.cpp forwards to
// them.
#pragma once

#include <functional>
#include <memory>

#include "device/device.h"

namespace heliograph::backend::cuda {

class Driver;

/// Returns whether the CUDA backend is installed and was built for this version of the engine.
bool is_built();
/// Returns the number of GPUs. If there is none, `reason` states the cause: no driver, no GPU, or no backend.
int count(std::string* reason = nullptr);
/// Returns whether this build has code for the GPU `ordinal`; requires ordinal < count().
bool is_usable(int ordinal);
/// Opens a GPU. Throws DeviceError if there is no such GPU or this build has no code for it; throws ParameterError if the
/// backend is not installed.
std::unique_ptr<device::Device> make_device(int ordinal);

std::unique_ptr<device::Device> make_device(std::shared_ptr<Driver> driver);

}  // namespace heliograph::backend::cuda
