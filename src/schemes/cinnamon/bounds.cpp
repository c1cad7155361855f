#include "schemes/cinnamon/bounds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <random>
#include <tuple>

#include "program/limbs/names.h"
#include "schemes/ckks/figures.h"

namespace heliograph::cinnamon {

namespace {

namespace limbs = program::limbs;
using limbs::kNone;
using limbs::u32;
using math::i64;
using math::u64;
using Step = Meaning::Step;

/// A polynomial whose limbs are values of the program, as a formal expression in the program's inputs. Two expressions share
/// a node if they have equal values at random points. The points lie in two independent computations over a field, so this
/// test errs with probability about 2^-120.
struct Node {
  enum class Kind : unsigned char {
    component,      // a: item, b: component
    clear,          // a: number of a plaintext or scalar
    key,            // a: key, b: component
    sum,            // a + b
    difference,     // a - b
    negative,       // -a
    product,        // a b
    turned,         // the automorphism X -> X^extra of a
    raised,         // a modulo the primes `extra`, centred, lifted to other primes
    divided,        // a divided by the primes `extra`, rounded
    switched,       // digit of c, raised, times component b of key a
    switched_down,  // like `switched`, then divided by the special primes and rounded
    other,
  };
  Kind kind = Kind::other;
  u32 a = kNone, b = kNone, c = kNone;
  u64 extra = 0;
  bool operator==(const Node&) const = default;
  auto operator<=>(const Node&) const = default;
};

/// The value of an expression at a random point, modulo 2^61 - 1, in two independent computations.
struct Value {
  static constexpr u64 kPrime = (u64{1} << 61) - 1;
  u64 first = 0, second = 0;
  auto operator<=>(const Value&) const = default;

  template <class F>
  static Value each(const Value& a, const Value& b, F f) {
    return {f(a.first, b.first), f(a.second, b.second)};
  }
};
Value operator+(const Value& a, const Value& b) {
  return Value::each(a, b, [](u64 x, u64 y) { return math::add_mod(x, y, Value::kPrime); });
}
Value operator-(const Value& a, const Value& b) {
  return Value::each(a, b, [](u64 x, u64 y) { return math::sub_mod(x, y, Value::kPrime); });
}
Value operator*(const Value& a, const Value& b) {
  return Value::each(a, b, [](u64 x, u64 y) { return math::mul_mod(x, y, Value::kPrime); });
}

/// Nodes of a sum, with the number of times that each occurs.
using Terms = std::map<u32, i64>;
/// Phase c_0 + c_1 s + c_2 s^2 + ...: the terms of each factor. Factors are 1, s, s^2, and kTurned plus a Galois element
/// for an automorphism of s.
using Phase = std::map<u64, Terms>;
constexpr u64 kOne = 0, kSecret = 1, kSquare = 2, kTurned = 4;

/// The expression of each value of a program.
class Expressions {
 public:
  Expressions(const limbs::Linked& program, const Scheme& scheme) : program_(program), scheme_(scheme) {
    std::random_device device;
    for (u64& word : state_) word = u64{device()} << 32 | device();
    of_.assign(program.values.size(), kNone);
    for (std::size_t v = 0; v < program.values.size(); ++v) {
      if (program.values[v].kind != limbs::Value::Kind::source) continue;
      const limbs::Source& s = program.sources[program.values[v].at];
      const Node::Kind kind = s.kind == 'k' ? Node::Kind::key : s.kind == 'i' ? Node::Kind::component : Node::Kind::clear;
      of_[v] = atom({.kind = kind, .a = s.which, .b = s.component});
    }
    for (const limbs::Action& a : program.actions) take(a);
  }

  /// Returns the node of the polynomial whose limbs are all these values, or kNone.
  u32 of(const std::vector<u32>& values, std::size_t first, std::size_t count) const {
    const u32 node = of_[values[first]];
    for (std::size_t i = 1; i < count; ++i)
      if (of_[values[first + i]] != node) return kNone;
    return node;
  }
  const Node& operator[](u32 node) const { return nodes_[node]; }
  u32 atom(const Node& node) {
    const auto [found, fresh] = atoms_.try_emplace(node, static_cast<u32>(nodes_.size()));
    if (fresh) add(node, {random(), random()});
    return found->second;
  }
  /// Returns the node of the product a b, or kNone if no value of the program is that product.
  u32 find_product(u32 a, u32 b) const {
    const auto found = by_value_.find(values_[a] * values_[b]);
    return found == by_value_.end() ? kNone : found->second;
  }
  /// Returns the primes of the digit of a polynomial that the program multiplies by a key's component; 0 if its limbs use
  /// several digits.
  u64 digit(u32 key, u32 component, u32 node) const {
    const auto found = digits_.find({key, component / 2, node});
    return found == digits_.end() ? 0 : found->second;
  }

 private:
  using Kind = limbs::Action::Kind;

  u64 random() {  // xoshiro256** with a random seed, so that no program can be made to contain colliding expressions
    const u64 result = std::rotl(state_[1] * 5, 7) * 9, t = state_[1] << 17;
    state_[2] ^= state_[0], state_[3] ^= state_[1], state_[1] ^= state_[2], state_[0] ^= state_[3];
    state_[2] ^= t, state_[3] = std::rotl(state_[3], 45);
    return result % Value::kPrime;
  }
  u32 add(const Node& node, const Value& value) {
    nodes_.push_back(node), values_.push_back(value);
    by_value_.emplace(value, static_cast<u32>(nodes_.size() - 1));
    return static_cast<u32>(nodes_.size() - 1);
  }
  u32 unknown() { return add({}, {random(), random()}); }
  u32 computed(Node::Kind kind, u32 a, u32 b, const Value& value) {
    const auto found = by_value_.find(value);
    return found != by_value_.end() ? found->second : add({.kind = kind, .a = a, .b = b}, value);
  }

  u32 product(u32 a, u32 b, std::uint16_t prime) {
    if (nodes_[b].kind == Node::Kind::key) std::swap(a, b);
    if (nodes_[a].kind != Node::Kind::key) return computed(Node::Kind::product, a, b, values_[a] * values_[b]);
    const Node key = nodes_[a], x = nodes_[b];
    const limbs::Key& k = program_.keys[key.a];
    if (k.type == limbs::Key::own || x.kind == Node::Kind::key) return unknown();
    const u64 digit = limbs::bits(k.digits[key.b / 2]);
    // Modulo the primes of the digit, the operand is the input's own limb; modulo other primes, it is a limb of the raised
    // digit.
    u32 of = kNone;
    if (x.kind == Node::Kind::raised && (x.extra & ~digit) == 0 && !(x.extra & limbs::bit(prime))) {
      of = x.a;
      const auto [known, fresh] = digits_.try_emplace({key.a, key.b / 2, of}, x.extra);
      if (!fresh && known->second != x.extra) known->second = 0;
    } else if (digit & limbs::bit(prime)) {
      of = b;
    }
    return of == kNone ? unknown() : atom({.kind = Node::Kind::switched, .a = key.a, .b = key.b, .c = of});
  }
  u32 turned(u32 a, u64 galois) {
    if (galois == 1) return a;
    const Node x = nodes_[a];
    if (x.kind == Node::Kind::raised) return atom({.kind = Node::Kind::raised, .a = turned(x.a, galois), .extra = x.extra});
    return atom({.kind = Node::Kind::turned, .a = a, .extra = galois});
  }

  void convert(const limbs::Action& action) {
    const std::vector<u32>& from = program_.groups[action.a].members;
    const u32 a = of(from, 0, from.size());
    u64 primes = 0;
    for (const u32 v : from) primes |= limbs::bit(program_.values[v].prime);
    for (const u32 v : program_.groups[action.to].members)
      of_[v] = a == kNone ? unknown() : atom({.kind = Node::Kind::raised, .a = a, .extra = primes});
  }

  void take(const limbs::Action& action) {
    if (action.kind == Kind::convert) return convert(action);
    const u32 a = of_[action.a], b = action.b == kNone ? kNone : of_[action.b];
    u32& to = of_[action.to];
    switch (action.kind) {
      case Kind::add:
      case Kind::add_scalar:
        to = computed(Node::Kind::sum, a, b, values_[a] + values_[b]);
        break;
      case Kind::subtract:
      case Kind::take_scalar:
        to = computed(Node::Kind::difference, a, b, values_[a] - values_[b]);
        break;
      case Kind::negate:
        to = computed(Node::Kind::negative, a, kNone, Value{} - values_[a]);
        break;
      case Kind::multiply:
      case Kind::scale:
        to = product(a, b, program_.values[action.to].prime);
        break;
      case Kind::turn: {
        const std::int32_t steps = program_.turns[action.table];
        to = turned(a, steps == limbs::Linked::kConjugation ? scheme_.other() : scheme_.rotation(steps));
        break;
      }
      case Kind::divide: {
        const u64 primes = limbs::bits(program_.divisors[action.table].from);
        const Node rest{.kind = Node::Kind::raised, .a = a, .extra = primes};
        to = nodes_[b] == rest ? atom({.kind = Node::Kind::divided, .a = a, .extra = primes}) : unknown();
        break;
      }
      default:
        to = a;
    }
  }

  const limbs::Linked& program_;
  const Scheme& scheme_;
  std::array<u64, 4> state_{};
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::map<Node, u32> atoms_;
  std::map<Value, u32> by_value_;
  std::map<std::tuple<u32, u32, u32>, u64> digits_;  // primes of the digit, by (key, digit of the key, polynomial)
  std::vector<u32> of_;                              // node of each value
};

/// Interprets pairs of polynomials as ciphertexts, and finds the ciphertext operations that compute them.
class Reader {
 public:
  Reader(const limbs::Linked& program, const Scheme& scheme, std::vector<Step>& steps)
      : program_(program), scheme_(scheme), x_(program, scheme), steps_(steps), clear_(program.items.size()) {}

  std::optional<u32> result(const limbs::Result& r) {
    const u32 c0 = x_.of(r.values, 0, r.level), c1 = x_.of(r.values, r.level, r.level);
    if (c0 == kNone || c1 == kNone) return std::nullopt;
    return read({{kOne, {{c0, 1}}}, {kSecret, {{c1, 1}}}}, limbs::bit(r.level) - 1, 0);
  }

 private:
  static constexpr int kDeepest = 400;
  static constexpr std::size_t kMostWork = std::size_t{1} << 24;
  static constexpr i64 kMostTimes = i64{1} << 40;
  using Found = std::optional<u32>;

  u32 step(Step s) {
    steps_.push_back(std::move(s));
    return static_cast<u32>(steps_.size() - 1);
  }
  const Node& node(u32 n) const { return x_[n]; }
  bool of_special(u64 primes) const { return program_.special > 0 && (primes & ~special_primes()) == 0; }
  u64 special_primes() const {
    u64 all = 0;
    for (std::size_t p = 0; p < program_.special; ++p) all |= limbs::bit(limbs::kPrimes - 1 - p);
    return all;
  }
  double log2_of(u64 primes) const {
    const rlwe::RingParameters& set = scheme_.rlwe().parameters();
    double sum = 0;
    for (; primes != 0; primes &= primes - 1) {
      const auto p = static_cast<std::size_t>(std::countr_zero(primes));
      const bool chain = p < set.chain.size() && p < limbs::kPrimes - program_.special;
      sum += std::log2(static_cast<double>(chain ? set.chain[p] : set.special[limbs::kPrimes - 1 - p]));
    }
    return sum;
  }

  /// Expands sums to terms. `roundings`: is increased by the number of divisions by special primes. Returns false if
  /// there are too many terms.
  bool flatten(Terms work, Terms& out, double& roundings) {
    while (!work.empty()) {
      const auto [n, times] = *work.rbegin();  // a sum has a higher number than its summands
      work.erase(n);
      if (times == 0) continue;
      if (++work_ > kMostWork || std::abs(times) > kMostTimes) return false;
      const Node x = node(n);
      switch (x.kind) {
        case Node::Kind::sum:
          work[x.a] += times, work[x.b] += times;
          break;
        case Node::Kind::difference:
          work[x.a] += times, work[x.b] -= times;
          break;
        case Node::Kind::negative:
          work[x.a] -= times;
          break;
        case Node::Kind::divided:
          if (of_special(x.extra)) {
            if (!divide(x, times, out)) return false;
            roundings += static_cast<double>(std::abs(times));
            break;
          }
          [[fallthrough]];
        default:
          out[n] += times;
      }
    }
    std::erase_if(out, [](const auto& t) { return t.second == 0; });
    return true;
  }
  /// Distributes a division over the terms of a sum of digits times keys.
  bool divide(const Node& x, i64 times, Terms& out) {
    Terms parts;
    double none = 0;
    if (!flatten({{x.a, 1}}, parts, none)) return false;
    for (const auto& [n, count] : parts) {
      Node part = node(n);
      if (part.kind != Node::Kind::switched || extension(part.a) != x.extra || none != 0) return false;
      part.kind = Node::Kind::switched_down;
      out[x_.atom(part)] += times * count;
    }
    return true;
  }
  u64 extension(u32 key) const {
    u64 all = 0;
    for (std::size_t p = 0; p < program_.keys[key].extension; ++p) all |= limbs::bit(limbs::kPrimes - 1 - p);
    return all;
  }

  /// Returns the factor in the phase of a component that a key of this kind switches.
  std::optional<u64> secret_of(const limbs::Key& k) const {
    switch (k.type) {
      case limbs::Key::relinearization:
        return kSquare;
      case limbs::Key::rotation: {
        const u64 galois = scheme_.rotation(k.turn);
        return galois == 1 ? kSecret : kTurned + galois;
      }
      case limbs::Key::conjugation:
        return kTurned + scheme_.other();
      default:
        return std::nullopt;
    }
  }

  /// Replaces key switches among the terms of 1 and s by their operands. The phase must be right modulo the primes
  /// `needed`. `roundings`: number of divisions by special primes.
  bool unswitch(Phase& phase, u64 needed, double roundings, Step& sum) {
    struct Switch {
      std::array<std::map<u32, i64>, 2> halves;  // for each component of the key: the digits, and how often each occurs
    };
    for (bool again = true; again;) {
      again = false;
      std::map<std::pair<u32, u32>, Switch> found;
      for (auto& [secret, terms] : phase) {
        for (auto t = terms.begin(); t != terms.end();) {
          const Node x = node(t->first);
          if (x.kind != Node::Kind::switched_down) {
            ++t;
            continue;
          }
          if (secret != x.b % 2) return false;
          found[{x.a, x.c}].halves[x.b % 2][x.b / 2] = t->second;
          t = terms.erase(t);
        }
      }
      for (const auto& [which, s] : found) {
        const auto [key, of] = which;
        const limbs::Key& k = program_.keys[key];
        const std::optional<u64> secret = secret_of(k);
        if (!secret || s.halves[0] != s.halves[1]) return false;
        const i64 times = s.halves[0].begin()->second;
        u64 covered = 0;
        std::vector<double> bits;
        for (const auto& [j, count] : s.halves[0]) {
          const u64 digit = x_.digit(key, 2 * j, of), keys_own = limbs::bits(k.digits[j]);
          // For each needed prime, exactly one digit has the input's limb, and no other digit has a message in its key
          // modulo that prime.
          if (count != times || digit == 0 || (covered & keys_own & needed)) return false;
          if (keys_own & needed & ~digit) return false;
          covered |= keys_own;
          bits.push_back(log2_of(digit));
        }
        if (needed & ~covered) return false;
        const double noise = scheme_.ckks()->noise().key_switch(bits, 0) - log2_of(extension(key));
        sum.keys = rlwe::log2_sum(sum.keys, noise + std::log2(std::abs(static_cast<double>(times))));
        if (!flatten({{of, times}}, phase[*secret], roundings)) return false;
        again = true;
      }
    }
    if (roundings > 0) sum.rounding = rlwe::log2_sum(sum.rounding, scheme_.ckks()->rounding_noise(2) + std::log2(roundings));
    return true;
  }

  /// Removes the matching terms of all factors from the phase; returns `part` of each.
  template <class Matches, class Part>
  static Phase taken(Phase& phase, Matches matches, Part part) {
    Phase out;
    for (auto& [secret, terms] : phase) {
      for (auto t = terms.begin(); t != terms.end();) {
        if (!matches(t->first)) {
          ++t;
          continue;
        }
        out[secret][part(t->first)] += t->second;
        t = terms.erase(t);
      }
    }
    return out;
  }

  Found read(Phase phase, u64 needed, int depth) {
    std::vector<i64> name = {static_cast<i64>(needed)};
    for (const auto& [secret, terms] : phase) {
      name.push_back(static_cast<i64>(secret)), name.push_back(static_cast<i64>(terms.size()));
      for (const auto& [n, times] : terms) name.push_back(n), name.push_back(times);
    }
    if (const auto known = known_.find(name); known != known_.end()) return known->second;
    const Found made = depth > kDeepest ? std::nullopt : parts_of(std::move(phase), needed, depth);
    known_.emplace(std::move(name), made);
    return made;
  }

  Found parts_of(Phase given, u64 needed, int depth) {
    Step sum{.kind = Step::Kind::sum};
    Phase phase;
    double roundings = 0;
    for (auto& [secret, terms] : given) {
      double mine = 0;
      if (!flatten(std::move(terms), phase[secret], mine)) return std::nullopt;
      roundings = std::max(roundings, mine);
    }
    if (!unswitch(phase, needed, roundings, sum)) return std::nullopt;
    for (;;) {
      std::erase_if(phase, [](const auto& p) { return p.second.empty(); });
      if (phase.empty()) break;
      u32 n = 0;
      for (const auto& [secret, terms] : phase) n = std::max(n, terms.rbegin()->first);
      if (!take(phase, n, needed, depth, sum)) return std::nullopt;
    }
    if (sum.parts.empty()) return std::nullopt;
    const bool alone = sum.parts.size() == 1 && sum.parts[0].second == 1 && sum.keys == Meaning::kNothing &&
                       sum.rounding == Meaning::kNothing;
    return alone ? sum.parts[0].first : step(std::move(sum));
  }

  /// Moves the terms of one operation from the phase to `sum`. Returns false if these terms cannot be interpreted.
  bool take(Phase& phase, u32 n, u64 needed, int depth, Step& sum) {
    const Node x = node(n);
    Found part;
    i64 times = 1;
    switch (x.kind) {
      case Node::Kind::component:
        return take_input(phase, x.a, sum);
      case Node::Kind::clear:
        times = phase[kOne][n];
        phase[kOne].erase(n);
        if (times == 0) return false;  // the node is also the second component of a ciphertext
        part = clear(n);
        break;
      case Node::Kind::turned:
        if (clear(n) && phase[kOne].contains(n)) {
          times = phase[kOne][n];
          phase[kOne].erase(n);
          part = clear(n);
          break;
        }
        part = take_turned(phase, x.extra, needed, depth);
        break;
      case Node::Kind::divided:
        part = take_divided(phase, x.extra, needed, depth);
        break;
      case Node::Kind::product:
        if (clear(x.a) || clear(x.b)) {
          part = take_clear_product(phase, clear(x.b) ? x.b : x.a, needed, depth);
          break;
        }
        return take_product(phase, n, needed, depth, sum);
      default:
        return false;
    }
    if (part) sum.parts.emplace_back(*part, times);
    return part.has_value();
  }

  bool take_input(Phase& phase, u32 item, Step& sum) {
    const u32 c0 = x_.atom({.kind = Node::Kind::component, .a = item, .b = 0});
    const u32 c1 = x_.atom({.kind = Node::Kind::component, .a = item, .b = 1});
    Terms &first = phase[kOne], &second = phase[kSecret];
    const auto a = first.find(c0), b = second.find(c1);
    if (a == first.end() || b == second.end() || a->second != b->second) return false;
    sum.parts.emplace_back(of_item(item), a->second);
    first.erase(a), second.erase(b);
    return true;
  }
  u32 of_item(u32 item) {
    if (!clear_[item]) clear_[item] = step({.kind = Step::Kind::item, .a = item});
    return *clear_[item];
  }
  /// Returns the step of a plaintext or scalar, possibly rotated.
  Found clear(u32 n) {
    const Node x = node(n);
    if (x.kind == Node::Kind::clear) return of_item(x.a);
    return x.kind == Node::Kind::turned ? clear(x.a) : std::nullopt;
  }

  Found take_turned(Phase& phase, u64 galois, u64 needed, int depth) {
    Phase inner;
    for (auto& [secret, terms] : taken(
             phase, [&](u32 n) { return node(n).kind == Node::Kind::turned && node(n).extra == galois; },
             [&](u32 n) { return node(n).a; })) {
      if (terms.empty()) continue;
      if (secret != kOne && secret != kTurned + galois) return std::nullopt;
      inner[secret == kOne ? kOne : kSecret] = terms;
    }
    return read(std::move(inner), needed, depth + 1);
  }

  Found take_divided(Phase& phase, u64 primes, u64 needed, int depth) {
    if (primes & special_primes()) return std::nullopt;
    std::map<u64, double> roundings;
    for (const auto& [secret, terms] : phase) {
      for (const auto& [n, times] : terms) {
        if (node(n).kind == Node::Kind::divided && node(n).extra == primes)
          roundings[secret] += static_cast<double>(std::abs(times));
      }
    }
    const Found of = read(taken(
                              phase, [&](u32 n) { return node(n).kind == Node::Kind::divided && node(n).extra == primes; },
                              [&](u32 n) { return node(n).a; }),
                          needed | primes, depth + 1);
    if (!of) return std::nullopt;
    const ckks::Context& c = *scheme_.ckks();
    Step s{.kind = Step::Kind::rescale, .a = *of, .log_ratio = log2_of(primes)};
    for (const auto& [secret, count] : roundings)
      s.rounding = rlwe::log2_sum(s.rounding, c.rounding_noise(secret == kSquare ? 3 : 2) + std::log2(count));
    return step(std::move(s));
  }

  Found take_clear_product(Phase& phase, u32 factor, u64 needed, int depth) {
    const auto has = [&](u32 n) {
      const Node& x = node(n);
      return x.kind == Node::Kind::product && (x.a == factor || x.b == factor);
    };
    const Found of =
        read(taken(phase, has, [&](u32 n) { return node(n).a == factor ? node(n).b : node(n).a; }), needed, depth + 1);
    if (!of) return std::nullopt;
    return step({.kind = Step::Kind::product, .a = *of, .b = *clear(factor)});
  }

  /// Interprets a product (a0 + a1 s) (b0 + b1 s) of which the node n computes a0 b0.
  bool take_product(Phase& phase, u32 n, u64 needed, int depth, Step& sum) {
    // The latest node may be another part of the product; any node with factor 1 leads to all parts.
    Terms &first = phase[kOne], &second = phase[kSecret], &third = phase[kSquare];
    if (!first.contains(n)) {
      const auto found = std::find_if(first.rbegin(), first.rend(), [&](const auto& t) {
        const Node& x = node(t.first);
        return x.kind == Node::Kind::product && !clear(x.a) && !clear(x.b);
      });
      if (found == first.rend()) return false;
      n = found->first;
    }
    const Node x = node(n);
    const i64 times = first[n];
    const auto has = [&](const Terms& terms, u32 which, i64 count) {
      const auto found = which == kNone ? terms.end() : terms.find(which);
      return found != terms.end() && (count > 0 ? found->second >= count : found->second <= count);
    };
    for (const auto& [m, count] : Terms(third)) {
      const Node y = node(m);
      if (y.kind != Node::Kind::product || !has(third, m, times)) continue;
      for (const auto& [a1, b1] : {std::pair(y.a, y.b), std::pair(y.b, y.a)}) {
        if (++work_ > kMostWork) return false;
        const u32 p = x_.find_product(x.a, b1), q = x_.find_product(x.b, a1);
        if (!has(second, p, p == q ? 2 * times : times) || !has(second, q, times)) continue;
        const Found a = read({{kOne, {{x.a, 1}}}, {kSecret, {{a1, 1}}}}, needed, depth + 1);
        const Found b = a ? read({{kOne, {{x.b, 1}}}, {kSecret, {{b1, 1}}}}, needed, depth + 1) : a;
        if (!a || !b) continue;
        const auto drop = [](Terms& terms, u32 which, i64 n) {
          if ((terms[which] -= n) == 0) terms.erase(which);
        };
        drop(first, n, times), drop(second, p, times), drop(second, q, times), drop(third, m, times);
        sum.parts.emplace_back(step({.kind = Step::Kind::product, .a = *a, .b = *b, .square = *a == *b}), times);
        return true;
      }
    }
    return false;
  }

  const limbs::Linked& program_;
  const Scheme& scheme_;
  Expressions x_;
  std::vector<Step>& steps_;
  std::vector<Found> clear_;  // step of each item
  std::map<std::vector<i64>, Found> known_;
  std::size_t work_ = 0;
};

}  // namespace

Meaning Meaning::of(const limbs::Linked& program, const Scheme& scheme) {
  Meaning made;
  Reader reader(program, scheme, made.steps_);
  for (const limbs::Result& r : program.results) made.results_.push_back(reader.result(r));
  return made;
}

std::vector<std::optional<Bound>> Meaning::bounds(const ckks::Context& c, const Taken& taken) const {
  const ckks::Packing packing{c.period(), c.period(), taken.complex};
  const ring::Shape& shape = taken.shape;
  std::vector<Bound> all;
  const auto both = [&](const Bound& a, const Bound& b, auto op) {
    return ckks::Ranges::both(a.ranges, shape, b.ranges, shape, shape, op);
  };
  for (const Step& s : steps_) {
    Bound made;
    switch (s.kind) {
      case Step::Kind::item:
        made = taken.items[s.a];
        if (packing.complex) made.ranges = made.ranges.map(ckks::magnitudes);
        break;
      case Step::Kind::product: {
        const Bound &a = all[s.a], &b = all[s.b];
        made.scale = a.scale * b.scale;
        made.noise = ckks::product_noise(a.noise, a.ranges.peak() + std::log2(a.scale), b.noise,
                                         b.ranges.peak() + std::log2(b.scale));
        const bool square = s.square && !packing.complex;
        made.ranges =
            both(a, b, [&](const ckks::Range& u, const ckks::Range& v) { return ckks::product(u, v, packing, square); });
        break;
      }
      case Step::Kind::rescale:
        made = all[s.a];
        made.scale /= std::exp2(s.log_ratio);
        made.noise = rlwe::log2_sum(made.noise - s.log_ratio, s.rounding);
        break;
      case Step::Kind::sum:
        for (const auto& [which, times] : s.parts) {
          Bound part = all[which];
          const auto count = static_cast<double>(times);
          if (times != 1) {
            part.noise += std::log2(std::abs(count));
            part.ranges = part.ranges.map([&](const ckks::Range& r) { return ckks::scaled(r, count); });
          }
          if (&which == &s.parts.front().first) {
            made = std::move(part);
            continue;
          }
          made.noise = rlwe::log2_sum(made.noise, ckks::added_noise(part.noise, part.ranges.peak(), part.scale, made.scale));
          made.ranges = both(made, part, [](const ckks::Range& u, const ckks::Range& v) { return ckks::sum(u, v); });
        }
        if (s.keys != kNothing)
          made.noise = rlwe::log2_sum(made.noise, {taken.keys_vouched ? s.keys : std::nan(""), s.keys});
        made.noise = rlwe::log2_sum(made.noise, s.rounding);
    }
    all.push_back(std::move(made));
  }
  std::vector<std::optional<Bound>> results;
  for (const auto& r : results_) results.push_back(r ? std::optional(all[*r]) : std::nullopt);
  return results;
}

}  // namespace heliograph::cinnamon
