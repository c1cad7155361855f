// The CUDA backend: the kernels of device/call.h on a GPU. These functions are the module's, and loader.cpp's in the engine.
#pragma once

#include <functional>
#include <memory>

#include "device/device.h"

namespace heliograph::backend::cuda {

class Driver;

/// Whether the CUDA backend is there and belongs to this engine.
bool is_built();
/// GPUs there are now: 0 without a driver, without a GPU, or without the backend; `reason` says which.
int count(std::string* reason = nullptr);
/// Whether the GPU of that number, below count(), can be opened: this build has code for it.
bool is_usable(int ordinal);
/// Throws DeviceError where there is no such GPU or this build has no code for it, ParameterError without the backend.
std::unique_ptr<device::Device> make_device(int ordinal);

/// For tests: a device on a driver of the test's own.
std::unique_ptr<device::Device> make_device(std::shared_ptr<Driver> driver);

}  // namespace heliograph::backend::cuda
