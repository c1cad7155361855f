// What a backend makes of constants before calls name them, and how it likes its calls.
#pragma once

#include <memory>
#include <span>

#include "device/device.h"
#include "device/prepared.h"
#include "device/tfhe.h"

namespace heliograph::device {

/// Preparing constants may allocate and upload; never inside a computation.
class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual std::shared_ptr<const PreparedRing> prepare(std::shared_ptr<const math::Ring> ring) = 0;
  virtual std::shared_ptr<const PreparedConversion> prepare(math::Conversion conversion) = 0;
  virtual std::shared_ptr<const PreparedPermutation> prepare(Permutation permutation) = 0;
  virtual std::shared_ptr<const PreparedProduct> prepare(GatheredProduct product) = 0;

  /// Whether composites find scratch of their own: they are then called with the whole batch and no workspace.
  virtual bool brings_scratch() const { return false; }
  /// How many items of a composite a call should hold, each with so many bytes of scratch: enough to fill the device, no
  /// more than its caches like.
  virtual std::size_t preferred_items(std::size_t bytes_an_item) const = 0;
};

class TfheKernels {
 public:
  virtual ~TfheKernels() = default;

  // Keys are as the shapes say, in host memory that may go when the call returns.
  virtual std::shared_ptr<const PreparedBootstrap> prepare(const BootstrapShape&, std::span<const u64> key) = 0;
  virtual std::shared_ptr<const PreparedKeySwitch> prepare(const KeySwitchShape&, std::span<const u32> key) = 0;
  virtual std::shared_ptr<const PreparedLayer> prepare(GateLayer layer) = 0;

  /// So many bootstraps at once keep the whole device busy; fewer take no less time.
  virtual std::size_t parallel_bootstraps(const BootstrapShape&) const = 0;
};

}  // namespace heliograph::device
