// The kernels of device/tfhe.h, literally: polynomial products modulo 2^64 coefficient by coefficient, nothing rounded but
// what the contract rounds.
#pragma once

#include "device/tfhe.h"

namespace heliograph::backend::ref {

/// Each call runs before it returns, on the calling thread. Words behind a ciphertext's body are left as they are.
class RefTfheKernels final : public device::TfheKernels {
 public:
  std::shared_ptr<const device::PreparedBootstrap> prepare(const device::BootstrapShape& shape,
                                                           std::span<const device::u64> key) override;
  std::shared_ptr<const device::PreparedKeySwitch> prepare(const device::KeySwitchShape& shape,
                                                           std::span<const device::u32> key) override;
  std::shared_ptr<const device::PreparedLevel> prepare(device::GateLevel level) override;
  std::size_t parallel_bootstraps(const device::BootstrapShape&) const override { return 1; }

 protected:
  void do_combine(device::Queue&, const device::PreparedLevel&, const device::View& wires) override;
  void do_key_switch(device::Queue&, const device::PreparedKeySwitch&, const device::PreparedLevel&,
                     const device::View& wires, const device::View& narrow) override;
  void do_bootstrap(device::Queue&, const device::PreparedBootstrap&, const device::PreparedLevel&,
                    const device::View& narrow, const device::View& wires) override;
};

}  // namespace heliograph::backend::ref
