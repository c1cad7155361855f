// TFHE's kernels counted. A product is there: of combine and key_switch one of words; of bootstrap one real multiplication in
// double precision with the addition it is fused with, in the formulation with Fourier transforms: with M = N / 2, 4 M a
// product of spectra and 2 M log2(M) a transform, of which a group of the key takes rows * (k + 1) * 2^group + 2^group - 1
// (bundle, its monomials, and digits times bundle) and rows + k + 1. Keys and tables are read once a call.
#pragma once

#include <functional>

#include "device/tfhe.h"

namespace heliograph::backend::null {

class NullTfheKernels final : public device::TfheKernels {
 public:
  using Counted = std::function<void(const char* kernel, const device::Count&)>;
  NullTfheKernels(Counted counted, std::size_t items) : counted_(std::move(counted)), items_(items) {}

  std::shared_ptr<const device::PreparedBootstrap> prepare(const device::BootstrapShape& shape,
                                                           std::span<const device::u64> key) override;
  std::shared_ptr<const device::PreparedKeySwitch> prepare(const device::KeySwitchShape& shape,
                                                           std::span<const device::u32> key) override;
  std::shared_ptr<const device::PreparedLevel> prepare(device::GateLevel level) override;
  std::size_t parallel_bootstraps(const device::BootstrapShape&) const override { return items_; }

 protected:
  void do_combine(device::Queue&, const device::PreparedLevel&, const device::View& wires) override;
  void do_key_switch(device::Queue&, const device::PreparedKeySwitch&, const device::PreparedLevel&,
                     const device::View& wires, const device::View& narrow) override;
  void do_bootstrap(device::Queue&, const device::PreparedBootstrap&, const device::PreparedLevel&,
                    const device::View& narrow, const device::View& wires) override;

 private:
  Counted counted_;
  std::size_t items_;
};

}  // namespace heliograph::backend::null
