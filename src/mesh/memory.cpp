#include <algorithm>

#include "mesh/state.h"

namespace heliograph::mesh {

namespace {

/// Where a view lies in its tensor, in whole items, components and limbs.
struct Origin {
  std::size_t item, component, limb;
  std::size_t component_step, limb_step;
};

Origin origin_of(const View& shape, const View& v) {
  const std::size_t limb = shape.n, component = shape.limbs * limb, item = shape.components * component;
  const std::size_t words = static_cast<std::size_t>(v.data - shape.data) / v.word_size();
  require<InternalError>(v.word == shape.word && v.n == shape.n && words % limb == 0, "a view is not of whole limbs");
  Origin o{.item = words / item, .component = words % item / component, .limb = words % component / limb};
  o.component_step = v.components > 1 ? v.component_stride / component : 1;
  o.limb_step = v.limbs > 1 ? v.limb_stride / limb : 1;
  require<InternalError>(
      (v.components < 2 || v.component_stride % component == 0) && (v.limbs < 2 || v.limb_stride % limb == 0),
      "a view is not of whole limbs");
  for (int i = 0; i < v.axes; ++i)
    require<InternalError>(v.shape[i] < 2 || v.stride[i] % static_cast<std::ptrdiff_t>(item) == 0,
                           "a view is not of whole items");
  return o;
}

/// Consecutive items of a view that lie at one stride, in items of its tensor: back to front where `step` is negative.
struct Row {
  std::size_t first, count;
  std::ptrdiff_t item, step;

  std::ptrdiff_t last() const { return item + static_cast<std::ptrdiff_t>(count - 1) * step; }
  /// How many of the first ones lie before item `bound`; where the step is negative, at it or behind it.
  std::size_t until(std::size_t bound) const {
    const auto ahead = step < 0 ? item - static_cast<std::ptrdiff_t>(bound) + 1 : static_cast<std::ptrdiff_t>(bound) - item;
    if (ahead <= 0) return 0;
    if (step == 0) return count;
    const std::ptrdiff_t each = std::abs(step);
    return std::min(count, static_cast<std::size_t>((ahead + each - 1) / each));
  }
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

MeshMemory::MeshMemory(std::shared_ptr<State> state, const View& shape, const PrimeList& primes, Layout layout,
                       const std::vector<Queue*>& queues)
    : Memory(nullptr, shape.bytes()), state_(std::move(state)), shape_(shape), layout_(layout) {
  const std::size_t members = state_->size();
  local_.resize(members);
  const std::size_t items = shape_.items(), limb_words = shape_.components * shape_.n;
  for (auto& l : local_) l.words = limb_words * shape_.limbs;
  switch (layout_) {
    case Layout::batch:
      bounds_ = shares(items, state_->weights());
      break;
    case Layout::coefficient:
      bounds_ = shares(shape_.n, state_->limb_weights(), 64);
      for (std::size_t m = 0; m < members; ++m)
        local_[m].words = shape_.components * shape_.limbs * (bounds_[m + 1] - bounds_[m]);
      break;
    case Layout::limb:
      limbs_.resize(members);
      for (std::size_t l = 0; l < shape_.limbs; ++l) {
        const std::size_t m = state_->owners()[l < primes.size() ? primes[l] : static_cast<PrimeIndex>(l)];
        owner_.push_back(m);
        rank_.push_back(limbs_[m].size());
        limbs_[m].push_back(l);
      }
      for (std::size_t m = 0; m < members; ++m) local_[m].words = limb_words * limbs_[m].size();
      break;
  }
  if (!fits_elsewhere(queues)) {
    for (std::size_t m = 0; m < members; ++m) {
      if (const std::size_t bytes = bytes_on(m)) local_[m].buffer = state_->allocate(m, bytes, *queues[m]);
    }
  }
  for (std::size_t m = 0; m < members; ++m) state_->hold(m, bytes_on(m));
  address_ = shape_.data = state_->new_address(bytes_, this);
}

std::size_t MeshMemory::bytes_on(std::size_t m) const {
  const std::size_t held = layout_ == Layout::batch ? bounds_[m + 1] - bounds_[m] : shape_.items();
  return held * local_[m].words * shape_.word_size();
}

/// Fewer items than members lie on the first ones; where these have no room, on the next: keys fill one after the other.
bool MeshMemory::fits_elsewhere(const std::vector<Queue*>& queues) {
  const std::size_t members = local_.size(), items = shape_.items();
  if (layout_ != Layout::batch || items == 0 || items >= members || state_->over_ranks()) return false;
  const std::vector<std::size_t> first = bounds_;
  for (std::size_t shift = 0; shift + items <= members; ++shift) {
    try {
      for (std::size_t m = 0; m <= members; ++m) bounds_[m] = m < shift ? 0 : first[m - shift];
      bounds_[members] = items;
      for (std::size_t m = 0; m < members; ++m) {
        if (const std::size_t bytes = bytes_on(m)) local_[m].buffer = state_->member(m).device->allocate(bytes, *queues[m]);
      }
      return true;
    } catch (const OutOfMemoryError&) {
      for (auto& l : local_) l.buffer = nullptr;
    }
  }
  bounds_ = first;
  return false;
}

MeshMemory::~MeshMemory() {
  state_->forget(address_);
  // What was posted before may still use the words: they are let go behind it.
  const std::lock_guard lock(state_->mutex());
  for (std::size_t m = 0; m < local_.size(); ++m) {
    std::vector<Buffer> mine;
    if (local_[m].buffer) mine.push_back(std::move(local_[m].buffer));
    for (Copy& c : copies) {
      if (c.part.member == m) mine.push_back(std::move(c.buffer));
    }
    for (const Buffer& b : mine) state_->release(m, b->bytes());
    if (!mine.empty())
      state_->post(
          m, [mine = std::move(mine)]() mutable { mine.clear(); }, true);
  }
}

Block MeshMemory::block_of(const View& v, std::size_t m) const {
  const Origin o = origin_of(shape_, v);
  const std::size_t word = v.word_size();
  Block b{.member = m, .first = 0, .count = v.items(), .begin = 0, .length = shape_.n, .view = v};
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
      require<InternalError>(b.limbs.size() < 2 || rank_[l] - previous == step, "a view skips limbs unevenly");
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
  const std::size_t skipped = layout_ == Layout::batch ? bounds_[m] : 0;
  // May lie before the member's own words where its items come later: `blocks` cuts those off.
  const auto words =
      (static_cast<std::ptrdiff_t>(o.item) - static_cast<std::ptrdiff_t>(skipped)) * static_cast<std::ptrdiff_t>(item) +
      static_cast<std::ptrdiff_t>(o.component * component + start * n);
  b.view.data = (local_[m].buffer ? local_[m].buffer->address() : nullptr) + words * static_cast<std::ptrdiff_t>(word);
  return b;
}

std::vector<Block> MeshMemory::blocks(const View& v, bool in_rows) const {
  std::vector<Block> result;
  if (v.items() == 0) return result;
  const Origin o = origin_of(shape_, v);
  const std::size_t item_words = shape_.components * shape_.limbs * shape_.n;
  std::vector<Block> whole(local_.size());
  for (std::size_t m = 0; m < local_.size(); ++m) {
    if (local_[m].buffer) whole[m] = block_of(v, m);
  }
  if (layout_ != Layout::batch && !in_rows) {
    for (Block& b : whole) {
      if (!b.limbs.empty() && b.length > 0 && b.view.data) result.push_back(std::move(b));
    }
    return result;
  }
  const std::vector<Row> rows = rows_of(v, item_words, o.item);
  if (layout_ == Layout::batch) {
    // All on one member: the view as it is.
    std::ptrdiff_t least = rows.front().item, most = least;
    for (const Row& r : rows) {
      least = std::min({least, r.item, r.last()}), most = std::max({most, r.item, r.last()});
    }
    for (std::size_t m = 0; m < local_.size() && !in_rows; ++m) {
      if (bounds_[m] <= static_cast<std::size_t>(least) && static_cast<std::size_t>(most) < bounds_[m + 1])
        return {whole[m]};
    }
  }
  const auto cut = [&](std::size_t m, const Row& row, std::size_t k0, std::size_t k1) {
    if (k0 >= k1 || whole[m].limbs.empty() || whole[m].length == 0) return;
    Block b = whole[m];
    const std::size_t item = local_[m].words;
    b.first = row.first + k0, b.count = k1 - k0;
    const auto ahead = row.item + static_cast<std::ptrdiff_t>(k0) * row.step - static_cast<std::ptrdiff_t>(o.item);
    b.view.data += ahead * static_cast<std::ptrdiff_t>(item * v.word_size());
    b.view.axes = 1;
    b.view.shape[0] = b.count, b.view.stride[0] = row.step * static_cast<std::ptrdiff_t>(item);
    result.push_back(std::move(b));
  };
  for (const Row& row : rows) {
    for (std::size_t m = 0; m < local_.size(); ++m) {
      if (!local_[m].buffer) continue;
      if (layout_ != Layout::batch) {
        cut(m, row, 0, row.count);
        continue;
      }
      // Items row.item + k * row.step of [bounds[m], bounds[m + 1]).
      const std::size_t low = row.until(bounds_[m]), high = row.until(bounds_[m + 1]);
      cut(m, row, std::min(low, high), std::max(low, high));
    }
  }
  return result;
}

}  // namespace heliograph::mesh
