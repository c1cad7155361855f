// CPU kernels for TFHE's calls of device/call.h: split batches into blocks of samples for the threads and run an instruction
// set's loops on each.
#pragma once

#include "backend/cpu/pool.h"
#include "backend/cpu/tfhe_ops.h"
#include "backend/cpu/threads.h"
#include "backend/inline_queue.h"
#include "device/kernels.h"

namespace heliograph::backend::cpu {

/// Words after a ciphertext's body are left unchanged. For one instruction set, the bits of a bootstrap's result depend only
/// on its input and the key. The batch and the number of threads do not change the bits.
class CpuTfheKernels final : public device::TfheKernels {
 public:
  CpuTfheKernels(const device::Slot& slot, const TfheOps& ops, ThreadPool& threads, MemoryPool& pool)
      : TfheKernels(slot), ops_(ops), threads_(threads), pool_(pool) {}

  std::size_t parallel_bootstraps(const device::BootstrapShape& shape) const override;

  using View = device::View;

  HELIOGRAPH_RUNS(Combine, LweKeySwitch, Bootstrap);

 protected:
  std::unique_ptr<const device::Form> form(const device::BootstrapKey&, std::span<const u64> key) override;
  std::unique_ptr<const device::Form> form(const device::LweSwitchKey&, std::span<const u32> key) override;

 private:
  const TfheOps& ops_;
  ThreadPool& threads_;
  MemoryPool& pool_;
};

}  // namespace heliograph::backend::cpu
