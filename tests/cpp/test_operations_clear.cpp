// Evaluates every named operation on clear torus words, by its circuit for each encoding and each goal.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <sstream>

#include "circuits/operations.h"

namespace heliograph::circuits {
namespace {

using tfhe::Operation;
using Words = std::vector<std::uint64_t>;
using i64 = std::int64_t;
using u64 = std::uint64_t;

struct Setting {
  const char* name;
  Encoding encoding;
  Goal goal;
};

const Encoding kBits{0, 0, 3}, kTwo{2, 2, 17}, kOne{1, 1, 5};
const Type kBool{};

Type integer(unsigned bits, bool is_signed) { return {false, bits, is_signed}; }

u64 wrapped(u64 v, const Type& t) { return t.boolean ? v & 1 : t.bits == 64 ? v : v & ((u64{1} << t.bits) - 1); }

/// Returns the value as a sign-extended native integer.
i64 native(u64 v, const Type& t) {
  v = wrapped(v, t);
  return t.is_signed && v >> (t.bits - 1) ? static_cast<i64>(v - (t.bits == 64 ? 0 : u64{1} << t.bits))
                                          : static_cast<i64>(v);
}

Words run(const Encoding& e, const tfhe::Circuit& circuit, const std::vector<Type>& types, const std::vector<Type>& results,
          const Words& values) {
  Words inputs;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Words parts = encode(e, types[i], values[i]);
    inputs.insert(inputs.end(), parts.begin(), parts.end());
  }
  const Words out = evaluate(circuit, inputs);
  Words found;
  std::size_t at = 0;
  for (const Type& t : results) {
    const std::size_t n = parts(e, t);
    found.push_back(
        wrapped(decode(e, t, Words(out.begin() + static_cast<i64>(at), out.begin() + static_cast<i64>(at + n))), t));
    at += n;
  }
  EXPECT_EQ(at, out.size());
  return found;
}

using Expected = std::function<Words(const Words&)>;

class Operations : public testing::TestWithParam<Setting> {
 protected:
  std::mt19937_64 random_{7};

  u64 draw(const Type& t, unsigned round) {
    const u64 top = t.boolean ? 1 : u64{1} << (t.bits - 1);
    const u64 edges[] = {0, 1, wrapped(~u64{0}, t), top, top - 1};
    return random_() % 3 == 0 ? edges[random_() % 5] : wrapped(random_() >> (round % 3 == 0 && t.bits > 8 ? 56 : 0), t);
  }

  /// Checks the operation on random operands and edge operands against `expected`.
  void check(const Operation& operation, const std::vector<Type>& types, const Expected& expected, unsigned rounds = 12) {
    const Encoding& e = GetParam().encoding;
    const std::vector<Type> results = result_types(operation, types);
    const tfhe::Circuit circuit = build(e, operation, types, GetParam().goal);
    for (const tfhe::Linear& out : circuit.outputs) ASSERT_LE(Builder::norm(out), 1u) << operation.name;
    for (unsigned round = 0; round < rounds; ++round) {
      Words values;
      for (const Type& t : types) values.push_back(draw(t, round));
      Words want = expected(values);
      for (std::size_t i = 0; i < want.size(); ++i) want[i] = wrapped(want[i], results[i]);
      std::ostringstream said;
      said << operation.name;
      for (std::size_t i = 0; i < types.size(); ++i) said << ' ' << types[i].text() << ' ' << values[i];
      for (i64 a : operation.arguments) said << " argument " << a;
      ASSERT_EQ(run(e, circuit, types, results, values), want) << said.str();
    }
  }

  /// Checks the operation if several operands are the same ciphertext: `same[i]` is the index of the first operand equal to
  /// operand i. The builder checks the norm of sums.
  void check_same(const Operation& operation, const std::vector<Type>& types, const std::vector<std::size_t>& same,
                  const Expected& expected) {
    const Encoding& e = GetParam().encoding;
    const std::vector<Type> results = result_types(operation, types);
    const tfhe::Circuit circuit = build(e, operation, types, GetParam().goal, same);
    std::vector<Type> differing;
    for (std::size_t i = 0; i < types.size(); ++i)
      if (same[i] == i) differing.push_back(types[i]);
    for (unsigned round = 0; round < 12; ++round) {
      Words drawn, values;
      for (std::size_t i = 0; i < types.size(); ++i) {
        values.push_back(same[i] == i ? draw(types[i], round) : values[same[i]]);
        if (same[i] == i) drawn.push_back(values[i]);
      }
      Words want = expected(values);
      for (std::size_t i = 0; i < want.size(); ++i) want[i] = wrapped(want[i], results[i]);
      ASSERT_EQ(run(e, circuit, differing, results, drawn), want) << operation.name << " of " << values[0];
    }
  }

  std::vector<Type> integers() {
    return {integer(8, false), integer(8, true), integer(24, true), integer(32, false), integer(64, true)};
  }
};

TEST_P(Operations, Gates) {
  const std::vector<std::pair<const char*, std::function<u64(u64, u64)>>> gates = {
      {"and", [](u64 a, u64 b) { return a & b; }},    {"nand", [](u64 a, u64 b) { return ~(a & b); }},
      {"or", [](u64 a, u64 b) { return a | b; }},     {"nor", [](u64 a, u64 b) { return ~(a | b); }},
      {"xor", [](u64 a, u64 b) { return a ^ b; }},    {"xnor", [](u64 a, u64 b) { return ~(a ^ b); }},
      {"andny", [](u64 a, u64 b) { return ~a & b; }}, {"andyn", [](u64 a, u64 b) { return a & ~b; }},
      {"orny", [](u64 a, u64 b) { return ~a | b; }},  {"oryn", [](u64 a, u64 b) { return a | ~b; }}};
  for (const auto& [name, f] : gates) {
    for (const Type& t : {kBool, integer(8, false), integer(32, true)}) {
      check({.name = name}, {t, t}, [&](const Words& x) { return Words{f(x[0], x[1])}; });
      check({.name = name, .arguments = {1}}, {t}, [&](const Words& x) { return Words{f(x[0], 1)}; });
    }
  }
  check({.name = "not"}, {kBool}, [](const Words& x) { return Words{~x[0]}; });
  check({.name = "not"}, {integer(16, true)}, [](const Words& x) { return Words{~x[0]}; });
  const std::vector<Type> three(3, kBool);
  check({.name = "and3"}, three, [](const Words& x) { return Words{x[0] & x[1] & x[2]}; });
  check({.name = "or3"}, three, [](const Words& x) { return Words{x[0] | x[1] | x[2]}; });
  check({.name = "xor3"}, three, [](const Words& x) { return Words{x[0] ^ x[1] ^ x[2]}; });
  check({.name = "majority"}, three, [](const Words& x) { return Words{x[0] + x[1] + x[2] > 1}; });
  check({.name = "half_adder"}, {kBool, kBool}, [](const Words& x) { return Words{x[0] ^ x[1], x[0] & x[1]}; });
  check({.name = "full_adder"}, three, [](const Words& x) {
    const u64 s = x[0] + x[1] + x[2];
    return Words{s & 1, s >> 1};
  });
  for (const Type& t : {kBool, integer(8, true), integer(32, false)})
    for (const char* name : {"mux", "select"})
      check({.name = name}, {kBool, t, t}, [](const Words& x) { return Words{x[0] ? x[1] : x[2]}; });
}

TEST_P(Operations, TruthTables) {
  for (std::size_t inputs : {1, 2, 3, 5}) {
    for (int round = 0; round < 6; ++round) {
      Operation o{.name = "truth_table"};
      for (std::size_t i = 0; i < std::size_t{1} << inputs; ++i) o.arguments.push_back(static_cast<i64>(random_() & 1));
      check(o, std::vector<Type>(inputs, kBool), [&](const Words& x) {
        std::size_t i = 0;
        for (std::size_t j = 0; j < x.size(); ++j) i |= x[j] << j;
        return Words{static_cast<u64>(o.arguments[i])};
      });
    }
  }
}

TEST_P(Operations, Arithmetic) {
  for (const Type& t : integers()) {
    check({.name = "add"}, {t, t}, [](const Words& x) { return Words{x[0] + x[1]}; });
    check({.name = "subtract"}, {t, t}, [](const Words& x) { return Words{x[0] - x[1]}; });
    check({.name = "negate"}, {t}, [](const Words& x) { return Words{0 - x[0]}; });
    check({.name = "absolute"}, {t}, [&](const Words& x) { return Words{native(x[0], t) < 0 ? 0 - x[0] : x[0]}; });
    check(
        {.name = "multiply"}, {t, t}, [](const Words& x) { return Words{x[0] * x[1]}; }, 6);
    for (i64 c : {i64{0}, i64{1}, i64{-1}, i64{7}, i64{-100}, i64{0x5a5a5a5a}}) {
      const u64 v = static_cast<u64>(c);
      check({.name = "add", .arguments = {c}}, {t}, [&](const Words& x) { return Words{x[0] + v}; });
      check({.name = "subtract_clear", .arguments = {c}}, {t}, [&](const Words& x) { return Words{x[0] - v}; });
      check({.name = "clear_subtract", .arguments = {c}}, {t}, [&](const Words& x) { return Words{v - x[0]}; });
      check({.name = "multiply", .arguments = {c}}, {t}, [&](const Words& x) { return Words{x[0] * v}; });
    }
  }
}

TEST_P(Operations, SumsAndDots) {
  for (const Type& t : {integer(8, false), integer(24, true), integer(32, false)}) {
    for (std::size_t n : {1, 2, 3, 9, 40}) {
      check({.name = "sum"}, std::vector<Type>(n, t), [](const Words& x) {
        u64 s = 0;
        for (u64 v : x) s += v;
        return Words{s};
      });
    }
    check(
        {.name = "dot"}, std::vector<Type>(6, t),
        [](const Words& x) { return Words{x[0] * x[3] + x[1] * x[4] + x[2] * x[5]}; }, 6);
  }
  check({.name = "sum", .type = integer(64, true)}, std::vector<Type>(13, kBool),
        [](const Words& x) { return Words{static_cast<u64>(std::count(x.begin(), x.end(), u64{1}))}; });
}

TEST_P(Operations, Comparisons) {
  for (const Type& t :
       {kBool, integer(8, false), integer(8, true), integer(24, false), integer(32, true), integer(64, false)}) {
    const std::vector<std::pair<const char*, std::function<bool(i64, i64)>>> all = {
        {"equal", [](i64 a, i64 b) { return a == b; }},
        {"not_equal", [](i64 a, i64 b) { return a != b; }},
        {"less", std::less<i64>()},
        {"less_equal", std::less_equal<i64>()},
        {"greater", std::greater<i64>()},
        {"greater_equal", std::greater_equal<i64>()}};
    // Maps unsigned 64-bit values to signed values in the same order.
    const auto key = [&](u64 v) {
      return static_cast<i64>(native(v, t) ^ (t.bits == 64 && !t.is_signed ? i64{1} << 63 : 0));
    };
    for (const auto& [name, f] : all) {
      check({.name = name}, {t, t}, [&](const Words& x) { return Words{f(key(x[0]), key(x[1]))}; });
      check({.name = name, .arguments = {1}}, {t}, [&](const Words& x) { return Words{f(key(x[0]), key(1))}; });
    }
    check({.name = "minimum"}, {t, t}, [&](const Words& x) { return Words{key(x[0]) < key(x[1]) ? x[0] : x[1]}; });
    check({.name = "maximum"}, {t, t}, [&](const Words& x) { return Words{key(x[0]) < key(x[1]) ? x[1] : x[0]}; });
    check({.name = "maximum", .arguments = {0}}, {t}, [&](const Words& x) { return Words{key(x[0]) < key(0) ? 0 : x[0]}; });
  }
}

TEST_P(Operations, Shifts) {
  for (const Type& t : integers()) {
    const auto shifted = [&](char direction, u64 v, u64 n) -> u64 {
      const i64 s = native(v, t);
      if (direction == 'l') return n >= t.bits ? 0 : v << n;
      if (direction == 'r') return n >= t.bits ? (s < 0 && t.is_signed ? ~u64{0} : 0) : t.is_signed ? s >> n : v >> n;
      n %= t.bits;
      if (n == 0) return v;
      return direction == 'L' ? v << n | v >> (t.bits - n) : v >> n | v << (t.bits - n);
    };
    const std::vector<std::pair<const char*, char>> all = {
        {"shift_left", 'l'}, {"shift_right", 'r'}, {"rotate_left", 'L'}, {"rotate_right", 'R'}};
    for (const auto& [name, d] : all) {
      for (i64 n : {0, 1, 2, 5, 7, 8, 100}) {
        check({.name = name, .arguments = {n}}, {t},
              [&](const Words& x) { return Words{shifted(d, x[0], static_cast<u64>(n))}; });
      }
      const Type amount = integer(8, false);
      const bool power = (t.bits & (t.bits - 1)) == 0;
      check({.name = name}, {t, amount},
            [&](const Words& x) { return Words{shifted(d, x[0], power ? x[1] % t.bits : x[1])}; });
    }
  }
}

TEST_P(Operations, Divisions) {
  for (const Type& t : {integer(8, false), integer(8, true), integer(16, true), integer(24, false)}) {
    const auto truncated = [&](u64 a, u64 b) -> std::pair<u64, u64> {
      if (wrapped(b, t) == 0) return {~u64{0}, a};
      const i64 n = native(a, t), d = native(b, t);
      return {static_cast<u64>(n / d), static_cast<u64>(n % d)};
    };
    const auto floored = [&](u64 a, u64 b) -> std::pair<u64, u64> {
      auto [q, r] = truncated(a, b);
      if (wrapped(b, t) != 0 && r != 0 && (native(a, t) < 0) != (native(b, t) < 0)) --q, r += b;
      return {q, r};
    };
    check({.name = "divide"}, {t, t}, [&](const Words& x) { return Words{truncated(x[0], x[1]).first}; });
    check({.name = "remainder"}, {t, t}, [&](const Words& x) { return Words{truncated(x[0], x[1]).second}; });
    check(
        {.name = "floor_divide"}, {t, t}, [&](const Words& x) { return Words{floored(x[0], x[1]).first}; }, 30);
    check(
        {.name = "floor_remainder"}, {t, t}, [&](const Words& x) { return Words{floored(x[0], x[1]).second}; }, 30);
    for (i64 c : {1, 2, 3, 10, 100, -1, -7}) {
      if (c < 0 && !t.is_signed) continue;
      check({.name = "divmod", .arguments = {c}}, {t}, [&](const Words& x) {
        const auto [q, r] = truncated(x[0], static_cast<u64>(c));
        return Words{q, r};
      });
      check({.name = "floor_divmod", .arguments = {c}}, {t}, [&](const Words& x) {
        const auto [q, r] = floored(x[0], static_cast<u64>(c));
        return Words{q, r};
      });
    }
  }
}

/// Returns (bootstraps, layers).
std::pair<std::size_t, std::size_t> cost_of(const tfhe::Circuit& circuit) {
  return {circuit.bootstraps(), circuit.layers.size()};
}

/// Sum and carry are two bootstraps of one combination of the operands, in one layer.
TEST(CompoundGates, HalfAdderTakesOneLayerOfTwoBootstraps) {
  for (const Goal goal : {Goal::fewest, Goal::shallow}) {
    const tfhe::Circuit circuit = build(kBits, {.name = "half_adder"}, {kBool, kBool}, goal);
    ASSERT_EQ(cost_of(circuit), std::pair(std::size_t{2}, std::size_t{1}));
    const auto& layer = circuit.layers[0];
    EXPECT_EQ(layer[0].input, layer[1].input);
    EXPECT_NE(layer[0].table, layer[1].table);
    EXPECT_EQ(layer[0].outputs, 1u);
    EXPECT_EQ(layer[1].outputs, 1u);
    EXPECT_EQ(cost_of(build(kBits, {.name = "full_adder"}, {kBool, kBool, kBool}, goal)),
              std::pair(std::size_t{2}, std::size_t{1}));
  }
}

/// The last sums are linear combinations, so they are ready at the same time as their carries.
TEST(CompoundGates, LastSumsNeedNoExtraLayer) {
  const Type t = integer(32, false);
  const auto numberwise = build(kBits, {.name = "add", .variant = "numberwise"}, {t, t}, Goal::fewest);
  EXPECT_EQ(cost_of(numberwise), std::pair(std::size_t{559}, std::size_t{32}));
  const auto increment = build(kBits, {.name = "add", .arguments = {0x55555555}}, {t}, Goal::fewest);
  EXPECT_EQ(cost_of(increment), std::pair(std::size_t{61}, std::size_t{31}));
  for (const auto& layer : increment.layers) {
    for (std::size_t i = 0; i + 1 < layer.size(); i += 2) EXPECT_EQ(layer[i].input, layer[i + 1].input);
  }
}

/// A selection takes two bootstraps. The result of the second bootstrap has norm 2, which outputs may have.
TEST(CompoundGates, SelectionsTakeTwoBootstrapsPerBit) {
  const Type t = integer(32, false);
  const std::pair<std::size_t, std::size_t> two{2, 2}, selection{64, 2}, minimum{96, 34};
  EXPECT_EQ(cost_of(build(kBits, {.name = "select"}, {kBool, kBool, kBool}, Goal::fewest)), two);
  EXPECT_EQ(cost_of(build(kBits, {.name = "select"}, {kBool, t, t}, Goal::fewest)), selection);
  EXPECT_EQ(cost_of(build(kBits, {.name = "minimum"}, {t, t}, Goal::fewest)), minimum);
  // Every function of three bits takes one, two or three bootstraps; few functions take three.
  std::size_t three = 0;
  for (std::int64_t word = 0; word < 256; ++word) {
    Operation o{.name = "truth_table"};
    for (unsigned i = 0; i < 8; ++i) o.arguments.push_back(word >> i & 1);
    const tfhe::Circuit circuit = build(kBits, o, {kBool, kBool, kBool}, Goal::fewest);
    EXPECT_LE(circuit.bootstraps(), 3u);
    EXPECT_LE(circuit.layers.size(), 2u);
    three += circuit.bootstraps() == 3;
    for (u64 x = 0; x < 8; ++x) {
      ASSERT_EQ(run(kBits, circuit, {kBool, kBool, kBool}, {kBool}, {x & 1, x >> 1 & 1, x >> 2}), Words{u64(word >> x & 1)});
    }
  }
  EXPECT_EQ(three, 16u);
}

TEST_P(Operations, AcceptTheSameCiphertextAsSeveralOperands) {
  const std::vector<std::size_t> two{0, 0}, three{0, 0, 0};
  for (const char* name : {"and", "or"}) {
    check_same({.name = name}, {kBool, kBool}, two, [](const Words& x) { return Words{x[0]}; });
    check_same({.name = name}, {integer(8, true), integer(8, true)}, two, [](const Words& x) { return Words{x[0]}; });
  }
  check_same({.name = "xor"}, {kBool, kBool}, two, [](const Words&) { return Words{0}; });
  check_same({.name = "xor"}, {integer(8, true), integer(8, true)}, two, [](const Words&) { return Words{0}; });
  check_same({.name = "less"}, {kBool, kBool}, two, [](const Words&) { return Words{0}; });
  const std::vector<Type> bits(3, kBool);
  const std::vector<std::vector<std::size_t>> patterns{three, {0, 0, 2}, {0, 1, 1}, {0, 1, 0}};
  for (const auto& same : patterns) {
    check_same({.name = "majority"}, bits, same, [](const Words& x) { return Words{x[0] + x[1] + x[2] > 1}; });
    check_same({.name = "xor3"}, bits, same, [](const Words& x) { return Words{x[0] ^ x[1] ^ x[2]}; });
    check_same({.name = "and3"}, bits, same, [](const Words& x) { return Words{x[0] & x[1] & x[2]}; });
    check_same({.name = "select"}, bits, same, [](const Words& x) { return Words{x[0] ? x[1] : x[2]}; });
    check_same({.name = "full_adder"}, bits, same, [](const Words& x) {
      const u64 s = x[0] + x[1] + x[2];
      return Words{s & 1, s >> 1};
    });
    for (unsigned word = 1; word < 255; word += 7) {
      Operation o{.name = "truth_table"};
      for (unsigned i = 0; i < 8; ++i) o.arguments.push_back(word >> i & 1);
      check_same(o, bits, same, [&](const Words& x) { return Words{word >> (x[0] | x[1] << 1 | x[2] << 2) & 1}; });
    }
  }
  check_same({.name = "half_adder"}, {kBool, kBool}, two, [](const Words& x) { return Words{0, x[0]}; });
  for (const Type& t : {integer(8, false), integer(8, true), integer(24, false), integer(32, true)}) {
    const std::vector<Type> pair{t, t};
    check_same({.name = "add"}, pair, two, [](const Words& x) { return Words{2 * x[0]}; });
    check_same({.name = "subtract"}, pair, two, [](const Words&) { return Words{0}; });
    check_same({.name = "multiply"}, pair, two, [](const Words& x) { return Words{x[0] * x[0]}; });
    check_same({.name = "less"}, pair, two, [](const Words&) { return Words{0}; });
    check_same({.name = "less_equal"}, pair, two, [](const Words&) { return Words{1}; });
    check_same({.name = "equal"}, pair, two, [](const Words&) { return Words{1}; });
    check_same({.name = "maximum"}, pair, two, [](const Words& x) { return Words{x[0]}; });
    check_same({.name = "select"}, {kBool, t, t}, {0, 1, 1}, [](const Words& x) { return Words{x[1]}; });
    check_same({.name = "floor_divmod"}, pair, two, [](const Words& x) { return Words{x[0] ? 1 : ~u64{0}, 0}; });
    const Type amount = integer(t.bits, false);
    if ((t.bits & (t.bits - 1)) == 0)
      check_same({.name = "shift_left"}, {t, amount}, two, [&](const Words& x) { return Words{x[0] << x[0] % t.bits}; });
    for (std::size_t n : {2, 3, 5, 20, 64}) {
      check_same({.name = "sum"}, std::vector<Type>(n, t), std::vector<std::size_t>(n, 0),
                 [=](const Words& x) { return Words{n * x[0]}; });
      std::vector<std::size_t> mixed;
      for (std::size_t i = 0; i < n; ++i) mixed.push_back(i < 2 ? i : i % 2);
      check_same({.name = "sum"}, std::vector<Type>(n, t), mixed,
                 [=](const Words& x) { return Words{(n - n / 2) * x[0] + n / 2 * x[1]}; });
    }
    const std::vector<Type> six(6, t);
    check_same({.name = "dot"}, six, {0, 1, 2, 0, 1, 2},
               [](const Words& x) { return Words{x[0] * x[0] + x[1] * x[1] + x[2] * x[2]}; });
    check_same({.name = "dot"}, six, {0, 0, 0, 0, 0, 0}, [](const Words& x) { return Words{3 * x[0] * x[0]}; });
    check_same({.name = "dot"}, six, {0, 0, 0, 3, 3, 3}, [](const Words& x) { return Words{3 * x[0] * x[3]}; });
  }
  check_same({.name = "sum", .type = integer(16, true)}, std::vector<Type>(20, kBool), std::vector<std::size_t>(20, 0),
             [](const Words& x) { return Words{20 * x[0]}; });
}

TEST_P(Operations, AlgorithmsAcceptTheSameCiphertextAsSeveralOperands) {
  const Type t = integer(16, true);
  for (const char* name : {"add", "subtract", "multiply", "less", "minimum"}) {
    for (const std::string& variant : variants(GetParam().encoding, {.name = name}, {t, t})) {
      const std::string n = name;
      check_same({.name = n, .variant = variant}, {t, t}, {0, 0}, [&](const Words& x) {
        return Words{n == "add" ? 2 * x[0] : n == "multiply" ? x[0] * x[0] : n == "minimum" ? x[0] : 0};
      });
    }
  }
}

TEST_P(Operations, Variants) {
  const Type t = integer(16, true);
  const auto f = [](const char* name, u64 a, u64 b) -> u64 {
    const std::string n = name;
    return n == "add" ? a + b : n == "subtract" ? a - b : n == "multiply" ? a * b : 0;
  };
  for (const char* name : {"add", "subtract", "multiply"}) {
    const auto known = variants(GetParam().encoding, {.name = name}, {t, t});
    EXPECT_FALSE(known.empty());
    for (const std::string& variant : known)
      check(
          {.name = name, .variant = variant}, {t, t}, [&](const Words& x) { return Words{f(name, x[0], x[1])}; }, 4);
  }
  for (const char* name : {"add", "less", "maximum"}) {
    for (const char* variant : {"ripple", "prefix"})
      EXPECT_NO_THROW(build(GetParam().encoding, {.name = name, .variant = variant}, {t, t}, GetParam().goal));
  }
  const auto refused = [&](const Operation& o, const std::vector<Type>& types) {
    EXPECT_THROW(build(GetParam().encoding, o, types, GetParam().goal), ParameterError) << o.name;
  };
  refused({.name = "select", .variant = "ripple"}, {kBool, t, t});
  refused({.name = "and", .variant = "prefix"}, {t, t});
  refused({.name = "less", .variant = "prefix"}, {kBool, kBool});
  refused({.name = "shift_left", .arguments = {1}, .variant = "prefix"}, {t});
  refused({.name = "multiply", .arguments = {3}, .variant = "karatsuba"}, {t});
  refused({.name = "add", .variant = "karatsuba"}, {t, t});
  try {
    build(GetParam().encoding, {.name = "multiply", .variant = "fast"}, {t, t}, GetParam().goal);
    FAIL() << "an unknown variant was accepted";
  } catch (const ParameterError& e) {
    EXPECT_NE(std::string(e.what()).find("no variant \"fast\""), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("\"karatsuba\""), std::string::npos) << e.what();
  }
}

TEST_P(Operations, Refreshed) {
  for (const Type& t : {kBool, integer(8, true), integer(32, false)})
    check({.name = "refresh"}, {t}, [](const Words& x) { return Words{x[0]}; });
}

TEST_P(Operations, ConversionsAndTables) {
  std::vector<Type> all = integers();
  all.push_back(kBool);
  for (const Type& from : all)
    for (const Type& to : all)
      check({.name = "convert", .type = to}, {from}, [&](const Words& x) {
        return Words{to.boolean ? wrapped(x[0], from) != 0 : static_cast<u64>(native(x[0], from))};
      });
  for (const Type& from : {kBool, integer(4, false), integer(8, false), integer(8, true)}) {
    for (const Type& to : {kBool, integer(8, false), integer(32, true)}) {
      Operation o{.name = "look_up", .type = to};
      for (std::size_t i = 0; i < std::size_t{1} << from.bits; ++i)
        o.arguments.push_back(static_cast<i64>(wrapped(random_(), to)));
      check(
          o, {from}, [&](const Words& x) { return Words{static_cast<u64>(o.arguments[x[0]])}; }, 30);
    }
  }
}

TEST_P(Operations, RefuseInvalidOperandsWithAdvice) {
  const Type u8 = integer(8, false), u16 = integer(16, false);
  const auto types = [](const Operation& o, const std::vector<Type>& t) { return result_types(o, t); };
  try {
    types({.name = "add"}, {u8, u16});
    FAIL() << "mixed widths were accepted";
  } catch (const DtypeError& e) {
    EXPECT_STREQ(e.what(), "add needs operands of one type, not uint8 and uint16; convert one with .astype");
  }
  EXPECT_THROW(types({.name = "add"}, {kBool, kBool}), DtypeError);
  EXPECT_THROW(types({.name = "negate"}, {kBool}), DtypeError);
  EXPECT_THROW(types({.name = "select"}, {u8, u8, u8}), DtypeError);
  EXPECT_THROW(types({.name = "majority"}, {u8, u8, u8}), DtypeError);
  EXPECT_THROW(types({.name = "look_up", .arguments = {1}, .type = u8}, {u16}), DtypeError);
  EXPECT_THROW(types({.name = "look_up", .arguments = {1}, .type = u8}, {u8}), ParameterError);
  EXPECT_THROW(types({.name = "divide", .arguments = {0}}, {u8}), ParameterError);
  EXPECT_THROW(types({.name = "truth_table", .arguments = {0, 2}}, {kBool}), ParameterError);
  EXPECT_THROW(types({.name = "dot"}, {u8, u8, u8}), ParameterError);
  EXPECT_THROW(types({.name = "sum"}, {}), ParameterError);
  EXPECT_THROW(types({.name = "sum"}, {kBool}), DtypeError);
  EXPECT_THROW(types({.name = "add"}, {u8}), ParameterError);
  EXPECT_THROW(types({.name = "add", .arguments = {1}}, {u8, u8}), ParameterError);
  EXPECT_THROW(types({.name = "cube"}, {u8}), ParameterError);
  EXPECT_THROW(build(GetParam().encoding, {.name = "shift_left", .arguments = {-1}}, {u8}, GetParam().goal), ParameterError);
  EXPECT_THROW(parts(kTwo, integer(7, false)), DtypeError);
}

INSTANTIATE_TEST_SUITE_P(
    Families, Operations,
    testing::Values(Setting{"bits_fewest", kBits, Goal::fewest}, Setting{"bits_shallow", kBits, Goal::shallow},
                    Setting{"two_fewest", kTwo, Goal::fewest}, Setting{"two_shallow", kTwo, Goal::shallow},
                    Setting{"one_fewest", kOne, Goal::fewest}, Setting{"one_shallow", kOne, Goal::shallow}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace heliograph::circuits
