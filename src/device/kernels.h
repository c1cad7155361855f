// What a backend makes of constants before calls name them, and how it likes its calls.
#pragma once

#include <memory>
#include <span>

#include "device/constants.h"
#include "device/device.h"
#include "device/plans.h"
#include "device/tfhe.h"

/// HELIOGRAPH_RUNS(Add, Sub): void run(Queue&, const Add&); void run(Queue&, const Sub&); - what a backend has code for, of the
/// list in device/call.h.
#define HELIOGRAPH_RUNS(...) HELIOGRAPH_RUNS_9(HELIOGRAPH_RUN(__VA_ARGS__))
#define HELIOGRAPH_RUN(Call, ...)                                                      \
  void run(::heliograph::device::Queue& queue, const ::heliograph::device::Call& call) \
      __VA_OPT__(; HELIOGRAPH_RUN_MORE HELIOGRAPH_PARENTHESES(__VA_ARGS__))
#define HELIOGRAPH_RUN_MORE() HELIOGRAPH_RUN
#define HELIOGRAPH_PARENTHESES ()
// Each of these looks at what is left again, so that a list may have 27 names.
#define HELIOGRAPH_RUNS_9(...) HELIOGRAPH_RUNS_3(HELIOGRAPH_RUNS_3(HELIOGRAPH_RUNS_3(__VA_ARGS__)))
#define HELIOGRAPH_RUNS_3(...) HELIOGRAPH_RUNS_1(HELIOGRAPH_RUNS_1(HELIOGRAPH_RUNS_1(__VA_ARGS__)))
#define HELIOGRAPH_RUNS_1(...) HELIOGRAPH_RUNS_0(HELIOGRAPH_RUNS_0(HELIOGRAPH_RUNS_0(__VA_ARGS__)))
#define HELIOGRAPH_RUNS_0(...) __VA_ARGS__

namespace heliograph::device {

class Kernels {
 public:
  explicit Kernels(const Slot& slot) : slot_(slot) {}
  virtual ~Kernels() = default;

  /// Makes this device's form of a constant, where it has none of it. May allocate and upload; never inside a computation. A
  /// call whose constants were not prepared here is refused with a MismatchError.
  void prepare(const RingConstant& c) { prepare_here(c); }
  void prepare(const ConversionConstant& c) { prepare_here(c); }
  void prepare(const PermutationConstant& c) { prepare_here(c); }
  void prepare(const ProductConstant& c) { prepare_here(c); }
  void prepare(const LimbSumConstant& c) { prepare_here(c); }
  /// Whether that was done.
  bool has(const Constant& c) const { return c.forms.find(slot_) != nullptr; }
  /// The same of every constant that a plan names.
  void prepare(const DividePlan&);
  void prepare(const KeySwitchPlan&);
  void prepare(const LinearPlan&);
  void prepare(const MultiplyPlan&);

  /// A constant that is prepared here.
  std::shared_ptr<const RingConstant> prepare(std::shared_ptr<const math::Ring> ring);
  std::shared_ptr<const ConversionConstant> prepare(math::Conversion conversion);
  std::shared_ptr<const PermutationConstant> prepare(Permutation permutation);
  std::shared_ptr<const ProductConstant> prepare(GatheredProduct product);
  std::shared_ptr<const LimbSumConstant> prepare(LimbSumList sums);

  /// Whether composites find scratch of their own: they are then called with the whole batch and no workspace.
  virtual bool brings_scratch() const { return false; }
  /// How many items of a composite a call should hold, each with so many bytes of scratch: enough to fill the device, no
  /// more than its caches like.
  virtual std::size_t preferred_items(std::size_t bytes_an_item) const = 0;

 protected:
  // Here: nothing but that it is prepared.
  virtual std::unique_ptr<const Form> form(const RingConstant&) { return std::make_unique<const Form>(); }
  virtual std::unique_ptr<const Form> form(const ConversionConstant&) { return std::make_unique<const Form>(); }
  virtual std::unique_ptr<const Form> form(const PermutationConstant&) { return std::make_unique<const Form>(); }
  virtual std::unique_ptr<const Form> form(const ProductConstant&) { return std::make_unique<const Form>(); }
  virtual std::unique_ptr<const Form> form(const LimbSumConstant&) { return std::make_unique<const Form>(); }
  virtual std::unique_ptr<const Form> form(const DividePlan&) { return std::make_unique<const Form>(); }
  virtual std::unique_ptr<const Form> form(const KeySwitchPlan&) { return std::make_unique<const Form>(); }
  virtual std::unique_ptr<const Form> form(const LinearPlan&) { return std::make_unique<const Form>(); }
  virtual std::unique_ptr<const Form> form(const MultiplyPlan&) { return std::make_unique<const Form>(); }
  const Slot& slot() const { return slot_; }

 private:
  template <class C>
  void prepare_here(const C& constant) {
    if (!has(constant)) constant.forms.keep(slot_, form(constant));
  }
  template <class Plan>
  void prepare_all(const Plan& plan, const std::vector<std::shared_ptr<const ConversionConstant>>& conversions);

  const Slot& slot_;
};

class TfheKernels {
 public:
  explicit TfheKernels(const Slot& slot) : slot_(slot) {}
  virtual ~TfheKernels() = default;

  // Keys are as the shapes say, in host memory that may go when the call returns.
  std::shared_ptr<const BootstrapKey> prepare(const BootstrapShape&, std::span<const u64> key);
  std::shared_ptr<const LweSwitchKey> prepare(const KeySwitchShape&, std::span<const u32> key);
  std::shared_ptr<const LayerConstant> prepare(GateLayer layer);
  void prepare(const BootstrapKey&, std::span<const u64> key);
  void prepare(const LweSwitchKey&, std::span<const u32> key);
  void prepare(const LayerConstant&);
  bool has(const Constant& c) const { return c.forms.find(slot_) != nullptr; }

  /// So many bootstraps at once keep the whole device busy; fewer take no less time.
  virtual std::size_t parallel_bootstraps(const BootstrapShape&) const = 0;

 protected:
  virtual std::unique_ptr<const Form> form(const BootstrapKey&, std::span<const u64> /*key*/) {
    return std::make_unique<const Form>();
  }
  virtual std::unique_ptr<const Form> form(const LweSwitchKey&, std::span<const u32> /*key*/) {
    return std::make_unique<const Form>();
  }
  virtual std::unique_ptr<const Form> form(const LayerConstant&) { return std::make_unique<const Form>(); }
  const Slot& slot() const { return slot_; }

 private:
  const Slot& slot_;
};

}  // namespace heliograph::device
