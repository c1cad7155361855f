// The kernels of device/call.h on the processor: cuts work into (item, component, limb) units for the threads and calls
// an instruction set's loops on each.
#pragma once

#include "backend/cpu/forms.h"
#include "backend/cpu/threads.h"
#include "backend/inline_queue.h"
#include "device/kernels.h"

namespace heliograph::backend::cpu {

/// One loop serves all of them, and all of these.
template <class C>
concept Elementwise = device::OneOf<C, Add, Sub, Neg, Mul, MulAccumulate>;
template <class C>
concept Transform = device::OneOf<C, ForwardNtt, InverseNtt>;

class CpuKernels final : public device::Kernels {
 public:
  CpuKernels(const device::Slot& slot, const InstructionSet& set, int threads, MemoryPool& pool)
      : Kernels(slot), instructions_(set), threads_(threads), pool_(pool) {}
  const InstructionSet& instructions() const { return instructions_; }
  int threads() const { return threads_.threads(); }
  ThreadPool& thread_pool() { return threads_; }

  std::size_t preferred_items(std::size_t) const override { return static_cast<std::size_t>(threads_.threads()); }

  using Queue = device::Queue;
  using Ring = device::RingConstant;
  using Primes = device::PrimeList;
  using View = device::View;
  using Workspace = device::Workspace;

  // kernels.cpp
  template <Elementwise C>
  void run(Queue&, const C& c);
  template <Transform C>
  void run(Queue&, const C& c);
  HELIOGRAPH_RUNS(MulConstants, AddConstants, WeightedSum, Permute, InnerProduct, Tensor, Convert, Copy, Zero, LimbSums);
  // product.cpp, sample.cpp, byte_product.cpp
  HELIOGRAPH_RUNS(Product, Sample, ByteProduct);
  // composite.cpp, composite_ntt.cpp, linear_sum.cpp
  HELIOGRAPH_RUNS(Decompose, ApplyKey, KeySwitch, BfvMultiply, Divide, LinearSum);

 protected:
  std::unique_ptr<const device::Form> form(const device::RingConstant& c) override;
  std::unique_ptr<const device::Form> form(const device::ConversionConstant& c) override;
  std::unique_ptr<const device::Form> form(const device::PermutationConstant& c) override;
  std::unique_ptr<const device::Form> form(const device::ProductConstant& c) override;

 private:
  const CpuRing& own(const Ring& c) const { return device::form_on<CpuRing>(c, slot()); }
  const CpuConversion& own(const device::ConversionConstant& c) const { return device::form_on<CpuConversion>(c, slot()); }
  const CpuPermutation& own(const device::PermutationConstant& c) const {
    return device::form_on<CpuPermutation>(c, slot());
  }
  const CpuProduct& own(const device::ProductConstant& c) const { return device::form_on<CpuProduct>(c, slot()); }

  struct Place {
    std::size_t item, component, limb;
  };
  /// f(place) for each limb of `out`.
  template <class F>
  void each_limb(const View& out, F&& f);
  /// f(place, first, count) for stretches of each limb of `out`.
  template <class F>
  void each_stretch(const View& out, F&& f);
  /// f(place, limb, start, length) for blocks of so many words of each limb of a sum of products, whose terms meet in the caches.
  template <class C, class F>
  void each_block(const C& call, std::size_t block, F&& f);
  /// f(call) on each item of a composite: whole items in parallel while there is one for each thread, then the rest one
  /// after another, each on all threads.
  template <class C, class F>
  void each_item(const C& c, F&& f);

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

  void sum_turned(const device::InnerProduct& call);
  template <class C>
  void multiply_runs(const C& call);
  // Composites of one item, fused where that keeps data in the caches; false: not of the fused shape.
  bool multiply_fused(Queue&, const device::BfvMultiply& one);
  void tensor_limb(const Limb&, std::byte* const* a, std::byte* const* b, std::byte* third, bool square);
  void scale_and_lower(const device::MultiplyPlan&, const View& product, const View& out);
  void key_switch_fused(Queue&, const device::KeySwitch& one);
  void decompose_fused(Queue&, const device::KeySwitchPlan&, const View& x, const View& digits);
  class Rest;
  void divide_fused(Queue&, const device::DividePlan&, const View& x, const View& out, Workspace);
  static bool fuses(const device::KeySwitchPlan&, const device::PermutationHandle& turn);
  template <class Switch>
  void apply_key_fused(Queue&, const Switch& one, const View* x, const View& given, Workspace);
  void linear_sum_fused(Queue&, const device::LinearSum& one);
  void add_babies(const device::LinearSum& one, const View& digits, const View& sums);
  void add_giant(Queue&, const device::LinearSum& one, std::size_t giant, const View& key, const View& sum, const View& low,
                 const View& digits, const View& total);
  void uniform(const CpuRing&, const Primes&, const device::Draw&, const View& out);
  void small(const CpuRing&, const Primes&, const device::Draw&, const View& out);

  const InstructionSet& instructions_;
  ThreadPool threads_;
  MemoryPool& pool_;
};

}  // namespace heliograph::backend::cpu
