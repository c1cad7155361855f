// The contract of device/kernels.h on the processor: cuts work into (item, component, limb) units for the threads and calls
// an instruction set's loops on each.
#pragma once

#include "backend/cpu/prepared.h"
#include "backend/cpu/threads.h"
#include "device/composite.h"

namespace heliograph::backend::cpu {

class CpuKernels final : public device::Kernels {
 public:
  CpuKernels(const Level& level, int threads, MemoryPool& pool) : level_(level), threads_(threads), pool_(pool) {}
  const Level& level() const { return level_; }
  int threads() const { return threads_.threads(); }
  ThreadPool& thread_pool() { return threads_; }

  std::shared_ptr<const device::PreparedRing> prepare(std::shared_ptr<const math::Ring> ring) override;
  std::shared_ptr<const device::PreparedConversion> prepare(math::Conversion conversion) override;
  std::shared_ptr<const device::PreparedPermutation> prepare(device::Permutation permutation) override;
  std::shared_ptr<const device::PreparedProduct> prepare(device::GatheredProduct product) override;
  std::size_t preferred_items(std::size_t) const override { return static_cast<std::size_t>(threads_.threads()); }

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
  struct Place {
    std::size_t item, component, limb;
  };
  /// f(place) for each limb of `out`.
  template <class F>
  void each_limb(const View& out, F&& f);
  /// f(place, first, count) for stretches of each limb of `out`.
  template <class F>
  void each_stretch(const View& out, F&& f);
  /// f(item, workspace) for each item of a composite: whole items in parallel while there is one for each thread, then
  /// the rest one after another, each on all threads. `bytes` is one item's workspace.
  template <class F>
  void each_item(std::size_t items, std::size_t bytes, Workspace w, F&& f);

  /// One coefficient block of a conversion: source i at x[i], own and out of target j at own[j], out[j].
  struct ConvertBlock {
    const CpuConversion& conversion;
    bool wide_in, wide_out;
    std::size_t count;
    const std::byte* const* x;
    const std::byte* const* own;  // null: none
    std::byte* const* out;
    u64* scratch;  // (sources + 1) * count
  };
  void convert_block(const ConvertBlock&) const;
  static std::size_t convert_block_words(std::size_t sources, std::size_t n);

  // Composites of one item, fused where that keeps data in the caches; false: not of the fused shape.
  bool multiply_fused(Queue&, const device::MultiplyPlan&, const View& a, const View& b, const View& out, Workspace);
  void tensor_limb(const Limb&, std::byte* const* a, std::byte* const* b, std::byte* third, bool square);
  void scale_and_lower(const device::MultiplyPlan&, const View& product, const View& out);
  void key_switch_fused(Queue&, const device::KeySwitchPlan&, const View& x, const View& key, const View* add,
                        const View& out, Workspace);
  void decompose_fused(Queue&, const device::KeySwitchPlan&, const View& x, const View& digits);
  class Rest;
  void divide_fused(Queue&, const device::DividePlan&, const View& x, const View& out, Workspace);
  static bool fuses(const device::KeySwitchPlan&, const device::PreparedPermutation* turn);
  void apply_key_fused(Queue&, const device::KeySwitchPlan&, const View* x, const View& digits, const View& key,
                       const View* add, const View& out, Workspace, const device::PreparedPermutation* turn);
  void uniform(const CpuRing&, const Primes&, const device::Draw&, const View& out);
  void small(const CpuRing&, const Primes&, const device::Draw&, const View& out);

  const Level& level_;
  ThreadPool threads_;
  MemoryPool& pool_;
};

}  // namespace heliograph::backend::cpu
