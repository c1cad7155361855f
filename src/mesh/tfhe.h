// TFHE's kernels of device/call.h over the members of a mesh. Keys are on every member. Each member evaluates a layer for the
// items that lie on it; where items are fewer than members and a layer has more rows than keep those busy, the idle ones
// take rows.
#pragma once

#include "device/kernels.h"
#include "mesh/operation.h"

namespace heliograph::mesh {

using namespace device;  // NOLINT: a mesh speaks of calls by the names of the list

/// What a mesh has of a bootstrapping key: how many bootstraps keep each member busy, those of other ranks too.
struct MeshBootstrap final : Form {
  explicit MeshBootstrap(std::vector<std::size_t> each) : parallel(std::move(each)) {}
  const std::vector<std::size_t> parallel;
};

/// What a mesh has of a layer: some of its rows alone.
class MeshLayer final : public FormOf<LayerConstant> {
 public:
  using FormOf::FormOf;
  /// Rows [first, first + count) whose linear combinations are made already. `packed`: result o of the i-th of them is wire
  /// i * outputs + o, and their combinations are in the first of these.
  std::shared_ptr<const LayerConstant> rows(std::size_t first, std::size_t count, bool packed) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<std::size_t, std::size_t, bool>, std::shared_ptr<const LayerConstant>> each_;
};

class MeshTfheKernels final : public device::TfheKernels {
 public:
  explicit MeshTfheKernels(std::shared_ptr<State> state) : TfheKernels(state->slot), state_(std::move(state)) {}

  /// Summed over all members of all ranks. Collective: every rank calls it with the same shapes in the same order.
  std::size_t parallel_bootstraps(const BootstrapShape&) const override;
  /// How many bootstraps keep each member busy with the key of a call; one where the call has no key yet.
  std::vector<std::size_t> parallel_of(const Evaluate& call) const;

  HELIOGRAPH_RUNS(Combine, LweKeySwitch, Bootstrap, Evaluate);

 protected:
  std::unique_ptr<const Form> form(const BootstrapKey&, std::span<const u64> key) override;
  std::unique_ptr<const Form> form(const LweSwitchKey&, std::span<const math::u32> key) override;
  std::unique_ptr<const Form> form(const LayerConstant& c) override { return std::make_unique<MeshLayer>(c); }

 private:
  const std::shared_ptr<const LayerConstant>& on(const std::shared_ptr<const LayerConstant>& layer, std::size_t m) {
    state_->prepare(m, *layer);
    return layer;
  }
  /// Some of its rows on a member.
  std::shared_ptr<const LayerConstant> rows_on(const LayerConstant& layer, std::size_t m, std::size_t first,
                                               std::size_t count, bool packed) {
    return on(form_on<MeshLayer>(layer, slot()).rows(first, count, packed), m);
  }
  /// Prepares a key on every member of this rank.
  template <class Key, class Word>
  void on_every_member(const Key& constant, std::size_t bytes, std::span<const Word> key);
  /// Each member's bootstraps at once.
  std::vector<std::size_t> parallel_of_members(const BootstrapShape& shape) const;

  std::shared_ptr<State> state_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<BootstrapShape, std::vector<std::size_t>>> parallel_;
};

}  // namespace heliograph::mesh
