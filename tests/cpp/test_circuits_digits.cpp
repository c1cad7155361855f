// Integers as digits, evaluated exactly in clear against native integers.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "base/errors.h"
#include "circuits/family.h"

namespace heliograph::circuits {
namespace {

using tfhe::Circuit;
using Words = std::vector<std::uint64_t>;

const Encoding kTwo{2, 2, 17}, kWide{2, 2, 25}, kOne{1, 1, 5};

std::uint64_t wrap(std::uint64_t value, const Type& type) {
  if (type.boolean) return value & 1;
  return type.bits == 64 ? value : value & ((std::uint64_t{1} << type.bits) - 1);
}

std::int64_t extended(std::uint64_t value, const Type& type) {
  if (!type.is_signed || type.bits == 64) return static_cast<std::int64_t>(value);
  const unsigned up = 64 - type.bits;
  return static_cast<std::int64_t>(value << up) >> up;
}

struct Rig {
  Encoding encoding;
  Goal goal;
  std::string variant;
  Circuit circuit;
  std::vector<Type> inputs, outputs;

  using Body = std::function<std::vector<Number>(Family&, const std::vector<Number>&)>;

  Rig(const Encoding& e, Goal g, const std::vector<Type>& types, const Body& body, const std::string& name = "")
      : encoding(e), goal(g), variant(name), inputs(types) {
    Builder builder(e);
    auto family = digits_family(builder, g, name);
    std::vector<Number> operands;
    for (const Type& t : types) operands.push_back(family->input(t));
    for (const Number& r : body(*family, operands)) {
      outputs.push_back(r.type);
      for (const Linear& p : r.parts) EXPECT_LE(Builder::norm(p), 1u);
      family->output(r);
    }
    circuit = builder.finish();
  }

  unsigned digit_bits(const Type& t) const { return t.boolean ? 1 : encoding.message_bits; }

  Words operator()(const Words& values) const {
    Words wires;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const unsigned bits = digit_bits(inputs[i]);
      for (unsigned at = 0; at < (inputs[i].boolean ? 1 : inputs[i].bits); at += bits) {
        wires.push_back((values[i] >> at & ((1u << bits) - 1)) * encoding.unit());
      }
    }
    const Words out = evaluate(circuit, wires);
    Words results;
    std::size_t next = 0;
    for (const Type& t : outputs) {
      std::uint64_t value = 0;
      const unsigned bits = digit_bits(t);
      for (unsigned at = 0; at < (t.boolean ? 1 : t.bits); at += bits) {
        const std::uint64_t word = out.at(next++);
        EXPECT_EQ(word % encoding.unit(), 0u);
        EXPECT_LT(word / encoding.unit(), 1u << bits);
        value |= word / encoding.unit() << at;
      }
      results.push_back(value);
    }
    EXPECT_EQ(next, out.size());
    return results;
  }
};

/// Calls check for all pairs of edge operands, then for random operands.
template <class Check>
void for_pairs(const Type& type, unsigned random, const Check& check) {
  const std::uint64_t ones = wrap(~std::uint64_t{0}, type), top = std::uint64_t{1} << (type.bits - 1);
  const Words edges{0, 1, 2, ones, ones - 1, top, top - 1, top + 1, 77, 0x69, 100, wrap(0 - std::uint64_t{9}, type)};
  for (const auto a : edges) {
    for (const auto b : edges) check(a, b);
  }
  std::mt19937_64 random_word(type.bits);
  for (unsigned i = 0; i < random; ++i) {
    const auto a = wrap(random_word(), type), b = wrap(random_word(), type);
    check(a, b);
    check(a, b >> random_word() % type.bits);
    check(a, a);
  }
}

using Pair = std::function<Number(Family&, const Number&, const Number&)>;
using Native = std::function<std::uint64_t(std::uint64_t, std::uint64_t, const Type&)>;

struct Case {
  const char* name;
  Pair circuit;
  Native native;
  const char* variant = "";
};

void figure(const Rig& rig, const std::string& name, const Type& type) {
  if (std::getenv("HELIOGRAPH_FIGURES") == nullptr) return;
  std::cout << name << ' ' << type.text() << " 2^" << rig.encoding.message_bits << '/' << rig.encoding.norm << ' '
            << (rig.goal == Goal::fewest ? "fewest" : "shallow") << ' ' << rig.circuit.bootstraps() << ' '
            << rig.circuit.layers.size() << '\n';
}

std::vector<Type> types(std::initializer_list<unsigned> widths = {8, 16, 24, 32, 64}) {
  std::vector<Type> all;
  for (const unsigned w : widths) {
    all.push_back({false, w, false});
    all.push_back({false, w, true});
  }
  return all;
}

void check_case(const Case& c, const std::vector<Type>& over, unsigned random) {
  for (const Encoding& e : {kTwo, kWide, kOne}) {
    for (const Goal goal : {Goal::fewest, Goal::shallow}) {
      for (const Type& type : over) {
        const Rig rig(
            e, goal, {type, type},
            [&](Family& f, const std::vector<Number>& x) { return std::vector<Number>{c.circuit(f, x[0], x[1])}; },
            c.variant);
        figure(rig, std::string(c.name) + c.variant, type);
        int wrong = 0;
        for_pairs(type, random, [&](std::uint64_t a, std::uint64_t b) {
          if (wrong > 2) return;
          const std::uint64_t expected = wrap(c.native(a, b, type), rig.outputs[0]), got = rig({a, b})[0];
          if (got != expected) ++wrong;
          EXPECT_EQ(got, expected) << c.name << ' ' << type.text() << " of " << a << ", " << b << " base 2^"
                                   << e.message_bits << " goal " << static_cast<int>(goal);
        });
      }
    }
  }
}

TEST(Digits, Arithmetic) {
  for (const Case& c : {
           Case{"add", [](Family&f, const Number&a, const Number&b) { return f.add(a, b); },
                [](std::uint64_t a, std::uint64_t b, const Type&) { return a + b; }},
           Case{"subtract", [](Family&f, const Number&a, const Number&b) { return f.subtract(a, b); },
                [](std::uint64_t a, std::uint64_t b, const Type&) { return a - b; }},
           Case{"negate", [](Family&f, const Number&a, const Number&) { return f.negate(a); },
                [](std::uint64_t a, std::uint64_t, const Type&) { return 0 - a; }},
           Case{"double", [](Family&f, const Number&a, const Number&) { return f.add(a, a); },
                [](std::uint64_t a, std::uint64_t, const Type&) { return a + a; }},
           Case{"add_clear", [](Family&f, const Number&a, const Number&) { return f.add_clear(a, 0xC0FFEE1234567897); },
                [](std::uint64_t a, std::uint64_t, const Type&) { return a + 0xC0FFEE1234567897; }},
           Case{"multiply_clear",
                [](Family&f, const Number&a, const Number&) { return f.multiply_clear(a, 0xC0FFEE1234567897); },
                [](std::uint64_t a, std::uint64_t, const Type&) { return a * 0xC0FFEE1234567897; }},
           Case{"multiply_3", [](Family&f, const Number&a, const Number&) { return f.multiply_clear(a, 3); },
                [](std::uint64_t a, std::uint64_t, const Type&) { return a * 3; }},
           Case{"sum_5",
                [](Family&f, const Number&a, const Number&b) {
                  return f.sum({a, b, b, a, a});
                },
                [](std::uint64_t a, std::uint64_t b, const Type&) { return 3 * a + 2 * b; }},
       }) {
    check_case(c, types(), 20);
  }
}

TEST(Digits, Products) {
  const Native product = [](std::uint64_t a, std::uint64_t b, const Type&) { return a * b; };
  const Pair multiply = [](Family& f, const Number& a, const Number& b) { return f.multiply(a, b); };
  check_case({"multiply", multiply, product}, types(), 5);
  check_case({"multiply", multiply, product, "karatsuba"}, types(), 2);
  check_case({"square", [](Family& f, const Number& a, const Number&) { return f.multiply(a, a); },
              [](std::uint64_t a, std::uint64_t, const Type&) { return a * a; }},
             types({8, 32}), 5);
  check_case({"dot",
              [](Family& f, const Number& a, const Number& b) {
                return f.dot({a, b, a}, {b, b, a});
              },
              [](std::uint64_t a, std::uint64_t b, const Type&) { return a * b + b * b + a * a; }},
             types({8, 16}), 5);
}

TEST(Digits, Logic) {
  for (const Case& c : {
           Case{"less", [](Family&f, const Number&a, const Number&b) { return f.less(a, b); },
                [](std::uint64_t a, std::uint64_t b, const Type&t) {
                  return std::uint64_t{t.is_signed ? extended(a, t) < extended(b, t) : a < b};
                }},
           Case{"less_clear", [](Family&f, const Number&a, const Number&) { return f.less(a, f.constant(100, a.type)); },
                [](std::uint64_t a, std::uint64_t, const Type&t) {
                  return std::uint64_t{t.is_signed ? extended(a, t) < 100 : a < 100};
                }},
           Case{"clear_less", [](Family&f, const Number&a, const Number&) { return f.less(f.constant(77, a.type), a); },
                [](std::uint64_t a, std::uint64_t, const Type&t) {
                  return std::uint64_t{t.is_signed ? 77 < extended(a, t) : 77 < a};
                }},
           Case{"less_minus",
                [](Family&f, const Number&a, const Number&) { return f.less(a, f.constant(0 - 9ull, a.type)); },
                [](std::uint64_t a, std::uint64_t, const Type&t) {
                  return std::uint64_t{t.is_signed ? extended(a, t) < -9 : a < wrap(0 - 9ull, t)};
                }},
           Case{"less_zero", [](Family&f, const Number&a, const Number&) { return f.less(a, f.constant(0, a.type)); },
                [](std::uint64_t a, std::uint64_t, const Type&t) {
                  return std::uint64_t{t.is_signed && extended(a, t) < 0};
                }},
           Case{"equal_99", [](Family&f, const Number&a, const Number&) { return f.equal(a, f.constant(0x69, a.type)); },
                [](std::uint64_t a, std::uint64_t, const Type&) { return std::uint64_t{a == 0x69}; }},
           Case{"equal", [](Family&f, const Number&a, const Number&b) { return f.equal(a, b); },
                [](std::uint64_t a, std::uint64_t b, const Type&) { return std::uint64_t{a == b}; }},
           Case{"equal_clear", [](Family&f, const Number&a, const Number&) { return f.equal(a, f.constant(1, a.type)); },
                [](std::uint64_t a, std::uint64_t, const Type&) { return std::uint64_t{a == 1}; }},
           Case{"and", [](Family&f, const Number&a, const Number&b) { return f.bitwise(Bitwise::and_bits, a, b); },
                [](std::uint64_t a, std::uint64_t b, const Type&) { return a & b; }},
           Case{"or", [](Family&f, const Number&a, const Number&b) { return f.bitwise(Bitwise::or_bits, a, b); },
                [](std::uint64_t a, std::uint64_t b, const Type&) { return a | b; }},
           Case{"xor",
                [](Family&f, const Number&a, const Number&b) { return f.bitwise(Bitwise::xor_bits, a, f.bit_not(b)); },
                [](std::uint64_t a, std::uint64_t b, const Type&) { return a ^ ~b; }},
           Case{"and_clear",
                [](Family&f, const Number&a, const Number&) {
                  return f.bitwise(Bitwise::and_bits, a, f.constant(0x1B, a.type));
                },
                [](std::uint64_t a, std::uint64_t, const Type&) { return a & 0x1B; }},
           Case{"minimum", [](Family&f, const Number&a, const Number&b) { return f.minimum(a, b); },
                [](std::uint64_t a, std::uint64_t b, const Type&t) {
                  return (t.is_signed ? extended(a, t) < extended(b, t) : a < b) ? a : b;
                }},
           Case{"select_clear",
                [](Family&f, const Number&a, const Number&b) { return f.select(f.less(a, b), a, f.constant(0x65, a.type)); },
                [](std::uint64_t a, std::uint64_t b, const Type&t) {
                  return (t.is_signed ? extended(a, t) < extended(b, t) : a < b) ? a : std::uint64_t{0x65};
                }},
           Case{"select_two_clear",
                [](Family&f, const Number&a, const Number&b) {
                  return f.select(f.less(a, b), f.constant(0x12, a.type), f.constant(0x65, a.type));
                },
                [](std::uint64_t a, std::uint64_t b, const Type&t) {
                  return std::uint64_t{(t.is_signed ? extended(a, t) < extended(b, t) : a < b) ? 0x12u : 0x65u};
                }},
           Case{"to_bool", [](Family&f, const Number&a, const Number&) { return f.convert(a, Type{}); },
                [](std::uint64_t a, std::uint64_t, const Type&) { return std::uint64_t{a != 0}; }},
           Case{"to_64",
                [](Family&f, const Number&a, const Number&) {
                  return f.convert(a, Type{false, 64, true});
                },
                [](std::uint64_t a, std::uint64_t, const Type&t) { return static_cast<std::uint64_t>(extended(a, t)); }},
           Case{"to_8",
                [](Family&f, const Number&a, const Number&) {
                  return f.convert(a, Type{false, 8, false});
                },
                [](std::uint64_t a, std::uint64_t, const Type&) { return a; }},
       }) {
    check_case(c, types(), 20);
  }
}

std::uint64_t native_shift(Shift direction, std::uint64_t a, std::uint64_t amount, const Type& t) {
  const unsigned w = t.bits;
  const bool power = (w & (w - 1)) == 0;
  if (rotates(direction)) {
    amount %= w;
    if (amount == 0) return a;
    if (direction == Shift::rotate_right) amount = w - amount;
    return a << amount | a >> (w - amount);
  }
  if (power) amount %= w;
  const std::int64_t wide = extended(a, t);
  if (amount >= w) return direction == Shift::right && t.is_signed && wide < 0 ? ~std::uint64_t{0} : 0;
  return direction == Shift::left ? a << amount : t.is_signed ? static_cast<std::uint64_t>(wide >> amount) : a >> amount;
}

TEST(Digits, Shifts) {
  for (const Shift direction : {Shift::left, Shift::right, Shift::rotate_left, Shift::rotate_right}) {
    for (const unsigned amount : {0u, 1u, 2u, 3u, 6u, 7u}) {
      check_case(
          {"shift_clear", [&](Family& f, const Number& a, const Number&) { return f.shift_clear(direction, a, amount); },
           [&](std::uint64_t a, std::uint64_t, const Type& t) { return native_shift(direction, a, amount, t); }},
          types({8, 24, 64}), 5);
    }
    check_case({"shift", [&](Family& f, const Number& a, const Number& b) { return f.shift(direction, a, b); },
                [&](std::uint64_t a, std::uint64_t b, const Type& t) { return native_shift(direction, a, b, t); }},
               types({8, 16, 24, 32}), 20);
    check_case({"shift_64",
                [&](Family& f, const Number& a, const Number& b) {
                  return f.shift(direction, a, f.convert(b, Type{false, 8, false}));
                },
                [&](std::uint64_t a, std::uint64_t b, const Type& t) { return native_shift(direction, a, b & 255, t); }},
               types({24, 32, 64}), 60);
  }
}

TEST(Digits, Division) {
  const auto native = [](bool rest) {
    return [rest](std::uint64_t a, std::uint64_t b, const Type& t) -> std::uint64_t {
      if (b == 0) return rest ? a : ~std::uint64_t{0};
      if (!t.is_signed) return rest ? a % b : a / b;
      const std::int64_t x = extended(a, t), y = extended(b, t);
      if (y == -1) return rest ? 0 : 0 - a;
      return static_cast<std::uint64_t>(rest ? x % y : x / y);
    };
  };
  check_case({"divide", [](Family& f, const Number& a, const Number& b) { return f.divide(a, b).first; }, native(false)},
             types(), 10);
  check_case({"remainder", [](Family& f, const Number& a, const Number& b) { return f.divide(a, b).second; }, native(true)},
             types({8, 16, 32}), 10);
  check_case(
      {"divide_clear", [](Family& f, const Number& a, const Number&) { return f.divide(a, f.constant(10, a.type)).first; },
       [&](std::uint64_t a, std::uint64_t, const Type& t) { return native(false)(a, 10, t); }},
      types({8, 32}), 10);
}

TEST(Digits, BooleansAndTables) {
  for (const Encoding& e : {kTwo, kWide, kOne}) {
    for (unsigned count = 1; count <= 4; ++count) {
      for (unsigned code = 0; code < (count < 4 ? 1u << (1u << count) : 40u); ++code) {
        std::vector<bool> table;
        for (unsigned i = 0; i < 1u << count; ++i) table.push_back(((count < 4 ? code : code * 1637) >> i & 1) != 0);
        const Rig rig(e, Goal::fewest, std::vector<Type>(count),
                      [&](Family& f, const std::vector<Number>& x) { return std::vector<Number>{f.truth_table(x, table)}; });
        for (unsigned i = 0; i < 1u << count; ++i) {
          Words values;
          for (unsigned j = 0; j < count; ++j) values.push_back(i >> j & 1);
          ASSERT_EQ(rig(values)[0], std::uint64_t{table[i]});
        }
      }
    }
    const Rig adders(e, Goal::fewest, std::vector<Type>(3), [](Family& f, const std::vector<Number>& x) {
      const auto half = f.adder(x[0], x[1], nullptr), full = f.adder(x[0], x[1], &x[2]);
      return std::vector<Number>{half.first,
                                 half.second,
                                 full.first,
                                 full.second,
                                 f.negate_boolean(x[0]),
                                 f.bitwise(Bitwise::xor_bits, x[0], x[1]),
                                 f.select(x[0], x[1], x[2])};
    });
    for (unsigned i = 0; i < 8; ++i) {
      const std::uint64_t a = i & 1, b = i >> 1 & 1, c = i >> 2;
      EXPECT_EQ(adders({a, b, c}),
                (Words{(a + b) & 1, (a + b) >> 1, (a + b + c) & 1, (a + b + c) >> 1, 1 - a, a ^ b, a ? b : c}));
    }
    for (const unsigned bits : {2u, 4u, 6u, 8u}) {
      Words table;
      std::mt19937_64 word(7);
      for (unsigned i = 0; i < 1u << bits; ++i) table.push_back(word());
      for (const Type& to : {Type{false, 8, false}, Type{}}) {
        const Rig rig(e, Goal::shallow, {Type{false, bits, false}}, [&](Family& f, const std::vector<Number>& x) {
          return std::vector<Number>{f.look_up(x[0], table, to)};
        });
        figure(rig, "look_up_" + std::to_string(bits), to);
        for (unsigned i = 0; i < 1u << bits; ++i) ASSERT_EQ(rig({i})[0], wrap(table[i], to));
      }
    }
  }
  Builder builder(kTwo);
  EXPECT_THROW(digits_family(builder, Goal::fewest, "wallace"), ParameterError);
}

}  // namespace
}  // namespace heliograph::circuits
