// Where tensors lie: by what is computed on them, and by what moving their operands costs. All ranks decide alike, from the
// figures that they share; no choice changes a bit of a result.
#include <algorithm>
#include <numeric>

#include "mesh/products.h"
#include "mesh/queue.h"

namespace heliograph::mesh {

namespace {

/// More items than these lie in shares: windows and sums then find theirs side by side.
constexpr std::size_t kDealtRound = 256;
/// More devices may not be slower than one by more.
constexpr double kSlack = 1.03;

/// The most that one member does, where each item takes the fastest one a second.
double longest(const Deal& deal, const std::vector<double>& weights) {
  const double most = *std::max_element(weights.begin(), weights.end());
  double seconds = 0;
  for (std::size_t m = 0; m < weights.size(); ++m) {
    if (const std::size_t items = deal.items_on(m))
      seconds = std::max(seconds, static_cast<double>(items) * most / weights[m]);
  }
  return seconds;
}

}  // namespace

Placement State::over_all(std::size_t items) const {
  const std::vector<double>& shared = weights();
  std::vector<std::size_t> order = range(0, size());
  const bool alike = std::all_of(shared.begin(), shared.end(), [&](double w) { return w == shared[0]; });
  if (!alike && items >= size()) return {Layout::batch, Deal::shares(shares(items, shared))};
  if (items > kDealtRound) return {Layout::batch, Deal::shares(shares(items, shared))};
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return shared[a] > shared[b]; });
  if (items < size()) order.resize(std::max<std::size_t>(1, items));
  return {Layout::batch, Deal::round(std::move(order), items)};
}

Placement State::choose(const View& shape) const {
  const std::size_t items = shape.items();
  const Placement all = over_all(items);
  if (options_.layout) return {*options_.layout, all.deal};
  if (size() == 1 || items == 0) return all;
  const Costs& c = costs_;
  const std::optional<std::size_t> put = put_on();
  const Placement home{Layout::batch, Deal::whole(put.value_or(fastest()), items)};
  if (put) return home;
  const double one = c.alone(Work::key_switch, shape.limbs, shape.n);
  if (items < size() && shape.limbs > 1) {
    // What one member could not hold beside its work is spread whatever it costs. Whole items are worked on side by side,
    // limbs of them one item after the other.
    const std::size_t item = shape.components * shape.limbs * shape.n * shape.word_size();
    if (item > large_ || (items == 1 && c.limbs_pay(shape.limbs, shape.n))) return {Layout::limb};
  }
  const double spread = longest(all.deal, weights()) * one + c.spread_seconds;
  return spread * kSlack < longest(home.deal, weights()) * one ? all : home;
}

namespace {

struct Put {
  const State* state = nullptr;
  std::size_t member = 0;
};
thread_local Put put_here;

}  // namespace

Homed::Homed(const State& state, std::size_t member) : former_state_(put_here.state), former_member_(put_here.member) {
  put_here = {&state, member};
}
Homed::~Homed() { put_here = {former_state_, former_member_}; }

std::optional<std::size_t> State::put_on() const {
  return put_here.state == this ? std::optional(put_here.member) : std::nullopt;
}

std::size_t State::fastest() const {
  return static_cast<std::size_t>(std::max_element(weights().begin(), weights().end()) - weights().begin());
}

namespace {

using device::Access;

/// Transforms of limbs that an item of a call's result takes the time of.
template <class C>
double transforms_of([[maybe_unused]] const C& c, const View& out) {
  const double limbs = static_cast<double>(out.limbs), polynomials = static_cast<double>(out.components) * limbs;
  if constexpr (std::is_same_v<C, device::BfvMultiply>) return 34 * limbs;
  if constexpr (std::is_same_v<C, device::KeySwitch>) return 16 * limbs;
  if constexpr (std::is_same_v<C, device::LinearSum>) return 8 * limbs * static_cast<double>(1 + c.keys.size());
  if constexpr (std::is_same_v<C, device::ApplyKey>) return 8 * limbs;
  if constexpr (std::is_same_v<C, device::ApplyKeys>) return 8 * limbs * static_cast<double>(c.keys.size());
  if constexpr (std::is_same_v<C, device::Decompose>) return polynomials;
  if constexpr (std::is_same_v<C, device::Divide>) return 2 * polynomials;
  if constexpr (std::is_same_v<C, device::ForwardNtt> || std::is_same_v<C, device::InverseNtt>) return polynomials;
  if constexpr (std::is_same_v<C, device::WeightedSum>) return 0.2 * static_cast<double>(c.x.size() + 1) * polynomials;
  return 0.6 * polynomials;  // three operands' words
}

/// Whether an operand serves every item, and is kept wherever it was used.
template <class C>
bool is_kept([[maybe_unused]] const C& c, [[maybe_unused]] const View& v) {
  if constexpr (std::is_same_v<C, device::LinearSum>) return &v != &c.x;
  if constexpr (requires { requires std::is_same_v<decltype(c.key), View>; }) return &v == &c.key;
  return false;
}

/// An operand whose items go with those of the result, one by one.
struct Operand {
  const MeshMemory* memory;
  ItemRow row;
  double bytes;  // of an item
};

std::size_t owner_of(const Deal& deal, const ItemRow& row, std::size_t k) { return deal.owner(row.at(k)); }

/// How memory of so many items is dealt in which the items of `out` are where those of `like` are; none where it cannot be.
std::optional<Deal> deal_like(const Deal& deal, const ItemRow& like, std::size_t items, const ItemRow& out) {
  const auto whole = [&] { return Deal::whole(owner_of(deal, like, 0), items); };
  if (like.count == 1 || deal.sole()) return whole();
  if (out.step < 1 || out.item >= static_cast<std::size_t>(out.step)) return {};
  const auto apart = static_cast<std::size_t>(out.step);
  if (deal.in_shares()) {
    if (owner_of(deal, like, 0) == owner_of(deal, like, like.count - 1)) return whole();
    if (like.step < 1) return {};
    std::vector<std::size_t> bounds(deal.bounds().size(), items);
    const auto step = static_cast<std::size_t>(like.step);
    for (std::size_t m = 0; m + 1 < bounds.size(); ++m) {
      const std::size_t ahead = deal.bounds()[m] > like.item ? deal.bounds()[m] - like.item : 0;
      bounds[m] = std::min(items, (ahead + step - 1) / step * apart);
    }
    return Deal::shares(std::move(bounds));
  }
  if (const std::size_t stretch = deal.stretch()) {
    if (like.step != 1 || apart != 1 || like.item % stretch != 0 || items % stretch != 0) return {};
    return Deal::repeated(deal.bounds(), items);
  }
  const auto members = static_cast<std::ptrdiff_t>(deal.order().size()), block = static_cast<std::ptrdiff_t>(deal.block());
  const auto first = static_cast<std::ptrdiff_t>(like.item) / block;
  const auto in_turn = [&](std::ptrdiff_t step, std::size_t each) {
    std::vector<std::size_t> order;
    const std::ptrdiff_t turns = members / std::gcd(step, members);
    for (std::ptrdiff_t i = 0; i < turns; ++i)
      order.push_back(deal.order()[static_cast<std::size_t>(((first + i * step) % members + members) % members)]);
    return Deal::round(std::move(order), items, each);
  };
  if (like.step % block == 0) return in_turn(like.step / block, apart);
  if (like.step > 0 && block % like.step == 0 && static_cast<std::ptrdiff_t>(like.item) % block == 0)
    return in_turn(1, apart * static_cast<std::size_t>(block / like.step));
  return {};
}

}  // namespace

void State::settle(const device::Call& call, Queue& queue) {
  if (options_.layout || size() == 1) return;
  std::visit(
      [&]<class C>(const C& c) {
        MeshMemory* fresh = nullptr;
        const View* out = nullptr;
        std::size_t written = 0;
        device::each_view(c, [&](const View& v, Access access) {
          if (access == Access::read || v.items() == 0) return;
          ++written;
          out = &v;
          fresh = access == Access::write ? &find(v) : nullptr;
        });
        if (written != 1 || fresh == nullptr || fresh->settled || fresh->layout() != Layout::batch) return;
        if (const auto put = put_on(); put && fresh->sole() == put) return;
        if constexpr (std::is_same_v<C, device::Product>) {  // its outputs want many inputs
          if (fresh->items() > 1 && !fresh->sole())
            fresh->move_to(deal_of(*this, c, find(c.in), fresh->items()), own(queue).queues());
          return;
        }
        const std::optional<ItemRow> row = fresh->row(*out);
        if (!row || row->count * static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, row->step)) != fresh->items()) return;
        std::vector<Operand> operands;
        device::each_view(c, [&](const View& v, Access access) {
          if (access != Access::read || v.items() != row->count) return;
          if (is_kept(c, v)) return;
          const MeshMemory& memory = find(v);
          const std::optional<ItemRow> items = memory.layout() == Layout::batch ? memory.row(v) : std::nullopt;
          if (!items || (items->step == 0 && items->count > 1)) return;
          operands.push_back({&memory, *items, static_cast<double>(v.bytes()) / static_cast<double>(row->count)});
        });
        const bool at_home = std::all_of(operands.begin(), operands.end(), [&](const Operand& o) {
          return o.row == *row && o.memory->deal() == fresh->deal();
        });
        if (at_home) return;
        const double item = transforms_of(c, *out) * costs_.transform(out->n);
        const double fastest_weight = weights()[fastest()];
        const auto seconds = [&](const Deal& deal) {
          std::vector<double> work(size()), in(size()), away(size());
          for (std::size_t k = 0; k < row->count; ++k) {
            const std::size_t m = owner_of(deal, *row, k);
            work[m] += item * fastest_weight / weights()[m];
            for (const Operand& o : operands) {
              const std::size_t from = owner_of(o.memory->deal(), o.row, k);
              if (from != m) in[m] += o.bytes, away[from] += o.bytes;
            }
          }
          const double moved =
              std::max(*std::max_element(in.begin(), in.end()), *std::max_element(away.begin(), away.end()));
          const auto workers = std::count_if(work.begin(), work.end(), [](double w) { return w > 0; });
          return *std::max_element(work.begin(), work.end()) + (workers > 1 ? costs_.spread_seconds : 0) +
                 (moved > 0 ? moved / costs_.all.bytes_a_second + costs_.all.exchange_seconds : 0);
        };
        double least = seconds(fresh->deal());
        std::optional<Deal> best;
        for (const Operand& o : operands) {
          std::optional<Deal> deal = deal_like(o.memory->deal(), o.row, fresh->items(), *row);
          if (!deal || *deal == fresh->deal()) continue;
          if (const double time = seconds(*deal); time < least) least = time, best = std::move(deal);
        }
        if (best) fresh->move_to(*best, own(queue).queues());
      },
      call);
}

}  // namespace heliograph::mesh
