// The contract of device/kernels.h over the members of a mesh.
#pragma once

#include "device/composite.h"
#include "mesh/operation.h"

namespace heliograph::mesh {

using device::Draw;
using device::Kernels;
using device::KeySwitchPlan;
using device::LimbConstants;
using device::MultiplyPlan;
using device::PreparedConversion;
using device::PreparedPermutation;
using device::PreparedProduct;
using device::PreparedRing;
using device::Workspace;

/// Something prepared on each member that uses it; null on those of other ranks.
template <class Base, class Source>
class MeshPrepared final : public Base {
 public:
  MeshPrepared(std::shared_ptr<State> state, Source source)
      : Base(source), state_(std::move(state)), each_(state_->size()), source_(std::move(source)) {}

  std::shared_ptr<const Base> shared(std::size_t m) const {
    if (!state_->here(m)) return nullptr;
    const std::lock_guard lock(mutex_);
    if (!each_[m]) each_[m] = state_->guarded([&] { return state_->member(m).device->kernels().prepare(source_); });
    return each_[m];
  }

 private:
  std::shared_ptr<State> state_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const Base>> each_;
  Source source_;
};
using MeshRing = MeshPrepared<PreparedRing, std::shared_ptr<const math::Ring>>;
using MeshPermutation = MeshPrepared<PreparedPermutation, device::Permutation>;

/// Also to some of its targets alone.
class MeshConversion final : public PreparedConversion {
 public:
  MeshConversion(std::shared_ptr<State> state, math::Conversion c)
      : PreparedConversion(std::move(c)), state_(std::move(state)) {}
  /// On a member, to the targets of those positions.
  std::shared_ptr<const PreparedConversion> on(std::size_t m, const std::vector<std::size_t>& targets) const;
  std::shared_ptr<const PreparedConversion> on(std::size_t m) const;

 private:
  std::shared_ptr<State> state_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<std::size_t, std::vector<std::size_t>>, std::shared_ptr<const PreparedConversion>> each_;
};

/// Also some of its rows alone: outputs of a product with one output for each position.
class MeshProduct final : public PreparedProduct {
 public:
  MeshProduct(std::shared_ptr<State> state, device::GatheredProduct p)
      : PreparedProduct(std::move(p)), state_(std::move(state)) {}
  struct Rows {
    std::size_t first = 0, count = 0, first_input = 0, inputs = 0;  // outputs, and the stretch of inputs they want
  };
  Rows rows(std::size_t first, std::size_t count) const;
  std::shared_ptr<const PreparedProduct> on(std::size_t m, const Rows& rows) const;
  std::shared_ptr<const PreparedProduct> on(std::size_t m) const;

 private:
  std::shared_ptr<State> state_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<std::size_t, std::size_t>, Rows> rows_;
  mutable std::map<std::tuple<std::size_t, std::size_t, std::size_t>, std::shared_ptr<const PreparedProduct>> each_;
};

class MeshKernels final : public Kernels {
 public:
  explicit MeshKernels(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<const PreparedRing> prepare(std::shared_ptr<const math::Ring> ring) override;
  std::shared_ptr<const PreparedConversion> prepare(math::Conversion conversion) override;
  std::shared_ptr<const PreparedPermutation> prepare(device::Permutation permutation) override;
  std::shared_ptr<const PreparedProduct> prepare(device::GatheredProduct product) override;

  bool brings_scratch() const override { return true; }
  std::size_t preferred_items(std::size_t bytes_an_item) const override;

 protected:
  void do_add(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& b, const View& out) override;
  void do_sub(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& b, const View& out) override;
  void do_neg(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& out) override;
  void do_mul(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& b, const View& out) override;
  void do_mul_accumulate(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& b,
                         const View& out) override;
  void do_mul_constants(Queue&, const PreparedRing&, const PrimeList&, const View& a, const LimbConstants&,
                        const View& out) override;
  void do_add_constants(Queue&, const PreparedRing&, const PrimeList&, const View& a, const LimbConstants&, math::Domain,
                        const View& out) override;
  void do_forward_ntt(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& out) override;
  void do_inverse_ntt(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& out) override;
  void do_permute(Queue&, const PreparedRing&, const PrimeList&, const PreparedPermutation&, const View& a,
                  const View& out) override;
  void do_convert(Queue&, const PreparedConversion&, const View& x, const View* own, const View& out,
                  const PrimeList* place) override;
  void do_inner_product(Queue&, const PreparedRing&, const PrimeList&, const View& digits, const View& key,
                        const PrimeList& key_limbs, const View& out) override;
  void do_tensor(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& b, const View& out) override;
  void do_product(Queue&, const PreparedRing&, const PrimeList&, const PreparedProduct&, const View& in,
                  const View& out) override;
  void do_sample(Queue&, const PreparedRing&, const PrimeList&, const Draw&, const View& out) override;
  void do_copy(Queue&, const View& a, const View& out) override;
  void do_gather(Queue&, std::span<const device::Piece> pieces) override;
  void do_zero(Queue&, const View& out) override;

  void do_decompose(Queue&, const KeySwitchPlan&, const View& x, const View& digits, Workspace) override;
  void do_apply_key(Queue&, const KeySwitchPlan&, const View& digits, const View& key, const View* add, const View& out,
                    Workspace) override;
  void do_key_switch(Queue&, const KeySwitchPlan&, const View& x, const View& key, const View* add, const View& out,
                     Workspace) override;
  void do_divide(Queue&, const device::DividePlan&, const View& x, const View& out, Workspace) override;
  void do_apply_key_ntt(Queue&, const KeySwitchPlan&, const View& digits, const View& key, const View* add, const View& out,
                        Workspace, const PreparedPermutation* turn) override;
  void do_key_switch_ntt(Queue&, const KeySwitchPlan&, const View& x, const View& key, const View* add, const View& out,
                         Workspace, const PreparedPermutation* turn) override;
  void do_bfv_multiply(Queue&, const MultiplyPlan&, const View& a, const View& b, const View& out, Workspace) override;

 private:
  using Inputs = std::vector<View>;
  using Step = std::function<void(Kernels&, Queue&, const PreparedRing*, const PrimeList&, const Inputs&, const View& out,
                                  const Block& part)>;
  /// `step` on each part of `out`. `whole_limbs`: it needs all words of a limb. `reads_out`: it adds to `out`.
  void by_parts(Queue&, const PreparedRing*, const PrimeList&, const Inputs& inputs, const View& out, bool whole_limbs,
                bool reads_out, Step step);

  /// A tensor over the limbs' owners, gone when the call is posted.
  struct Temporary {
    Buffer memory;
    View view;
  };
  Temporary over_limbs(Queue&, const View& like, std::size_t components, const PrimeList& primes);
  bool prefers_transpose(const MeshConversion&, const View& x, const View* own, const View& out) const;
  void convert_by_broadcast(Queue&, const MeshConversion&, const View& x, const View* own, const View& out,
                            const PrimeList* place);
  void convert_by_transpose(Queue&, const MeshConversion&, const View& x, const View* own, const View& out,
                            const PrimeList* place);
  void multiply_over_limbs(Queue&, const MultiplyPlan&, const View& a, const View& b, const View& out);
  void decompose_over_limbs(Queue&, const KeySwitchPlan&, const View& x, const View& digits);
  void apply_key_over_limbs(Queue&, const KeySwitchPlan&, const View& digits, const View& key, const View* add,
                            const View& out);
  /// One of the calls that switch keys, on the members that hold whole items; false where `out` has another layout.
  using SwitchCall = void (Kernels::*)(Queue&, const KeySwitchPlan&, const View&, const View&, const View*, const View&,
                                       Workspace);
  using SwitchBytes = std::function<std::size_t(const KeySwitchPlan&, std::size_t items)>;
  bool switch_whole(Queue&, const KeySwitchPlan&, const View& in, const View& key, const View* add, const View& out,
                    SwitchCall call, const SwitchBytes& bytes);
  /// The same for a call that also wants to know its member.
  using MemberCall = std::function<void(Kernels&, std::size_t member, Queue&, const KeySwitchPlan&, const View&, const View&,
                                        const View*, const View&, Workspace)>;
  bool switch_members(Queue&, const KeySwitchPlan&, const View& in, const View& key, const View* add, const View& out,
                      const MemberCall& call, const SwitchBytes& bytes);
  std::vector<std::shared_ptr<const PreparedPermutation>> turns_of(Queue&, const PreparedPermutation* turn, const View& out);
  void sum_over_limbs(Queue&, const KeySwitchPlan&, const View& x, const View& key, const View& sum);
  void divide_over_limbs(Queue&, const device::DividePlan&, const View& x, const View& out);
  void add_weighted(Queue&, const KeySwitchPlan&, const View& added, const View& sum);
  void finish_key_switch(Queue&, const KeySwitchPlan&, const View& sum, const View* add, const View& out);
  void aggregate_outputs(Queue&, const KeySwitchPlan&, const View& x, const View& key, const View& sum);
  bool product_by_rows(Operation& op, const PreparedRing&, const PrimeList&, const MeshProduct&, const View& in,
                       const View& out);
  /// The key's limbs that each part needs, and where they are in the view there.
  struct LocalKey {
    View view;
    PrimeList limbs;
  };
  std::vector<LocalKey> fetch_key(Operation& op, const View& key, const PrimeList& key_limbs,
                                  const std::vector<Block>& parts) const;
  /// The layout a composite runs in: that of its result, or limbs where it is the coefficient layout.
  bool runs_over_limbs(const Operation& op, const View& out) const { return op.home(out) != Layout::batch; }

  std::shared_ptr<State> state_;
};

}  // namespace heliograph::mesh
