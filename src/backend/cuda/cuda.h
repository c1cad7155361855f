// The CUDA backend: the kernels of device/call.h on a GPU. A build without CUDA has stub.cpp in its place.
#pragma once

#include <functional>
#include <memory>

#include "device/device.h"

namespace heliograph::backend::cuda {

class Driver;

/// Whether this build holds the CUDA backend.
bool is_built();
/// GPUs there are now: 0 without a driver, without a GPU, or in a build without CUDA; `reason` says which.
int count(std::string* reason = nullptr);
/// Whether the GPU of that number, below count(), can be opened: this build has code for it.
bool is_usable(int ordinal);
/// Throws DeviceError where there is no such GPU or this build has no code for it, ParameterError in a build without CUDA.
std::unique_ptr<device::Device> make_device(int ordinal);

// For tests and benchmarks.

/// A device on a driver of the test's own.
std::unique_ptr<device::Device> make_device(std::shared_ptr<Driver> driver);

/// What was enqueued on a queue while it was captured, replayable as one graph launch.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void replay() = 0;
};
/// Captures the kernel calls that `body` enqueues on `queue`, a queue of a CUDA device. Throws DeviceError where one of
/// them is not capturable.
std::unique_ptr<Graph> capture(device::Queue& queue, const std::function<void()>& body);

}  // namespace heliograph::backend::cuda
