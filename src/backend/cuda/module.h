// Between the engine and the CUDA backend, a module that is loaded at run time (loader.cpp, module.cpp).
#pragma once

#include "backend/cuda/cuda.h"
#include "base/process_state.h"

namespace heliograph::backend::cuda {

/// Version and a digest of all headers that both sides include: objects cross with their layouts.
inline constexpr const char* kEngine = HELIOGRAPH_ENGINE;

/// What the module does: the functions of cuda.h.
struct Calls {
  /// The engine that it was compiled with. First, and read first: of another engine nothing else is known.
  const char* engine = kEngine;
  /// To be called before the others.
  void (*begin)(ProcessState& of_the_process) = share;
  int (*count)(std::string* reason);
  bool (*is_usable)(int ordinal);
  std::unique_ptr<device::Device> (*make_device)(int ordinal);
  std::unique_ptr<device::Device> (*make_device_on)(std::shared_ptr<Driver> driver);
};
/// The name that they have in the module, and the module's.
inline constexpr const char* kCallsName = "heliograph_cuda_calls";
inline constexpr const char* kModuleName = "libheliograph_cuda.so";
}  // namespace heliograph::backend::cuda
