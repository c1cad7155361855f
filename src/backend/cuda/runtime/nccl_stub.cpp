// Replaces nccl.cpp in a build without NCCL.
#include "backend/cuda/runtime/nccl.h"

namespace heliograph::backend::cuda {

namespace {

constexpr const char* kAbsent = "this build of Heliograph has no NCCL";

}  // namespace

bool nccl_is_usable() { return false; }
std::vector<std::byte> nccl_invitation() { throw DeviceError(kAbsent); }
std::unique_ptr<device::Channel> nccl_connect(std::shared_ptr<State>, std::span<const std::byte>, std::size_t, std::size_t,
                                              const device::WaitLimit&) {
  throw DeviceError(kAbsent);
}

}  // namespace heliograph::backend::cuda
