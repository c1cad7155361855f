#pragma once

#include "device/kernels.h"

namespace heliograph::backend::ref {

/// Each call runs before it returns, on the calling thread.
class RefKernels final : public device::Kernels {
 public:
  std::shared_ptr<const device::PreparedRing> prepare(std::shared_ptr<const math::Ring> ring) override;
  std::shared_ptr<const device::PreparedConversion> prepare(math::Conversion conversion) override;
  std::shared_ptr<const device::PreparedPermutation> prepare(device::Permutation permutation) override;
  std::shared_ptr<const device::PreparedProduct> prepare(device::GatheredProduct product) override;
  std::size_t preferred_items(std::size_t) const override { return 1; }

 protected:
  using Queue = device::Queue;
  using Ring = device::PreparedRing;
  using Primes = device::PrimeList;
  using View = device::View;

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
  void do_product(Queue&, const Ring&, const Primes&, const device::PreparedProduct&, const View& in,
                  const View& out) override;
  void do_sample(Queue&, const Ring&, const Primes&, const device::Draw&, const View& out) override;
  void do_copy(Queue&, const View& a, const View& out) override;
  void do_zero(Queue&, const View& out) override;
};

}  // namespace heliograph::backend::ref
