// Barrier of queues of several GPUs, without the host.
#pragma once

#include <span>
#include <vector>

#include "device/device.h"

namespace heliograph::backend::cuda {

class CudaMeeting final : public device::Meeting {
 public:
  static constexpr std::size_t kMost = 16;

  /// `members` must be different GPUs, of which each can access the memory of every other.
  CudaMeeting(std::span<device::Device* const> members, std::span<device::Queue* const> queues);
  void meet(std::size_t member, device::Queue& queue) override;

 private:
  std::vector<device::Buffer> flags_;
  std::vector<math::u32> rounds_;  // round of each member; only the member's thread accesses it
};

}  // namespace heliograph::backend::cuda
