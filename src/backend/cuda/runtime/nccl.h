// Channels between GPUs of different processes, by NCCL. A build without it has nccl_stub.cpp in its place.
#pragma once

#include "backend/cuda/runtime/device.h"
#include "device/channel.h"

namespace heliograph::backend::cuda {

/// Whether this build has NCCL, and this machine one as new.
bool nccl_is_usable();
/// Throws DeviceError.
std::vector<std::byte> nccl_invitation();
std::unique_ptr<device::Channel> nccl_connect(std::shared_ptr<State> state, std::span<const std::byte> invitation,
                                              std::size_t place, std::size_t places, const device::Patience& patience);

}  // namespace heliograph::backend::cuda
