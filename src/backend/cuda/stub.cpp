// In place of the backend, in a build without CUDA.
#include "backend/cuda/cuda.h"

namespace heliograph::backend::cuda {

namespace {

constexpr const char* kAbsent = "this build of Heliograph has no CUDA backend; docs/gpu.md says how to build one that has";

}  // namespace

bool is_built() { return false; }

int count(std::string* reason) {
  if (reason) *reason = kAbsent;
  return 0;
}

bool is_usable(int) { return false; }

std::unique_ptr<device::Device> make_device(int) { throw ParameterError(kAbsent); }
std::unique_ptr<device::Device> make_device(std::shared_ptr<Driver>) { throw ParameterError(kAbsent); }

}  // namespace heliograph::backend::cuda
