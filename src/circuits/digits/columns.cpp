// Sums of many digits: columns of values, reduced to one digit of norm 1 each.
//
// A bootstrap reads a sum below `boxes`: floor(sum / base) is the carry to the next column, and the digit remains. If the
// norm allows, the digit is not bootstrapped: sum - base * carry is exact with a larger norm. One bootstrap also gives the
// top bit of a sum below 2 * `boxes`, because beyond the half turn a bootstrap returns the table's negative.

#include <algorithm>
#include <numeric>

#include "base/errors.h"
#include "circuits/digits/digits.h"

namespace heliograph::circuits {

void Digits::put(Columns& columns, std::size_t at, const Value& v) const {
  if (at < columns.size() && v.max > 0) columns[at].push_back(v);
}

void Digits::put(Columns& columns, std::size_t at, const std::vector<Linear>& digits) const {
  for (std::size_t i = 0; i < digits.size(); ++i) put(columns, at + i, digit(digits[i]));
}

Value Digits::take(std::vector<Value>& items, unsigned max, std::uint64_t norm) const {
  std::stable_sort(items.begin(), items.end(), [this](const Value& a, const Value& b) {
    return a.max != b.max ? a.max > b.max : builder_.layer(a.x) < builder_.layer(b.x);
  });
  Value sum;
  std::vector<Value> left;
  for (const Value& item : items) {
    if (sum.max + item.max <= max) {
      const Value more = add(sum, item);
      if (Builder::norm(more.x) <= norm) {
        sum = more;
        continue;
      }
    }
    left.push_back(item);
  }
  items = std::move(left);
  return sum;
}

Linear Digits::resolve_column(std::vector<Value> items, std::vector<Value>* carries) {
  const auto base = static_cast<int>(base_);
  const Function low = [base](unsigned x) { return static_cast<int>(x) % base; };
  const Function high = [base](unsigned x) { return static_cast<int>(x) / base; };
  auto carry = [&](const Linear& x, unsigned max) {
    if (max > 0) carries->push_back({x, max});
  };
  auto split = [&](const Value& v) {  // the digit remains in its column
    const std::vector<Linear> both = apply(v, {low, high});
    carry(both[1], v.max / base_);
    return Value{both[0], std::min(v.max, base_ - 1)};
  };
  while (true) {
    Value all;
    for (const Value& item : items) all = add(all, item);
    if (all.max < base_ && Builder::norm(all.x) <= limit()) return clean(all).x;
    if (carries == nullptr) {
      const Value sum = take(items, boxes_ - 1, limit());
      items.push_back({apply(sum, low), base_ - 1});
      continue;
    }
    if (all.max < boxes_ && Builder::norm(all.x) <= limit()) return split(all).x;
    const std::uint64_t spare = limit() - std::uint64_t{base_} * base_;  // reserves norm for the subtraction of base * carry
    std::vector<Value> rest = items;
    Value sum = take(rest, 2 * boxes_ - 1, spare);
    if (sum.max >= boxes_ + boxes_ / 2) {
      const Linear top = apply(sum, [this](unsigned x) { return static_cast<int>(x >= boxes_ ? boxes_ / base_ : 0); });
      carry(top, boxes_ / base_);
      rest.push_back(split({sum.x - base * top, std::max(boxes_ - 1, sum.max - boxes_)}));
      items = std::move(rest);
      continue;
    }
    rest = items;
    sum = take(rest, boxes_ - 1, spare);
    if (sum.max > base_ && rest.size() > 0) {
      const Linear over = apply(sum, high);
      Value left{sum.x - base * over, base_ - 1};
      const std::uint64_t used = Builder::norm(left.x);
      const Value more = take(rest, boxes_ - base_, limit() - used);
      if (more.max > 0 && Builder::norm(add(left, more).x) <= limit()) {
        carry(over, sum.max / base_);
        rest.push_back(split(add(left, more)));
        items = std::move(rest);
        continue;
      }
    }
    // Computes the top bit twice: for the subtraction here, and as a carry. The remaining sum then has a small norm.
    rest = items;
    sum = take(rest, 2 * boxes_ - 1, limit() - 1);
    std::vector<Value> fewer = items;
    const Value plain = take(fewer, boxes_ - 1, limit());
    if (sum.max + base_ > plain.max + boxes_) {
      const auto whole = static_cast<int>(boxes_);
      carry(apply(sum, [=](unsigned x) { return static_cast<int>(x) >= whole ? whole / base : 0; }), boxes_ / base_);
      const Linear top = apply(sum, [=](unsigned x) { return static_cast<int>(x) >= whole ? whole : 0; });
      rest.push_back({sum.x - top, std::max(boxes_ - 1, sum.max - boxes_)});
      items = std::move(rest);
      continue;
    }
    fewer.push_back(split(plain));
    items = std::move(fewer);
  }
}

void Digits::compress(Columns& columns) {
  const auto base = static_cast<int>(base_);
  auto total = [](const std::vector<Value>& column) {
    return std::accumulate(column.begin(), column.end(), Value{}, [](const Value& a, const Value& b) { return add(a, b); });
  };
  auto fit = [&] {
    bool below = true;  // lower columns produce no carry
    for (const auto& column : columns) {
      const Value all = total(column);
      if (all.max > 2 * base_ - (below ? 1 : 2) || Builder::norm(all.x) + 1 > limit()) return false;
      below = below && all.max < base_;
    }
    return true;
  };
  while (!fit()) {
    Columns next(columns.size());
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (total(columns[i]).max < base_ || (columns[i].size() == 1 && columns[i][0].max < base_)) {
        next[i].insert(next[i].end(), columns[i].begin(), columns[i].end());
        continue;
      }
      while (!columns[i].empty()) {
        const Value sum = take(columns[i], boxes_ - 1, limit());
        if (sum.max < base_ && Builder::norm(sum.x) <= 2) {
          next[i].push_back(sum);
          continue;
        }
        std::vector<Function> functions{[base](unsigned x) { return static_cast<int>(x) % base; }};
        if (i + 1 < columns.size() && sum.max >= base_) {
          functions.push_back([base](unsigned x) { return static_cast<int>(x) / base; });
        }
        const std::vector<Linear> results = apply(sum, functions);
        put(next, i, {results[0], std::min(sum.max, base_ - 1)});
        if (results.size() > 1) put(next, i + 1, {results[1], sum.max / base_});
      }
    }
    columns = std::move(next);
  }
}

Linear Digits::window(const Position& position, unsigned depth, std::size_t last, const Emission& emission) {
  if (depth == 0) return position(last, emission);
  std::size_t part = 1;
  for (unsigned l = 1; l < depth; ++l) part *= radix_;
  const std::size_t first = last / (part * radix_) * (part * radix_);
  if (last - first < part) return window(position, depth - 1, last, emission);
  Value sum;
  unsigned count = 0;
  for (std::size_t start = first; start <= last; start += part, ++count) {
    const int scale = 1 << count;
    sum = add(sum, {window(position, depth - 1, std::min(start + part - 1, last), {0, scale, 2 * scale}),
                    2 * static_cast<unsigned>(scale)});
  }
  const unsigned over = 1u << count;
  return apply(sum, [&](unsigned x) {
    return x >= over ? emission.generate : x == over - 1 && first > 0 ? emission.propagate : emission.kill;
  });
}

std::vector<Linear> Digits::propagate(const std::vector<Value>& sums) {
  const std::size_t count = sums.size();
  const auto base = static_cast<int>(base_);
  const Function low = [base](unsigned x) { return static_cast<int>(x) % base; };
  std::vector<Linear> digits(count);
  std::size_t depth_width = 1;  // radix^depth: the least width for which two windows cover every position
  unsigned depth = 0;
  while (2 * depth_width < count) depth_width *= radix_, ++depth;
  const std::size_t below_width = std::max<std::size_t>(depth_width / radix_, 1);
  const unsigned below = depth > 0 ? depth - 1 : 0;
  auto state = [&](std::size_t i, const Emission& e) {
    return Function([this, i, e](unsigned x) {
      return x >= base_ ? e.generate : x + 1 == base_ && i > 0 ? e.propagate : e.kill;
    });
  };
  // One bootstrap computes the state in units and the digit without carry.
  const Position position = [&](std::size_t i, const Emission& e) { return apply(sums[i], {state(i, e), low})[0]; };
  auto own = [&](std::size_t i) {
    const int scale = 1 << i % radix_;
    return apply(sums[i], {state(i, {0, scale, 2 * scale}), low})[1];
  };
  for (std::size_t j = 0; j < count; ++j) {
    if (j == 0) {
      digits[0] = own(0);
      continue;
    }
    std::size_t border = (j - 1) / below_width * below_width;
    unsigned top = below;
    if (border > depth_width) border = depth_width, top = depth;
    if (border == 0) {
      const Value carry{window(position, below, j - 1, {0, 0, 1}), 1};
      digits[j] = apply(add(sums[j], carry), low);
      continue;
    }
    if (4 * base_ <= boxes_) {
      const Value carry{window(position, depth, border - 1, {0, 0, base}), base_};
      const Value ahead{window(position, top, j - 1, {0, base, 2 * base}), 2 * base_};
      const Value digit{own(j), base_ - 1};
      digits[j] = apply(add(add(digit, ahead), carry), [base](unsigned x) {
        return (static_cast<int>(x) % base + (static_cast<int>(x) >= 2 * base ? 1 : 0)) % base;
      });
      continue;
    }
    const Value carry{window(position, depth, border - 1, {0, 0, 1}), 1};
    const Value ahead{window(position, top, j - 1, {0, 1, 2}), 2};
    const Value in{apply(add(carry, ahead), [](unsigned x) { return x >= 2 ? 1 : 0; }), 1};
    digits[j] = apply(add(sums[j], in), low);
  }
  return digits;
}

std::vector<Linear> Digits::resolve(Columns columns) {
  std::uint64_t constants = 0;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::vector<Value> others;
    for (const Value& v : columns[i]) {
      if (is_constant(v.x)) {
        constants += constant_units(v.x);
      } else {
        others.push_back(v);
      }
    }
    columns[i] = std::move(others);
    const auto c = static_cast<unsigned>(constants & (base_ - 1));
    put(columns, i, Value{units(c), c});
    constants >>= bits_;
  }
  std::vector<Linear> digits;
  if (goal_ == Goal::shallow) {
    compress(columns);
    std::vector<Value> sums;
    for (const auto& column : columns) {
      Value sum;
      for (const Value& v : column) sum = add(sum, v);
      sums.push_back(sum);
    }
    // Columns below the first possible carry are final.
    std::size_t first = 0;
    while (first < sums.size() && sums[first].max < base_) digits.push_back(clean(sums[first++]).x);
    if (first < sums.size()) {
      const std::vector<Linear> rest = propagate({sums.begin() + static_cast<std::ptrdiff_t>(first), sums.end()});
      digits.insert(digits.end(), rest.begin(), rest.end());
    }
    return digits;
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::vector<Value> carries;
    const bool last = i + 1 == columns.size();
    digits.push_back(resolve_column(columns[i], last ? nullptr : &carries));
    if (!last) columns[i + 1].insert(columns[i + 1].end(), carries.begin(), carries.end());
  }
  return digits;
}

}  // namespace heliograph::circuits
