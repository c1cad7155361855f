// The kernels of device/tfhe.h, literally: polynomial products modulo 2^64 coefficient by coefficient, nothing rounded but
// what the contract rounds.
#pragma once

#include "backend/inline_queue.h"
#include "device/kernels.h"

namespace heliograph::backend::ref {

/// Each call runs before it returns, on the calling thread. Words behind a ciphertext's body are left as they are.
class RefTfheKernels final : public device::TfheKernels {
 public:
  std::shared_ptr<const device::PreparedBootstrap> prepare(const device::BootstrapShape& shape,
                                                           std::span<const device::u64> key) override;
  std::shared_ptr<const device::PreparedKeySwitch> prepare(const device::KeySwitchShape& shape,
                                                           std::span<const device::u32> key) override;
  std::shared_ptr<const device::PreparedLayer> prepare(device::GateLayer layer) override;
  std::size_t parallel_bootstraps(const device::BootstrapShape&) const override { return 1; }

  void run(Queue&, const Combine& c);
  void run(Queue&, const LweKeySwitch& c);
  void run(Queue&, const Bootstrap& c);
};

}  // namespace heliograph::backend::ref
