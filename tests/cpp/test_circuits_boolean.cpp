// Circuits of encrypted bits, evaluated on clear torus words, against native integers.
#include <gtest/gtest.h>
#include <array>
#include <functional>
#include <random>
#include <string>
#include <tuple>

#include "circuits/family.h"

namespace heliograph::test {

namespace {

using circuits::Bitwise;
using circuits::Builder;
using circuits::Encoding;
using circuits::Family;
using circuits::Number;
using circuits::Shift;
using circuits::operator+;
using circuits::operator*;
using tfhe::Goal;
using tfhe::Type;
using u64 = std::uint64_t;
using i64 = std::int64_t;
using Numbers = std::vector<Number>;

const Encoding kBits{0, 0, 3};
const Type kBool{};

u64 mask(const Type& type) { return type.boolean ? 1 : type.bits == 64 ? ~u64{0} : (u64{1} << type.bits) - 1; }
bool negative(u64 value, const Type& type) { return type.is_signed && (value >> (type.bits - 1) & 1) != 0; }
/// Sign-extends to 64 bits.
i64 extended(u64 value, const Type& type) { return static_cast<i64>(negative(value, type) ? value | ~mask(type) : value); }
Type integer(unsigned bits, bool is_signed) { return {false, bits, is_signed}; }

struct Built {
  tfhe::Circuit circuit;
  std::vector<Type> operands, results;
};

using Make = std::function<Numbers(Family&, const Numbers&)>;

Built build(const std::vector<Type>& operands, const Make& make, Goal goal, const std::string& variant = "") {
  Builder builder(kBits);
  const auto family = circuits::boolean_family(builder, goal, variant);
  Built built{{}, operands, {}};
  Numbers in;
  for (const Type& type : operands) in.push_back(family->input(type));
  for (const Number& out : make(*family, in)) {
    EXPECT_EQ(out.parts.size(), family->parts(out.type));
    for (const auto& part : out.parts) EXPECT_LE(Builder::norm(part), 2u);
    built.results.push_back(out.type);
    family->output(out);
  }
  built.circuit = builder.finish();
  return built;
}

std::vector<u64> run(const Built& built, const std::vector<u64>& values) {
  std::vector<u64> wires;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (unsigned j = 0; j < built.operands[i].bits; ++j) {
      wires.push_back((values[i] >> j & 1) != 0 ? kBits.unit() : u64{0} - kBits.unit());
    }
  }
  const std::vector<u64> out = circuits::evaluate(built.circuit, wires);
  std::vector<u64> results;
  std::size_t at = 0;
  for (const Type& type : built.results) {
    u64 value = 0;
    for (unsigned j = 0; j < type.bits; ++j, ++at) {
      EXPECT_TRUE(out[at] == kBits.unit() || out[at] == u64{0} - kBits.unit()) << "not the encoding of a bit: " << out[at];
      if (out[at] == kBits.unit()) value |= u64{1} << j;
    }
    results.push_back(value);
  }
  return results;
}

std::mt19937_64& source() {
  static std::mt19937_64 random(20260721);
  return random;
}

std::vector<u64> edges(const Type& type) {
  if (type.boolean) return {0, 1};
  const u64 m = mask(type), sign = u64{1} << (type.bits - 1);
  return {0, 1, 2, 3, m, m - 1, sign, sign - 1, sign + 1, 0x5555555555555555u & m};
}

std::vector<std::vector<u64>> samples(const std::vector<Type>& types, std::size_t count) {
  std::vector<std::vector<u64>> all;
  if (types.size() == 2) {
    for (const u64 a : edges(types[0])) {
      for (const u64 b : edges(types[1])) all.push_back({a, b});
    }
  } else if (types.size() == 1) {
    for (const u64 a : edges(types[0])) all.push_back({a});
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<u64> values;
    // Half of the values are short, because the quotient of two full-length values is nearly always 0 or 1.
    for (const Type& type : types)
      values.push_back((source()() & mask(type)) >> (source()() % 2 ? 0 : source()() % type.bits));
    all.push_back(std::move(values));
  }
  return all;
}

using Expected = std::function<std::vector<u64>(const std::vector<u64>&)>;

void check(const std::string& name, const std::vector<Type>& types, const Make& make, const Expected& expected,
           const std::vector<std::string>& variants = {""}, std::size_t count = 30) {
  for (const Goal goal : {Goal::fewest, Goal::shallow}) {
    for (const std::string& variant : variants) {
      const Built built = build(types, make, goal, variant);
      for (const auto& values : samples(types, count)) {
        std::vector<u64> right = expected(values);
        for (std::size_t i = 0; i < right.size(); ++i) right[i] &= mask(built.results[i]);
        ASSERT_EQ(run(built, values), right) << name << " " << types[0].text() << " variant '" << variant << "' goal "
                                             << static_cast<int>(goal) << " of " << values[0] << ", " << values.back();
      }
    }
  }
}

class BooleanCircuits : public testing::TestWithParam<std::tuple<unsigned, bool>> {
 protected:
  Type type() const { return integer(std::get<0>(GetParam()), std::get<1>(GetParam())); }
};

INSTANTIATE_TEST_SUITE_P(Types, BooleanCircuits, testing::Combine(testing::Values(8u, 16u, 24u, 32u, 64u), testing::Bool()),
                         [](const auto& info) {
                           return (std::get<1>(info.param) ? "int" : "uint") + std::to_string(std::get<0>(info.param));
                         });

TEST_P(BooleanCircuits, AddsSubtractsNegates) {
  const Type t = type();
  const std::vector<std::string> all{"", "bitwise", "numberwise", "prefix"};
  check(
      "add", {t, t}, [](Family& f, const Numbers& x) { return Numbers{f.add(x[0], x[1])}; },
      [](const auto& v) { return std::vector{v[0] + v[1]}; }, all);
  check(
      "subtract", {t, t}, [](Family& f, const Numbers& x) { return Numbers{f.subtract(x[0], x[1])}; },
      [](const auto& v) { return std::vector{v[0] - v[1]}; }, all);
  check(
      "negate", {t}, [](Family& f, const Numbers& x) { return Numbers{f.negate(x[0])}; },
      [](const auto& v) { return std::vector{u64{0} - v[0]}; }, all);
  for (const u64 value : edges(t)) {
    check(
        "add_clear", {t}, [value](Family& f, const Numbers& x) { return Numbers{f.add_clear(x[0], value)}; },
        [value](const auto& v) { return std::vector{v[0] + value}; }, all, 5);
    check(
        "subtract from a constant", {t},
        [value, t](Family& f, const Numbers& x) { return Numbers{f.subtract(f.constant(value, t), x[0])}; },
        [value](const auto& v) { return std::vector{value - v[0]}; }, all, 5);
  }
}

TEST_P(BooleanCircuits, Multiplies) {
  const Type t = type();
  check(
      "multiply", {t, t}, [](Family& f, const Numbers& x) { return Numbers{f.multiply(x[0], x[1])}; },
      [](const auto& v) { return std::vector{v[0] * v[1]}; }, {"", "wallace", "booth", "tree", "karatsuba"}, 10);
  check(
      "square", {t}, [](Family& f, const Numbers& x) { return Numbers{f.multiply(x[0], x[0])}; },
      [](const auto& v) { return std::vector{v[0] * v[0]}; }, {"", "booth", "tree", "karatsuba"}, 10);
}

TEST_P(BooleanCircuits, MultipliesByClearFactors) {
  const Type t = type();
  std::vector<u64> factors = edges(t);
  factors.insert(factors.end(), {5, 7, 10, 100, 0xef & mask(t), source()(), source()()});
  for (const u64 factor : factors) {
    check(
        "multiply_clear", {t}, [factor](Family& f, const Numbers& x) { return Numbers{f.multiply_clear(x[0], factor)}; },
        [factor](const auto& v) { return std::vector{v[0] * factor}; }, {""}, 5);
    check(
        "multiply by a constant", {t},
        [factor, t](Family& f, const Numbers& x) { return Numbers{f.multiply(x[0], f.constant(factor, t))}; },
        [factor](const auto& v) { return std::vector{v[0] * factor}; }, {"", "booth", "tree", "karatsuba"}, 3);
  }
}

TEST_P(BooleanCircuits, Compares) {
  const Type t = type();
  auto less = [t](u64 a, u64 b) { return t.is_signed ? extended(a, t) < extended(b, t) : a < b; };
  check(
      "less", {t, t}, [](Family& f, const Numbers& x) { return Numbers{f.less(x[0], x[1])}; },
      [less](const auto& v) { return std::vector{u64{less(v[0], v[1])}}; }, {"", "bitwise", "prefix"});
  check(
      "equal", {t, t}, [](Family& f, const Numbers& x) { return Numbers{f.equal(x[0], x[1])}; },
      [](const auto& v) { return std::vector{u64{v[0] == v[1]}}; });
  check(
      "minimum, maximum", {t, t},
      [](Family& f, const Numbers& x) {
        return Numbers{f.minimum(x[0], x[1]), f.maximum(x[0], x[1])};
      },
      [less](const auto& v) {
        return less(v[0], v[1]) ? v : std::vector{v[1], v[0]};
      });
  for (const u64 value : edges(t)) {
    check(
        "less, equal with a constant", {t},
        [value, t](Family& f, const Numbers& x) {
          const Number c = f.constant(value, t);
          return Numbers{f.less(x[0], c), f.less(c, x[0]), f.equal(x[0], c)};
        },
        [value, less](const auto& v) {
          return std::vector{u64{less(v[0], value)}, u64{less(value, v[0])}, u64{v[0] == value}};
        });
  }
}

TEST_P(BooleanCircuits, BitwiseOperationsAndSelections) {
  const Type t = type();
  for (const Bitwise operation : {Bitwise::and_bits, Bitwise::or_bits, Bitwise::xor_bits}) {
    check(
        "bitwise", {t, t}, [operation](Family& f, const Numbers& x) { return Numbers{f.bitwise(operation, x[0], x[1])}; },
        [operation](const auto& v) {
          return std::vector{operation == Bitwise::and_bits  ? v[0] & v[1]
                             : operation == Bitwise::or_bits ? v[0] | v[1]
                                                             : v[0] ^ v[1]};
        });
  }
  check(
      "bit_not", {t}, [](Family& f, const Numbers& x) { return Numbers{f.bit_not(x[0])}; },
      [](const auto& v) { return std::vector{~v[0]}; });
  check(
      "select", {kBool, t, t}, [](Family& f, const Numbers& x) { return Numbers{f.select(x[0], x[1], x[2])}; },
      [](const auto& v) { return std::vector{v[0] != 0 ? v[1] : v[2]}; });
}

TEST_P(BooleanCircuits, Shifts) {
  const Type t = type();
  const unsigned bits = t.bits;
  auto shifted = [t, bits](Shift direction, u64 a, u64 amount) {
    if (direction == Shift::left) return amount < bits ? a << amount : 0;
    if (direction == Shift::right && t.is_signed) return static_cast<u64>(extended(a, t) >> std::min<u64>(amount, 63));
    if (direction == Shift::right) return amount < bits ? a >> amount : 0;
    const u64 left = direction == Shift::rotate_left ? amount % bits : (bits - amount % bits) % bits;
    return left == 0 ? a : a << left | a >> (bits - left);
  };
  for (const Shift direction : {Shift::left, Shift::right, Shift::rotate_left, Shift::rotate_right}) {
    for (const unsigned amount : {0u, 1u, 5u, bits / 2, bits - 1}) {
      const Make make = [=](Family& f, const Numbers& x) { return Numbers{f.shift_clear(direction, x[0], amount)}; };
      check("shift_clear", {t}, make, [=](const auto& v) { return std::vector{shifted(direction, v[0], amount)}; });
      EXPECT_EQ(build({t}, make, Goal::fewest).circuit.bootstraps(), 0u);
    }
    for (const unsigned width : {3u, 8u, bits}) {
      check(
          "shift", {t, integer(width, false)},
          [=](Family& f, const Numbers& x) { return Numbers{f.shift(direction, x[0], x[1])}; },
          [=](const auto& v) {
            const u64 amount = (bits & (bits - 1)) == 0 ? v[1] % bits : v[1];
            return std::vector{shifted(direction, v[0], amount)};
          });
    }
  }
}

std::vector<u64> divided(u64 a, u64 b, const Type& t) {
  if (b == 0) return {~u64{0}, a};
  if (!t.is_signed) return {a / b, a % b};
  const i64 x = extended(a, t), y = extended(b, t);
  if (y == -1) return {u64{0} - a, 0};
  return {static_cast<u64>(x / y), static_cast<u64>(x % y)};
}

TEST_P(BooleanCircuits, Divides) {
  const Type t = type();
  check(
      "divide", {t, t},
      [](Family& f, const Numbers& x) {
        auto [q, r] = f.divide(x[0], x[1]);
        return Numbers{q, r};
      },
      [t](const auto& v) { return divided(v[0], v[1], t); }, {""}, t.bits > 32 ? 10 : 40);
  for (const u64 divisor : {u64{0}, u64{1}, u64{3}, u64{10}, mask(t)}) {
    check(
        "divide by a constant", {t},
        [t, divisor](Family& f, const Numbers& x) {
          auto [q, r] = f.divide(x[0], f.constant(divisor, t));
          return Numbers{q, r};
        },
        [t, divisor](const auto& v) { return divided(v[0], divisor, t); }, {""}, 5);
  }
}

TEST_P(BooleanCircuits, SumsAndDots) {
  const Type t = type();
  for (const std::size_t count : {1u, 2u, 3u, 4u, 7u, 19u}) {
    check(
        "sum", std::vector(count, t), [](Family& f, const Numbers& x) { return Numbers{f.sum(x)}; },
        [](const auto& v) {
          u64 sum = 0;
          for (const u64 x : v) sum += x;
          return std::vector{sum};
        },
        {""}, 10);
  }
  check(
      "sum with constants", {t, t},
      [t](Family& f, const Numbers& x) {
        return Numbers{f.sum({x[0], f.constant(77, t), x[1], f.constant(mask(t), t)})};
      },
      [](const auto& v) { return std::vector{v[0] + v[1] + 76}; });
  const std::size_t pairs = t.bits > 32 ? 2 : 3;
  check(
      "dot", std::vector(2 * pairs, t),
      [pairs](Family& f, const Numbers& x) {
        const auto middle = x.begin() + static_cast<std::ptrdiff_t>(pairs);
        return Numbers{f.dot({x.begin(), middle}, {middle, x.end()})};
      },
      [pairs](const auto& v) {
        u64 sum = 0;
        for (std::size_t i = 0; i < pairs; ++i) sum += v[i] * v[pairs + i];
        return std::vector{sum};
      },
      {""}, 10);
}

TEST_P(BooleanCircuits, Converts) {
  const Type t = type();
  for (const unsigned bits : {8u, 16u, 24u, 32u, 64u}) {
    for (const bool is_signed : {false, true}) {
      check(
          "convert", {t}, [=](Family& f, const Numbers& x) { return Numbers{f.convert(x[0], integer(bits, is_signed))}; },
          [t](const auto& v) { return std::vector{static_cast<u64>(extended(v[0], t))}; });
    }
  }
  check(
      "to bool", {t}, [](Family& f, const Numbers& x) { return Numbers{f.convert(x[0], kBool)}; },
      [](const auto& v) { return std::vector{u64{v[0] != 0}}; });
  check(
      "from bool", {kBool}, [t](Family& f, const Numbers& x) { return Numbers{f.convert(x[0], t)}; },
      [](const auto& v) { return std::vector{v[0]}; });
}

TEST_P(BooleanCircuits, ChainsOfOperations) {
  // In one circuit, results are operands of further operations; some of these combinations have norm 2.
  const Type t = type();
  check(
      "chain", {t, t},
      [](Family& f, const Numbers& x) {
        const Number s = f.add(x[0], x[1]), m = f.minimum(s, x[0]);
        const Number d = f.subtract(f.multiply_clear(m, 3), f.select(f.equal(s, m), x[1], s));
        return Numbers{f.add(d, m), f.bitwise(Bitwise::xor_bits, s, d), f.less(d, m)};
      },
      [t](const auto& v) {
        const u64 k = mask(t), s = (v[0] + v[1]) & k;
        auto less = [t](u64 a, u64 b) {
          return extended(a, t) < extended(b, t) ? t.is_signed || a < b : !t.is_signed && a < b;
        };
        const u64 m = less(s, v[0]) ? s : v[0], d = (m * 3 - (s == m ? v[1] : s)) & k;
        return std::vector{d + m, s ^ d, u64{less(d, m)}};
      });
}

TEST(BooleanGates, EveryTruthTableOfUpToThree) {
  std::vector<std::size_t> worst(4, 0);
  for (unsigned count = 1; count <= 3; ++count) {
    for (unsigned code = 0; code < 1u << (1u << count); ++code) {
      std::vector<bool> table;
      for (unsigned i = 0; i < 1u << count; ++i) table.push_back((code >> i & 1) != 0);
      const Built built = build(
          std::vector(count, kBool), [&](Family& f, const Numbers& x) { return Numbers{f.truth_table(x, table)}; },
          Goal::fewest);
      for (unsigned i = 0; i < 1u << count; ++i) {
        std::vector<u64> values;
        for (unsigned j = 0; j < count; ++j) values.push_back(i >> j & 1);
        EXPECT_EQ(run(built, values)[0], u64{table[i]}) << count << " operands, table " << code << ", " << i;
      }
      worst[count] = std::max(worst[count], built.circuit.bootstraps());
    }
  }
  EXPECT_EQ(worst[1], 0u);
  EXPECT_EQ(worst[2], 1u);
  EXPECT_LE(worst[3], 3u);
}

TEST(BooleanGates, RepeatedOperandsAndConstantsAreFolded) {
  for (unsigned code = 0; code < 256; ++code) {
    std::vector<bool> table;
    for (unsigned i = 0; i < 8; ++i) table.push_back((code >> i & 1) != 0);
    const Built built = build(
        {kBool, kBool},
        [&](Family& f, const Numbers& x) {
          const Number no = f.negate_boolean(x[0]);
          return Numbers{f.truth_table({x[0], x[1], x[0]}, table), f.truth_table({x[0], no, x[1]}, table),
                         f.truth_table({x[0], x[1], f.constant(1, kBool)}, table), f.truth_table({x[0], x[0], x[0]}, table)};
        },
        Goal::fewest);
    for (u64 a = 0; a < 2; ++a) {
      for (u64 b = 0; b < 2; ++b) {
        const auto out = run(built, {a, b});
        EXPECT_EQ(out[0], u64{table[a | b << 1 | a << 2]});
        EXPECT_EQ(out[1], u64{table[a | (1 - a) << 1 | b << 2]});
        EXPECT_EQ(out[2], u64{table[a | b << 1 | 4]});
        EXPECT_EQ(out[3], u64{table[a * 7]});
      }
    }
  }
}

TEST(BooleanGates, Adders) {
  const Built half = build(
      {kBool, kBool},
      [](Family& f, const Numbers& x) {
        auto [s, c] = f.adder(x[0], x[1], nullptr);
        return Numbers{s, c};
      },
      Goal::fewest);
  EXPECT_EQ(half.circuit.bootstraps(), 1u);
  const Built full = build(
      std::vector(3, kBool),
      [](Family& f, const Numbers& x) {
        auto [s, c] = f.adder(x[0], x[1], &x[2]);
        return Numbers{s, c};
      },
      Goal::fewest);
  EXPECT_EQ(full.circuit.bootstraps(), 2u);
  EXPECT_EQ(full.circuit.layers.size(), 1u);
  for (u64 i = 0; i < 8; ++i) {
    const u64 a = i & 1, b = i >> 1 & 1, c = i >> 2;
    EXPECT_EQ(run(full, {a, b, c}), (std::vector{(a + b + c) % 2, (a + b + c) / 2}));
    EXPECT_EQ(run(half, {a, b}), (std::vector{(a + b) % 2, (a + b) / 2}));
  }
}

TEST(BooleanGates, BooleansAsOperands) {
  check(
      "booleans", {kBool, kBool},
      [](Family& f, const Numbers& x) {
        return Numbers{f.bitwise(Bitwise::and_bits, x[0], x[1]),
                       f.bitwise(Bitwise::or_bits, x[0], x[1]),
                       f.bitwise(Bitwise::xor_bits, x[0], x[1]),
                       f.equal(x[0], x[1]),
                       f.less(x[0], x[1]),
                       f.select(x[0], x[1], f.negate_boolean(x[1]))};
      },
      [](const auto& v) {
        return std::vector{v[0] & v[1], v[0] | v[1], v[0] ^ v[1], u64{v[0] == v[1]}, u64{v[0] < v[1]}, u64{v[0] == v[1]}};
      });
}

TEST(BooleanGates, LookUps) {
  for (const unsigned bits : {1u, 3u, 4u, 8u}) {
    for (const Type& type : {integer(8, false), integer(24, true), kBool}) {
      for (int kind = 0; kind < 3; ++kind) {
        std::vector<u64> table;
        for (u64 i = 0; i < u64{1} << bits; ++i) table.push_back(kind == 0 ? source()() : kind == 1 ? i * i : 5);
        check(
            "look_up", {integer(bits, false)},
            [&](Family& f, const Numbers& x) { return Numbers{f.look_up(x[0], table, type)}; },
            [&](const auto& v) { return std::vector{table[v[0] & (table.size() - 1)]}; });
      }
    }
  }
}

TEST(BooleanGates, OperationsWithConstantsTakeFewOrNoBootstraps) {
  const Type t = integer(16, true);
  const Built built = build(
      {t},
      [t](Family& f, const Numbers& x) {
        const Number zero = f.constant(0, t), one = f.constant(1, t), c = f.constant(1234, t), d = f.constant(55, t);
        const auto [q, r] = f.divide(c, d);
        return Numbers{f.add(x[0], zero),
                       f.multiply(x[0], one),
                       f.multiply(x[0], zero),
                       f.subtract(x[0], zero),
                       f.bitwise(Bitwise::and_bits, x[0], c),
                       f.bitwise(Bitwise::xor_bits, x[0], c),
                       f.multiply_clear(x[0], 16),
                       f.add_clear(x[0], 1 << 15),
                       f.select(f.constant(1, kBool), x[0], c),
                       f.shift(Shift::left, x[0], f.constant(3, integer(8, false))),
                       q,
                       r,
                       f.multiply(c, d),
                       f.sum({x[0], zero}),
                       f.convert(x[0], integer(64, true))};
      },
      Goal::fewest);
  EXPECT_EQ(built.circuit.bootstraps(), 0u);
  const u64 v = 0xabcd;
  EXPECT_EQ(run(built, {v}),
            (std::vector<u64>{v, v, 0, v, v & 1234, v ^ 1234, v << 4 & 0xffff, v ^ 0x8000, v, v << 3 & 0xffff, 1234 / 55,
                              1234 % 55, 1234 * 55 & 0xffff, v, v | 0xffffffffffff0000}));
}

TEST(BooleanGates, ErrorsAreTyped) {
  Builder builder(kBits);
  EXPECT_THROW(circuits::boolean_family(builder, Goal::fewest, "schoolbook"), ParameterError);
  EXPECT_THROW(circuits::boolean_family(builder, Goal::automatic, ""), ParameterError);
  Builder digits(Encoding{2, 2, 25}), narrow(Encoding{0, 0, 2});
  EXPECT_THROW(circuits::boolean_family(digits, Goal::fewest, ""), ParameterError);
  EXPECT_THROW(circuits::boolean_family(narrow, Goal::fewest, ""), ParameterError);
  const auto family = circuits::boolean_family(builder, Goal::fewest, "tree");
  const Number a = family->input(integer(8, false)), b = family->input(integer(16, false)),
               s = family->input(integer(8, true));
  EXPECT_THROW(family->add(a, a), ParameterError);
  EXPECT_THROW(family->divide(a, a), ParameterError);
  const auto plain = circuits::boolean_family(builder, Goal::fewest, "");
  EXPECT_THROW(plain->add(a, b), DtypeError);
  EXPECT_THROW(plain->less(a, s), DtypeError);
  EXPECT_THROW(plain->shift(Shift::left, a, s), DtypeError);
  EXPECT_THROW(plain->shift_clear(Shift::left, a, 8), ParameterError);
  EXPECT_THROW(plain->look_up(a, {1, 2}, a.type), ParameterError);
  EXPECT_THROW(plain->look_up(b, {1, 2}, a.type), DtypeError);
  EXPECT_THROW(plain->truth_table({a}, {false, true}), DtypeError);
  EXPECT_THROW(plain->sum({}), ShapeError);
}

TEST(Builder, InputsAreFirstInAnyOrder) {
  Builder builder(kBits);
  const auto a = builder.input();
  const auto g = builder.bootstrap(a, {kBits.unit()});
  const auto b = builder.input();
  const auto x = b + g[0] + circuits::constant(u64{0} - kBits.unit());
  const auto h = builder.bootstrap(x, {kBits.unit()}, 2);
  const auto dropped = builder.bootstrap(b, {5});
  EXPECT_EQ(builder.bootstrap(x, {kBits.unit()}, 2)[1], h[1]);
  EXPECT_EQ(builder.layer(h[0]), 2u);
  builder.output(h[1]);
  builder.output(b);
  const tfhe::Circuit circuit = builder.finish();
  EXPECT_EQ(circuit.inputs, 2u);
  EXPECT_EQ(circuit.bootstraps(), 2u);
  EXPECT_EQ(circuit.wires, 5u);
  EXPECT_EQ(circuit.tables.size(), 1u);
  EXPECT_EQ(circuit.layers.size(), 2u);
  EXPECT_EQ(circuit.outputs[1].terms[0].wire, 1u);
  const u64 yes = kBits.unit(), no = u64{0} - yes;
  EXPECT_EQ(circuits::evaluate(circuit, {no, yes}), (std::vector{yes, yes}));
  EXPECT_EQ(circuits::evaluate(circuit, {no, no}), (std::vector{no, no}));
  EXPECT_THROW(circuits::evaluate(circuit, {no}), ShapeError);
}

TEST(Builder, RefusesCombinationsBeyondTheNoiseLimit) {
  Builder builder(kBits);
  const auto a = builder.input(), b = builder.input();
  EXPECT_NO_THROW(builder.bootstrap(2 * (a + b), {kBits.unit()}, 1, 2));
  EXPECT_THROW(builder.bootstrap(2 * (a + b), {kBits.unit()}), InternalError);
  EXPECT_THROW(builder.bootstrap(a, {1, 2, 3}), InternalError);
  EXPECT_THROW(builder.bootstrap(a, {1}, 3), InternalError);
  // The builder folds constants. A table of four values covers half of the torus; on the other half the values are negated.
  EXPECT_EQ(builder.bootstrap(circuits::constant(u64{3} << 61), {10, 11, 12, 13})[0].constant, 13u);
  EXPECT_EQ(builder.bootstrap(circuits::constant(u64{4} << 61), {10, 11, 12, 13}, 2)[0].constant, u64{0} - 10);
  EXPECT_EQ(builder.bootstrap(circuits::constant(u64{1} << 61), {10, 11, 12, 13}, 2)[1].constant, 13u);
}

/// Upper limits of bootstraps and layers of 32-bit operations.
TEST(BooleanCosts, StayWithinLimitsAt32Bits) {
  struct Row {
    std::string name;
    int operands;
    Make make;
    std::string variant;
    std::array<std::size_t, 4> most;  // bootstraps and layers for goal "fewest", then for "shallow"
  };
  const auto of = [](Number (Family::*f)(const Number&, const Number&)) {
    return [f](Family& family, const Numbers& x) { return Numbers{(family.*f)(x[0], x[1])}; };
  };
  const std::vector<Row> rows{
      {"add", 2, of(&Family::add), "", {62, 32, 149, 6}},
      {"add numberwise", 2, of(&Family::add), "numberwise", {528, 32, 528, 32}},
      {"subtract", 2, of(&Family::subtract), "", {62, 32, 149, 6}},
      {"negate", 1, [](Family& f, const Numbers& x) { return Numbers{f.negate(x[0])}; }, "", {31, 31, 104, 6}},
      {"add_clear",
       1,
       [](Family& f, const Numbers& x) { return Numbers{f.add_clear(x[0], 0x5555555555555555u)}; },
       "",
       {31, 31, 132, 6}},
      {"multiply", 2, of(&Family::multiply), "", {1328, 34, 1444, 15}},
      {"multiply wallace", 2, of(&Family::multiply), "wallace", {1459, 32, 1575, 15}},
      {"multiply booth", 2, of(&Family::multiply), "booth", {1328, 34, 1444, 15}},
      {"multiply tree", 2, of(&Family::multiply), "tree", {1488, 36, 2347, 30}},
      {"multiply karatsuba", 2, of(&Family::multiply), "karatsuba", {1525, 33, 1762, 37}},
      {"multiply_clear 100",
       1,
       [](Family& f, const Numbers& x) { return Numbers{f.multiply_clear(x[0], 100)}; },
       "",
       {100, 27, 187, 7}},
      {"less", 2, of(&Family::less), "", {32, 32, 58, 6}},
      {"equal", 2, of(&Family::equal), "", {63, 6, 63, 6}},
      {"minimum", 2, of(&Family::minimum), "", {96, 33, 122, 7}},
      {"shift",
       2,
       [](Family& f, const Numbers& x) { return Numbers{f.shift(Shift::right, x[0], x[1])}; },
       "",
       {289, 5, 289, 5}},
      {"rotate",
       2,
       [](Family& f, const Numbers& x) { return Numbers{f.shift(Shift::rotate_left, x[0], x[1])}; },
       "",
       {320, 5, 320, 5}},
      {"divide",
       2,
       [](Family& f, const Numbers& x) {
         const auto [q, r] = f.divide(x[0], x[1]);
         return Numbers{q, r};
       },
       "",
       {2141, 621, 3253, 208}},
      {"sum of 8", 8, [](Family& f, const Numbers& x) { return Numbers{f.sum(x)}; }, "", {430, 34, 519, 10}},
      {"dot of 4",
       8,
       [](Family& f, const Numbers& x) {
         return Numbers{f.dot({x.begin(), x.begin() + 4}, {x.begin() + 4, x.end()})};
       },
       "",
       {5405, 36, 5522, 18}},
  };
  for (const Row& row : rows) {
    for (const Goal goal : {Goal::fewest, Goal::shallow}) {
      const std::vector<Type> types(static_cast<std::size_t>(row.operands), integer(32, false));
      const Built built = build(types, row.make, goal, row.variant);
      const std::size_t at = goal == Goal::fewest ? 0 : 2;
      EXPECT_LE(built.circuit.bootstraps(), row.most[at]) << row.name;
      EXPECT_LE(built.circuit.layers.size(), row.most[at + 1]) << row.name;
      EXPECT_GT(built.circuit.bootstraps(), 0u) << row.name;
    }
  }
}

}  // namespace

}  // namespace heliograph::test
