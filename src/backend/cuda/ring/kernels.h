// The kernels of device/call.h on a GPU.
#pragma once

#include "backend/cuda/runtime/device.h"
#include "device/expand.h"
#include "device/kernels.h"

namespace heliograph::backend::cuda {

using namespace device;  // NOLINT: a backend uses the names of all calls

class CudaRing;

class CudaKernels final : public device::Kernels {
 public:
  explicit CudaKernels(std::shared_ptr<State> state) : Kernels(state->slot()), state_(std::move(state)) {}

  std::size_t preferred_items(std::size_t bytes_an_item) const override;
  /// Measures FP64 modular products per second with operands in registers.
  double product_ceiling();

  using Queue = device::Queue;
  using Ring = device::RingConstant;
  using Primes = device::PrimeList;
  using View = device::View;
  using Workspace = device::Workspace;

  HELIOGRAPH_RUNS(Add, Sub, Neg, Mul, MulAccumulate, MulConstants, AddConstants, WeightedSum, Permute, Copy, Zero);
  HELIOGRAPH_RUNS(ByteProduct, Gather, InnerProduct, LimbSums, ForwardNtt, InverseNtt, Convert, Tensor, Product, Sample);
  HELIOGRAPH_RUNS(ScaledTensor, Decompose, KeySwitch, ApplyKey, Divide, ApplyKeys, LinearSum, BabySteps, GiantSteps,
                  PartialKeySwitch);

 protected:
  using Kernels::form;  // the base class makes the device forms of plans
  std::unique_ptr<const device::Form> form(const device::RingConstant& c) override;
  std::unique_ptr<const device::Form> form(const device::ConversionConstant& c) override;
  std::unique_ptr<const device::Form> form(const device::PermutationConstant& c) override;
  std::unique_ptr<const device::Form> form(const device::ProductConstant& c) override;
  std::unique_ptr<const device::Form> form(const device::LimbSumConstant& c) override;

 private:
  void key_switch_coefficients(Queue&, const KeySwitch& c);
  void key_switch_ntt(Queue&, const KeySwitch& c);
  void apply_key_coefficients(Queue&, const ApplyKey& c);
  void apply_key_ntt(Queue&, const ApplyKey& c);
  void finish_key_switch(Queue&, const char* name, const device::KeySwitchPlan&, const std::optional<device::In>& add,
                         const View& out, const View& sum);
  void finish_key_switch_ntt(Queue&, const char* name, const device::KeySwitchPlan&, const View& digits, const View* own,
                             const device::PermutationHandle& turn, const View& key, const std::optional<device::In>& add,
                             const View& out, Workspace&);

  std::shared_ptr<State> state_;
};

}  // namespace heliograph::backend::cuda
