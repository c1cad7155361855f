// TFHE's kernels of device/call.h on a GPU.
#pragma once

#include "backend/cuda/runtime/device.h"
#include "device/call.h"
#include "device/kernels.h"

namespace heliograph::backend::cuda {

using device::u32;
using device::u64;

struct alignas(16) Complex {
  double x, y;
};

/// A bootstrapping key in the Fourier domain, in the order that its kernel reads (blind.cuh).
class CudaBootstrap final : public device::Form {
 public:
  CudaBootstrap(const std::shared_ptr<State>& state, const device::BootstrapShape& shape, std::span<const u64> key);
  const Complex* key() const { return key_->as<Complex>(); }
  const Complex* twiddles() const { return twiddles_->as<Complex>(); }
  const Complex* roots() const { return roots_->as<Complex>(); }

 private:
  std::unique_ptr<Table> key_, twiddles_, roots_;
};

class CudaKeySwitch final : public device::Form {
 public:
  CudaKeySwitch(const std::shared_ptr<State>& state, const device::KeySwitchShape& shape, std::span<const u32> key);
  /// The key's words: [from * gadget_length][to + 1].
  const u32* rows() const { return rows_->as<u32>(); }
  /// The key's bytes in the layout of the matrix units (lwe_switch.cu).
  const u32* planes() const { return planes_->as<u32>(); }

 private:
  std::unique_ptr<Table> rows_, planes_;
};

class CudaLayer final : public device::FormOf<device::LayerConstant> {
 public:
  CudaLayer(const std::shared_ptr<State>& state, const device::LayerConstant& constant);
  const device::GateLayer& layer() const { return of().layer(); }
  const u32* first() const { return words_->as<u32>(); }
  const u32* source() const { return first() + source_; }
  const std::int32_t* weight() const { return reinterpret_cast<const std::int32_t*>(first() + weight_); }
  const u32* lut() const { return first() + lut_; }
  const u32* target() const { return first() + target_; }
  const u64* constant() const { return constants_->as<u64>(); }
  const u64* tables() const { return constant() + layer().rows(); }

 private:
  std::size_t source_, weight_, lut_, target_;
  std::unique_ptr<Table> words_, constants_;
};

class CudaTfhe final : public device::TfheKernels {
 public:
  explicit CudaTfhe(std::shared_ptr<State> state) : TfheKernels(state->slot()), state_(std::move(state)) {}
  std::size_t parallel_bootstraps(const device::BootstrapShape&) const override;

  using Queue = device::Queue;
  using View = device::View;
  HELIOGRAPH_RUNS(Combine, LweKeySwitch, Bootstrap);

 protected:
  std::unique_ptr<const device::Form> form(const device::BootstrapKey&, std::span<const u64> key) override;
  std::unique_ptr<const device::Form> form(const device::LweSwitchKey&, std::span<const u32> key) override;
  std::unique_ptr<const device::Form> form(const device::LayerConstant&) override;

 private:
  std::shared_ptr<State> state_;
};

struct BlindArguments {
  const Complex *key, *twiddles, *roots;
  const u64* tables;
  const u32 *lut, *target;
  const u32* narrow;
  u64* wires;
  u64 narrow_item, narrow_row, wire_item, wire;  // strides in words
  u32 n, rows, count, outputs;                   // count: number of bootstraps, item * rows + row
  u32 k, gadget_length, log_base, group, log_degree;
};

struct BlindKernel {
  u32 log_degree, k, gadget_length, group;
  /// Transforms a key's polynomials to the kernel's layout; `words` is ordered as in BootstrapShape.
  void (*transform)(device::Queue&, const device::BootstrapShape&, const u64* words, const Complex* twiddles, Complex* key);
  void (*rotate)(device::Queue&, const State&, const BlindArguments&);
  /// Returns the twiddles that the host uploads for this kernel.
  std::vector<Complex> (*twiddles)();
  u32 (*samples_a_processor)(const State&);
};
/// Returns the kernel for a shape; the last one accepts any shape.
const BlindKernel& blind_kernel(const device::BootstrapShape&);

}  // namespace heliograph::backend::cuda
