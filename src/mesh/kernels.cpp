#include "mesh/kernels.h"

#include <algorithm>

#include "base/secret.h"

namespace heliograph::mesh {

// ---- prepared constants

namespace {

template <class Mine, class Base>
const Mine& mine(const Base& prepared) {
  const auto* const m = dynamic_cast<const Mine*>(&prepared);
  require<MismatchError>(m != nullptr, "something prepared for another device");
  return *m;
}

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

std::shared_ptr<const PreparedConversion> MeshConversion::on(std::size_t m, const std::vector<std::size_t>& targets) const {
  if (!state_->here(m)) return nullptr;
  const std::lock_guard lock(mutex_);
  auto& slot = each_[{m, targets}];
  if (!slot) {
    slot = state_->guarded([&] { return state_->member(m).device->kernels().prepare(narrowed(conversion(), targets)); });
  }
  return slot;
}

std::shared_ptr<const PreparedConversion> MeshConversion::on(std::size_t m) const {
  return on(m, range(0, conversion().targets()));
}

std::shared_ptr<const PreparedRing> MeshKernels::prepare(std::shared_ptr<const math::Ring> ring) {
  return std::make_shared<MeshRing>(state_, std::move(ring));
}
std::shared_ptr<const PreparedConversion> MeshKernels::prepare(math::Conversion conversion) {
  return std::make_shared<MeshConversion>(state_, std::move(conversion));
}
std::shared_ptr<const PreparedPermutation> MeshKernels::prepare(device::Permutation permutation) {
  return std::make_shared<MeshPermutation>(state_, std::move(permutation));
}
std::shared_ptr<const PreparedProduct> MeshKernels::prepare(device::GatheredProduct product) {
  return std::make_shared<MeshProduct>(state_, std::move(product));
}

std::size_t MeshKernels::preferred_items(std::size_t bytes_an_item) const {
  std::size_t sum = 0;
  for (std::size_t m = 0; m < state_->size(); ++m) {  // other ranks' are not known: nobody may go by it, see brings_scratch
    if (state_->here(m)) sum += state_->member(m).device->kernels().preferred_items(bytes_an_item);
  }
  return sum;
}

MeshProduct::Rows MeshProduct::rows(std::size_t first, std::size_t count) const {
  const std::lock_guard lock(mutex_);
  auto [slot, fresh] = rows_.try_emplace({first, count});
  Rows& r = slot->second;
  if (!fresh) return r;
  std::size_t least = product().inputs, most = 0;
  const std::size_t terms = product().terms;
  for (std::size_t i = first * terms; i < (first + count) * terms; ++i) {
    const math::u32 input = product().index[i];
    if (input == device::GatheredProduct::kNone) continue;
    least = std::min<std::size_t>(least, input), most = std::max<std::size_t>(most, input + 1);
  }
  if (most == 0) least = 0, most = std::min<std::size_t>(1, product().inputs);  // padding alone
  r = {.first = first, .count = count, .first_input = least, .inputs = most - least};
  return r;
}

std::shared_ptr<const PreparedProduct> MeshProduct::on(std::size_t m, const Rows& r) const {
  if (!state_->here(m)) return nullptr;
  const std::lock_guard lock(mutex_);
  auto& slot = each_[{m, r.first, r.count}];
  if (slot) return slot;
  const device::GatheredProduct& all = product();
  if (r.count == all.positions) {
    slot = state_->guarded([&] { return state_->member(m).device->kernels().prepare(all); });
    return slot;
  }
  device::GatheredProduct part{
      .groups = 1, .outputs = 1, .positions = r.count, .terms = all.terms, .inputs = r.inputs, .weights = all.weights};
  part.index.assign(all.index.begin() + static_cast<std::ptrdiff_t>(r.first * all.terms),
                    all.index.begin() + static_cast<std::ptrdiff_t>((r.first + r.count) * all.terms));
  for (math::u32& i : part.index) {
    if (i != device::GatheredProduct::kNone) i -= static_cast<math::u32>(r.first_input);
  }
  slot = state_->guarded([&] { return state_->member(m).device->kernels().prepare(std::move(part)); });
  return slot;
}

std::shared_ptr<const PreparedProduct> MeshProduct::on(std::size_t m) const {
  return on(m, {.first = 0, .count = product().positions, .first_input = 0, .inputs = product().inputs});
}

// ---- calls that each part makes by itself

void MeshKernels::by_parts(Queue& q, const PreparedRing* ring, const PrimeList& primes, const Inputs& inputs,
                           const View& out, bool whole_limbs, bool reads_out, Step step) {
  if (out.items() == 0) return;
  Operation op(*state_, q);
  const bool away = whole_limbs && op.home(out) == Layout::coefficient;
  std::vector<Block> parts = away ? op.parts(out, primes, Layout::limb) : op.parts(out);
  std::vector<std::vector<Block>> fetched;
  for (const View& v : inputs) fetched.push_back(op.fetch(v, parts));
  if (away) parts = reads_out ? op.fetch(out, parts) : op.room(parts, out.components, out.word);
  op.writes(out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Block& part = parts[i];
    Inputs views;
    for (const auto& f : fetched) views.push_back(f[i].view);
    std::shared_ptr<const PreparedRing> there;
    if (ring) there = mine<MeshRing>(*ring).shared(part.member);
    op.post(part.member,
            [step, there, list = ring ? primes_of(part, primes) : PrimeList(), views = std::move(views), part](
                device::Device& d, Queue& queue) { step(d.kernels(), queue, there.get(), list, views, part.view, part); });
  }
  if (away) op.store(parts, out);
}

#define HELIOGRAPH_MESH_STEP                                                                 \
  [=]([[maybe_unused]] Kernels & k, Queue & queue, [[maybe_unused]] const PreparedRing* r,   \
      [[maybe_unused]] const PrimeList& p, [[maybe_unused]] const Inputs& in, const View& o, \
      [[maybe_unused]] const Block& part)

void MeshKernels::do_add(Queue& q, const PreparedRing& ring, const PrimeList& primes, const View& a, const View& b,
                         const View& out) {
  by_parts(
      q, &ring, primes, {a, b}, out, false, false, HELIOGRAPH_MESH_STEP { k.add(queue, *r, p, in[0], in[1], o); });
}
void MeshKernels::do_sub(Queue& q, const PreparedRing& ring, const PrimeList& primes, const View& a, const View& b,
                         const View& out) {
  by_parts(
      q, &ring, primes, {a, b}, out, false, false, HELIOGRAPH_MESH_STEP { k.sub(queue, *r, p, in[0], in[1], o); });
}
void MeshKernels::do_neg(Queue& q, const PreparedRing& ring, const PrimeList& primes, const View& a, const View& out) {
  by_parts(
      q, &ring, primes, {a}, out, false, false, HELIOGRAPH_MESH_STEP { k.neg(queue, *r, p, in[0], o); });
}
void MeshKernels::do_mul(Queue& q, const PreparedRing& ring, const PrimeList& primes, const View& a, const View& b,
                         const View& out) {
  by_parts(
      q, &ring, primes, {a, b}, out, false, false, HELIOGRAPH_MESH_STEP { k.mul(queue, *r, p, in[0], in[1], o); });
}
void MeshKernels::do_mul_accumulate(Queue& q, const PreparedRing& ring, const PrimeList& primes, const View& a,
                                    const View& b, const View& out) {
  by_parts(
      q, &ring, primes, {a, b}, out, false, true, HELIOGRAPH_MESH_STEP { k.mul_accumulate(queue, *r, p, in[0], in[1], o); });
}

namespace {

LimbConstants of_part(const LimbConstants& c, const Block& part) {
  LimbConstants r{};
  for (std::size_t i = 0; i < part.limbs.size(); ++i) r[i] = c[part.limbs[i]];
  return r;
}

}  // namespace

void MeshKernels::do_mul_constants(Queue& q, const PreparedRing& ring, const PrimeList& primes, const View& a,
                                   const LimbConstants& c, const View& out) {
  by_parts(
      q, &ring, primes, {a}, out, false, false,
      HELIOGRAPH_MESH_STEP { k.mul_constants(queue, *r, p, in[0], of_part(c, part), o); });
}
void MeshKernels::do_add_constants(Queue& q, const PreparedRing& ring, const PrimeList& primes, const View& a,
                                   const LimbConstants& c, math::Domain domain, const View& out) {
  by_parts(
      q, &ring, primes, {a}, out, domain == math::Domain::coefficient, false,
      HELIOGRAPH_MESH_STEP { k.add_constants(queue, *r, p, in[0], of_part(c, part), domain, o); });
}
void MeshKernels::do_forward_ntt(Queue& q, const PreparedRing& ring, const PrimeList& primes, const View& a,
                                 const View& out) {
  by_parts(
      q, &ring, primes, {a}, out, true, false, HELIOGRAPH_MESH_STEP { k.forward_ntt(queue, *r, p, in[0], o); });
}
void MeshKernels::do_inverse_ntt(Queue& q, const PreparedRing& ring, const PrimeList& primes, const View& a,
                                 const View& out) {
  by_parts(
      q, &ring, primes, {a}, out, true, false, HELIOGRAPH_MESH_STEP { k.inverse_ntt(queue, *r, p, in[0], o); });
}
void MeshKernels::do_permute(Queue& q, const PreparedRing& ring, const PrimeList& primes,
                             const PreparedPermutation& prepared, const View& a, const View& out) {
  const auto& permutation = mine<MeshPermutation>(prepared);
  std::vector<std::shared_ptr<const PreparedPermutation>> there(state_->size());  // on the members that will ask
  {
    Operation op(*state_, q);
    const bool away = op.home(out) == Layout::coefficient;
    for (const Block& b : away ? op.parts(out, primes, Layout::limb) : op.parts(out)) {
      if (!there[b.member]) there[b.member] = permutation.shared(b.member);
    }
  }
  by_parts(
      q, &ring, primes, {a}, out, true, false,
      HELIOGRAPH_MESH_STEP { k.permute(queue, *r, p, *there[part.member], in[0], o); });
}
void MeshKernels::do_tensor(Queue& q, const PreparedRing& ring, const PrimeList& primes, const View& a, const View& b,
                            const View& out) {
  by_parts(
      q, &ring, primes, {a, b}, out, true, false, HELIOGRAPH_MESH_STEP { k.tensor(queue, *r, p, in[0], in[1], o); });
}
void MeshKernels::do_sample(Queue& q, const PreparedRing& ring, const PrimeList& primes, const Draw& draw, const View& out) {
  const Secret<Draw> whole(draw);  // a task that waits in a queue is wiped as well
  by_parts(
      q, &ring, primes, {}, out, true, false, HELIOGRAPH_MESH_STEP {
        Draw mine_of_it = whole;
        const WipeAtEnd end(mine_of_it.key);
        mine_of_it.first_item += static_cast<math::u32>(part.first);
        k.sample(queue, *r, p, mine_of_it, o);
      });
}
void MeshKernels::do_copy(Queue& q, const View& a, const View& out) {
  if (out.items() == 0) return;
  Operation op(*state_, q);
  const std::vector<Block> from = op.rows(a);  // read before the copies of `out` are let go: it may be `a`
  op.writes(out);
  op.store(from, out);
}
void MeshKernels::do_gather(Queue& q, std::span<const device::Piece> pieces) {
  for (const device::Piece& p : pieces) do_copy(q, p.from, p.to);
}
void MeshKernels::do_zero(Queue& q, const View& out) {
  by_parts(
      q, nullptr, {}, {}, out, false, false, HELIOGRAPH_MESH_STEP { k.zero(queue, o); });
}

#undef HELIOGRAPH_MESH_STEP

// ---- calls that need limbs or items of each other

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

void MeshKernels::do_inner_product(Queue& q, const PreparedRing& ring, const PrimeList& primes, const View& digits,
                                   const View& key, const PrimeList& key_limbs, const View& out) {
  if (out.items() == 0) return;
  Operation op(*state_, q);
  const bool away = op.home(out) == Layout::coefficient;
  std::vector<Block> parts = away ? op.parts(out, primes, Layout::limb) : op.parts(out);
  const std::vector<Block> in = op.fetch(digits, parts);
  const std::vector<LocalKey> keys = fetch_key(op, key, key_limbs, parts);
  if (away) parts = op.room(parts, out.components, out.word);
  op.writes(out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    op.post(parts[i].member, [there = mine<MeshRing>(ring).shared(parts[i].member), list = primes_of(parts[i], primes),
                              in = in[i].view, key = keys[i], o = parts[i].view](device::Device& d, Queue& queue) {
      d.kernels().inner_product(queue, *there, list, in, key.view, key.limbs, o);
    });
  }
  if (away) op.store(parts, out);
}

void MeshKernels::do_product(Queue& q, const PreparedRing& ring, const PrimeList& primes, const PreparedProduct& prepared,
                             const View& in, const View& out) {
  if (out.items() == 0) return;
  const auto& product = mine<MeshProduct>(prepared);
  Operation op(*state_, q);
  std::vector<Block> parts = op.parts(out);
  bool away = false;
  if (op.home(out) == Layout::batch) {
    if (product_by_rows(op, ring, primes, product, in, out)) return;
    // Each output wants inputs of every member, unless all lie on one.
    const std::vector<Block> inputs = op.parts(in);
    away =
        parts.size() != 1 || inputs.size() != 1 || parts[0].member != inputs[0].member || inputs[0].limbs.size() != in.limbs;
    if (away) parts = op.parts(out, primes, Layout::coefficient);
  }
  const std::vector<Block> from = op.fetch(in, with_items(parts, in.items()), true);
  if (away) parts = op.room(parts, out.components, out.word);
  op.writes(out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    op.post(parts[i].member,
            [there = mine<MeshRing>(ring).shared(parts[i].member), list = primes_of(parts[i], primes),
             product = product.on(parts[i].member), in = from[i].view, o = parts[i].view](device::Device& d, Queue& queue) {
              d.kernels().product(queue, *there, list, *product, in, o);
            });
  }
  if (away) op.store(parts, out);
}

/// Where each member's outputs want a stretch of the inputs that lies there but for its ends - windows, sums -, each makes
/// its own. False where they do not.
bool MeshKernels::product_by_rows(Operation& op, const PreparedRing& ring, const PrimeList& primes,
                                  const MeshProduct& product, const View& in, const View& out) {
  const device::GatheredProduct& p = product.product();
  if (p.groups != 1 || p.outputs != 1) return false;
  const std::vector<Block> parts = op.parts(out);
  std::vector<MeshProduct::Rows> rows;
  std::vector<Block> wanted;
  std::size_t total = 0;
  for (const Block& part : parts) {
    const MeshProduct::Rows r = product.rows(part.first, part.count);
    Block b = part;
    b.first = r.first_input, b.count = r.inputs;
    total += r.inputs;
    rows.push_back(r);
    wanted.push_back(std::move(b));
  }
  if (total > in.items() + in.items() / 4) return false;  // they share more than ends
  const std::vector<Block> from = op.fetch(in, wanted);
  op.writes(out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    op.post(parts[i].member,
            [there = mine<MeshRing>(ring).shared(parts[i].member), list = primes_of(parts[i], primes),
             product = product.on(parts[i].member, rows[i]), in = from[i].view, o = parts[i].view](
                device::Device& d, Queue& queue) { d.kernels().product(queue, *there, list, *product, in, o); });
  }
  return true;
}

void MeshKernels::do_convert(Queue& q, const PreparedConversion& prepared, const View& x, const View* own, const View& out,
                             const PrimeList* place) {
  if (out.items() == 0) return;
  const auto& conversion = mine<MeshConversion>(prepared);
  {
    Operation op(*state_, q);
    if (op.home(out) != Layout::limb) {
      // Each part has all limbs.
      const std::vector<Block> parts = op.parts(out);
      const std::vector<Block> in = op.fetch(x, with_limbs(parts, range(0, x.limbs)));
      std::vector<Block> mine_own;
      if (own) mine_own = op.fetch(*own, parts);
      op.writes(out);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        op.post(parts[i].member, [there = conversion.on(parts[i].member), in = in[i].view,
                                  own = own ? std::optional<View>(mine_own[i].view) : std::nullopt,
                                  place = place ? std::optional<PrimeList>(*place) : std::nullopt,
                                  o = parts[i].view](device::Device& d, Queue& queue) {
          d.kernels().convert(queue, *there, in, own ? &*own : nullptr, o, place ? &*place : nullptr);
        });
      }
      return;
    }
  }
  prefers_transpose(conversion, x, own, out) ? convert_by_transpose(q, conversion, x, own, out, place)
                                             : convert_by_broadcast(q, conversion, x, own, out, place);
}

/// Whether a conversion over limbs moves less by way of the coefficient layout.
bool MeshKernels::prefers_transpose(const MeshConversion& c, const View& x, const View* own, const View& out) const {
  if (state_->options().exchange != Exchange::automatic) return state_->options().exchange == Exchange::transpose;
  const double limb = static_cast<double>(out.items() * out.components * out.n * out.word_size());
  const Costs& costs = state_->costs();
  const double members = static_cast<double>(costs.limb_members()), share = (members - 1) / members;
  const double moved_by_broadcast = limb * static_cast<double>(x.limbs) * share;
  const double moved_by_transpose =
      limb * static_cast<double>(x.limbs + (own ? out.limbs : 0) + c.conversion().targets()) * share / members;
  const Links& links = costs.limb_links();
  return moved_by_transpose / links.bytes_a_second + links.exchange_seconds < moved_by_broadcast / links.bytes_a_second;
}

namespace {

/// The targets of a conversion among a part's limbs, and where they lie among these.
struct Targets {
  std::vector<std::size_t> targets;
  PrimeList place;
};

/// Whether target j is limb j, and there are no other limbs.
bool is_straight(const PrimeList& place, const View& out) { return place == PrimeList::range(0, out.limbs); }

Targets targets_of(const Block& part, std::size_t count, const PrimeList* place) {
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

void MeshKernels::convert_by_broadcast(Queue& q, const MeshConversion& c, const View& x, const View* own, const View& out,
                                       const PrimeList* place) {
  Operation op(*state_, q);
  const std::vector<Block> parts = op.parts(out);
  const std::vector<Block> in = op.fetch(x, with_limbs(parts, range(0, x.limbs)));
  std::vector<Block> mine_own;
  if (own) mine_own = op.fetch(*own, parts);
  op.writes(out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Targets t = targets_of(parts[i], c.conversion().targets(), place);
    if (t.targets.empty()) continue;
    op.post(parts[i].member, [there = c.on(parts[i].member, t.targets), in = in[i].view,
                              own = own ? std::optional<View>(mine_own[i].view) : std::nullopt, place = t.place,
                              o = parts[i].view](device::Device& d, Queue& queue) {
      d.kernels().convert(queue, *there, in, own ? &*own : nullptr, o, is_straight(place, o) ? nullptr : &place);
    });
  }
}

void MeshKernels::convert_by_transpose(Queue& q, const MeshConversion& c, const View& x, const View* own, const View& out,
                                       const PrimeList* place) {
  Operation op(*state_, q);
  std::vector<std::size_t> limbs = range(0, out.limbs);
  if (place) limbs.assign(place->begin(), place->end());
  std::sort(limbs.begin(), limbs.end());
  std::vector<Block> parts = with_limbs(op.parts(out, {}, Layout::coefficient), limbs);
  const std::vector<Block> in = op.fetch(x, with_limbs(parts, range(0, x.limbs)));
  std::vector<Block> mine_own;
  if (own) mine_own = op.fetch(*own, parts);
  parts = op.room(parts, out.components, out.word);
  op.writes(out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Targets t = targets_of(parts[i], c.conversion().targets(), place);
    op.post(parts[i].member, [there = c.on(parts[i].member), in = in[i].view,
                              own = own ? std::optional<View>(mine_own[i].view) : std::nullopt, place = t.place,
                              o = parts[i].view](device::Device& d, Queue& queue) {
      d.kernels().convert(queue, *there, in, own ? &*own : nullptr, o, is_straight(place, o) ? nullptr : &place);
    });
  }
  op.store(parts, out);
}

}  // namespace heliograph::mesh
