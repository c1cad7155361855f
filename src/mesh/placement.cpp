#include "mesh/placement.h"

#include <algorithm>
#include <numeric>

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
    // Rounded up: where there are fewer units than members, the first ones get them.
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
  for (Block& b : parts) b.first = 0, b.count = count;
  return parts;
}

bool Block::covers(const Block& o) const {
  return member == o.member && first <= o.first && first + count >= o.first + o.count && begin == o.begin &&
         length == o.length && std::includes(limbs.begin(), limbs.end(), o.limbs.begin(), o.limbs.end());
}

namespace {

/// Items [first, first + count) of a block's view, counted from the block's first; words [begin, begin + length) of it.
View narrowed(const View& v, std::size_t first, std::size_t count, std::size_t begin, std::size_t length) {
  View r = v;
  if (first != 0 || count != v.items()) {
    require<InternalError>(v.axes == 1, "only rows of items can be cut");
    r = v.with_leading(first, count);
  }
  r.data += begin * v.word_size();
  r.n = length;
  return r;
}

}  // namespace

std::vector<Pair> intersect(const Block& from, const Block& to) {
  std::vector<Pair> pairs;
  const std::size_t first = std::max(from.first, to.first);
  const std::size_t last = std::min(from.first + from.count, to.first + to.count);
  const std::size_t begin = std::max(from.begin, to.begin);
  const std::size_t end = std::min(from.begin + from.length, to.begin + to.length);
  if (first >= last || begin >= end) return pairs;
  const View a = narrowed(from.view, first - from.first, last - first, begin - from.begin, end - begin);
  const View b = narrowed(to.view, first - to.first, last - first, begin - to.begin, end - begin);
  // Common limbs in runs of one stride on either side.
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
