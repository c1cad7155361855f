#include "mesh/kernels.h"

#include <algorithm>

#include "mesh/composites.h"

namespace heliograph::mesh {

// ---- constants

namespace {

math::Conversion narrowed(const math::Conversion& c, const std::vector<std::size_t>& targets) {
  math::Conversion r = c;
  r.to.clear(), r.matrix.clear(), r.own.clear(), r.wrap.clear();
  const std::size_t sources = c.sources();
  for (std::size_t j : targets) {
    r.to.push_back(c.to[j]);
    r.matrix.insert(r.matrix.end(), c.matrix.begin() + static_cast<std::ptrdiff_t>(j * sources),
                    c.matrix.begin() + static_cast<std::ptrdiff_t>((j + 1) * sources));
    if (!c.own.empty()) r.own.push_back(c.own[j]);
    if (!c.wrap.empty()) r.wrap.push_back(c.wrap[j]);
  }
  return r;
}

}  // namespace

std::shared_ptr<const ConversionConstant> MeshConversion::narrowed(const std::vector<std::size_t>& targets) const {
  const std::lock_guard lock(mutex_);
  auto& known = each_[targets];
  if (!known) known = std::make_shared<const ConversionConstant>(mesh::narrowed(of().conversion(), targets));
  return known;
}

std::shared_ptr<const ConversionConstant> MeshKernels::on(const std::shared_ptr<const ConversionConstant>& c, std::size_t m,
                                                          const std::vector<std::size_t>& targets) {
  if (targets.size() == c->conversion().targets()) return on(c, m);
  return on(form_on<MeshConversion>(*c, slot()).narrowed(targets), m);
}

void set_key_limbs(LinearPlan& plan, const PrimeList& limbs) {
  auto key_switch = std::make_shared<KeySwitchPlan>(*plan.key_switch);
  key_switch->key_limbs = limbs;
  plan.key_switch = std::move(key_switch);
}

std::size_t MeshKernels::preferred_items(std::size_t bytes_an_item) const {
  std::size_t sum = 0;
  for (std::size_t m = 0; m < state_->size(); ++m) {  // this rank does not know the devices of other ranks
    if (state_->here(m)) sum += state_->member(m).device->kernels().preferred_items(bytes_an_item);
  }
  return sum;
}

// ---- calls that each part computes independently

template <class C, class Adapt>
void MeshKernels::by_parts(Queue& q, const C& call, bool whole_limbs, Adapt adapt) {
  const View& out = call.out;
  if (out.items() == 0) return;
  Operation op(*state_, q);
  // A word that stands for a run of the result's words belongs to no part of a limb.
  bool runs = false;
  device::each_view(call, [&](const View& v, Access) { runs = runs || v.n != out.n; });
  const bool away = (whole_limbs || runs) && op.home(out) == Layout::coefficient;
  PrimeList primes;
  if constexpr (requires { call.primes; }) primes = call.primes;
  std::vector<Block> parts = away ? op.parts(out, primes, Layout::limb) : op.parts(out);
  std::vector<std::vector<Block>> fetched;
  bool adds = false;  // whether the call adds to existing words
  device::each_view(call, [&](const View& v, Access access) {
    if (access == Access::read) fetched.push_back(op.fetch(v, v.n == out.n ? parts : with_words(parts, v.n)));
    if (access == Access::read_write) adds = true;
  });
  if (away) parts = adds ? op.fetch(out, parts) : op.room(parts, out.components, out.word);
  op.writes(out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Block& part = parts[i];
    C mine_of_it = call;
    if constexpr (requires { call.ring; }) {
      mine_of_it.ring = on(call.ring, part.member);
      mine_of_it.primes = primes_of(part, primes);
    }
    std::size_t input = 0;
    device::each_view(mine_of_it,
                      [&](View& v, Access access) { v = access == Access::read ? fetched[input++][i].view : part.view; });
    adapt(mine_of_it, part);
    op.post(part.member, std::move(mine_of_it));
  }
  if (away) op.store(parts, out);
}

namespace {

LimbConstants of_part(const LimbConstants& c, const Block& part) {
  LimbConstants r{};
  for (std::size_t i = 0; i < part.limbs.size(); ++i) r[i] = c[part.limbs[i]];
  return r;
}

}  // namespace

template <ByParts C>
void MeshKernels::run(Queue& q, const C& c) {
  by_parts(q, c, OfLimbs<C>);
}
template void MeshKernels::run(Queue&, const Add&);
template void MeshKernels::run(Queue&, const Sub&);
template void MeshKernels::run(Queue&, const Neg&);
template void MeshKernels::run(Queue&, const Mul&);
template void MeshKernels::run(Queue&, const MulAccumulate&);
template void MeshKernels::run(Queue&, const Zero&);
template void MeshKernels::run(Queue&, const ForwardNtt&);
template void MeshKernels::run(Queue&, const InverseNtt&);
template void MeshKernels::run(Queue&, const Tensor&);

void MeshKernels::run(Queue& q, const MulConstants& c) {
  by_parts(q, c, false, [&](MulConstants& mine, const Block& part) { mine.c = of_part(c.c, part); });
}

void MeshKernels::run(Queue& q, const AddConstants& c) {
  by_parts(q, c, c.domain == math::Domain::coefficient,
           [&](AddConstants& mine, const Block& part) { mine.c = of_part(c.c, part); });
}

void MeshKernels::run(Queue& q, const WeightedSum& c) {
  by_parts(q, c, false, [&](WeightedSum& mine, const Block& part) {
    std::vector<LimbConstants> weights;
    for (const LimbConstants& w : *c.weights) weights.push_back(of_part(w, part));
    mine.weights = weights;
    if (c.constant) mine.constant = of_part(*c.constant, part);
  });
}

void MeshKernels::run(Queue& q, const Permute& c) {
  by_parts(q, c, true, [&](Permute& mine, const Block& part) { mine.permutation = on(c.permutation, part.member); });
}

void MeshKernels::run(Queue& q, const Sample& c) {
  // A sample depends on the item's number, so items at a distance are sampled one by one.
  if (c.out.items() == 0) return;
  Operation op(*state_, q);
  const std::vector<Block> own = op.rows(c.out);
  const bool away = op.home(c.out) == Layout::coefficient;
  const bool apart = std::any_of(own.begin(), own.end(), [](const Block& b) { return b.count > 1 && b.step > 1; });
  if (!apart || away) {
    return by_parts(q, c, true, [](Sample& mine, const Block& part) {
      mine.draw.get().first_item += static_cast<math::u32>(part.first);
    });
  }
  op.writes(c.out);
  for (const Block& part : own) {
    for (std::size_t i = 0; i < part.count && state_->here(part.member); ++i) {
      Sample mine_of_it = c;
      mine_of_it.ring = on(c.ring, part.member);
      mine_of_it.draw.get().first_item += static_cast<math::u32>(part.first + i * part.step);
      mine_of_it.out = part.view.with_leading(i, 1);
      op.post(part.member, std::move(mine_of_it));
    }
  }
}

// ---- copies

void MeshKernels::run(Queue& q, const Copy& c) {
  if (c.out.items() == 0) return;
  Operation op(*state_, q);
  const std::vector<Block> from = op.rows(c.a);  // the parts are read before op.writes, because `out` may be the same memory
  op.writes(c.out);
  op.store(from, c.out);
}

// ---- calls in which limbs or items depend on others

std::vector<MeshKernels::LocalKey> MeshKernels::fetch_key(Operation& op, const View& key, const PrimeList& key_limbs,
                                                          const std::vector<Block>& parts) const {
  std::vector<Block> wanted;
  for (const Block& part : parts) {
    Block b{.member = part.member, .first = 0, .count = 1, .limbs = {}, .begin = 0, .length = key.n, .view = {}};
    for (std::size_t l : part.limbs) b.limbs.push_back(key_limbs[l]);
    std::sort(b.limbs.begin(), b.limbs.end());
    b.limbs.erase(std::unique(b.limbs.begin(), b.limbs.end()), b.limbs.end());
    wanted.push_back(std::move(b));
  }
  View one = key;
  one.axes = 0;
  const std::vector<Block> have = op.fetch(one, wanted, true, true);
  std::vector<LocalKey> result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    LocalKey k{.view = have[i].view, .limbs = {}};
    for (std::size_t l : parts[i].limbs) {
      const auto at = std::lower_bound(have[i].limbs.begin(), have[i].limbs.end(), std::size_t{key_limbs[l]});
      k.limbs.push_back(static_cast<PrimeIndex>(at - have[i].limbs.begin()));
    }
    result.push_back(std::move(k));
  }
  return result;
}

void MeshKernels::run(Queue& q, const InnerProduct& c) {
  if (c.out.items() == 0) return;
  Operation op(*state_, q);
  const bool away = op.home(c.out) == Layout::coefficient;
  std::vector<Block> parts = away ? op.parts(c.out, c.primes, Layout::limb) : op.parts(c.out);
  const std::vector<Block> in = op.fetch(c.digits, parts);
  const std::vector<LocalKey> keys = fetch_key(op, c.key, c.key_limbs, parts);
  if (away) parts = op.room(parts, c.out.components, c.out.word);
  op.writes(c.out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t m = parts[i].member;
    for (const auto& turn : c.turns) on(turn, m);
    op.post(m, InnerProduct{on(c.ring, m), primes_of(parts[i], c.primes), in[i].view, keys[i].view, keys[i].limbs,
                            parts[i].view, c.turns});
  }
  if (away) op.store(parts, c.out);
}

/// Multiplies each item on its member, or all items on one member. The members cache copies of the bytes.
void MeshKernels::run(Queue& q, const ByteProduct& c) {
  if (c.out.items() == 0) return;
  Operation op(*state_, q);
  const bool away = op.home(c.out) == Layout::coefficient;
  std::vector<Block> parts = away ? op.parts(c.out, {0}, Layout::limb) : op.parts(c.out);
  std::vector<Block> words = parts, bytes;
  for (Block& b : words) b.begin = 0, b.length = c.words.n;
  for (const Block& b : parts)
    bytes.push_back({.member = b.member, .first = 0, .count = 1, .limbs = {0}, .begin = 0, .length = c.bytes.n, .view = {}});
  View one = c.bytes;
  one.axes = 0;
  words = op.fetch(c.words, words), bytes = op.fetch(one, bytes, true);
  if (away) parts = op.room(parts, 1, Word::w32);
  op.writes(c.out);
  for (std::size_t i = 0; i < parts.size(); ++i)
    post_in_stretches(op, parts[i].member, ByteProduct{bytes[i].view, words[i].view, parts[i].view, {}});
  if (away) op.store(parts, c.out);
}

namespace {

/// Operands of a conversion, copied to the members of its parts.
class ConversionParts {
 public:
  ConversionParts(Operation& op, const Convert& c, const std::vector<Block>& parts)
      : in_(op.fetch(c.x, with_limbs(parts, range(0, c.x.limbs)))) {
    if (c.own) own_ = op.fetch(*c.own, parts);
  }
  Convert part(std::size_t i, std::shared_ptr<const device::ConversionConstant> conversion, const View& out,
               std::optional<PrimeList> place) const {
    return {std::move(conversion), in_[i].view, own_.empty() ? std::nullopt : std::optional(own_[i].view), out,
            std::move(place)};
  }

 private:
  std::vector<Block> in_, own_;
};

}  // namespace

void MeshKernels::run(Queue& q, const Convert& c) {
  if (c.out.items() == 0) return;
  {
    Operation op(*state_, q);
    if (op.home(c.out) != Layout::limb) {
      // Each part has all limbs of its items.
      const std::vector<Block> parts = op.parts(c.out);
      const ConversionParts operands(op, c, parts);
      op.writes(c.out);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::size_t m = parts[i].member;
        op.post(m, operands.part(i, on(c.conversion, m), parts[i].view, c.place));
      }
      return;
    }
  }
  prefers_transpose(c) ? convert_by_transpose(q, c) : convert_by_broadcast(q, c);
}

/// Returns whether a conversion over limbs is faster through the coefficient layout.
bool MeshKernels::prefers_transpose(const Convert& c) const {
  if (state_->options().exchange != Exchange::automatic) return state_->options().exchange == Exchange::transpose;
  const double limb = static_cast<double>(c.out.items() * c.out.components * c.out.n * c.out.word_size());
  const Costs& costs = state_->costs();
  const double members = static_cast<double>(costs.limb_members()), share = (members - 1) / members;
  const double moved_by_broadcast = limb * static_cast<double>(c.x.limbs) * share;
  const std::size_t limbs = c.x.limbs + (c.own ? c.out.limbs : 0) + c.conversion->conversion().targets();
  const double moved_by_transpose = limb * static_cast<double>(limbs) * share / members;
  const Links& links = costs.limb_links();
  return moved_by_transpose / links.bytes_a_second + links.exchange_seconds < moved_by_broadcast / links.bytes_a_second;
}

namespace {

/// The targets of a conversion that are limbs of a part, and their positions in the part.
struct Targets {
  std::vector<std::size_t> targets;
  PrimeList place;
};

/// Returns the positions of the targets; nullopt if target j is limb j and there are no other limbs.
std::optional<PrimeList> unless_straight(const PrimeList& place, const View& out) {
  return place == PrimeList::range(0, out.limbs) ? std::nullopt : std::optional(place);
}

Targets targets_of(const Block& part, std::size_t count, const std::optional<PrimeList>& place) {
  Targets t;
  for (std::size_t j = 0; j < count; ++j) {
    const std::size_t limb = place ? (*place)[j] : j;
    const auto at = std::lower_bound(part.limbs.begin(), part.limbs.end(), limb);
    if (at == part.limbs.end() || *at != limb) continue;
    t.targets.push_back(j);
    t.place.push_back(static_cast<PrimeIndex>(at - part.limbs.begin()));
  }
  return t;
}

}  // namespace

void MeshKernels::convert_by_broadcast(Queue& q, const Convert& c) {
  Operation op(*state_, q);
  const std::vector<Block> parts = op.parts(c.out);
  const ConversionParts operands(op, c, parts);
  op.writes(c.out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Targets t = targets_of(parts[i], c.conversion->conversion().targets(), c.place);
    if (t.targets.empty()) continue;
    const std::size_t m = parts[i].member;
    op.post(m, operands.part(i, on(c.conversion, m, t.targets), parts[i].view, unless_straight(t.place, parts[i].view)));
  }
}

void MeshKernels::convert_by_transpose(Queue& q, const Convert& c) {
  Operation op(*state_, q);
  std::vector<std::size_t> limbs = range(0, c.out.limbs);
  if (c.place) limbs.assign(c.place->begin(), c.place->end());
  std::sort(limbs.begin(), limbs.end());
  std::vector<Block> parts = with_limbs(op.parts(c.out, {}, Layout::coefficient), limbs);
  const ConversionParts operands(op, c, parts);
  parts = op.room(parts, c.out.components, c.out.word);
  op.writes(c.out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Targets t = targets_of(parts[i], c.conversion->conversion().targets(), c.place);
    const std::size_t m = parts[i].member;
    op.post(m, operands.part(i, on(c.conversion, m), parts[i].view, unless_straight(t.place, parts[i].view)));
  }
  op.store(parts, c.out);
}

}  // namespace heliograph::mesh
