// Choice of tensors' layouts on a mesh. The choice minimises the predicted time of computations and of moving operands. All
// ranks choose equally, because they use the same measurements. No choice changes a bit of a result.
#include <algorithm>
#include <numeric>

#include "mesh/products.h"
#include "mesh/queue.h"

namespace heliograph::mesh {

namespace {

/// Tensors with more items than this are distributed in consecutive shares, so that windows and sums read adjacent items.
constexpr std::size_t kMostRoundRobin = 256;
/// Least predicted gain for which several devices are used instead of one.
constexpr double kSlack = 1.03;
/// Least predicted gain for which members share one ciphertext by limbs. Predictions were wrong by up to a quarter.
constexpr double kSharingMargin = 4.0 / 3;

/// Returns the time of the slowest member, in units of the fastest member's time per item.
double longest(const Distribution& distribution, const std::vector<double>& weights) {
  const double most = *std::max_element(weights.begin(), weights.end());
  double seconds = 0;
  for (std::size_t m = 0; m < weights.size(); ++m) {
    if (const std::size_t items = distribution.items_on(m))
      seconds = std::max(seconds, static_cast<double>(items) * most / weights[m]);
  }
  return seconds;
}

}  // namespace

/// An operand that has an item for each item of the result.
struct ItemOperand {
  const MeshMemory* memory;
  ItemRow row;
  double bytes;  // bytes of an item
};

Placement State::over_all(std::size_t items) const {
  const std::vector<double>& shared = weights();
  std::vector<std::size_t> order = range(0, size());
  const bool alike = std::all_of(shared.begin(), shared.end(), [&](double w) { return w == shared[0]; });
  if (!alike && items >= size()) return {Layout::batch, Distribution::shares(shares(items, shared))};
  if (items > kMostRoundRobin) return {Layout::batch, Distribution::shares(shares(items, shared))};
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return shared[a] > shared[b]; });
  if (items < size()) order.resize(std::max<std::size_t>(1, items));
  return {Layout::batch, Distribution::round(std::move(order), items)};
}

Placement State::choose(const View& shape) const {
  const std::size_t items = shape.items();
  const Placement all = over_all(items);
  if (options_.layout) return {*options_.layout, all.distribution};
  if (size() == 1 || items == 0) return all;
  const Costs& c = costs_;
  const std::optional<std::size_t> assigned = assigned_member();
  const Placement home{Layout::batch, Distribution::whole(assigned.value_or(fastest()), items)};
  if (assigned) return home;
  const double one = c.alone(Work::key_switch, shape.limbs, shape.n);
  if (items < size() && shape.limbs > 1) {
    // A tensor that is too large for one member is always distributed by limbs; of the other tensors, only single items are.
    // Several items are distributed by items: the members then compute complete items at the same time. A distribution by
    // limbs computes one item after another.
    const std::size_t item = shape.components * shape.limbs * shape.n * shape.word_size();
    if (item > large_ || (items == 1 && c.limbs_pay(shape.limbs, shape.n))) return {Layout::limb};
  }
  const double spread = longest(all.distribution, weights()) * one + c.spread_seconds;
  return spread * kSlack < longest(home.distribution, weights()) * one ? all : home;
}

namespace {

struct Assigned {
  const State* state = nullptr;
  std::size_t member = 0;
};
thread_local Assigned assigned_here;

}  // namespace

ResultsOnMember::ResultsOnMember(const State& state, std::size_t member)
    : former_state_(assigned_here.state), former_member_(assigned_here.member) {
  assigned_here = {&state, member};
}
ResultsOnMember::~ResultsOnMember() { assigned_here = {former_state_, former_member_}; }

std::optional<std::size_t> State::assigned_member() const {
  return assigned_here.state == this ? std::optional(assigned_here.member) : std::nullopt;
}

std::size_t State::fastest() const {
  return static_cast<std::size_t>(std::max_element(weights().begin(), weights().end()) - weights().begin());
}

namespace {

using device::Access;

/// Returns the time of one item of a call's result, in units of a limb's transform.
template <class C>
double transforms_of([[maybe_unused]] const C& c, const View& out) {
  const double limbs = static_cast<double>(out.limbs), polynomials = static_cast<double>(out.components) * limbs;
  if constexpr (std::is_same_v<C, device::ScaledTensor>) return 34 * limbs;
  if constexpr (std::is_same_v<C, device::KeySwitch>) return 16 * limbs;
  if constexpr (std::is_same_v<C, device::LinearSum>) return 8 * limbs * static_cast<double>(1 + c.keys.size());
  // A product with a key reads the key's words, which takes a quarter of a transform's time for each limb.
  if constexpr (std::is_same_v<C, device::InnerProduct>) return 0.25 * static_cast<double>(c.terms()) * polynomials;
  if constexpr (std::is_same_v<C, device::ApplyKey>) return 8 * limbs;
  if constexpr (std::is_same_v<C, device::ApplyKeys>) return 8 * limbs * static_cast<double>(c.keys.size());
  if constexpr (std::is_same_v<C, device::Decompose>) return polynomials;
  if constexpr (std::is_same_v<C, device::Divide>) return 2 * polynomials;
  if constexpr (std::is_same_v<C, device::ForwardNtt> || std::is_same_v<C, device::InverseNtt>) return polynomials;
  if constexpr (std::is_same_v<C, device::WeightedSum>) return 0.2 * static_cast<double>(c.x.size() + 1) * polynomials;
  return 0.6 * polynomials;  // the call moves the words of three operands
}

/// Returns whether all items share an operand, which each member caches after its first use.
template <class C>
bool is_cached([[maybe_unused]] const C& c, [[maybe_unused]] const View& v) {
  if constexpr (std::is_same_v<C, device::LinearSum>) return &v != &c.x;
  if constexpr (requires { c.key.limbs; }) return &v == &c.key;
  return false;
}

std::size_t owner_of(const Distribution& distribution, const ItemRow& row, std::size_t k) {
  return distribution.owner(row.at(k));
}

/// Returns the distribution that puts out[k] and like[k] on the same member; nullopt if none exists.
std::optional<Distribution> distribution_like(const Distribution& distribution, const ItemRow& like, std::size_t items,
                                              const ItemRow& out) {
  const auto whole = [&] { return Distribution::whole(owner_of(distribution, like, 0), items); };
  if (like.count == 1 || distribution.sole()) return whole();
  if (out.step < 1 || out.item >= static_cast<std::size_t>(out.step)) return {};
  const auto apart = static_cast<std::size_t>(out.step);
  if (distribution.in_shares()) {
    if (owner_of(distribution, like, 0) == owner_of(distribution, like, like.count - 1)) return whole();
    if (like.step < 1) return {};
    std::vector<std::size_t> bounds(distribution.bounds().size(), items);
    const auto step = static_cast<std::size_t>(like.step);
    for (std::size_t m = 0; m + 1 < bounds.size(); ++m) {
      const std::size_t ahead = distribution.bounds()[m] > like.item ? distribution.bounds()[m] - like.item : 0;
      bounds[m] = std::min(items, (ahead + step - 1) / step * apart);
    }
    return Distribution::shares(std::move(bounds));
  }
  if (const std::size_t stretch = distribution.stretch()) {
    if (like.step != 1 || apart != 1 || like.item % stretch != 0 || items % stretch != 0) return {};
    return Distribution::repeated(distribution.bounds(), items);
  }
  const auto members = static_cast<std::ptrdiff_t>(distribution.order().size()),
             block = static_cast<std::ptrdiff_t>(distribution.block());
  const auto first = static_cast<std::ptrdiff_t>(like.item) / block;
  const auto in_turn = [&](std::ptrdiff_t step, std::size_t each) {
    std::vector<std::size_t> order;
    const std::ptrdiff_t turns = members / std::gcd(step, members);
    for (std::ptrdiff_t i = 0; i < turns; ++i)
      order.push_back(distribution.order()[static_cast<std::size_t>(((first + i * step) % members + members) % members)]);
    return Distribution::round(std::move(order), items, each);
  };
  if (like.step % block == 0) return in_turn(like.step / block, apart);
  if (like.step > 0 && block % like.step == 0 && static_cast<std::ptrdiff_t>(like.item) % block == 0)
    return in_turn(1, apart * static_cast<std::size_t>(block / like.step));
  return {};
}

}  // namespace

namespace {

/// Calls whose result on one ciphertext can be computed over its limbs.
template <class C>
concept Sharing =
    device::OneOf<C, device::Add, device::Sub, device::Neg, device::Mul, device::MulConstants, device::AddConstants,
                  device::WeightedSum, device::Permute, device::ForwardNtt, device::InverseNtt, device::Tensor,
                  device::InnerProduct, device::Divide, device::KeySwitch, device::ApplyKey, device::LinearSum>;

/// Additional costs of a call over limbs, besides its members' shares of the work.
struct LimbNeeds {
  double gathered = 0;   // limbs of an item that every member reads from others
  double exchanges = 0;  // exchanges that move these limbs
  double steps = 1;      // steps of host time for each member
  double unfused = 1;    // total work of all members, relative to the work on one member
};

template <class C>
LimbNeeds needs_over_limbs([[maybe_unused]] const C& c, [[maybe_unused]] double members) {
  if constexpr (std::is_same_v<C, device::Divide>)
    return {static_cast<double>(c.plan->divisors() * c.out.components), 1, 3, 1.5};
  if constexpr (std::is_same_v<C, device::ApplyKey>) return {2 * static_cast<double>(c.plan->special.size()), 1, 5, 1.5};
  if constexpr (std::is_same_v<C, device::KeySwitch>) {
    // Every member raises all digits to its own limbs and to the limbs to divide.
    const double chain = static_cast<double>(c.plan->chain.size()), digits = static_cast<double>(c.plan->digits.size());
    const double divided = static_cast<double>(c.plan->down.divisors());
    const double dropped = divided - static_cast<double>(c.plan->special.size()), kept = chain - dropped;
    const auto transforms = [&](double share) {
      return chain * share + digits * (kept * share + divided) - kept * share + 2 * divided + 2 * kept * share;
    };
    const double added = c.add ? static_cast<double>(c.add->components) : 0;
    return {chain + (1 + added) * dropped, 1, 4, 1.1 * members * transforms(1 / members) / transforms(1)};
  }
  if constexpr (std::is_same_v<C, device::LinearSum>) {
    const device::KeySwitchPlan& k = *c.plan->key_switch;
    const double giants = static_cast<double>(device::LinearPlan::turning(c.plan->giants));
    const double chain = static_cast<double>(k.chain.size()), special = static_cast<double>(k.special.size());
    return {(1 + giants) * chain + giants * special + 2 * static_cast<double>(k.down.divisors()), 4, 12, 1.2};
  }
  return {};
}

}  // namespace

/// Returns the predicted seconds of a call over the limbs' owners. `moved`: bytes of operands on other members.
template <class C>
double State::seconds_over_limbs(const C& c, const View& out, double moved) const {
  const double members = static_cast<double>(costs_.limb_members());
  const LimbNeeds needs = needs_over_limbs(c, members);
  const double items = static_cast<double>(out.items());
  const double limb = static_cast<double>(out.n * out.word_size()), lacking = (members - 1) / members;
  const Links& links = costs_.limb_links();
  const double work = items * transforms_of(c, out) * costs_.transform(out.n) * needs.unfused / members;
  const double bytes = moved / members + items * needs.gathered * limb * lacking;
  const double exchanges = needs.exchanges + (moved > 0 ? 1 : 0);
  const double device = work + bytes / links.bytes_a_second + exchanges * links.exchange_seconds;
  return std::max(device, needs.steps * members * costs_.step_seconds);
}

bool State::is_long(const device::Call& call) {
  constexpr std::size_t kManyTerms = 16;
  if (const auto* const product = std::get_if<device::InnerProduct>(&call)) return product->terms() >= kManyTerms;
  return std::holds_alternative<device::LinearSum>(call);
}

std::optional<double> State::seconds_shared(const device::Call& call) const {
  if (!is_long(call) || costs_.limb_members() < 2) return {};
  return std::visit(
      [&]<class C>(const C& c) -> std::optional<double> {
        if constexpr (Sharing<C>) {
          if (c.out.items() > 0 && c.out.items() < size() && c.out.limbs > 1)
            return kSharingMargin * seconds_over_limbs(c, c.out, 0);
        }
        return {};
      },
      call);
}

void State::place_result(const device::Call& call, Queue& queue) {
  if (options_.layout || size() == 1) return;
  std::visit([&](const auto& c) { place_result_of(c, queue); }, call);
}

template <class C>
void State::place_result_of(const C& c, Queue& queue) {
  MeshMemory* fresh = nullptr;
  const View* out = nullptr;
  std::size_t written = 0;
  device::each_view(c, [&](const View& v, Access access) {
    if (access == Access::read || v.items() == 0) return;
    ++written;
    out = &v;
    fresh = access == Access::write ? &find(v) : nullptr;
  });
  if (written != 1 || fresh == nullptr || fresh->placement_fixed || fresh->layout() != Layout::batch) return;
  const std::optional<std::size_t> assigned = assigned_member();
  if (assigned && fresh->sole() == assigned) return;
  if constexpr (std::is_same_v<C, device::Product>) {  // each output needs many inputs
    if (fresh->items() > 1 && !fresh->sole())
      fresh->move_to(best_distribution(*this, c, find(c.in), fresh->items()), own(queue).queues());
    return;
  }
  const std::optional<ItemRow> row = fresh->row(*out);
  if (!row || row->count * static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, row->step)) != fresh->items()) return;
  std::vector<ItemOperand> operands;
  double over_limbs = 0, elsewhere = 0;  // bytes of operands in the limb layout; bytes of operands on other members
  device::each_view(c, [&](const View& v, Access access) {
    if (access != Access::read || v.items() != row->count) return;
    if (is_cached(c, v)) return;
    const MeshMemory& memory = find(v);
    if (memory.layout() == Layout::limb) return void(over_limbs += static_cast<double>(v.bytes()));
    elsewhere += static_cast<double>(v.bytes());
    const std::optional<ItemRow> items = memory.layout() == Layout::batch ? memory.row(v) : std::nullopt;
    if (!items || (items->step == 0 && items->count > 1)) return;
    operands.push_back({&memory, *items, static_cast<double>(v.bytes()) / static_cast<double>(row->count)});
  });
  const bool may_share = Sharing<C> && !assigned && row->count < size() && row->count == fresh->items() && out->limbs > 1 &&
                         out->limbs == fresh->shape().limbs && out->components == fresh->shape().components &&
                         costs_.limb_members() > 1;
  const bool at_home = std::all_of(operands.begin(), operands.end(), [&](const ItemOperand& o) {
    return o.row == *row && o.memory->distribution() == fresh->distribution();
  });
  if (at_home && over_limbs == 0 && !may_share) return;
  const double item = transforms_of(c, *out) * costs_.transform(out->n);
  const double fastest_weight = weights()[fastest()];
  const double lacking = 1 - 1 / static_cast<double>(costs_.limb_members());
  const auto seconds = [&](const Distribution& distribution) {
    std::vector<double> work(size()), in(size()), away(size());
    for (std::size_t k = 0; k < row->count; ++k) {
      const std::size_t m = owner_of(distribution, *row, k);
      work[m] += item * fastest_weight / weights()[m];
      in[m] += over_limbs / static_cast<double>(row->count) * lacking;
      for (const ItemOperand& o : operands) {
        const std::size_t from = owner_of(o.memory->distribution(), o.row, k);
        if (from != m) in[m] += o.bytes, away[from] += o.bytes;
      }
    }
    const double moved = std::max(*std::max_element(in.begin(), in.end()), *std::max_element(away.begin(), away.end()));
    const auto workers = std::count_if(work.begin(), work.end(), [](double w) { return w > 0; });
    return *std::max_element(work.begin(), work.end()) + (workers > 1 ? costs_.spread_seconds : 0) +
           (moved > 0 ? moved / costs_.all.bytes_a_second + costs_.all.exchange_seconds : 0);
  };
  double least = seconds(fresh->distribution());
  std::optional<Distribution> best;
  for (const ItemOperand& o : operands) {
    std::optional<Distribution> distribution = distribution_like(o.memory->distribution(), o.row, fresh->items(), *row);
    if (!distribution || *distribution == fresh->distribution()) continue;
    if (const double time = seconds(*distribution); time < least) least = time, best = std::move(distribution);
  }
  if constexpr (Sharing<C>) {
    // If operands are distributed by limbs, no margin is required, because every other layout gathers them first.
    const double margin = over_limbs > 0 ? 1 : kSharingMargin;
    if (may_share && margin * seconds_over_limbs(c, *out, elsewhere) < least)
      return fresh->move_to_limbs(own(queue).queues());
  }
  if (best) fresh->move_to(*best, own(queue).queues());
}

}  // namespace heliograph::mesh
