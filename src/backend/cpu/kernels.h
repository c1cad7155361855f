// CPU kernels for the calls of device/call.h. A kernel divides its work into (item, component, limb) units for the threads;
// a unit runs an instruction set's loops.
#pragma once

#include "backend/cpu/forms.h"
#include "backend/cpu/threads.h"
#include "backend/inline_queue.h"
#include "device/kernels.h"

namespace heliograph::backend::cpu {

/// Kernel calls with an element-wise loop, and kernel calls with a loop of transforms.
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

  template <Elementwise C>
  void run(Queue&, const C& c);
  template <Transform C>
  void run(Queue&, const C& c);
  HELIOGRAPH_RUNS(MulConstants, AddConstants, WeightedSum, Permute, InnerProduct, Tensor, Convert, Copy, Zero, LimbSums);
  HELIOGRAPH_RUNS(Product, Sample, ByteProduct);
  HELIOGRAPH_RUNS(Decompose, ApplyKey, KeySwitch, ScaledTensor, Divide, LinearSum, BabySteps, GiantSteps);

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
  template <class F>
  void each_limb(const View& out, F&& f);
  /// Calls f(place, first, count) for stretches of each limb of `out`.
  template <class F>
  void each_stretch(const View& out, F&& f);
  /// Calls f(place, limb, start, length) for blocks of `block` words of each limb of a sum of products; its terms stay
  /// cached.
  template <class C, class F>
  void each_block(const C& call, std::size_t block, F&& f);
  /// Calls f(call) on each item of a composite. Items run in parallel, one per thread, while every thread has one. The
  /// remaining items run one after another, each on all threads.
  template <class C, class F>
  void each_item(const C& c, F&& f);

  /// One block of coefficients of a conversion. Source i is x[i]; target j has the own operand own[j] and the result out[j].
  struct ConvertBlock {
    const CpuConversion& conversion;
    bool wide_in, wide_out;
    std::size_t count;
    const std::byte* const* x;
    const std::byte* const* own;  // own operands; null if the conversion has none
    std::byte* const* out;
    u64* scratch;  // length in words: (sources + 1) * count
  };
  void convert_block(const ConvertBlock&) const;
  static std::size_t convert_block_words(std::size_t sources, std::size_t n);

  void sum_turned(const device::InnerProduct& call);
  template <class C>
  void multiply_runs(const C& call);
  // Each function computes one item of a composite as a single loop if this keeps data in the caches. Returns false if the
  // call cannot be fused.
  bool multiply_fused(Queue&, const device::ScaledTensor& one);
  void tensor_limb(const Limb&, std::byte* const* a, std::byte* const* b, std::byte* third, bool square);
  void scale_and_lower(const device::MultiplyPlan&, const View& product, const View& out);
  void key_switch_fused(Queue&, const device::KeySwitch& one);
  void decompose_fused(Queue&, const device::KeySwitchPlan&, const View& x, const View& digits);
  class Rest;
  void divide_fused(Queue&, const device::DividePlan&, const View& x, const View& out, Workspace);
  static bool fuses(const device::KeySwitchPlan&, const device::PermutationHandle& turn);
  template <class Switch>
  void apply_key_fused(Queue&, const Switch& one, const View* x, const View& given, Workspace);
  void add_giants(const device::GiantSteps& one);
  void linear_sum_fused(Queue&, const device::LinearSum& one);
  void add_babies(const device::BabySteps& one);
  void add_giant(Queue&, const device::LinearSum& one, std::size_t giant, const View& key, const View& sum, const View& low,
                 const View& digits, const View& total);
  void uniform(const CpuRing&, const Primes&, const device::Draw&, const View& out);
  void small(const CpuRing&, const Primes&, const device::Draw&, const View& out);

  const InstructionSet& instructions_;
  ThreadPool threads_;
  MemoryPool& pool_;
};

}  // namespace heliograph::backend::cpu
