// TFHE's kernels of device/call.h on a mesh. Keys are on every member. Each member evaluates a layer for the items that it
// holds. If there are fewer items than members, idle members compute part of each layer's bootstraps.
#pragma once

#include "device/kernels.h"
#include "mesh/operation.h"

namespace heliograph::mesh {

using namespace device;  // NOLINT: a mesh uses the names of all kernels

/// A mesh's form of a bootstrapping key: the number of bootstraps that fill each member. All ranks have the same numbers.
struct MeshBootstrap final : Form {
  explicit MeshBootstrap(std::vector<std::size_t> each) : parallel(std::move(each)) {}
  const std::vector<std::size_t> parallel;
};

/// A mesh's form of a layer: the layer restricted to ranges of its rows.
class MeshLayer final : public FormOf<LayerConstant> {
 public:
  using FormOf::FormOf;
  /// Returns the layer for rows [first, first + count), whose linear combinations exist already. `packed`: result o of
  /// row first + i is wire i * outputs + o, and the row's combination is in wire i * outputs.
  std::shared_ptr<const LayerConstant> rows(std::size_t first, std::size_t count, bool packed) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<std::size_t, std::size_t, bool>, std::shared_ptr<const LayerConstant>> each_;
};

class MeshTfheKernels final : public device::TfheKernels {
 public:
  explicit MeshTfheKernels(std::shared_ptr<State> state) : TfheKernels(state->slot), state_(std::move(state)) {}

  /// Returns the sum over the members of all ranks. Every rank must call this function with the same shapes in the same
  /// order.
  std::size_t parallel_bootstraps(const BootstrapShape&) const override;
  /// Returns, for each member, the number of bootstraps with the call's key that fill it; 1 if the call has no key.
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
  /// Prepares a range of a layer's rows on a member.
  std::shared_ptr<const LayerConstant> rows_on(const LayerConstant& layer, std::size_t m, std::size_t first,
                                               std::size_t count, bool packed) {
    return on(form_on<MeshLayer>(layer, slot()).rows(first, count, packed), m);
  }
  /// Prepares a key on every member of this rank.
  template <class Key, class Word>
  void on_every_member(const Key& constant, std::size_t bytes, std::span<const Word> key);
  /// Returns the number of parallel bootstraps of each member.
  std::vector<std::size_t> parallel_of_members(const BootstrapShape& shape) const;

  std::shared_ptr<State> state_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<BootstrapShape, std::vector<std::size_t>>> parallel_;
};

}  // namespace heliograph::mesh
