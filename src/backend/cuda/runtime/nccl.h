// NCCL channels between GPUs of different processes. Builds without NCCL use nccl_stub.cpp instead.
#pragma once

#include "backend/cuda/runtime/device.h"
#include "device/channel.h"

namespace heliograph::backend::cuda {

/// Returns whether this build has NCCL and the machine's NCCL is at least as new as that of the build.
bool nccl_is_usable();
/// Throws DeviceError if this build has no NCCL or NCCL fails.
std::vector<std::byte> nccl_invitation();
std::unique_ptr<device::Channel> nccl_connect(std::shared_ptr<State> state, std::span<const std::byte> invitation,
                                              std::size_t place, std::size_t places, const device::WaitLimit& wait_limit);

}  // namespace heliograph::backend::cuda
