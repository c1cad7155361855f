// Integer arithmetic as circuits. Two families with the same results: boolean (a wire a bit) and digits (a wire a digit).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "circuits/builder.h"
#include "heliograph/tfhe.h"

namespace heliograph::circuits {

using tfhe::Goal;
using tfhe::Type;

/// An encrypted value inside a circuit: least significant part first, two's complement. Parts of a Number are clean: a bit is
/// -1/8 or 1/8, a digit 0 .. 2^message_bits - 1 in units, with norm 1 (a bootstrap's result or an input) or 0 (a constant),
/// unless a family says otherwise of what it returns to itself. A boolean has one part (digits: 0 or 1).
struct Number {
  std::vector<Linear> parts;
  Type type;
};

/// What both families do. Operands of a binary operation have one type; results wrap modulo 2^bits. `goal` is fewest or
/// shallow. `variant`: empty for the best, or a named algorithm; ParameterError names those there are.
class Family {
 public:
  Family(Builder& builder, Goal goal, std::string variant) : builder_(builder), goal_(goal), variant_(std::move(variant)) {}
  virtual ~Family() = default;

  /// Parts of a type.
  virtual std::size_t parts(const Type& type) const = 0;
  Number input(const Type& type);
  /// Output wires that decrypt as they are: norm 1 unless free linear results do (see Number).
  void output(const Number& x);
  /// The same value in fresh noise: a bootstrap a part.
  Number refresh(const Number& x);
  /// A part as a result may leave: of norm 1, by bootstraps where it is a sum of several.
  virtual Linear clean(const Linear& part);
  virtual Number constant(std::uint64_t value, const Type& type) = 0;

  // Booleans. `table[i]`: the result where operand j is bit j of i. One bootstrap where the encoding allows.
  virtual Number truth_table(const std::vector<Number>& operands, const std::vector<bool>& table) = 0;
  virtual Number negate_boolean(const Number& a) = 0;                                    // free
  virtual Number select(const Number& condition, const Number& a, const Number& b) = 0;  // a where true; any one type
  /// (sum, carry); the full adder where `c` is not null.
  virtual std::pair<Number, Number> adder(const Number& a, const Number& b, const Number* c) = 0;

  // Integers.
  virtual Number add(const Number& a, const Number& b) = 0;
  virtual Number subtract(const Number& a, const Number& b) = 0;
  virtual Number negate(const Number& a) = 0;
  virtual Number multiply(const Number& a, const Number& b) = 0;
  virtual Number multiply_clear(const Number& a, std::uint64_t factor) = 0;
  virtual Number add_clear(const Number& a, std::uint64_t value) = 0;
  virtual Number less(const Number& a, const Number& b) = 0;                     // boolean; signed where the type is
  virtual Number equal(const Number& a, const Number& b) = 0;                    // boolean
  virtual Number bitwise(char operation, const Number& a, const Number& b) = 0;  // '&', '|', '^'; booleans too
  virtual Number bit_not(const Number& a) = 0;
  /// By clear amounts, of 0 to bits - 1. direction 'l', 'r' (arithmetic where signed), 'L', 'R': rotations.
  virtual Number shift_clear(char direction, const Number& a, unsigned amount) = 0;
  /// By encrypted amounts, an unsigned integer of any width, taken modulo bits where bits is a power of two; for the others
  /// (24) an amount of bits or more gives 0 (or the sign) for shifts and is taken modulo bits for rotations.
  virtual Number shift(char direction, const Number& a, const Number& amount) = 0;
  /// Quotient rounded toward zero and remainder of the dividend's sign, as C; a zero divisor gives (all ones, a): unsigned
  /// 2^bits - 1, signed -1.
  virtual std::pair<Number, Number> divide(const Number& a, const Number& b) = 0;
  /// Of any count, in one tree with one carry propagation at its end.
  virtual Number sum(const std::vector<Number>& terms) = 0;
  /// sum of a[i] * b[i], partial products of all in one tree.
  virtual Number dot(const std::vector<Number>& a, const std::vector<Number>& b) = 0;
  /// Truncates, or extends by zeros or the sign as the source is signed. From a boolean: 0 or 1; to a boolean: not zero.
  virtual Number convert(const Number& a, const Type& type) = 0;
  /// Any function of the value of an unsigned integer of at most `table bits` (8): values modulo 2^type.bits.
  virtual Number look_up(const Number& a, const std::vector<std::uint64_t>& table, const Type& type) = 0;

  // Made of the others.
  Number minimum(const Number& a, const Number& b) { return select(less(a, b), a, b); }
  Number maximum(const Number& a, const Number& b) { return select(less(a, b), b, a); }

 protected:
  Linear refresh(const Linear& part);

  Builder& builder_;
  Goal goal_;
  std::string variant_;
};

std::unique_ptr<Family> boolean_family(Builder& builder, Goal goal, const std::string& variant);
std::unique_ptr<Family> digits_family(Builder& builder, Goal goal, const std::string& variant);

}  // namespace heliograph::circuits
