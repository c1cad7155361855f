// Interface between the engine and the CUDA backend, a module that is loaded at run time (loader.cpp, module.cpp).
#pragma once

#include "backend/cuda/cuda.h"
#include "base/process_state.h"

namespace heliograph::backend::cuda {

/// The version and a digest of all headers that engine and module include. Engine and module must agree in version and
/// digest, because objects pass between them.
inline constexpr const char* kEngine = HELIOGRAPH_ENGINE;

/// The functions of the module, as declared in cuda.h.
struct Calls {
  /// The engine for which the module was built. `engine` is the first member and is checked first, because another engine's
  /// layout of the other members is unknown.
  const char* engine = kEngine;
  /// Shares the process's state with the module; must be called before the other functions.
  void (*begin)(ProcessState& of_the_process) = share;
  int (*count)(std::string* reason);
  bool (*is_usable)(int ordinal);
  std::unique_ptr<device::Device> (*make_device)(int ordinal);
  std::unique_ptr<device::Device> (*make_device_on)(std::shared_ptr<Driver> driver);
};
/// Name of the module's symbol, and file name of the module.
inline constexpr const char* kCallsName = "heliograph_cuda_calls";
inline constexpr const char* kModuleName = "libheliograph_cuda.so";
}  // namespace heliograph::backend::cuda
