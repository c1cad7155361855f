// The kernels of device/call.h on a mesh: each call becomes calls of the members, with exchanges in between.
#pragma once

#include "mesh/operation.h"
#include "mesh/products.h"

namespace heliograph::mesh {

using namespace device;  // NOLINT: a mesh uses the names of all kernels

/// A mesh's form of a conversion: for each set of targets, a conversion to these targets only.
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

/// A mesh's form of a plan: copies of the plan for other positions of a key's limbs. Guarded by the mesh's mutex.
template <class Plan>
class MeshPlan final : public FormOf<Plan> {
 public:
  using FormOf<Plan>::FormOf;
  /// Returns the plan of a member that has the limbs `limbs` of the result. `make` creates the plan at first use.
  template <class Make>
  const std::shared_ptr<const Plan>& share(const std::vector<std::size_t>& limbs, const PrimeList& key_limbs,
                                           Make make) const {
    auto& share = shares_[{limbs, std::vector<PrimeIndex>(key_limbs.begin(), key_limbs.end())}];
    if (!share) share = make();
    return share;
  }
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
  mutable std::map<std::pair<std::vector<std::size_t>, std::vector<PrimeIndex>>, std::shared_ptr<const Plan>> shares_;
};

/// TFHE's kernels, which tfhe.h implements.
template <class C>
concept OfTfhe = requires(C c) {
  c.layer;
};

/// Kernels that compute each part of the result independently, if the part has all words of its limbs.
template <class C>
concept OfLimbs = OneOf<C, ForwardNtt, InverseNtt, Tensor>;
/// Kernels that compute each part of the result independently, also if the part has some words of its limbs.
template <class C>
concept ByParts = OfLimbs<C> || OneOf<C, Add, Sub, Neg, Mul, MulAccumulate, Zero>;

class MeshKernels final : public Kernels {
 public:
  explicit MeshKernels(std::shared_ptr<State> state) : Kernels(state->slot), state_(std::move(state)) {}

  /// Executes a call on the member that holds all of its operands. Returns false if no member holds all operands.
  bool directly(Queue&, const device::Call& call);

  bool brings_scratch() const override { return true; }
  std::size_t preferred_items(std::size_t bytes_an_item) const override;

  // Functions in kernels.cpp:
  template <ByParts C>
  void run(Queue&, const C& c);
  HELIOGRAPH_RUNS(MulConstants, AddConstants, WeightedSum, Permute, Sample, Copy, InnerProduct, Product, Convert,
                  ByteProduct);
  // Functions in composites.cpp and composites_ntt.cpp:
  HELIOGRAPH_RUNS(KeySwitch, ApplyKey, Decompose, ScaledTensor, Divide, LinearSum, BabySteps, GiantSteps, PartialKeySwitch,
                  LimbSums);

 protected:
  std::unique_ptr<const Form> form(const ConversionConstant& c) override { return std::make_unique<MeshConversion>(c); }
  std::unique_ptr<const Form> form(const ProductConstant& c) override { return std::make_unique<MeshProduct>(c); }
  std::unique_ptr<const Form> form(const KeySwitchPlan& p) override { return std::make_unique<MeshPlan<KeySwitchPlan>>(p); }
  std::unique_ptr<const Form> form(const LinearPlan& p) override { return std::make_unique<MeshPlan<LinearPlan>>(p); }

 private:
  /// Prepares a constant or plan on a member of this rank, and returns it.
  template <class C>
  const std::shared_ptr<const C>& on(const std::shared_ptr<const C>& constant, std::size_t m) {
    if (constant) state_->prepare(m, *constant);
    return constant;
  }
  /// Prepares, on a member, the conversion to some of the targets.
  std::shared_ptr<const ConversionConstant> on(const std::shared_ptr<const ConversionConstant>& c, std::size_t m,
                                               const std::vector<std::size_t>& targets);
  /// Prepares, on a member, the plan for the positions of the key's limbs on this member.
  template <class Plan>
  std::shared_ptr<const Plan> on(const std::shared_ptr<const Plan>& plan, std::size_t m, const PrimeList& key_limbs) {
    const PrimeList& given = key_limbs_of(*plan);
    if (given == key_limbs) return on(plan, m);
    prepare(*plan);
    return on(form_on<MeshPlan<Plan>>(*plan, slot()).with(key_limbs), m);
  }

  /// Posts a call that computes the parts of its result independently. `whole_limbs`: a part must have all words of its
  /// limbs. `adapt(call, part)` sets the fields that differ between parts.
  template <class C, class Adapt>
  void by_parts(Queue&, const C& call, bool whole_limbs, Adapt adapt);
  template <class C>
  void by_parts(Queue& q, const C& call, bool whole_limbs) {
    by_parts(q, call, whole_limbs, [](C&, const Block&) {});
  }
  template <class C>
  bool directly(Queue&, const C& call);
  /// Executes a composite on the members that hold complete items. Returns false if the result has another layout.
  template <class C>
  bool by_items(Queue&, const C& call);

  /// A tensor over the limbs' owners, which is released after the call is posted.
  struct Temporary {
    Buffer memory;
    View view;
  };
  Temporary over_limbs(Queue& q, const View& like, std::size_t components, const PrimeList& primes) {
    return over_limbs(q, like, like.items(), components, primes);
  }
  Temporary over_limbs(Queue&, const View& like, std::size_t items, std::size_t components, const PrimeList& primes);
  /// The limbs of a key that a part needs, and their positions in the view.
  struct LocalKey {
    View view;
    PrimeList limbs;
  };
  bool linear_sum_by_items(Queue&, const LinearSum&);
  bool shares_key_switch(Queue&, const KeySwitch&);
  std::shared_ptr<const KeySwitchPlan> share_of(const std::shared_ptr<const KeySwitchPlan>& plan, const Block& part,
                                                const std::vector<std::size_t>& chain, const PrimeList& key_limbs);
  /// Enqueues the expansion of a composite. The temporary tensors of the expansion are over the limbs' owners.
  template <class C>
  void expand_over_limbs(Queue&, const C&, const View& like);
  /// Returns the keys of a call's steps for each part; nullopt if keys have different layouts on a member.
  template <class C>
  std::optional<std::vector<std::vector<LocalKey>>> step_keys(Operation&, const C&, const std::vector<Block>& parts) const;
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
  std::vector<LocalKey> fetch_key(Operation& op, const View& key, const PrimeList& key_limbs,
                                  const std::vector<Block>& parts) const;
  /// Returns whether a composite runs over limbs, because its result has the limb or the coefficient layout.
  bool runs_over_limbs(const Operation& op, const View& out) const { return op.home(out) != Layout::batch; }

  std::shared_ptr<State> state_;
};

}  // namespace heliograph::mesh
