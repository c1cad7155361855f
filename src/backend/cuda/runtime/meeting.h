// Where queues of several GPUs meet without the host.
#pragma once

#include <span>
#include <vector>

#include "device/device.h"

namespace heliograph::backend::cuda {

class CudaMeeting final : public device::Meeting {
 public:
  static constexpr std::size_t kMost = 16;

  /// GPUs that all reach each other, no two the same.
  CudaMeeting(std::span<device::Device* const> members, std::span<device::Queue* const> queues);
  void meet(std::size_t member, device::Queue& queue) override;

 private:
  std::vector<device::Buffer> flags_;
  std::vector<math::u32> rounds_;  // each touched by its member's thread alone
};

}  // namespace heliograph::backend::cuda
