// The contract of device/kernels.h on a GPU.
#pragma once

#include "backend/cuda/device.h"
#include "device/composite.h"

namespace heliograph::backend::cuda {

class CudaRing;

class CudaKernels final : public device::Kernels {
 public:
  explicit CudaKernels(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<const device::PreparedRing> prepare(std::shared_ptr<const math::Ring> ring) override;
  std::shared_ptr<const device::PreparedConversion> prepare(math::Conversion conversion) override;
  std::shared_ptr<const device::PreparedPermutation> prepare(device::Permutation permutation) override;
  std::shared_ptr<const device::PreparedProduct> prepare(device::GatheredProduct product) override;
  std::size_t preferred_items(std::size_t bytes_an_item) const override;
  /// Modular products a second with operands in registers, of the FP64 kind. Measured when called.
  double product_ceiling();

 protected:
  using Queue = device::Queue;
  using Ring = device::PreparedRing;
  using Primes = device::PrimeList;
  using View = device::View;
  using Workspace = device::Workspace;

  void do_add(Queue&, const Ring&, const Primes&, const View& a, const View& b, const View& out) override;
  void do_sub(Queue&, const Ring&, const Primes&, const View& a, const View& b, const View& out) override;
  void do_neg(Queue&, const Ring&, const Primes&, const View& a, const View& out) override;
  void do_mul(Queue&, const Ring&, const Primes&, const View& a, const View& b, const View& out) override;
  void do_mul_accumulate(Queue&, const Ring&, const Primes&, const View& a, const View& b, const View& out) override;
  void do_mul_constants(Queue&, const Ring&, const Primes&, const View& a, const device::LimbConstants&,
                        const View& out) override;
  void do_add_constants(Queue&, const Ring&, const Primes&, const View& a, const device::LimbConstants&, math::Domain,
                        const View& out) override;
  void do_forward_ntt(Queue&, const Ring&, const Primes&, const View& a, const View& out) override;
  void do_inverse_ntt(Queue&, const Ring&, const Primes&, const View& a, const View& out) override;
  void do_permute(Queue&, const Ring&, const Primes&, const device::PreparedPermutation&, const View& a,
                  const View& out) override;
  void do_convert(Queue&, const device::PreparedConversion&, const View& x, const View* own, const View& out,
                  const Primes* place) override;
  void do_inner_product(Queue&, const Ring&, const Primes&, const View& digits, const View& key, const Primes& key_limbs,
                        const View& out) override;
  void do_tensor(Queue&, const Ring&, const Primes&, const View& a, const View& b, const View& out) override;
  void do_product(Queue&, const Ring&, const Primes&, const device::PreparedProduct&, const View& in,
                  const View& out) override;
  void do_sample(Queue&, const Ring&, const Primes&, const device::Draw&, const View& out) override;
  void do_copy(Queue&, const View& a, const View& out) override;
  void do_gather(Queue&, std::span<const device::Piece> pieces) override;
  void do_zero(Queue&, const View& out) override;

  void do_decompose(Queue&, const device::KeySwitchPlan&, const View& x, const View& digits, Workspace) override;
  void do_apply_key(Queue&, const device::KeySwitchPlan&, const View& digits, const View& key, const View* add,
                    const View& out, Workspace) override;
  void do_key_switch(Queue&, const device::KeySwitchPlan&, const View& x, const View& key, const View* add, const View& out,
                     Workspace) override;
  void do_divide(Queue&, const device::DividePlan&, const View& x, const View& out, Workspace) override;
  void do_apply_key_ntt(Queue&, const device::KeySwitchPlan&, const View& digits, const View& key, const View* add,
                        const View& out, Workspace, const device::PreparedPermutation* turn) override;
  void do_key_switch_ntt(Queue&, const device::KeySwitchPlan&, const View& x, const View& key, const View* add,
                         const View& out, Workspace, const device::PreparedPermutation* turn) override;
  void do_bfv_multiply(Queue&, const device::MultiplyPlan&, const View& a, const View& b, const View& out,
                       Workspace) override;

 private:
  void finish_key_switch(Queue&, const char* name, const device::KeySwitchPlan&, const View* add, const View& out,
                         const View& sum);
  void finish_key_switch_ntt(Queue&, const char* name, const device::KeySwitchPlan&, const View& digits, const View* own,
                             const device::PreparedPermutation* turn, const View& key, const View* add, const View& out,
                             Workspace&);

  std::shared_ptr<State> state_;
};

}  // namespace heliograph::backend::cuda
