#include "mesh/placement.h"

#include <algorithm>
#include <numeric>

#include "device/address.h"

namespace heliograph::mesh {

const char* to_string(Layout layout) {
  switch (layout) {
    case Layout::batch:
      return "batch";
    case Layout::limb:
      return "limb";
    case Layout::coefficient:
      return "coefficient";
  }
  return "?";
}

std::vector<std::size_t> shares(std::size_t count, const std::vector<double>& weights, std::size_t unit) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  const std::size_t units = count / unit;
  std::vector<std::size_t> bounds = {0};
  double sum = 0;
  for (std::size_t m = 0; m < weights.size(); ++m) {
    sum += weights[m];
    // Bounds are rounded up, so that the first members get one unit each if there are few units.
    const double want = static_cast<double>(units) * sum / total;
    const auto whole = static_cast<std::size_t>(want + 1 - 1e-9);
    bounds.push_back(std::min(whole, units) * unit);
  }
  for (std::size_t m = weights.size(); m > 0; --m) {
    bounds[m] = count;
    if (weights[m - 1] > 0) break;
  }
  return bounds;
}

Distribution Distribution::shares(std::vector<std::size_t> bounds) {
  Distribution d;
  d.items_ = bounds.back();
  d.bounds_ = std::move(bounds);
  return d;
}

Distribution Distribution::repeated(std::vector<std::size_t> bounds, std::size_t items) {
  require<InternalError>(bounds.back() > 0 && items % bounds.back() == 0, "the items must fill whole repetitions");
  Distribution d;
  d.items_ = items;
  d.bounds_ = std::move(bounds);
  return d;
}

Distribution Distribution::round(std::vector<std::size_t> order, std::size_t items, std::size_t block) {
  Distribution d;
  d.order_ = std::move(order);
  d.items_ = items;
  // A single member holds all items for any block size, so distributions to a single member compare equal for all block
  // sizes.
  d.block_ = d.order_.size() == 1 ? 1 : block;
  return d;
}

std::size_t Distribution::owner(std::size_t item) const {
  if (!order_.empty()) return order_[item / block_ % order_.size()];
  item %= bounds_.back();
  return static_cast<std::size_t>(std::upper_bound(bounds_.begin(), bounds_.end(), item) - bounds_.begin()) - 1;
}

std::size_t Distribution::place(std::size_t item) const {
  if (order_.empty()) {
    const std::size_t m = owner(item), each = bounds_[m + 1] - bounds_[m];
    return item / bounds_.back() * each + item % bounds_.back() - bounds_[m];
  }
  return item / (block_ * order_.size()) * block_ + item % block_;
}

std::size_t Distribution::items_on(std::size_t member) const {
  if (order_.empty()) return items_ == 0 ? 0 : items_ / bounds_.back() * (bounds_[member + 1] - bounds_[member]);
  const auto at = std::find(order_.begin(), order_.end(), member);
  if (at == order_.end()) return 0;
  const std::size_t round = block_ * order_.size(), rest = items_ % round;
  const auto before = static_cast<std::size_t>(at - order_.begin()) * block_;
  return items_ / round * block_ + (rest > before ? std::min(block_, rest - before) : 0);
}

std::optional<std::size_t> Distribution::sole() const {
  if (items_ == 0) return {};
  const std::size_t first = owner(0);
  return items_on(first) == items_ ? std::optional(first) : std::nullopt;
}

LimbOwners::LimbOwners(const std::vector<double>& weights) : owner_(4 * device::kMaxLimbs) {
  std::vector<double> held(weights.size());
  for (auto& owner : owner_) {
    std::size_t best = 0;
    for (std::size_t m = 1; m < weights.size(); ++m) {
      if ((held[m] + 1) * weights[best] < (held[best] + 1) * weights[m]) best = m;
    }
    held[best] += 1;
    owner = static_cast<unsigned char>(best);
  }
}

std::vector<std::size_t> range(std::size_t first, std::size_t count) {
  std::vector<std::size_t> r(count);
  std::iota(r.begin(), r.end(), first);
  return r;
}

std::vector<Block> with_limbs(std::vector<Block> parts, const std::vector<std::size_t>& limbs) {
  for (Block& b : parts) b.limbs = limbs;
  return parts;
}

std::vector<Block> with_items(std::vector<Block> parts, std::size_t count) {
  for (Block& b : parts) b.first = 0, b.count = count, b.step = 1, b.run = 0;
  return parts;
}

std::vector<Block> with_words(std::vector<Block> parts, std::size_t n) {
  for (Block& b : parts) b.begin = 0, b.length = n;
  return parts;
}

bool Block::covers(const Block& o) const {
  const bool rows = run == 0 && o.run == 0;
  const bool items = rows ? o.first >= first && (o.first - first) % step == 0 && (o.count < 2 || o.step % step == 0) &&
                                (o.count == 0 || o.last() <= last())
                          : same_items(o);
  return member == o.member && items && begin == o.begin && length == o.length &&
         std::includes(limbs.begin(), limbs.end(), o.limbs.begin(), o.limbs.end());
}

namespace {

/// Narrows a block's view to the `count` items first, first + step, ..., and to the words [begin, begin + length).
View narrowed(const View& v, std::size_t first, std::size_t count, std::size_t step, std::size_t begin, std::size_t length) {
  View r = v;
  if (first != 0 || count != v.items()) {
    require<InternalError>(v.axes == 1, "a narrowed view must have one batch axis");
    r = v.with_leading(first, count);
    r.stride[0] *= static_cast<std::ptrdiff_t>(step);
  }
  r.data = device::displaced(r.data, begin * v.word_size());
  r.n = length;
  return r;
}

/// Common items of two blocks: their number, and for each view the first item and the step.
struct Shared {
  std::size_t count = 0, a = 0, a_step = 1, b = 0, b_step = 1;
};

Shared shared_items(const Block& a, const Block& b) {
  Shared s;
  if (a.count == 0 || b.count == 0) return s;
  const std::size_t a_step = a.count > 1 ? a.step : 1, b_step = b.count > 1 ? b.step : 1;
  const std::size_t least = std::max(a.first, b.first), most = std::min(a.last(), b.last());
  // Finds the first common item with an index of at least `least`. If a common item exists, it is among b_step items of `a`.
  std::size_t item = a.first + (least - a.first + a_step - 1) / a_step * a_step;
  for (std::size_t tried = 0; item <= most && (item - b.first) % b_step != 0; ++tried, item += a_step) {
    if (tried == b_step) return s;
  }
  if (least > most || item > most) return s;
  const std::size_t step = std::lcm(a_step, b_step);
  return {.count = (most - item) / step + 1,
          .a = (item - a.first) / a_step,
          .a_step = step / a_step,
          .b = (item - b.first) / b_step,
          .b_step = step / b_step};
}

}  // namespace

namespace {

/// Splits a block with several runs into blocks with one run each.
std::vector<Block> in_runs(const Block& b) {
  std::vector<Block> runs;
  for (std::size_t r = 0; r < b.runs(); ++r) {
    Block one = b;
    one.first += r * b.apart, one.count = b.run, one.run = 0;
    one.view = b.view.with_leading(r * b.run, b.run);
    runs.push_back(std::move(one));
  }
  return runs;
}

}  // namespace

std::vector<Pair> intersect(const Block& from, const Block& to) {
  std::vector<Pair> pairs;
  if (from.run > 0 || to.run > 0) {
    for (const Block& a : from.run > 0 ? in_runs(from) : std::vector{from}) {
      for (const Block& b : to.run > 0 ? in_runs(to) : std::vector{to}) {
        if (a.last() < b.first || b.last() < a.first) continue;
        for (const Pair& p : intersect(a, b)) pairs.push_back(p);
      }
    }
    return pairs;
  }
  const Shared items = shared_items(from, to);
  const std::size_t begin = std::max(from.begin, to.begin);
  const std::size_t end = std::min(from.begin + from.length, to.begin + to.length);
  if (items.count == 0 || begin >= end) return pairs;
  const View a = narrowed(from.view, items.a, items.count, items.a_step, begin - from.begin, end - begin);
  const View b = narrowed(to.view, items.b, items.count, items.b_step, begin - to.begin, end - begin);
  // Groups common limbs into runs with one stride in both views.
  struct Common {
    std::size_t a, b;
  };
  std::vector<Common> common;
  for (std::size_t i = 0, k = 0; i < from.limbs.size() && k < to.limbs.size();) {
    if (from.limbs[i] < to.limbs[k]) {
      ++i;
    } else if (from.limbs[i] > to.limbs[k]) {
      ++k;
    } else {
      common.push_back({i++, k++});
    }
  }
  for (std::size_t at = 0; at < common.size();) {
    std::size_t count = 1, step_a = 1, step_b = 1;
    if (at + 1 < common.size()) {
      step_a = common[at + 1].a - common[at].a, step_b = common[at + 1].b - common[at].b;
      while (at + count < common.size() && common[at + count].a == common[at].a + count * step_a &&
             common[at + count].b == common[at].b + count * step_b) {
        ++count;
      }
    }
    Pair pair{a.with_limbs(common[at].a, count), b.with_limbs(common[at].b, count)};
    pair.from.limb_stride *= step_a;
    pair.to.limb_stride *= step_b;
    pairs.push_back(pair);
    at += count;
  }
  return pairs;
}

}  // namespace heliograph::mesh
