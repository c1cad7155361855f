// The kernels of device/call.h over the members of a mesh: each call becomes calls of the members, with exchanges between.
#pragma once

#include "mesh/operation.h"

namespace heliograph::mesh {

using namespace device;  // NOLINT: a mesh speaks of calls by the names of the list

/// Something prepared on each member that uses it; null on those of other ranks.
template <class Base, class Source>
class MeshPrepared final : public Base {
 public:
  MeshPrepared(std::shared_ptr<State> state, Source source)
      : Base(source), state_(std::move(state)), each_(state_->size()), source_(std::move(source)) {}

  std::shared_ptr<const Base> on(std::size_t m) const {
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

/// Plans as the members have them, made once for each.
class MeshPlans {
 public:
  /// Null for null. Throws MismatchError.
  template <class Plan>
  std::shared_ptr<const Plan> on(const std::shared_ptr<const Plan>& plan, std::size_t m);
  /// With the key's limbs where they lie on the member.
  std::shared_ptr<const KeySwitchPlan> on(const std::shared_ptr<const KeySwitchPlan>& plan, std::size_t m,
                                          const PrimeList& key_limbs);
  std::shared_ptr<const LinearPlan> on(const std::shared_ptr<const LinearPlan>& plan, std::size_t m,
                                       const PrimeList& key_limbs);

 private:
  struct Known {
    std::weak_ptr<const void> source;  // another one may come to lie where it was
    std::size_t member;
    PrimeList key_limbs;
    std::shared_ptr<const void> plan;
  };
  template <class Plan, class Change>
  std::shared_ptr<const Plan> known(const std::shared_ptr<const Plan>& plan, std::size_t m, const PrimeList& key_limbs,
                                    Change change);

  std::multimap<const void*, Known> known_;
  std::size_t most_ = 64;  // then those are let go whose source is
};

/// TFHE's kernels have code of their own, see tfhe.h.
template <class C>
concept OfTfhe = requires(C c) {
  c.layer;
};

class MeshKernels final : public Kernels {
 public:
  explicit MeshKernels(std::shared_ptr<State> state) : state_(std::move(state)) {}

  /// Performs a call whose operands lie whole on one member there; false where they do not.
  bool directly(Queue&, const device::Call& call);

  std::shared_ptr<const PreparedRing> prepare(std::shared_ptr<const math::Ring> ring) override;
  std::shared_ptr<const PreparedConversion> prepare(math::Conversion conversion) override;
  std::shared_ptr<const PreparedPermutation> prepare(device::Permutation permutation) override;
  std::shared_ptr<const PreparedProduct> prepare(device::GatheredProduct product) override;

  bool brings_scratch() const override { return true; }
  std::size_t preferred_items(std::size_t bytes_an_item) const override;

  void run(Queue&, const Add& c);
  void run(Queue&, const Sub& c);
  void run(Queue&, const Neg& c);
  void run(Queue&, const Mul& c);
  void run(Queue&, const MulAccumulate& c);
  void run(Queue&, const MulConstants& c);
  void run(Queue&, const AddConstants& c);
  void run(Queue&, const ForwardNtt& c);
  void run(Queue&, const InverseNtt& c);
  void run(Queue&, const Permute& c);
  void run(Queue&, const Convert& c);
  void run(Queue&, const InnerProduct& c);
  void run(Queue&, const Tensor& c);
  void run(Queue&, const Product& c);
  void run(Queue&, const Sample& c);
  void run(Queue&, const Copy& c);
  void run(Queue&, const Zero& c);
  void run(Queue&, const Decompose& c);
  void run(Queue&, const ApplyKey& c);
  void run(Queue&, const KeySwitch& c);
  void run(Queue&, const Divide& c);
  void run(Queue&, const LinearSum& c);
  void run(Queue&, const BfvMultiply& c);

 private:
  /// A call that each part of its result makes by itself, with the words of its inputs there. `whole_limbs`: it needs all
  /// words of a limb. `adapt(call, part)`: what else differs between the parts.
  template <class C, class Adapt>
  void by_parts(Queue&, const C& call, bool whole_limbs, Adapt adapt);
  template <class C>
  void by_parts(Queue& q, const C& call, bool whole_limbs) {
    by_parts(q, call, whole_limbs, [](C&, const Block&) {});
  }
  template <class C>
  bool directly(Queue&, const C& call);
  /// A composite on the members that hold whole items; false where its result lies otherwise.
  template <class C>
  bool by_items(Queue&, const C& call);

  /// A tensor over the limbs' owners, gone when the call is posted.
  struct Temporary {
    Buffer memory;
    View view;
  };
  Temporary over_limbs(Queue& q, const View& like, std::size_t components, const PrimeList& primes) {
    return over_limbs(q, like, like.items(), components, primes);
  }
  Temporary over_limbs(Queue&, const View& like, std::size_t items, std::size_t components, const PrimeList& primes);
  bool linear_sum_by_items(Queue&, const LinearSum&);
  bool prefers_transpose(const Convert&) const;
  void convert_by_broadcast(Queue&, const Convert&);
  void convert_by_transpose(Queue&, const Convert&);
  void multiply_over_limbs(Queue&, const MultiplyPlan&, const View& a, const View& b, const View& out);
  void decompose_over_limbs(Queue&, const KeySwitchPlan&, const View& x, const View& digits);
  /// What permutes, on the members that have some of the parts; all null for null.
  std::vector<PermutationHandle> turns_of(const PermutationHandle& turn, const std::vector<Block>& parts) const;
  void sum_over_limbs(Queue&, const KeySwitchPlan&, const View& x, const View& key, const View& sum);
  void divide_over_limbs(Queue&, const device::DividePlan&, const View& x, const View& out);
  void add_weighted(Queue&, const KeySwitchPlan&, const View& added, const View& sum);
  void finish_key_switch(Queue&, const KeySwitchPlan&, const View& sum, const std::optional<View>& add, const View& out);
  void aggregate_outputs(Queue&, const KeySwitchPlan&, const View& x, const View& key, const View& sum);
  bool product_by_rows(Operation& op, const Product&);
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
  MeshPlans plans_;  // of a queue's: used under the mesh's mutex
};

}  // namespace heliograph::mesh
