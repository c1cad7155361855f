// The kernels of device/tfhe.h as defined there: products of polynomials modulo 2^64, coefficient by coefficient, with no
// rounding other than those of the definition.
#pragma once

#include "backend/inline_queue.h"
#include "device/kernels.h"

namespace heliograph::backend::ref {

/// Kernels that run synchronously on the calling thread. Words after a ciphertext's body are not written.
class RefTfheKernels final : public device::TfheKernels {
 public:
  using TfheKernels::TfheKernels;
  std::size_t parallel_bootstraps(const device::BootstrapShape&) const override { return 1; }

  HELIOGRAPH_RUNS(Combine, LweKeySwitch, Bootstrap);

 protected:
  std::unique_ptr<const device::Form> form(const device::BootstrapKey&, std::span<const device::u64> key) override;
  std::unique_ptr<const device::Form> form(const device::LweSwitchKey&, std::span<const device::u32> key) override;
};

}  // namespace heliograph::backend::ref
