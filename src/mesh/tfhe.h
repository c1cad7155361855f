// TFHE's kernels of device/call.h over the members of a mesh. Keys are on every member. Each member evaluates a layer for the
// items that lie on it; where items are fewer than members and a layer has more rows than keep those busy, the idle ones
// take rows.
#pragma once

#include "device/kernels.h"
#include "mesh/operation.h"

namespace heliograph::mesh {

using namespace device;  // NOLINT: a mesh speaks of calls by the names of the list

/// A key as each member of this rank prepared it; null on those of other ranks.
template <class Base, class Shape>
class MeshTfheKey final : public Base {
 public:
  MeshTfheKey(const Shape& shape, std::vector<std::shared_ptr<const Base>> each, std::vector<std::size_t> parallel = {})
      : Base(shape), each_(std::move(each)), parallel_(std::move(parallel)) {}
  const std::shared_ptr<const Base>& on(std::size_t m) const { return each_[m]; }
  /// How many bootstraps keep each member busy, those of other ranks too.
  const std::vector<std::size_t>& parallel() const { return parallel_; }

 private:
  std::vector<std::shared_ptr<const Base>> each_;
  std::vector<std::size_t> parallel_;
};
using MeshBootstrapKey = MeshTfheKey<PreparedBootstrap, BootstrapShape>;
using MeshSwitchKey = MeshTfheKey<PreparedKeySwitch, KeySwitchShape>;

/// A layer on the members that use it, or some of its rows.
class MeshLayer final : public PreparedLayer {
 public:
  MeshLayer(std::shared_ptr<State> state, GateLayer layer) : PreparedLayer(std::move(layer)), state_(std::move(state)) {}
  std::shared_ptr<const PreparedLayer> on(std::size_t m) const;
  /// Rows [first, first + count) whose linear combinations are made already. `packed`: result o of the i-th of them is wire
  /// i * outputs + o, and their combinations are in the first of these.
  std::shared_ptr<const PreparedLayer> rows_on(std::size_t m, std::size_t first, std::size_t count, bool packed) const;

 private:
  GateLayer rows(std::size_t first, std::size_t count, bool packed) const;

  std::shared_ptr<State> state_;
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<std::size_t, std::size_t, std::size_t, bool>, std::shared_ptr<const PreparedLayer>> each_;
};

class MeshTfheKernels final : public device::TfheKernels {
 public:
  explicit MeshTfheKernels(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<const PreparedBootstrap> prepare(const BootstrapShape&, std::span<const u64> key) override;
  std::shared_ptr<const PreparedKeySwitch> prepare(const KeySwitchShape&, std::span<const math::u32> key) override;
  std::shared_ptr<const PreparedLayer> prepare(GateLayer layer) override;
  /// Summed over all members of all ranks. Collective: every rank calls it with the same shapes in the same order.
  std::size_t parallel_bootstraps(const BootstrapShape&) const override;

  void run(Queue&, const Combine& c);
  void run(Queue&, const LweKeySwitch& c);
  void run(Queue&, const Bootstrap& c);
  void run(Queue&, const Evaluate& c);

 private:
  template <class Base, class Shape, class Word>
  std::vector<std::shared_ptr<const Base>> on_every_member(const Shape& shape, std::span<const Word> key);
  /// Each member's bootstraps at once.
  std::vector<std::size_t> parallel_of_members(const BootstrapShape& shape) const;

  std::shared_ptr<State> state_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<BootstrapShape, std::vector<std::size_t>>> parallel_;
};

}  // namespace heliograph::mesh
