#include "circuits/boolean/adders.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "base/errors.h"

namespace heliograph::circuits::boolean {

void Columns::add_power(std::size_t at) {
  while (at < width() && ones[at]) ones[at++] = false;
  if (at < width()) ones[at] = true;
}

void Columns::add(const Gates& gates, const Word& word, std::size_t at) {
  for (std::size_t i = 0; i < word.size() && at + i < width(); ++i) {
    if (gates.is(word[i], true)) {
      add_power(at + i);
    } else if (!Gates::is_constant(word[i])) {
      bits[at + i].push_back(word[i]);
    }
  }
}

void Columns::subtract(const Gates& gates, const Word& word, std::size_t at) {
  // Uses -w 2^at = (~w) 2^at + 2^at modulo 2^width. The complement ~w is extended by ones above the word; these ones add up
  // to 2^width - 2^(at + size of w).
  add(gates, Gates::negated(word), at);
  add_power(at);
  for (std::size_t i = at + word.size(); i < width(); ++i) add_power(i);
}

/// Computes carries by a parallel prefix. A range of bits [from, to) maps its incoming carry x to majority(u, v, x). The
/// maps of two adjacent ranges compose, by two majorities, to a map of the same form. The pair (u, v) of a single bit is (a,
/// b), the operands' bits, so no gates compute generate and propagate.
struct Adders::Prefix {
  using Pair = std::pair<Bit, Bit>;
  Gates& gates;
  const Word& a;
  const Word& b;
  std::vector<Bit> carry;      // carry into bit i, if `made` is set for i
  std::vector<unsigned> made;  // depth of each carry plus 1; 0: not computed yet
  std::map<std::pair<std::size_t, std::size_t>, std::pair<Pair, unsigned>> pairs;

  /// Returns the number of bits whose carry `steps` sequential majorities compute from the carry into the first bit.
  static std::size_t reach(unsigned steps) { return (std::size_t{1} << steps) - 1; }
  static unsigned steps_for(std::size_t bits) { return static_cast<unsigned>(std::bit_width(bits)); }

  const Pair& pair(std::size_t from, std::size_t to, unsigned steps) {
    auto& known = pairs[{from, to}];
    if (known.second != 0 && known.second <= steps + 1) return known.first;
    if (to - from == 1) {
      known = {{a[from], b[from]}, 1};
      return known.first;
    }
    // The upper range is as short as `steps` allows, so that lower ranges can be shared.
    const std::size_t half = std::size_t{1} << (steps - 1);
    const std::size_t middle = to - from - 1 <= half ? to - 1 : from + half;
    const Pair low = pair(from, middle, steps - 1), high = pair(middle, to, steps - 1);
    pairs[{from, to}] = {
        {gates.majority(high.first, high.second, low.first), gates.majority(high.first, high.second, low.second)},
        steps + 1};
    return pairs[{from, to}].first;
  }

  const Bit& into(std::size_t to, unsigned steps) {
    if (made[to] != 0 && made[to] <= steps + 1) return carry[to];
    const std::size_t middle = std::min(to - 1, reach(steps - 1));
    const Bit low = into(middle, steps - 1);
    const Pair high = pair(middle, to, steps - 1);
    carry[to] = gates.majority(high.first, high.second, low);
    made[to] = steps + 1;
    return carry[to];
  }
};

Word Adders::carries(const Word& a, const Word& b, const Bit& first, std::size_t wanted, Carry how,
                     const std::vector<bool>& used) {
  Word carry(wanted + 1);
  carry[0] = first;
  if (how == Carry::ripple) {
    for (std::size_t i = 0; i < wanted; ++i) carry[i + 1] = gates_.majority(a[i], b[i], carry[i]);
    return carry;
  }
  Prefix prefix{gates_, a, b, std::move(carry), std::vector<unsigned>(wanted + 1, 0), {}};
  prefix.made[0] = 1;
  const unsigned steps = Prefix::steps_for(wanted);
  for (std::size_t i = wanted; i > 0; --i) {
    if (used.empty() || used[i]) prefix.into(i, steps);
  }
  return prefix.carry;
}

Word Adders::wordwise(Word a, Word b) {
  const std::size_t width = a.size();
  // In step i, all carries have weight 2^(i + 1) or more.
  for (std::size_t i = 0; i < width; ++i) {
    for (std::size_t j = width; j-- > i;) {
      const auto [sum, carry] = gates_.half_adder(a[j], b[j], true);
      a[j] = sum;
      if (j + 1 < width) b[j + 1] = carry;
    }
    b[i] = gates_.constant(false);
  }
  return a;
}

Word Adders::add(const Word& a, const Word& b, const Bit& first, Carry how, bool free, bool carry_out) {
  const std::size_t width = a.size();
  Word sum(width);
  if (how == Carry::wordwise) {
    require<InternalError>(gates_.is(first, false) && free && !carry_out, "wordwise additions must have no carry in or out");
    return wordwise(a, b);
  }
  if (how == Carry::ripple) {
    Bit carry = first;
    for (std::size_t i = 0; i < width; ++i) {
      if (i + 1 == width && !carry_out) {
        sum[i] = gates_.xor_gate(a[i], b[i], carry);
      } else {
        std::tie(sum[i], carry) = gates_.full_adder(a[i], b[i], carry, free);
      }
    }
    if (carry_out) sum.push_back(carry);
    return sum;
  }
  const Word carry = carries(a, b, first, width - (carry_out ? 0 : 1), how);
  for (std::size_t i = 0; i < width; ++i) sum[i] = gates_.xor_gate(a[i], b[i], carry[i]);
  if (carry_out) sum.push_back(carry[width]);
  return sum;
}

Word Adders::subtract(const Word& a, const Word& b, Carry how, bool free) {
  // a - b = ~(~a + b)
  return Gates::negated(add(Gates::negated(a), b, gates_.constant(false), how, free));
}

Word Adders::negate_if(const Bit& condition, const Word& a, Carry how) {
  // Inverts the bits above the lowest 1. Bit k of the carries of a + (condition, condition, ...) is the condition AND the OR
  // of a's lower bits.
  const Word all(a.size(), condition);
  const Word turn = carries(all, a, gates_.constant(false), a.size() - 1, how);
  Word result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) result[i] = gates_.xor_gate(a[i], turn[i]);
  return result;
}

Word Adders::serial(Columns columns, bool free) {
  Word sum(columns.width());
  for (std::size_t i = 0; i < columns.width(); ++i) {
    Word& column = columns.bits[i];
    if (columns.ones[i]) column.push_back(gates_.constant(true));
    const bool last = i + 1 == columns.width();
    auto later = [this](const Bit& a, const Bit& b) { return gates_.builder().layer(a) > gates_.builder().layer(b); };
    while (column.size() > 1) {
      // Takes the three bits with the fewest layers before them, which are at the end, or the last two bits.
      std::stable_sort(column.begin(), column.end(), later);
      const bool two = column.size() == 2;
      const Bit a = column.back(), b = column[column.size() - 2];
      const Bit c = two ? gates_.constant(false) : column[column.size() - 3];
      column.resize(column.size() - (two ? 2 : 3));
      if (last) {
        column.push_back(gates_.xor_gate(a, b, c));
        continue;
      }
      // Only the column's result may have norm 2.
      auto [bit, carry] = gates_.full_adder(a, b, c, free && column.empty());
      column.push_back(bit);
      if (!Gates::is_constant(carry)) {
        columns.bits[i + 1].push_back(carry);
      } else if (gates_.is(carry, true)) {
        columns.add_power(i + 1);
      }
    }
    sum[i] = column.empty() ? gates_.constant(false) : column[0];
  }
  return sum;
}

Word Adders::total(Columns columns, Carry how, bool free) {
  if (how != Carry::prefix) return serial(std::move(columns), free);
  const std::size_t width = columns.width();
  for (std::size_t i = 0; i < width; ++i) {
    if (columns.ones[i]) columns.bits[i].push_back(gates_.constant(true));
    columns.ones[i] = false;
  }
  std::size_t highest = 0;
  for (const Word& column : columns.bits) highest = std::max(highest, column.size());
  std::vector<std::size_t> heights{2};
  while (heights.back() < highest) heights.push_back(heights.back() * 3 / 2);
  auto earlier = [this](const Bit& a, const Bit& b) { return gates_.builder().layer(a) < gates_.builder().layer(b); };
  for (std::size_t h = heights.size(); h-- > 0;) {
    std::vector<Word> next(width);
    for (std::size_t i = 0; i < width; ++i) {
      Word& column = columns.bits[i];
      std::stable_sort(column.begin(), column.end(), earlier);
      std::size_t used = 0;
      // Uses a half adder only if no third bit remains, because a half adder does not reduce the total number of bits.
      while (column.size() - used + next[i].size() > heights[h] && column.size() - used >= 2) {
        const std::size_t count = std::min<std::size_t>(3, column.size() - used);
        const Bit &a = column[used], &b = column[used + 1];
        const Bit c = count == 3 ? column[used + 2] : gates_.constant(false);
        used += count;
        if (i + 1 == width) {
          next[i].push_back(gates_.xor_gate(a, b, c));
          continue;
        }
        auto [sum, carry] = gates_.full_adder(a, b, c, false);
        next[i].push_back(std::move(sum));
        next[i + 1].push_back(std::move(carry));
      }
      next[i].insert(next[i].end(), column.begin() + static_cast<std::ptrdiff_t>(used), column.end());
    }
    columns.bits = std::move(next);
  }
  Word a(width, gates_.constant(false)), b = a;
  bool over = false;
  for (std::size_t i = 0; i < width; ++i) {
    const Word& column = columns.bits[i];
    over = over || column.size() > 2;
    if (!column.empty()) a[i] = column[0];
    if (column.size() > 1) b[i] = column[1];
  }
  if (over) return total(std::move(columns), how, free);
  return add(a, b, gates_.constant(false), how, free);
}

}  // namespace heliograph::circuits::boolean
