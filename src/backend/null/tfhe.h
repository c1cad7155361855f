// TFHE's constants where nothing is computed.
#pragma once

#include "device/kernels.h"

namespace heliograph::backend::null {

class NullTfheKernels final : public device::TfheKernels {
 public:
  explicit NullTfheKernels(std::size_t items) : items_(items) {}

  std::shared_ptr<const device::PreparedBootstrap> prepare(const device::BootstrapShape& shape,
                                                           std::span<const device::u64> key) override;
  std::shared_ptr<const device::PreparedKeySwitch> prepare(const device::KeySwitchShape& shape,
                                                           std::span<const device::u32> key) override;
  std::shared_ptr<const device::PreparedLayer> prepare(device::GateLayer layer) override;
  std::size_t parallel_bootstraps(const device::BootstrapShape&) const override { return items_; }

 private:
  std::size_t items_;
};

}  // namespace heliograph::backend::null
