// Preparation of constants for calls, and a backend's preferred batch sizes.
#pragma once

#include <memory>
#include <span>

#include "device/constants.h"
#include "device/device.h"
#include "device/plans.h"
#include "device/tfhe.h"

/// HELIOGRAPH_RUNS(Add, Sub) declares void run(Queue&, const Add&) and void run(Queue&, const Sub&). A backend declares its
/// kernels of device/call.h by this macro.
#define HELIOGRAPH_RUNS(...) HELIOGRAPH_RUNS_9(HELIOGRAPH_RUN(__VA_ARGS__))
#define HELIOGRAPH_RUN(Call, ...)                                                      \
  void run(::heliograph::device::Queue& queue, const ::heliograph::device::Call& call) \
      __VA_OPT__(; HELIOGRAPH_RUN_MORE HELIOGRAPH_PARENTHESES(__VA_ARGS__))
#define HELIOGRAPH_RUN_MORE() HELIOGRAPH_RUN
#define HELIOGRAPH_PARENTHESES ()
// Each level scans the rest of the arguments again, so that a list may have 27 names.
#define HELIOGRAPH_RUNS_9(...) HELIOGRAPH_RUNS_3(HELIOGRAPH_RUNS_3(HELIOGRAPH_RUNS_3(__VA_ARGS__)))
#define HELIOGRAPH_RUNS_3(...) HELIOGRAPH_RUNS_1(HELIOGRAPH_RUNS_1(HELIOGRAPH_RUNS_1(__VA_ARGS__)))
#define HELIOGRAPH_RUNS_1(...) HELIOGRAPH_RUNS_0(HELIOGRAPH_RUNS_0(HELIOGRAPH_RUNS_0(__VA_ARGS__)))
#define HELIOGRAPH_RUNS_0(...) __VA_ARGS__

namespace heliograph::device {

class Kernels {
 public:
  explicit Kernels(const Slot& slot) : slot_(slot) {}
  virtual ~Kernels() = default;

  /// Makes this device's form of a constant, unless the form exists. May allocate and upload memory, so it is never called
  /// during a computation. A call whose constants are not prepared throws MismatchError.
  void prepare(const RingConstant& c) { prepare_here(c); }
  void prepare(const ConversionConstant& c) { prepare_here(c); }
  void prepare(const PermutationConstant& c) { prepare_here(c); }
  void prepare(const ProductConstant& c) { prepare_here(c); }
  void prepare(const LimbSumConstant& c) { prepare_here(c); }
  bool has(const Constant& c) const { return c.forms.find(slot_) != nullptr; }
  void prepare(const DividePlan&);
  void prepare(const KeySwitchPlan&);
  void prepare(const LinearPlan&);
  void prepare(const MultiplyPlan&);

  std::shared_ptr<const RingConstant> prepare(std::shared_ptr<const math::Ring> ring);
  std::shared_ptr<const ConversionConstant> prepare(math::Conversion conversion);
  std::shared_ptr<const PermutationConstant> prepare(Permutation permutation);
  std::shared_ptr<const ProductConstant> prepare(GatheredProduct product);
  std::shared_ptr<const LimbSumConstant> prepare(LimbSumList sums);

  /// Returns whether the backend itself allocates the scratch of composites. If so, calls have the whole batch and no
  /// workspace.
  virtual bool brings_scratch() const { return false; }
  /// Returns the preferred number of items of a composite call, each with `bytes_an_item` bytes of scratch. This number
  /// of items fills the device without exceeding its caches.
  virtual std::size_t preferred_items(std::size_t bytes_an_item) const = 0;

 protected:
  // By default a form is empty and only marks a constant as prepared.
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

  // Make keys that are prepared for the device. The words of a key have the layout of its shape; the caller may free them
  // after the call.
  std::shared_ptr<const BootstrapKey> prepare(const BootstrapShape&, std::span<const u64> key);
  std::shared_ptr<const LweSwitchKey> prepare(const KeySwitchShape&, std::span<const u32> key);
  std::shared_ptr<const LayerConstant> prepare(GateLayer layer);
  void prepare(const BootstrapKey&, std::span<const u64> key);
  void prepare(const LweSwitchKey&, std::span<const u32> key);
  void prepare(const LayerConstant&);
  bool has(const Constant& c) const { return c.forms.find(slot_) != nullptr; }

  /// Returns the number of concurrent bootstraps that fill the device; fewer bootstraps take the same time.
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
