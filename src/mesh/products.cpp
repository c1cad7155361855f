#include "mesh/products.h"

#include <algorithm>
#include <numeric>

#include "mesh/kernels.h"

namespace heliograph::mesh {

namespace {

using device::GatheredProduct;
using math::u32;
constexpr u32 kNone = GatheredProduct::kNone;
/// Number of cached splits of a product. Each layout of the operands has its own split.
constexpr std::size_t kMostKnown = 8;

/// Restricts a product to some positions, and to the inputs that a list numbers. Removes the terms of inputs that the list
/// does not number.
GatheredProduct restricted(const GatheredProduct& g, const std::vector<u32>& positions, const std::vector<u32>& number,
                           std::size_t inputs) {
  const auto read = [&](std::size_t group, u32 position, std::size_t k) {
    const u32 input = g.index[(group * g.positions + position) * g.terms + k];
    return input == kNone ? kNone : number[input];
  };
  std::vector<std::size_t> terms;
  for (std::size_t k = 0; k < g.terms; ++k) {
    bool some = false;
    for (std::size_t group = 0; group < g.groups && !some; ++group)
      some = std::any_of(positions.begin(), positions.end(), [&](u32 p) { return read(group, p, k) != kNone; });
    if (some) terms.push_back(k);
  }
  GatheredProduct r{
      .groups = g.groups, .outputs = g.outputs, .positions = positions.size(), .terms = terms.size(), .inputs = inputs};
  for (std::size_t row = 0; row < g.groups * g.outputs; ++row) {
    for (const std::size_t k : terms) r.weights.push_back(g.weights[row * g.terms + k]);
  }
  for (std::size_t group = 0; group < g.groups; ++group) {
    for (const u32 p : positions) {
      for (const std::size_t k : terms) r.index.push_back(read(group, p, k));
    }
  }
  return r;
}

/// Returns a member's share of a product at these positions. The share reads the member's own inputs; if `others` is true,
/// it instead reads the inputs of other members.
ProductShare share_of(const GatheredProduct& g, const ProductPlace& place, std::size_t m, std::vector<u32> positions,
                      bool others) {
  ProductShare s{.positions = std::move(positions), .held = std::vector<u32>(g.inputs, kNone)};
  std::vector<char> read(g.inputs), mine(g.inputs);
  for (std::size_t i = 0; i < g.inputs; ++i) mine[i] = place.in.owner(place.inputs[i]) == m;
  std::size_t least = ~std::size_t{0}, most = 0;
  for (std::size_t at = 0; at < s.positions.size(); ++at) {
    bool affected = false;
    for (std::size_t group = 0; group < g.groups; ++group) {
      const u32* const index = g.index.data() + (group * g.positions + s.positions[at]) * g.terms;
      for (std::size_t k = 0; k < g.terms; ++k) {
        if (index[k] == kNone || (!mine[index[k]] && !others)) continue;
        read[index[k]] = 1;
        s.pairs += static_cast<double>(g.outputs);
        affected = affected || !mine[index[k]];
      }
    }
    if (affected) s.affected.push_back(static_cast<u32>(at));
  }
  for (std::size_t i = 0; i < g.inputs; ++i) {
    if (!read[i]) continue;
    if (!mine[i]) {
      s.lacking.push_back(static_cast<u32>(i));
      continue;
    }
    const std::size_t at = place.in.place(place.inputs[i]);
    s.held[i] = static_cast<u32>(at);
    least = std::min(least, at), most = std::max(most, at + 1);
  }
  if (most == 0) return s;
  s.first = least, s.count = most - least;
  for (u32& at : s.held) at = at == kNone ? kNone : at - static_cast<u32>(least);
  return s;
}

}  // namespace

// ---- shares

template <class Make>
std::shared_ptr<const ProductSplit> MeshProduct::known(ProductPlace place, bool by_sums, Make make) const {
  const std::lock_guard lock(mutex_);
  for (const Known& k : known_) {
    if (k.by_sums == by_sums && k.place == place) return k.split;
  }
  if (known_.size() == kMostKnown) known_.erase(known_.begin());
  std::shared_ptr<const ProductSplit> split = make(place);
  known_.push_back({split, std::move(place), by_sums, {}, {}});
  return split;
}

std::shared_ptr<const ProductSplit> MeshProduct::by_positions(ProductPlace place) const {
  return known(std::move(place), false, [&](const ProductPlace& lies) -> std::shared_ptr<const ProductSplit> {
    const GatheredProduct& g = of().product();
    std::vector<std::vector<u32>> positions;
    for (std::size_t p = 0; p < g.positions; ++p) {
      const std::size_t m = lies.out.owner(p);
      for (std::size_t row = 1; row < g.groups * g.outputs; ++row) {
        if (lies.out.owner(row * g.positions + p) != m) return nullptr;
      }
      if (m >= positions.size()) positions.resize(m + 1);
      positions[m].push_back(static_cast<u32>(p));
    }
    auto split = std::make_shared<ProductSplit>(ProductSplit{.by_sums = false, .place = lies});
    for (std::size_t m = 0; m < positions.size(); ++m)
      split->shares.push_back(share_of(g, lies, m, std::move(positions[m]), true));
    return split;
  });
}

std::shared_ptr<const ProductSplit> MeshProduct::by_sums(ProductPlace place) const {
  return known(std::move(place), true, [&](const ProductPlace& lies) {
    const GatheredProduct& g = of().product();
    std::vector<u32> all(g.positions);
    std::iota(all.begin(), all.end(), u32{0});
    std::size_t members = 0;
    for (const std::size_t item : lies.inputs) members = std::max(members, lies.in.owner(item) + 1);
    auto split = std::make_shared<ProductSplit>(ProductSplit{.by_sums = true, .place = lies});
    for (std::size_t m = 0; m < members; ++m) split->shares.push_back(share_of(g, lies, m, all, false));
    return split;
  });
}

template <class Make>
MeshProduct::Constant MeshProduct::made(const ProductSplit& split, std::vector<Constant> Known::*list, std::size_t member,
                                        Make make) const {
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.split.get() == &split; });
  if (at == known_.end()) return std::make_shared<const device::ProductConstant>(make());
  std::vector<Constant>& constants = (*at).*list;
  constants.resize(split.shares.size());
  Constant& constant = constants[member];
  if (!constant) constant = std::make_shared<const device::ProductConstant>(make());
  return constant;
}

MeshProduct::Constant MeshProduct::of_held(const ProductSplit& split, std::size_t member) const {
  const ProductShare& s = split.shares[member];
  if (s.count == 0) return nullptr;
  return made(split, &Known::held, member, [&] { return restricted(of().product(), s.positions, s.held, s.count); });
}

MeshProduct::Constant MeshProduct::of_lacking(const ProductSplit& split, std::size_t member) const {
  const ProductShare& s = split.shares[member];
  if (s.lacking.empty()) return nullptr;
  return made(split, &Known::lacking, member, [&] {
    std::vector<u32> number(of().product().inputs, kNone), positions;
    for (std::size_t i = 0; i < s.lacking.size(); ++i) number[s.lacking[i]] = static_cast<u32>(i);
    for (const u32 at : s.affected) positions.push_back(s.positions[at]);
    return restricted(of().product(), positions, number, s.lacking.size());
  });
}

// ---- costs

namespace {

/// Costs of one split of a product: work of each member, in pairs of weight and input plus additions of items; bytes that
/// it receives; bytes that it sends.
struct Load {
  std::vector<double> work, in, away;
  std::size_t exchanges = 1;

  explicit Load(std::size_t members) : work(members), in(members), away(members) {}
};

double bytes_of(const View& v) { return static_cast<double>(v.components * v.limbs * v.n * v.word_size()); }

double seconds_of(const State& state, const View& out, const Load& load) {
  constexpr double kPairs = 7;  // pairs whose products take the time of a transform: a transform of 2^14 words has 7
                                // products per word
  const Costs& costs = state.costs();
  const double pair = costs.transform(out.n) / kPairs * static_cast<double>(out.components * out.limbs);
  const double fastest = state.weights()[state.fastest()];
  double longest = 0, moved = 0;
  for (std::size_t m = 0; m < load.work.size(); ++m) {
    if (load.work[m] > 0) longest = std::max(longest, load.work[m] * pair * fastest / state.weights()[m]);
    moved = std::max({moved, load.in[m], load.away[m]});
  }
  if (moved == 0) return longest;
  return longest + moved / costs.all.bytes_a_second + static_cast<double>(load.exchanges) * costs.all.exchange_seconds;
}

Load load_of_split(const State& state, const device::Product& call, const MeshMemory& in, const ProductSplit& split) {
  Load load(state.size());
  const GatheredProduct& g = call.product->product();
  const double rows = static_cast<double>(g.groups * g.outputs), input = bytes_of(call.in), output = bytes_of(call.out);
  for (std::size_t m = 0; m < split.shares.size(); ++m) {
    const ProductShare& s = split.shares[m];
    load.work[m] += s.pairs;
    if (!split.by_sums) {
      if (s.count > 0) load.work[m] += rows * static_cast<double>(s.affected.size());
      if (in.cached_items(call.in, m, s.lacking, split.place.inputs) != nullptr) continue;
      for (const u32 i : s.lacking) load.in[m] += input, load.away[split.place.in.owner(split.place.inputs[i])] += input;
      continue;
    }
    for (std::size_t d = 0; d < state.size(); ++d) {
      const double items = static_cast<double>(split.place.out.items_on(d));
      if (d == m || s.count == 0) continue;
      load.work[d] += items, load.in[d] += items * output, load.away[m] += items * output;
    }
  }
  return load;
}

/// Returns the load in the coefficient layout. Inputs move to the coefficient layout unless they are cached, and outputs
/// move back.
Load load_of_coefficients(const State& state, const device::Product& call, const MeshMemory& in, const ProductPlace& place) {
  Load load(state.size());
  const std::vector<double>& weights = state.limb_weights();
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  const double input = bytes_of(call.in), output = bytes_of(call.out), inputs = static_cast<double>(place.inputs.size()),
               outputs = static_cast<double>(place.out.items());
  std::vector<double> held(state.size());
  for (const std::size_t item : place.inputs) held[place.in.owner(item)] += 1;
  const bool cached = in.caches_ranges(call.in);
  load.exchanges = cached ? 1 : 2;
  for (std::size_t m = 0; m < state.size(); ++m) {
    const double share = weights[m] / total, made = static_cast<double>(place.out.items_on(m));
    load.work[m] = static_cast<double>(call.product->pairs()) * share;
    load.in[m] = made * (1 - share) * output + (cached ? 0 : (inputs - held[m]) * share * input);
    load.away[m] = (outputs - made) * share * output + (cached ? 0 : held[m] * (1 - share) * input);
  }
  return load;
}

}  // namespace

ProductWay way_of(const State& state, const device::Product& call, MeshMemory& in, const Distribution& out) {
  const GatheredProduct& g = call.product->product();
  if (in.layout() != Layout::batch || g.terms == 0 || call.product->pairs() == 0) return {};
  const auto& product = form_on<MeshProduct>(*call.product, state.slot);
  const ProductPlace place{in.items_of(call.in), in.distribution(), out};
  ProductWay best{nullptr, seconds_of(state, call.out, load_of_coefficients(state, call, in, place))};
  for (const auto& split : {product.by_sums(place), product.by_positions(place)}) {
    if (!split) continue;
    const double seconds = seconds_of(state, call.out, load_of_split(state, call, in, *split));
    if (seconds <= best.seconds) best = {split, seconds};
  }
  return best;
}

Distribution best_distribution(const State& state, const device::Product& call, MeshMemory& in, std::size_t items) {
  const GatheredProduct& g = call.product->product();
  const auto shared = [&](std::size_t stretch) { return Distribution::repeated(shares(stretch, state.weights()), items); };
  Distribution best = shared(items);
  if (in.layout() != Layout::batch) return best;
  double least = way_of(state, call, in, best).seconds;
  std::vector<std::size_t> stretches = {g.positions};  // candidates for the period: all positions, or the inputs' period
  if (const std::size_t like = in.distribution().stretch(); like > 0 && g.positions * like % in.distribution().items() == 0)
    stretches.push_back(g.positions * like / in.distribution().items());
  for (const std::size_t stretch : stretches) {
    if (stretch == 0 || stretch == items) continue;
    Distribution distribution = shared(stretch);
    if (const double seconds = way_of(state, call, in, distribution).seconds; seconds < least)
      least = seconds, best = std::move(distribution);
  }
  return best;
}

// ---- calls

void MeshKernels::run(Queue& q, const Product& c) {
  if (c.out.items() == 0) return;
  Operation op(*state_, q);
  MeshMemory& in = state_->find(c.in);
  const MeshMemory& out = state_->find(c.out);
  const bool by_items = out.layout() == Layout::batch;
  const std::optional<ItemRow> row = by_items ? out.row(c.out) : std::nullopt;
  if (row == ItemRow{0, out.items(), 1}) {
    if (const ProductWay way = way_of(*state_, c, in, out.distribution()); way.split)
      return way.split->by_sums ? product_by_sums(op, c, *way.split) : product_by_positions(op, c, *way.split);
  }
  std::vector<Block> parts = op.parts(c.out);
  bool away = false;
  if (by_items) {
    // Each output needs inputs of every member, unless one member has all of them.
    const std::vector<Block> inputs = op.parts(c.in);
    away = parts.size() != 1 || inputs.size() != 1 || parts[0].member != inputs[0].member ||
           inputs[0].limbs.size() != c.in.limbs;
    if (away) parts = op.parts(c.out, c.primes, Layout::coefficient);
  }
  const std::vector<Block> from = op.fetch(c.in, with_items(parts, c.in.items()), true);
  if (away) parts = op.room(parts, c.out.components, c.out.word);
  op.writes(c.out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t m = parts[i].member;
    op.post(m, Product{on(c.ring, m), primes_of(parts[i], c.primes), on(c.product, m), from[i].view, parts[i].view});
  }
  if (away) op.store(parts, c.out);
}

namespace {

/// Allocates contiguous memory on a member for results of a product.
View room_for(Operation& op, std::size_t m, const View& out, std::size_t items) {
  const Block part{.member = m, .first = 0, .count = items, .limbs = range(0, out.limbs), .begin = 0, .length = out.n};
  return op.room({part}, out.components, out.word).front().view;
}

/// Returns a view of the items [first, first + count) of each of `rows` rows of `length` items.
View columns(View v, std::size_t rows, std::size_t length, std::size_t first, std::size_t count) {
  v = v.with_leading(first, rows);
  v.axes = 2;
  v.shape[1] = count, v.stride[1] = v.stride[0];
  v.stride[0] *= static_cast<std::ptrdiff_t>(length);
  return v;
}

}  // namespace

/// Computes a product by positions. Members multiply their own inputs while other members' inputs are in transit, then
/// add the products of these inputs.
void MeshKernels::product_by_positions(Operation& op, const Product& c, const ProductSplit& split) {
  const auto& product = form_on<MeshProduct>(*c.product, slot());
  const GatheredProduct& g = c.product->product();
  const MeshMemory &in = state_->find(c.in), &out = state_->find(c.out);
  const std::size_t rows = g.groups * g.outputs;
  std::vector<std::vector<math::u32>> lacking;
  for (const ProductShare& s : split.shares) lacking.push_back(s.lacking);
  op.writes(c.out);
  const auto post = [&](std::size_t m, const MeshProduct::Constant& constant, const View& from, const View& to) {
    op.post(m, Product{on(c.ring, m), c.primes, on(constant, m), from, to});
  };
  const std::vector<View> others = op.collect(c.in, split.place.inputs, lacking, [&] {
    for (std::size_t m = 0; m < split.shares.size(); ++m) {
      const ProductShare& s = split.shares[m];
      if (s.positions.empty()) continue;
      if (s.count > 0)
        post(m, product.of_held(split, m), in.held(c.in, m).with_leading(s.first, s.count), out.held(c.out, m));
      else if (s.affected.size() < s.positions.size())
        op.post(m, Zero{out.held(c.out, m)});  // all inputs of these positions are padding
    }
  });
  for (std::size_t m = 0; m < split.shares.size(); ++m) {
    const ProductShare& s = split.shares[m];
    if (s.lacking.empty()) continue;
    const View to = out.held(c.out, m);
    const bool all = s.affected.size() == s.positions.size();
    if (all && s.count == 0) {
      post(m, product.of_lacking(split, m), others[m], to);
      continue;
    }
    const std::size_t some = s.affected.size();
    const View sum = room_for(op, m, c.out, rows * some);
    post(m, product.of_lacking(split, m), others[m], sum);
    for (std::size_t first = 0; first < some;) {
      std::size_t count = 1;
      while (first + count < some && s.affected[first + count] == s.affected[first] + count) ++count;
      const View there = columns(to, rows, s.positions.size(), s.affected[first], count);
      op.post(m, Add{on(c.ring, m), c.primes, there, columns(sum, rows, some, first, count), there});
      first += count;
    }
  }
}

void MeshKernels::product_by_sums(Operation& op, const Product& c, const ProductSplit& split) {
  const auto& product = form_on<MeshProduct>(*c.product, slot());
  const MeshMemory &in = state_->find(c.in), &out = state_->find(c.out);
  const Distribution& distribution = split.place.out;
  op.writes(c.out);
  std::vector<std::vector<View>> terms(state_->size());  // partial sums for each member's results
  std::vector<Operation::Move> moves;
  for (std::size_t m = 0; m < split.shares.size(); ++m) {
    const ProductShare& s = split.shares[m];
    if (s.count == 0) continue;
    const View sums = room_for(op, m, c.out, out.items());
    op.post(m, Product{on(c.ring, m), c.primes, on(product.of_held(split, m), m),
                       in.held(c.in, m).with_leading(s.first, s.count), sums});
    std::vector<View> rooms(state_->size());
    for (std::size_t d = 0; d < rooms.size(); ++d) {
      if (distribution.items_on(d) == 0) continue;
      rooms[d] = terms[d].empty() ? out.held(c.out, d) : room_for(op, d, c.out, distribution.items_on(d));
      terms[d].push_back(rooms[d]);
    }
    for (std::size_t i = 0; i < distribution.items();) {
      const std::size_t d = distribution.owner(i), place = distribution.place(i);
      std::size_t count = 1;
      while (i + count < distribution.items() && distribution.owner(i + count) == d &&
             distribution.place(i + count) == place + count)
        ++count;
      moves.push_back({m, d, {sums.with_leading(i, count), rooms[d].with_leading(place, count)}});
      i += count;
    }
  }
  op.exchange(moves);
  for (std::size_t d = 0; d < terms.size(); ++d) {
    for (std::size_t i = 1; i < terms[d].size(); ++i)
      op.post(d, Add{on(c.ring, d), c.primes, terms[d][0], terms[d][i], terms[d][0]});
  }
}

}  // namespace heliograph::mesh
