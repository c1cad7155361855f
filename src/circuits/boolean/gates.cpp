#include "circuits/boolean/gates.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "base/errors.h"

namespace heliograph::circuits::boolean {

namespace {

std::uint64_t norm(const Bit& a) { return Builder::norm(a); }

std::vector<bool> half(const std::vector<bool>& table, bool upper) {
  const auto middle = table.begin() + static_cast<std::ptrdiff_t>(table.size() / 2);
  return upper ? std::vector<bool>(middle, table.end()) : std::vector<bool>(table.begin(), middle);
}

}  // namespace

Gates::Gates(Builder& builder) : builder_(builder) {
  require<ParameterError>(builder.encoding().boolean(), "circuits of bits need a parameter set of message_bits 0");
  require<ParameterError>(builder.encoding().norm >= 3, "circuits of bits need a parameter set with a norm of at least 3");
}

Linear Gates::units(int count) const {
  return circuits::constant(static_cast<std::uint64_t>(std::int64_t{count}) * builder_.encoding().unit());
}

Bit Gates::constant(bool value) const { return units(value ? 1 : -1); }

Word Gates::negated(const Word& a) {
  Word result;
  result.reserve(a.size());
  for (const Bit& bit : a) result.push_back(negated(bit));
  return result;
}

Bit Gates::sign(const Linear& x, unsigned scale) {
  // The sign is an odd function, so an input and its negative share one bootstrap.
  const bool turned = !x.terms.empty() && x.terms.front().weight < 0;
  const Bit result = builder_.bootstrap(turned ? -1 * x : x, {builder_.encoding().unit()}, 1, scale)[0];
  return turned ? negated(result) : result;
}

Linear Gates::sum(const std::vector<int>& weights, Word bits, unsigned scale) {
  for (;;) {
    Linear x;
    for (std::size_t i = 0; i < bits.size(); ++i) x = x + weights[i] * bits[i];
    Bit& noisiest =
        *std::max_element(bits.begin(), bits.end(), [](const Bit& a, const Bit& b) { return norm(a) < norm(b); });
    if (norm(x) <= std::uint64_t{builder_.encoding().norm} * scale * scale || norm(noisiest) <= 1) return x;
    noisiest = clean(noisiest);
  }
}

Bit Gates::middle(const Linear& x) {
  const std::uint64_t unit = builder_.encoding().unit();
  return builder_.bootstrap(x, {0, std::uint64_t{0} - 2 * unit})[0] + units(-1);
}

Bit Gates::remember(Sum made) {
  const Bit sum = made.sum;
  if (sum.terms.size() == 2) sums_[{sum.terms[0].wire, sum.terms[1].wire}] = std::move(made);
  return sum;
}

std::optional<Bit> Gates::again(const Sum& made) {
  if (made.bits.empty()) return middle(made.combination);
  return in_turn(made.bits, made.table);
}

Bit Gates::clean(const Bit& a) {
  if (norm(a) <= 1) return a;
  const auto found = sums_.find({a.terms.front().wire, a.terms.back().wire});
  if (found != sums_.end()) {
    const Sum made = found->second;
    const bool turned = a == negated(made.sum);
    if (turned || a == made.sum) {
      if (const auto fresh = again(made)) return turned ? negated(*fresh) : *fresh;
    }
  }
  return sign(a, 1);
}

Bit Gates::sign(const std::array<int, 3>& weights, int constant, unsigned scale, Word bits) {
  const std::vector<int> used(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(bits.size()));
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (weights[i] == 0) bits[i] = {};
  }
  return sign(sum(used, std::move(bits), scale) + units(constant), scale);
}

Bit Gates::and_gate(const Bit& a, const Bit& b) {
  if (is_constant(a)) return is(a, true) ? b : a;
  if (is_constant(b)) return is(b, true) ? a : b;
  if (a == b) return a;
  if (a == negated(b)) return constant(false);
  return sign({1, 1, 0}, -1, 1, {a, b});
}

Bit Gates::xor_gate(const Bit& a, const Bit& b) {
  if (is_constant(a)) return is(a, true) ? negated(b) : b;
  if (is_constant(b)) return is(b, true) ? negated(a) : a;
  if (a == b) return constant(false);
  if (a == negated(b)) return constant(true);
  return sign({2, 2, 0}, 2, 2, {a, b});
}

Bit Gates::majority(const Bit& a, const Bit& b, const Bit& c) {
  for (const auto& [x, y, z] : {std::array{&a, &b, &c}, std::array{&b, &c, &a}, std::array{&c, &a, &b}}) {
    if (*x == *y) return *x;
    if (*x == negated(*y)) return *z;
  }
  if (is_constant(a)) return is(a, true) ? or_gate(b, c) : and_gate(b, c);
  if (is_constant(b)) return is(b, true) ? or_gate(a, c) : and_gate(a, c);
  if (is_constant(c)) return is(c, true) ? or_gate(a, b) : and_gate(a, b);
  return sign({1, 1, 1}, 0, 1, {a, b, c});
}

Bit Gates::xor_gate(const Bit& a, const Bit& b, const Bit& c) {
  for (const auto& [x, y, z] : {std::array{&a, &b, &c}, std::array{&b, &c, &a}, std::array{&c, &a, &b}}) {
    if (*x == *y) return *z;
    if (*x == negated(*y)) return negated(*z);
    if (is_constant(*x)) return is(*x, true) ? negated(xor_gate(*y, *z)) : xor_gate(*y, *z);
  }
  return sign({-2, -2, -2}, 0, 2, {a, b, c});
}

Bit Gates::select(const Bit& condition, const Bit& a, const Bit& b) {
  if (is_constant(condition)) return is(condition, true) ? a : b;
  if (a == b) return a;
  if (a == negated(b)) return negated(xor_gate(condition, a));
  if (is(a, true) || a == condition) return or_gate(condition, b);
  if (is(a, false) || a == negated(condition)) return and_gate(negated(condition), b);
  if (is(b, true) || b == negated(condition)) return or_gate(negated(condition), a);
  if (is(b, false) || b == condition) return and_gate(condition, a);
  const Bit chosen = and_gate(condition, a) + and_gate(negated(condition), b) + units(1);
  return remember({chosen, {}, {condition, a, b}, {false, false, false, true, true, false, true, true}});
}

std::pair<Bit, Bit> Gates::half_adder(const Bit& a, const Bit& b, bool free) {
  if (is_constant(a) || is_constant(b) || a == b || a == negated(b)) return {xor_gate(a, b), and_gate(a, b)};
  const Linear x = sum({1, 1}, {a, b}, 1) + units(-1);
  if (!free) return {middle(x), builder_.bootstrap(x, {builder_.encoding().unit()})[0]};
  const auto both = builder_.bootstrap(x, {builder_.encoding().unit()}, 2);
  return {remember({both[1] - both[0] + units(-1), x, {}, {}}), both[0]};
}

std::pair<Bit, Bit> Gates::full_adder(const Bit& a, const Bit& b, const Bit& c, bool free) {
  for (const auto& [x, y, z] : {std::array{&a, &b, &c}, std::array{&b, &c, &a}, std::array{&c, &a, &b}}) {
    if (!is_constant(*x)) continue;
    if (is(*x, false)) return half_adder(*y, *z, free);
    // For the sum y + z + 1 of bits, the result bit is XNOR(y, z) and the carry is OR(y, z). A half adder of the negated
    // bits gives both results, negated.
    const auto [sum, carry] = half_adder(negated(*y), negated(*z), free);
    return {negated(sum), negated(carry)};
  }
  return {xor_gate(a, b, c), majority(a, b, c)};
}

Bit Gates::all(Word bits) {
  if (bits.empty()) return constant(true);
  auto later = [this](const Bit& a, const Bit& b) { return builder_.layer(a) < builder_.layer(b); };
  std::stable_sort(bits.begin(), bits.end(), later);
  while (bits.size() > 1) {
    Word next;
    for (std::size_t i = 0; i + 1 < bits.size(); i += 2) next.push_back(and_gate(bits[i], bits[i + 1]));
    if (bits.size() % 2 == 1) next.push_back(bits.back());
    bits = std::move(next);
  }
  return bits[0];
}

const std::vector<Gates::Sign>& Gates::signs() {
  static const std::vector<Sign> all = [] {
    std::vector<Sign> found;
    for (int scale = 1; scale <= 2; ++scale) {
      for (int code = 0; code < 27 * 8; ++code) {
        Sign s;
        s.scale = static_cast<unsigned>(scale);
        s.constant = code / 27 - 4;
        for (int i = 0, rest = code % 27; i < 3; ++i, rest /= 3)
          s.weights[static_cast<std::size_t>(i)] = (rest % 3 - 1) * scale;
        bool far = true;  // every phase has at least the distance `scale` from the phases where the sign changes
        for (unsigned i = 0; i < 8; ++i) {
          int phase = s.constant + 64;
          for (unsigned j = 0; j < 3; ++j) phase += (i >> j & 1) ? s.weights[j] : -s.weights[j];
          phase %= 8;
          far = far && std::min(phase % 4, 4 - phase % 4) >= scale;
          s.table[i] = phase < 4;
        }
        if (!far) continue;
        const bool known = std::any_of(found.begin(), found.end(), [&s](const Sign& f) { return f.table == s.table; });
        if (!known) found.push_back(s);
      }
    }
    return found;
  }();
  return all;
}

const std::vector<Gates::Turn>& Gates::turns(const std::vector<bool>& table) {
  const auto [known, fresh] = turns_.try_emplace(table);
  std::vector<Turn>& found = known->second;
  if (!fresh) return found;
  for (const Sign& first : signs()) {
    for (int code = 0; code < 3 * 8 * 27; ++code) {
      Turn t{first, code % 3 + 1, {}, code / 3 % 8 - 4};
      int used = 0;
      for (std::size_t i = 0, rest = static_cast<std::size_t>(code) / 24; i < 3; ++i, rest /= 3)
        used += std::abs(t.weights[i] = static_cast<int>(rest % 3) - 1);
      bool fits = used <= 2;
      for (unsigned i = 0; fits && i < 8; ++i) {
        int phase = t.constant + (first.table[i] ? t.size : -t.size) + 64;
        for (unsigned j = 0; j < 3; ++j) phase += (i >> j & 1) ? t.weights[j] : -t.weights[j];
        fits = phase % 4 != 0 && (phase % 8 < 4) == table[i];
      }
      if (fits) found.push_back(t);
    }
  }
  const auto terms = [](const Turn& t) {
    const auto none = [](const std::array<int, 3>& w) { return std::count(w.begin(), w.end(), 0); };
    return 6 - none(t.first.weights) - none(t.weights);
  };
  std::stable_sort(found.begin(), found.end(), [&](const Turn& a, const Turn& b) { return terms(a) < terms(b); });
  return found;
}

std::optional<Bit> Gates::in_turn(const Word& bits, const std::vector<bool>& table) {
  const auto weighted = [&](const std::array<int, 3>& weights, int constant) {
    Linear x = units(constant);
    for (std::size_t i = 0; i < 3; ++i) x = x + weights[i] * bits[i];
    return x;
  };
  const std::uint64_t most = builder_.encoding().norm;
  for (const Turn& t : turns(table)) {
    const Linear x = weighted(t.first.weights, t.first.constant), y = weighted(t.weights, t.constant);
    if (norm(x) > most * t.first.scale * t.first.scale || norm(y) + 1 > most) continue;
    const Linear first =
        builder_.bootstrap(x, {static_cast<unsigned>(t.size) * builder_.encoding().unit()}, 1, t.first.scale)[0];
    if (norm(first + y) <= most) return sign(first + y, 1);
  }
  return std::nullopt;
}

Bit Gates::function(const Word& bits, const std::vector<bool>& table) {
  require<ParameterError>(table.size() == std::size_t{1} << bits.size(), "a truth table must have 2^operands values");
  if (std::all_of(table.begin(), table.end(), [&](bool v) { return v == table[0]; })) return constant(table[0]);
  if (is_constant(bits.back())) {
    return function(Word(bits.begin(), bits.end() - 1), half(table, is(bits.back(), true)));
  }
  if (bits.size() <= 3) return small_function(bits, table);
  const Word rest(bits.begin(), bits.end() - 1);
  const auto low = half(table, false), high = half(table, true);
  if (low == high) return function(rest, low);
  const Bit on_low = function(rest, low);
  auto inverse = low;
  inverse.flip();
  if (inverse == high) return xor_gate(bits.back(), on_low);
  return select(bits.back(), function(rest, high), on_low);
}

Bit Gates::small_function(const Word& bits, const std::vector<bool>& table) {
  // Removes operands that are constants or do not affect the result.
  for (std::size_t j = 0; j < bits.size(); ++j) {
    std::vector<bool> low, high;
    for (std::size_t i = 0; i < table.size(); ++i) (i >> j & 1 ? high : low).push_back(table[i]);
    if (!is_constant(bits[j]) && low != high) continue;
    Word rest = bits;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(j));
    return function(rest, is_constant(bits[j]) && is(bits[j], true) ? high : low);
  }
  for (std::size_t j = 1; j < bits.size(); ++j) {
    // If an operand is repeated, keep only the table entries in which both occurrences have the same bit.
    for (std::size_t k = 0; k < j; ++k) {
      const bool turned = bits[j] == negated(bits[k]);
      if (!turned && bits[j] != bits[k]) continue;
      std::vector<bool> read(table.size());
      for (std::size_t i = 0; i < table.size(); ++i) {
        const std::size_t bit = (i >> k & 1) ^ (turned ? 1 : 0);
        read[i] = table[(i & ~(std::size_t{1} << j)) | bit << j];
      }
      return function(bits, read);
    }
  }
  if (bits.size() == 1) return table[1] ? bits[0] : negated(bits[0]);
  if (bits.size() == 3) return three(bits, table);
  if (table[0] != table[1] && table[0] != table[2] && table[0] == table[3]) {
    const Bit sum = xor_gate(bits[0], bits[1]);
    return table[1] ? sum : negated(sum);
  }
  // If one value occurs only once in the table, the function is an AND of operands or their negations, or the negation of
  // such an AND.
  const bool alone = std::count(table.begin(), table.end(), true) == 1;
  const auto at = static_cast<std::size_t>(std::find(table.begin(), table.end(), alone) - table.begin());
  const Bit result = and_gate(at & 1 ? bits[0] : negated(bits[0]), at & 2 ? bits[1] : negated(bits[1]));
  return alone ? result : negated(result);
}

Bit Gates::three(const Word& bits, const std::vector<bool>& table) {
  auto made = [this](const Sign& s, const Word& of) { return sign(s.weights, s.constant, s.scale, of); };
  auto fits = [&](const Sign& s) { return std::equal(s.table.begin(), s.table.end(), table.begin()); };
  const auto& known = signs();
  if (const auto one = std::find_if(known.begin(), known.end(), fits); one != known.end()) return made(*one, bits);
  // The OR of two bootstraps that are never both true is a free sum, in one layer.
  for (const Sign& f : known) {
    for (const Sign& g : known) {
      bool same = true;
      for (std::size_t i = 0; i < 8; ++i) {
        same = same && !(f.table[i] && g.table[i]) && (f.table[i] || g.table[i]) == table[i];
      }
      if (same) return remember({made(f, bits) + made(g, bits) + units(1), {}, bits, table});
      same = true;
      for (std::size_t i = 0; i < 8; ++i) {
        same = same && (f.table[i] || g.table[i]) && (f.table[i] && g.table[i]) == table[i];
      }
      if (same) return remember({made(f, bits) + made(g, bits) + units(-1), {}, bits, table});
    }
  }
  for (const Sign& f : known) {
    for (std::size_t left = 0; left < 3; ++left) {
      const std::size_t x = left == 0 ? 1 : 0, y = left == 2 ? 1 : 2;
      for (const Sign& g : known) {
        bool same = true;
        for (std::size_t i = 0; i < 8; ++i) {
          const std::size_t at = (f.table[i] ? 1u : 0u) | (i >> x & 1) << 1 | (i >> y & 1) << 2;
          same = same && g.table[at] == table[i];
        }
        if (same) return made(g, {made(f, bits), bits[x], bits[y]});
      }
    }
  }
  for (const Sign& f : known) {
    for (const Sign& g : known) {
      bool product = true, either = true, difference = true;
      for (std::size_t i = 0; i < 8; ++i) {
        product = product && (f.table[i] && g.table[i]) == table[i];
        either = either && (f.table[i] || g.table[i]) == table[i];
        difference = difference && (f.table[i] != g.table[i]) == table[i];
      }
      if (product) return and_gate(made(f, bits), made(g, bits));
      if (either) return or_gate(made(f, bits), made(g, bits));
      if (difference) return xor_gate(made(f, bits), made(g, bits));
    }
  }
  const Word rest{bits[0], bits[1]};
  return select(bits[2], function(rest, half(table, true)), function(rest, half(table, false)));
}

}  // namespace heliograph::circuits::boolean
