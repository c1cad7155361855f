#include <algorithm>

#include "device/address.h"
#include "mesh/state.h"

namespace heliograph::mesh {

bool is_one_item(const View& v) {
  for (int i = 0; i < v.axes; ++i) {
    if (v.shape[i] > 1 && v.stride[i] != 0) return false;
  }
  return true;
}

namespace {

/// Returns whether two views with the same address have the same words. `one`: compares only the first items of the views.
bool same_words(const View& a, const View& b, bool one) {
  const bool inside = a.components == b.components && (a.components < 2 || a.component_stride == b.component_stride) &&
                      a.limbs == b.limbs && (a.limbs < 2 || a.limb_stride == b.limb_stride);
  return inside && (one ? is_one_item(a) : a.axes == b.axes && a.shape == b.shape && a.stride == b.stride);
}

/// Position of a view in its tensor, in items, components and limbs.
struct Origin {
  std::size_t item, component, limb;
  std::size_t component_step, limb_step;
};

Origin origin_of(const View& shape, const View& v) {
  const std::size_t limb = shape.n, component = shape.limbs * limb, item = shape.components * component;
  const std::size_t words = static_cast<std::size_t>(v.data - shape.data) / v.word_size();
  require<InternalError>(v.word == shape.word && v.n == shape.n && words % limb == 0, "a view must consist of whole limbs");
  Origin o{.item = words / item, .component = words % item / component, .limb = words % component / limb};
  o.component_step = v.components > 1 ? v.component_stride / component : 1;
  o.limb_step = v.limbs > 1 ? v.limb_stride / limb : 1;
  require<InternalError>(
      (v.components < 2 || v.component_stride % component == 0) && (v.limbs < 2 || v.limb_stride % limb == 0),
      "a view must consist of whole limbs");
  for (int i = 0; i < v.axes; ++i)
    require<InternalError>(v.shape[i] < 2 || v.stride[i] % static_cast<std::ptrdiff_t>(item) == 0,
                           "a view must consist of whole items");
  return o;
}

/// Items of a view at one stride. `item` and `step` count the tensor's items; `step` is negative for reversed items.
struct Row {
  std::size_t first, count;
  std::ptrdiff_t item, step;

  std::ptrdiff_t last() const { return item + static_cast<std::ptrdiff_t>(count - 1) * step; }
  std::size_t at(std::size_t k) const { return static_cast<std::size_t>(item + static_cast<std::ptrdiff_t>(k) * step); }
};

std::vector<Row> rows_of(const View& v, std::size_t item_words, std::size_t origin) {
  struct Axis {
    std::size_t count;
    std::ptrdiff_t step;
  };
  std::vector<Axis> axes;
  for (int i = 0; i < v.axes; ++i) {
    if (v.shape[i] == 1) continue;
    const Axis axis{v.shape[i], v.stride[i] / static_cast<std::ptrdiff_t>(item_words)};
    if (!axes.empty() && axes.back().step == axis.step * static_cast<std::ptrdiff_t>(axis.count)) {
      axes.back() = {axes.back().count * axis.count, axis.step};
    } else {
      axes.push_back(axis);
    }
  }
  if (axes.empty()) axes.push_back({v.items(), 1});
  std::size_t outer = 1;
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) outer *= axes[i].count;
  std::vector<Row> rows;
  for (std::size_t r = 0; r < outer; ++r) {
    auto item = static_cast<std::ptrdiff_t>(origin);
    std::size_t rest = r;
    for (std::size_t i = axes.size() - 1; i-- > 0;) {
      item += static_cast<std::ptrdiff_t>(rest % axes[i].count) * axes[i].step;
      rest /= axes[i].count;
    }
    rows.push_back({r * axes.back().count, axes.back().count, item, axes.back().step});
  }
  return rows;
}

}  // namespace

MeshMemory::MeshMemory(std::shared_ptr<State> state, const View& shape, const PrimeList& primes, const Placement& placement,
                       const std::vector<Queue*>& queues)
    : Memory(nullptr, shape.bytes()),
      state_(std::move(state)),
      shape_(shape),
      primes_(primes),
      layout_(placement.layout),
      distribution_(placement.distribution),
      local_(state_->size()) {
  const std::size_t members = state_->size();
  for (auto& l : local_) l.words = shape_.components * shape_.n * shape_.limbs;
  if (layout_ == Layout::coefficient) {
    bounds_ = shares(shape_.n, state_->limb_weights(), 64);
    for (std::size_t m = 0; m < members; ++m)
      local_[m].words = shape_.components * shape_.limbs * (bounds_[m + 1] - bounds_[m]);
  } else if (layout_ == Layout::limb) {
    share_limbs();
  }
  if (!fits_elsewhere(queues)) allocate(queues);
  hold(true);
  address_ = shape_.data = state_->new_address(bytes_, this);
}

MeshMemory::MeshMemory(std::shared_ptr<State> state, const View& shape, std::size_t member, Buffer words)
    : Memory(nullptr, shape.bytes()),
      state_(std::move(state)),
      shape_(shape),
      layout_(Layout::batch),
      distribution_(Distribution::whole(member, shape.items())),
      local_(state_->size()) {
  for (auto& l : local_) l.words = shape_.components * shape_.limbs * shape_.n;
  local_[member].buffer = std::move(words);
  hold(true);
  address_ = shape_.data = state_->new_address(bytes_, this);
}

std::size_t MeshMemory::bytes_on(std::size_t m) const {
  const std::size_t held = layout_ == Layout::batch ? distribution_.items_on(m) : shape_.items();
  return held * local_[m].words * shape_.word_size();
}

void MeshMemory::allocate(const std::vector<Queue*>& queues) {
  for (std::size_t m = 0; m < local_.size(); ++m) {
    if (const std::size_t bytes = bytes_on(m)) local_[m].buffer = state_->allocate(m, bytes, *queues[m]);
  }
}

void MeshMemory::hold(bool held) {
  for (std::size_t m = 0; m < local_.size(); ++m) held ? state_->hold(m, bytes_on(m)) : state_->release(m, bytes_on(m));
}

/// Allocates the items on the next members that have memory, so that keys fill one member after another. Returns false if no
/// member has enough memory, if the tensor is on all members, or if the mesh has several ranks.
bool MeshMemory::fits_elsewhere(const std::vector<Queue*>& queues) {
  const std::size_t members = local_.size();
  if (layout_ != Layout::batch || distribution_.order().empty() || distribution_.order().size() == members ||
      state_->over_ranks())
    return false;
  const Distribution first = distribution_;
  for (std::size_t shift = 0; shift < members; ++shift) {
    try {
      std::vector<std::size_t> order = first.order();
      for (std::size_t& m : order) m = (m + shift) % members;
      distribution_ = Distribution::round(std::move(order), first.items(), first.block());
      for (std::size_t m = 0; m < members; ++m) {
        if (const std::size_t bytes = bytes_on(m)) local_[m].buffer = state_->member(m).device->allocate(bytes, *queues[m]);
      }
      return true;
    } catch (const OutOfMemoryError&) {
      for (auto& l : local_) l.buffer = nullptr;
    }
  }
  distribution_ = first;
  return false;
}

void MeshMemory::share_limbs() {
  const std::size_t members = local_.size();
  limbs_.resize(members);
  for (std::size_t l = 0; l < shape_.limbs; ++l) {
    const std::size_t m = state_->owners()[l < primes_.size() ? primes_[l] : static_cast<PrimeIndex>(l)];
    owner_.push_back(m);
    rank_.push_back(limbs_[m].size());
    limbs_[m].push_back(l);
  }
  for (std::size_t m = 0; m < members; ++m) local_[m].words = shape_.components * shape_.n * limbs_[m].size();
}

void MeshMemory::move_to_limbs(const std::vector<Queue*>& queues) {
  require<InternalError>(layout_ == Layout::batch && !placement_fixed, "memory must move before it is written");
  hold(false);
  for (auto& l : local_) l.buffer = nullptr;
  layout_ = Layout::limb, distribution_ = {};
  share_limbs();
  allocate(queues);
  hold(true);
}

void MeshMemory::move_to(const Distribution& distribution, const std::vector<Queue*>& queues) {
  require<InternalError>(layout_ == Layout::batch && !placement_fixed, "memory must move before it is written");
  hold(false);
  for (auto& l : local_) l.buffer = nullptr;  // no call has used the memory, so it needs no wait
  distribution_ = distribution;
  allocate(queues);
  hold(true);
}

MeshMemory::~MeshMemory() {
  state_->forget(address_);
  // The words are freed after earlier tasks, which may still use them.
  const std::lock_guard lock(state_->mutex());
  for (std::size_t m = 0; m < local_.size(); ++m) {
    std::vector<Buffer> mine;
    if (local_[m].buffer) mine.push_back(std::move(local_[m].buffer));
    for (Copy& c : copies) {
      if (c.part.member == m) mine.push_back(std::move(c.buffer));
    }
    for (const Buffer& b : mine) state_->release(m, b->bytes());
    if (mine.empty()) continue;
    // If the member's thread is idle, free here, because waking that thread takes longer.
    if (state_->run_here(m, [&mine] { mine.clear(); })) continue;
    state_->post(
        m, [mine = std::move(mine)]() mutable { mine.clear(); }, true);
  }
}

Block MeshMemory::block_of(const View& v, std::size_t m) const {
  const Origin o = origin_of(shape_, v);
  const std::size_t word = v.word_size();
  Block b{.member = m, .first = 0, .count = v.items(), .begin = 0, .length = shape_.n, .view = v.lent()};
  std::size_t limbs = shape_.limbs, start = o.limb, step = o.limb_step;
  if (layout_ == Layout::limb) {
    limbs = limbs_[m].size();
    bool first = true;
    std::size_t previous = 0;
    for (std::size_t i = 0; i < v.limbs; ++i) {
      const std::size_t l = o.limb + i * o.limb_step;
      if (owner_[l] != m) continue;
      if (first) start = rank_[l];
      if (b.limbs.size() == 1) step = rank_[l] - previous;
      require<InternalError>(b.limbs.size() < 2 || rank_[l] - previous == step, "the limbs of a view must have one stride");
      previous = rank_[l];
      first = false;
      b.limbs.push_back(i);
    }
    if (b.limbs.size() < 2) step = 1;
  } else {
    b.limbs = range(0, v.limbs);
  }
  if (layout_ == Layout::coefficient) b.begin = bounds_[m], b.length = bounds_[m + 1] - bounds_[m];
  const std::size_t n = b.length, component = limbs * n, item = local_[m].words,
                    item_words = shape_.components * shape_.limbs * shape_.n;
  b.view.n = n;
  b.view.limbs = b.limbs.size();
  b.view.limb_stride = step * n;
  b.view.component_stride = o.component_step * component;
  for (int i = 0; i < v.axes; ++i)
    b.view.stride[i] = v.stride[i] / static_cast<std::ptrdiff_t>(item_words) * static_cast<std::ptrdiff_t>(item);
  b.view.data = device::displaced(local_[m].buffer ? local_[m].buffer->address() : nullptr,
                                  (o.component * component + start * n) * word);
  return b;
}

void MeshMemory::begin_at(Block& b, std::size_t place) const {
  b.view.data = device::displaced(b.view.data, place * local_[b.member].words * b.view.word_size());
}

std::optional<ItemRow> MeshMemory::row(const View& v) const {
  if (v.items() == 0) return {};
  const std::vector<Row> rows = rows_of(v, shape_.components * shape_.limbs * shape_.n, origin_of(shape_, v).item);
  if (rows.size() != 1) return {};
  return ItemRow{static_cast<std::size_t>(rows[0].item), rows[0].count, rows[0].count > 1 ? rows[0].step : 1};
}

std::vector<std::size_t> MeshMemory::items_of(const View& v) const {
  std::vector<std::size_t> items;
  items.reserve(v.items());
  for (const Row& row : rows_of(v, shape_.components * shape_.limbs * shape_.n, origin_of(shape_, v).item)) {
    for (std::size_t k = 0; k < row.count; ++k) items.push_back(row.at(k));
  }
  return items;
}

View MeshMemory::held(const View& v, std::size_t m) const {
  View all = block_of(v, m).view;
  all.axes = 1;
  all.shape[0] = distribution_.items_on(m), all.stride[0] = static_cast<std::ptrdiff_t>(local_[m].words);
  return all;
}

bool MeshMemory::Copy::shows(const View& v, std::size_t from, bool one) const {
  return offset == from && components == v.components && same_words(source, v, one);
}

const MeshMemory::Copy* MeshMemory::cached_items(const View& v, std::size_t m, const std::vector<math::u32>& inputs,
                                                 const std::vector<std::size_t>& items) const {
  const auto offset = static_cast<std::size_t>(v.data - address());
  for (const Copy& c : copies) {
    if (c.items.size() != inputs.size() || c.items.empty() || c.part.member != m || !c.shows(v, offset)) continue;
    bool same = true;
    for (std::size_t i = 0; i < inputs.size() && same; ++i) same = c.items[i] == items[inputs[i]];
    if (same) return &c;
  }
  return nullptr;
}

bool MeshMemory::caches_ranges(const View& v) const {
  const auto offset = static_cast<std::size_t>(v.data - address());
  return std::any_of(copies.begin(), copies.end(), [&](const Copy& c) {
    return c.items.empty() && c.part.length != v.n && c.part.count == v.items() && c.shows(v, offset);
  });
}

namespace {

/// Items of a row on one member at one stride. The row's entries first, first + step, ... are the member's items place,
/// place + stride, ...
struct Run {
  std::size_t member, first, count, step, place;
  std::ptrdiff_t stride;

  std::ptrdiff_t next_place() const {
    return static_cast<std::ptrdiff_t>(place) + static_cast<std::ptrdiff_t>(count) * stride;
  }
};

std::vector<Run> runs_of(const Distribution& distribution, const Row& row) {
  std::vector<Run> runs;
  std::vector<std::size_t> open;  // index of each member's last run, plus one
  for (std::size_t k = 0; k < row.count; ++k) {
    const std::size_t item = row.at(k), member = distribution.owner(item), place = distribution.place(item);
    if (member >= open.size()) open.resize(member + 1);
    if (open[member] > 0) {
      Run& r = runs[open[member] - 1];
      if (r.count == 1) r.step = k - r.first, r.stride = static_cast<std::ptrdiff_t>(place - r.place);
      if (r.first + r.count * r.step == k && r.next_place() == static_cast<std::ptrdiff_t>(place)) {
        ++r.count;
        continue;
      }
    }
    runs.push_back({.member = member, .first = k, .count = 1, .step = 1, .place = place, .stride = 0});
    open[member] = runs.size();
  }
  return runs;
}

/// Returns the same runs of items for a distribution in consecutive shares. The time of this function does not depend on the
/// number of items.
std::vector<Run> runs_of(const std::vector<std::size_t>& bounds, const Row& row) {
  std::vector<Run> runs;
  for (std::size_t k = 0; k < row.count;) {
    const std::size_t item = row.at(k);
    const auto after = std::upper_bound(bounds.begin(), bounds.end(), item);
    const std::size_t begin = *std::prev(after), end = *after, each = static_cast<std::size_t>(std::abs(row.step));
    const std::size_t ahead = row.step < 0 ? item - begin : end - 1 - item;
    const std::size_t count = each == 0 ? row.count : std::min(row.count - k, ahead / each + 1);
    runs.push_back({.member = static_cast<std::size_t>(after - bounds.begin()) - 1,
                    .first = k,
                    .count = count,
                    .step = 1,
                    .place = item - begin,
                    .stride = row.step});
    k += count;
  }
  return runs;
}

}  // namespace

std::vector<Block> MeshMemory::blocks(const View& v, bool in_rows) const {
  std::vector<Block> result;
  if (v.items() == 0) return result;
  const Origin o = origin_of(shape_, v);
  const std::size_t item_words = shape_.components * shape_.limbs * shape_.n;
  const bool by_items = layout_ == Layout::batch;
  if (const auto sole = by_items ? distribution_.sole() : std::nullopt; sole && !in_rows) {
    result.push_back(block_of(v, *sole));
    begin_at(result.back(), o.item);
    return result;
  }
  std::vector<Block> whole(local_.size());
  for (std::size_t m = 0; m < local_.size(); ++m) {
    if (local_[m].buffer) whole[m] = block_of(v, m);
  }
  if (!by_items && !in_rows) {
    for (Block& b : whole) {
      if (b.limbs.empty() || b.length == 0 || !b.view.data) continue;
      begin_at(b, o.item);
      result.push_back(std::move(b));
    }
    return result;
  }
  const std::vector<Row> rows = rows_of(v, item_words, o.item);
  if (const std::size_t stretch = distribution_.stretch(); by_items && !in_rows && stretch > 0 && rows.size() == 1 &&
                                                           rows[0].step == 1 && rows[0].count > stretch &&
                                                           o.item % stretch == 0 && rows[0].count % stretch == 0) {
    // The view has complete repetitions, so each member's part is contiguous.
    for (std::size_t m = 0; m < local_.size(); ++m) {
      Block& b = whole[m];
      if (b.limbs.empty()) continue;
      b.run = distribution_.bounds()[m + 1] - distribution_.bounds()[m], b.apart = stretch;
      b.first = distribution_.bounds()[m], b.count = rows[0].count / stretch * b.run;
      begin_at(b, o.item / stretch * b.run);
      b.view.axes = 1, b.view.shape[0] = b.count, b.view.stride[0] = static_cast<std::ptrdiff_t>(local_[m].words);
      result.push_back(std::move(b));
    }
    return result;
  }
  if (by_items && distribution_.in_shares() && !in_rows) {
    // If one member has all items, the view is the only part.
    std::ptrdiff_t least = rows.front().item, most = least;
    for (const Row& r : rows) {
      least = std::min({least, r.item, r.last()}), most = std::max({most, r.item, r.last()});
    }
    const std::size_t m = distribution_.owner(static_cast<std::size_t>(least));
    if (distribution_.owner(static_cast<std::size_t>(most)) == m) {
      begin_at(whole[m], distribution_.place(o.item));
      return {whole[m]};
    }
  }
  const auto cut = [&](const Row& row, const Run& run) {
    const Block& all = whole[run.member];
    if (all.limbs.empty() || all.length == 0) return;
    Block b = all;
    b.first = row.first + run.first, b.count = run.count, b.step = run.step;
    begin_at(b, run.place);
    b.view.axes = 1;
    b.view.shape[0] = run.count;
    b.view.stride[0] = run.stride * static_cast<std::ptrdiff_t>(local_[run.member].words);
    result.push_back(std::move(b));
  };
  for (const Row& row : rows) {
    if (by_items) {
      for (const Run& run : distribution_.in_shares() ? runs_of(distribution_.bounds(), row) : runs_of(distribution_, row))
        cut(row, run);
      continue;
    }
    for (std::size_t m = 0; m < local_.size(); ++m) {
      if (local_[m].buffer) cut(row, {m, 0, row.count, 1, row.at(0), row.step});
    }
  }
  return result;
}

}  // namespace heliograph::mesh
