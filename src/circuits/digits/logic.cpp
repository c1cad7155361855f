// Booleans, comparisons, selections, bitwise functions and tables.

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <optional>

#include "base/errors.h"
#include "circuits/digits/digits.h"

namespace heliograph::circuits {

Number Digits::negate_boolean(const Number& a) { return boolean(units(1) - a.parts[0]); }

namespace {

/// Returns the entries of a truth table by the number of true operands; nullopt if the table is not symmetric in its
/// operands.
std::optional<std::vector<int>> entries_by_count(const std::vector<bool>& table, unsigned count) {
  std::vector<int> counted(count + 1, -1);
  for (unsigned i = 0; i < table.size(); ++i) {
    int& known = counted[static_cast<unsigned>(std::popcount(i))];
    if (known >= 0 && known != static_cast<int>(table[i])) return std::nullopt;
    known = table[i];
  }
  return counted;
}

/// Returns the entries of a truth table by the weighted sum of the operands, for the sums `low` to `high`. Returns
/// nullopt if two entries with the same sum differ. An entry is -1 if no operands have that sum.
std::optional<std::vector<int>> entries_by_sum(const std::vector<bool>& table, const std::vector<int>& weights, int low,
                                               int high) {
  std::vector<int> values(static_cast<std::size_t>(high - low) + 1, -1);
  for (unsigned i = 0; i < table.size(); ++i) {
    int at = -low;
    for (unsigned j = 0; j < weights.size(); ++j) at += (i >> j & 1) != 0 ? weights[j] : 0;
    int& value = values[static_cast<std::size_t>(at)];
    if (value >= 0 && value != static_cast<int>(table[i])) return std::nullopt;
    value = table[i];
  }
  return values;
}

struct Distinct {
  std::vector<Linear> operands;
  std::vector<bool> table;
};

/// Removes an operand that equals an earlier one; nullopt if all operands differ.
std::optional<Distinct> without_repeat(const std::vector<Linear>& operands, const std::vector<bool>& table) {
  for (unsigned j = 1; j < operands.size(); ++j) {
    for (unsigned k = 0; k < j; ++k) {
      if (operands[j] != operands[k]) continue;
      Distinct rest{operands, std::vector<bool>(table.size() / 2)};
      rest.operands.erase(rest.operands.begin() + j);
      for (unsigned i = 0; i < rest.table.size(); ++i) {
        const unsigned low = i & ((1u << j) - 1), high = i >> j;
        rest.table[i] = table[high << (j + 1) | (i >> k & 1) << j | low];
      }
      return rest;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Linear> Digits::truth_of_count(const std::vector<Linear>& operands, const std::vector<bool>& table) {
  const auto count = static_cast<unsigned>(operands.size());
  Value sum, places;
  for (unsigned j = 0; j < count; ++j) {
    sum = add(sum, {operands[j], 1});
    places = add(places, {operands[j], 1}, 1 << j);
  }
  // The number of true operands is the sum with the least norm.
  const std::optional<std::vector<int>> counted = entries_by_count(table, count);
  if (counted && sum.max < boxes_ && Builder::norm(sum.x) <= limit()) {
    return apply(sum, [&](unsigned x) { return (*counted)[x]; });
  }
  if (places.max < boxes_ && Builder::norm(places.x) <= limit()) {
    return apply(places, [&](unsigned x) { return static_cast<int>(table[x]); });
  }
  return std::nullopt;
}

std::optional<Linear> Digits::truth_of_weighted_sum(const std::vector<Linear>& operands, const std::vector<bool>& table) {
  constexpr int kLeast = -3, kWeights = 8;
  const auto count = static_cast<unsigned>(operands.size());
  const auto combinations = static_cast<unsigned>(std::pow(kWeights, count));
  std::uint64_t best = limit() + 1;
  Value found;
  std::vector<int> results;
  for (unsigned code = 0; code < combinations; ++code) {
    std::vector<int> weights;
    std::uint64_t norm = 0;
    int low = 0, high = 0;
    for (unsigned j = 0, rest = code; j < count; ++j, rest /= kWeights) {
      const int w = static_cast<int>(rest % kWeights) + kLeast;
      weights.push_back(w);
      norm += static_cast<std::uint64_t>(w * w);
      (w < 0 ? low : high) += w;
    }
    if (norm >= best || high - low >= static_cast<int>(boxes_)) continue;
    std::optional<std::vector<int>> values = entries_by_sum(table, weights, low, high);
    if (!values) continue;
    Linear x = units(-low);
    for (unsigned j = 0; j < count; ++j) {
      if (weights[j] != 0) x = x + weights[j] * operands[j];
    }
    if (Builder::norm(x) > limit()) continue;
    best = norm;
    found = {x, static_cast<unsigned>(high - low)};
    results = std::move(*values);
  }
  if (best > limit()) return std::nullopt;
  for (int& r : results) r = std::max(r, 0);
  return apply(found, [&](unsigned x) { return results[x]; });
}

Linear Digits::truth(const std::vector<Linear>& operands, const std::vector<bool>& table) {
  if (std::adjacent_find(table.begin(), table.end(), std::not_equal_to<>()) == table.end()) return units(table[0]);
  if (const std::optional<Distinct> rest = without_repeat(operands, table)) return truth(rest->operands, rest->table);
  if (operands.size() == 1 && table[1]) return operands[0];
  if (const std::optional<Linear> result = truth_of_count(operands, table)) return *result;
  if (operands.size() <= 4) {
    if (const std::optional<Linear> result = truth_of_weighted_sum(operands, table)) return *result;
  }
  // Selects between two smaller tables by the last operand.
  const std::vector<Linear> rest(operands.begin(), operands.end() - 1);
  const auto middle = table.begin() + static_cast<std::ptrdiff_t>(table.size() / 2);
  const Linear low = truth(rest, {table.begin(), middle}), high = truth(rest, {middle, table.end()});
  if (low == high) return low;
  auto gate = [&](const Linear& x, unsigned which) {
    return pair({operands.back(), 1}, {x, 1},
                [which](unsigned c, unsigned v) { return c == which ? static_cast<int>(v) : 0; });
  };
  return clean({gate(low, 0) + gate(high, 1), 1}).x;
}

Number Digits::truth_table(const std::vector<Number>& operands, const std::vector<bool>& table) {
  require<InternalError>(!operands.empty() && table.size() == std::size_t{1} << operands.size(),
                         "a truth table must have 2^operands entries");
  std::vector<Linear> wires;
  for (const Number& o : operands) wires.push_back(o.parts[0]);
  return boolean(truth(wires, table));
}

std::pair<Number, Number> Digits::adder(const Number& a, const Number& b, const Number* c) {
  Value sum = add(Value{a.parts[0], 1}, Value{b.parts[0], 1});
  if (c != nullptr) sum = add(sum, {c->parts[0], 1});
  if (Builder::norm(sum.x) > limit()) {  // the operands are equal
    const std::vector<Linear> all{a.parts[0], b.parts[0], c->parts[0]};
    return {boolean(truth(all, {false, true, true, false, true, false, false, true})),
            boolean(truth(all, {false, false, false, true, false, true, true, true}))};
  }
  const std::vector<Linear> both =
      apply(sum, {[](unsigned x) { return static_cast<int>(x & 1); }, [](unsigned x) { return static_cast<int>(x >> 1); }});
  return {boolean(both[0]), boolean(both[1])};
}

Value Digits::flag(const Value& condition) {
  const auto scale = static_cast<int>(flag_scale());
  return {apply(condition, [scale](unsigned x) { return x != 0 ? scale : 0; }), flag_scale()};
}

Linear Digits::choose(const Value& flag, const Linear& a, const Linear& b) {
  if (a == b) return a;
  const Value x = digit(a), y = digit(b);
  const unsigned scale = flag_scale();
  const auto base = static_cast<int>(base_);
  if (is_constant(flag.x)) return constant_units(flag.x) != 0 ? a : b;
  auto gated = [&](const Value& v, bool when) {
    return apply(add(v, flag), [=](unsigned p) { return (p >= scale) == when ? static_cast<int>(p % scale) : 0; });
  };
  if (is_constant(b) && y.max == 0) return gated(x, true);
  if (is_constant(a) && x.max == 0) return gated(y, false);
  if (is_constant(a) || is_constant(b)) {  // one bootstrap, result of norm 1
    const Value& v = is_constant(a) ? y : x;
    const auto other = static_cast<int>(is_constant(a) ? x.max : y.max);
    if (is_constant(v.x)) {
      const auto p = static_cast<int>(x.max), q = static_cast<int>(y.max);
      return apply(flag, [=](unsigned f) { return f != 0 ? p : q; });
    }
    const bool when = is_constant(b);
    return apply(add(v, flag), [=](unsigned p) { return (p >= scale) == when ? static_cast<int>(p % scale) : other; });
  }
  if (one_choice()) {
    const Value difference{plus(x.x - y.x, units(base - 1).constant), 2 * base_ - 2};
    const Linear step =
        apply(add(difference, flag), [=](unsigned p) { return p >= scale ? static_cast<int>(p - scale) - (base - 1) : 0; });
    return b + step;
  }
  return gated(x, true) + gated(y, false);
}

Number Digits::select(const Number& condition, const Number& a, const Number& b) {
  const Value f = flag({condition.parts[0], 1});
  Number result{{}, a.type};
  for (std::size_t i = 0; i < a.parts.size(); ++i) result.parts.push_back(choose(f, a.parts[i], b.parts[i]));
  return cleaned(result);
}

Linear Digits::at_least(const std::vector<Linear>& a, const std::vector<Linear>& b, bool sign, int no, int yes,
                        bool shared) {
  // Computes the carry out of a + complement(b) + 1. Low digits with b = 0 or a = base - 1 always pass on the carry of 1, so
  // they are omitted.
  std::size_t start = 0;
  while (start < a.size() && !(sign && start + 1 == a.size()) && (b[start] == units(0) || a[start] == units(base_ - 1))) {
    ++start;
  }
  if (start == a.size()) return units(yes);
  if (start > 0) {
    const auto from = static_cast<std::ptrdiff_t>(start);
    return at_least({a.begin() + from, a.end()}, {b.begin() + from, b.end()}, sign, no, yes, shared);
  }
  const std::size_t count = a.size();
  const auto base = static_cast<int>(base_);
  auto state = [](int difference, const Emission& e) {  // the carry state of x + (base - 1 - y)
    return difference > 0 ? e.generate : difference == 0 ? e.propagate : e.kill;
  };
  const Position position = [&](std::size_t i, const Emission& e) {
    // The lowest position has a carry in, so equal digits generate a carry.
    const Emission here{e.kill, i == 0 ? e.generate : e.propagate, e.generate};
    if (sign && i + 1 == count) {
      auto value = [&](unsigned d) { return static_cast<int>(d) - (d >= base_ / 2 ? base : 0); };
      return pair(digit(a[i]), digit(b[i]), [&](unsigned x, unsigned y) { return state(value(x) - value(y), here); });
    }
    const Value sum = add(digit(a[i]), complement(digit(b[i])));
    std::vector<Function> functions{[&](unsigned x) { return state(static_cast<int>(x) - (base - 1), here); }};
    if (shared && i > 0) functions.push_back([base](unsigned x) { return static_cast<int>(x) % base; });
    return apply(sum, functions)[0];
  };
  auto lookahead = [&](const Position& at, std::size_t positions) {
    unsigned depth = 0;
    for (std::size_t width = 1; width < positions; width *= radix_) ++depth;
    return window(at, depth, positions - 1, {no, no, yes});
  };
  const bool clear = std::all_of(a.begin(), a.end(), is_constant) || std::all_of(b.begin(), b.end(), is_constant);
  const bool calm = std::all_of(a.begin(), a.end(), [](const Linear& x) { return Builder::norm(x) <= 1; }) &&
                    std::all_of(b.begin(), b.end(), [](const Linear& x) { return Builder::norm(x) <= 1; });
  if (clear && calm && base_ * base_ <= boxes_ && count > 1) {
    const Position two = [&](std::size_t p, const Emission& e) {
      const Emission here{e.kill, p == 0 ? e.generate : e.propagate, e.generate};
      const std::size_t low = 2 * p, high = std::min(low + 1, count - 1);
      const bool left = std::all_of(b.begin(), b.end(), is_constant);
      const std::vector<Linear>& fixed = left ? b : a;
      const std::vector<Linear>& free = left ? a : b;
      const bool top = sign && high + 1 == count;
      auto value = [&](unsigned h, unsigned l) {
        const int raised = static_cast<int>(h) - (top && h >= base_ / 2 ? base : 0);
        return high == low ? raised : raised * base + static_cast<int>(l);
      };
      const int other =
          value(static_cast<unsigned>(constant_units(fixed[high])), static_cast<unsigned>(constant_units(fixed[low])));
      auto compared = [&](unsigned h, unsigned l) { return state(left ? value(h, l) - other : other - value(h, l), here); };
      return pair(digit(free[high]), digit(free[low]), compared);
    };
    return lookahead(two, (count + 1) / 2);
  }
  if (goal_ == Goal::shallow || radix_ < 4 || count == 1) return lookahead(position, count);
  // Computes carries in a chain of bootstraps. Each bootstrap combines the previous carry, one unreduced sum of two digits,
  // and the states of two higher positions.
  Linear carry = units(1);
  for (std::size_t i = 0; i < count;) {
    const bool raw = !(sign && i + 1 == count);
    const unsigned first = raw ? base_ : 2;  // least value at which the lowest position generates a carry
    Value step = raw ? add(add(digit(a[i]), complement(digit(b[i]))), {carry, 1}) : Value{carry, 1};
    if (!raw) step = add(step, {position(i, {0, 1, 2}), 2});
    unsigned over = first;
    std::size_t next = i + 1;
    while (next < count && 2 * over <= boxes_) {
      const auto scale = static_cast<int>(over);
      step = add(step, {position(next, {0, scale, 2 * scale}), 2 * over});
      over *= 2, ++next;
    }
    const bool last = next == count;
    carry = apply(step, [&](unsigned x) { return x >= over ? (last ? yes : 1) : (last ? no : 0); });
    i = next;
  }
  return carry;
}

Number Digits::less(const Number& a, const Number& b) { return boolean(at_least(a.parts, b.parts, a.type.is_signed, 1, 0)); }

Linear Digits::any(std::vector<Value> values, int no, int yes) {
  while (true) {
    // A sum of exactly `boxes_` is looked up as the negative of table entry 0, which is not 0, so it counts as nonzero.
    std::vector<Value> next;
    std::stable_sort(values.begin(), values.end(), [](const Value& a, const Value& b) { return a.max > b.max; });
    while (!values.empty()) {
      const Value sum = take(values, boxes_, limit());
      const bool last = next.empty() && values.empty();
      const int zero = last ? no : 0, other = last ? yes : 1;
      next.push_back({apply(sum, [&](unsigned x) { return x == 0 ? zero : other; }), 1});
      if (last) return next[0].x;
    }
    values = std::move(next);
  }
}

Number Digits::equal(const Number& a, const Number& b) {
  const auto base = static_cast<int>(base_);
  std::vector<Value> differences, open;
  std::vector<unsigned> wanted;  // required digit for each of `open`
  for (std::size_t i = 0; i < a.parts.size(); ++i) {
    if (a.parts[i] == b.parts[i]) continue;
    const Value x = digit(a.parts[i]), y = digit(b.parts[i]);
    if (is_constant(x.x) && is_constant(y.x)) return constant(0, Type{});
    if (is_constant(x.x) || is_constant(y.x)) {
      const Value& v = is_constant(x.x) ? y : x;
      const unsigned c = is_constant(x.x) ? x.max : y.max;
      if (c == 0 || c == base_ - 1) {
        differences.push_back(c == 0 ? v : complement(v));
      } else {
        open.push_back(v);
        wanted.push_back(c);
      }
      continue;
    }
    const Value difference = add(x, complement(y));
    differences.push_back({apply(difference, [base](unsigned d) { return static_cast<int>(d) != base - 1 ? 1 : 0; }), 1});
  }
  // One look-up compares two encrypted digits with two clear digits.
  for (std::size_t i = 0; i < open.size(); i += 2) {
    const unsigned p = wanted[i], q = i + 1 < open.size() ? wanted[i + 1] : 0;
    const Value second = i + 1 < open.size() ? open[i + 1] : Value{units(0), 0};
    differences.push_back({pair(open[i], second, [=](unsigned x, unsigned y) { return x != p || y != q ? 1 : 0; }), 1});
  }
  if (differences.empty()) return constant(1, Type{});
  return boolean(any(std::move(differences), 1, 0));
}

Number Digits::bitwise(Bitwise operation, const Number& a, const Number& b) {
  const auto f = [operation](unsigned x, unsigned y) -> int {
    return static_cast<int>(operation == Bitwise::and_bits ? x & y : operation == Bitwise::or_bits ? x | y : x ^ y);
  };
  Number result{{}, a.type};
  for (std::size_t i = 0; i < a.parts.size(); ++i) {
    if (a.type.boolean) {
      result.parts.push_back(truth({a.parts[i], b.parts[i]}, {f(0, 0) != 0, f(1, 0) != 0, f(0, 1) != 0, f(1, 1) != 0}));
      continue;
    }
    if (a.parts[i] == b.parts[i]) {
      result.parts.push_back(operation == Bitwise::xor_bits ? units(0) : a.parts[i]);
      continue;
    }
    const Value x = digit(a.parts[i]), y = digit(b.parts[i]);
    const bool left = is_constant(x.x), right = is_constant(y.x);
    const unsigned c = left ? x.max : y.max;
    if (left != right && (c == 0 || c == base_ - 1)) {
      const Linear& other = left ? y.x : x.x;
      const bool ones = c != 0;
      result.parts.push_back(operation == Bitwise::and_bits  ? (ones ? other : units(0))
                             : operation == Bitwise::or_bits ? (ones ? units(base_ - 1) : other)
                                                             : (ones ? units(base_ - 1) - other : other));
      continue;
    }
    result.parts.push_back(pair(x, y, f));
  }
  return result;
}

Number Digits::bit_not(const Number& a) {
  if (a.type.boolean) return negate_boolean(a);
  return {complement(a.parts), a.type};
}

Linear Digits::sign_fill(const Number& a) {
  if (!a.type.is_signed) return units(0);
  return apply(digit(a.parts.back()), [this](unsigned x) { return x >= base_ / 2 ? static_cast<int>(base_) - 1 : 0; });
}

Number Digits::convert(const Number& a, const Type& type) {
  if (type.boolean) {
    if (a.type.boolean) return {a.parts, type};
    std::vector<Value> digits;
    for (const Linear& p : a.parts) digits.push_back(digit(p));
    return boolean(any(std::move(digits), 0, 1));
  }
  Number result{a.parts, type};
  const std::size_t count = parts(type);
  if (count > a.parts.size()) result.parts.resize(count, a.type.boolean ? units(0) : sign_fill(a));
  result.parts.resize(count);
  return result;
}

std::vector<Linear> Digits::table_of(const std::vector<Linear>& digits, const std::vector<std::vector<int>>& tables) {
  std::vector<Linear> results;
  const bool direct = digits.size() == 1 || (digits.size() == 2 && base_ * base_ <= boxes_);
  for (const std::vector<int>& table : tables) {
    if (std::adjacent_find(table.begin(), table.end(), std::not_equal_to<>()) == table.end()) {
      results.push_back(units(table[0]));
      continue;
    }
    if (direct && digits.size() == 1) {
      results.push_back(apply(digit(digits[0]), [&](unsigned x) { return table[x]; }));
      continue;
    }
    if (direct) {
      results.push_back(
          pair(digit(digits[1]), digit(digits[0]), [&](unsigned x, unsigned y) { return table[x * base_ + y]; }));
      continue;
    }
    const std::vector<Linear> lower(digits.begin(), digits.end() - 1);
    std::vector<std::vector<int>> halves;
    const std::size_t size = table.size() / base_;
    for (std::size_t i = 0; i < base_; ++i) {
      halves.emplace_back(table.begin() + static_cast<std::ptrdiff_t>(i * size),
                          table.begin() + static_cast<std::ptrdiff_t>((i + 1) * size));
    }
    if (std::all_of(halves.begin(), halves.end(), [&](const auto& h) { return h == halves[0]; })) {
      results.push_back(table_of(lower, {halves[0]})[0]);
      continue;
    }
    const std::vector<Linear> choices = table_of(lower, halves);
    const Value top = digit(digits.back());
    // A sum of choices must be added to the next higher digit, which needs weight base and norm 1. One bootstrap of the sum
    // then suffices.
    const auto base = static_cast<int>(base_);
    const std::uint64_t spare = limit() - std::uint64_t{base_} * base_;
    const bool calm =
        std::all_of(choices.begin(), choices.end(), [&](const Linear& x) { return Builder::norm(x) <= spare; });
    const Value above = calm ? add({}, top, base)
                             : Value{apply(top, [base](unsigned x) { return static_cast<int>(x) * base; }), base_ * top.max};
    Linear sum = units(0);
    for (unsigned i = 0; i < base_; ++i) {
      sum = sum + apply(add(digit(choices[i]), above), [=](unsigned x) {
              return static_cast<int>(x) / base == static_cast<int>(i) ? static_cast<int>(x) % base : 0;
            });
    }
    results.push_back(sum);
  }
  return results;
}

Number Digits::look_up(const Number& a, const std::vector<std::uint64_t>& table, const Type& type) {
  const std::size_t inputs = a.type.boolean ? 2 : std::size_t{1} << std::min(a.type.bits, 32u);
  require<InternalError>(table.size() == inputs, "a table must have an entry for each value of its operand");
  Number result{{}, type};
  const std::size_t count = parts(type);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<int> digits;
    for (const std::uint64_t v : table) {
      digits.push_back(static_cast<int>(v >> (i * bits_) & (type.boolean ? 1 : base_ - 1)));
    }
    if (a.type.boolean) digits.resize(base_, 0);
    result.parts.push_back(table_of(a.parts, {digits})[0]);
  }
  return cleaned(result);
}

}  // namespace heliograph::circuits
