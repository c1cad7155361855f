// The kernels of device/call.h over the members of a mesh: each call becomes calls of the members, with exchanges between.
#pragma once

#include "mesh/operation.h"
#include "mesh/products.h"

namespace heliograph::mesh {

using namespace device;  // NOLINT: a mesh speaks of calls by the names of the list

/// What a mesh has of a conversion: the same to some of its targets alone.
class MeshConversion final : public FormOf<ConversionConstant> {
 public:
  using FormOf::FormOf;
  std::shared_ptr<const ConversionConstant> narrowed(const std::vector<std::size_t>& targets) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::vector<std::size_t>, std::shared_ptr<const ConversionConstant>> each_;
};

inline const PrimeList& key_limbs_of(const KeySwitchPlan& plan) { return plan.key_limbs; }
inline const PrimeList& key_limbs_of(const LinearPlan& plan) { return plan.key_switch->key_limbs; }
inline void set_key_limbs(KeySwitchPlan& plan, const PrimeList& limbs) { plan.key_limbs = limbs; }
void set_key_limbs(LinearPlan& plan, const PrimeList& limbs);

/// What a mesh has of a plan: the same with a key's limbs where they lie on a member. Used under the mesh's mutex.
template <class Plan>
class MeshPlan final : public FormOf<Plan> {
 public:
  using FormOf<Plan>::FormOf;
  std::shared_ptr<const Plan> with(const PrimeList& key_limbs) const {
    for (const auto& [limbs, plan] : known_) {
      if (limbs == key_limbs) return plan;
    }
    auto plan = std::make_shared<Plan>(this->of());
    set_key_limbs(*plan, key_limbs);
    return known_.emplace_back(key_limbs, std::move(plan)).second;
  }

 private:
  mutable std::vector<std::pair<PrimeList, std::shared_ptr<const Plan>>> known_;
};

/// TFHE's kernels have code of their own, see tfhe.h.
template <class C>
concept OfTfhe = requires(C c) {
  c.layer;
};

/// Each part of the result makes itself, with all words of its limbs there.
template <class C>
concept OfLimbs = OneOf<C, ForwardNtt, InverseNtt, Tensor>;
/// The same, or with its own words alone.
template <class C>
concept ByParts = OfLimbs<C> || OneOf<C, Add, Sub, Neg, Mul, MulAccumulate, Zero>;

class MeshKernels final : public Kernels {
 public:
  explicit MeshKernels(std::shared_ptr<State> state) : Kernels(state->slot), state_(std::move(state)) {}

  /// Performs a call whose operands lie whole on one member there; false where they do not.
  bool directly(Queue&, const device::Call& call);

  bool brings_scratch() const override { return true; }
  std::size_t preferred_items(std::size_t bytes_an_item) const override;

  // kernels.cpp
  template <ByParts C>
  void run(Queue&, const C& c);
  HELIOGRAPH_RUNS(MulConstants, AddConstants, WeightedSum, Permute, Sample, Copy, InnerProduct, Product, Convert,
                  ByteProduct);
  // composites.cpp, composites_ntt.cpp
  HELIOGRAPH_RUNS(KeySwitch, ApplyKey, Decompose, BfvMultiply, Divide, LinearSum, LimbSums);

 protected:
  std::unique_ptr<const Form> form(const ConversionConstant& c) override { return std::make_unique<MeshConversion>(c); }
  std::unique_ptr<const Form> form(const ProductConstant& c) override { return std::make_unique<MeshProduct>(c); }
  std::unique_ptr<const Form> form(const KeySwitchPlan& p) override { return std::make_unique<MeshPlan<KeySwitchPlan>>(p); }
  std::unique_ptr<const Form> form(const LinearPlan& p) override { return std::make_unique<MeshPlan<LinearPlan>>(p); }

 private:
  /// A constant or a plan, prepared on a member where that is of this rank.
  template <class C>
  const std::shared_ptr<const C>& on(const std::shared_ptr<const C>& constant, std::size_t m) {
    if (constant) state_->prepare(m, *constant);
    return constant;
  }
  /// The same to some of its targets.
  std::shared_ptr<const ConversionConstant> on(const std::shared_ptr<const ConversionConstant>& c, std::size_t m,
                                               const std::vector<std::size_t>& targets);
  /// The same with a key's limbs where they lie on the member.
  template <class Plan>
  std::shared_ptr<const Plan> on(const std::shared_ptr<const Plan>& plan, std::size_t m, const PrimeList& key_limbs) {
    const PrimeList& given = key_limbs_of(*plan);
    if (given == key_limbs) return on(plan, m);
    prepare(*plan);
    return on(form_on<MeshPlan<Plan>>(*plan, slot()).with(key_limbs), m);
  }

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
  void sum_over_limbs(Queue&, const KeySwitchPlan&, const View& x, const View& key, const View& sum);
  void divide_over_limbs(Queue&, const device::DividePlan&, const View& x, const View& out);
  void add_weighted(Queue&, const KeySwitchPlan&, const View& added, const View& sum);
  void finish_key_switch(Queue&, const KeySwitchPlan&, const View& sum, const std::optional<View>& add, const View& out);
  void aggregate_outputs(Queue&, const KeySwitchPlan&, const View& x, const View& key, const View& sum);
  void product_by_positions(Operation& op, const Product&, const ProductSplit&);
  void product_by_sums(Operation& op, const Product&, const ProductSplit&);
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
