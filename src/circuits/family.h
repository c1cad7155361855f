// Integer arithmetic as circuits. Two families give the same results: boolean (one wire per bit) and digits (one wire per
// digit).
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

/// An encrypted value inside a circuit: its parts from the least significant, in two's complement. The value of a part is
/// exact: a bit is -1/8 or 1/8 of a turn, a digit is 0 to 2^message_bits - 1 units. A part's norm is 1 (a bootstrap's result
/// or an input) or 0 (a constant); families may use other norms internally. A boolean has one part (in the family of digits:
/// the value 0 or 1).
struct Number {
  std::vector<Linear> parts;
  Type type;
};

enum class Bitwise : unsigned char { and_bits, or_bits, xor_bits };
/// Kinds of shifts. `right` is arithmetic for signed types.
enum class Shift : unsigned char { left, right, rotate_left, rotate_right };
constexpr bool rotates(Shift direction) { return direction == Shift::rotate_left || direction == Shift::rotate_right; }
constexpr bool is_left(Shift direction) { return direction == Shift::left || direction == Shift::rotate_left; }

/// Interface of both families. Operands of a binary operation have one type; results wrap modulo 2^bits. `goal` is fewest or
/// shallow. `variant`: the name of an algorithm, or empty for the best one. ParameterError lists the known names.
class Family {
 public:
  Family(Builder& builder, Goal goal, std::string variant) : builder_(builder), goal_(goal), variant_(std::move(variant)) {}
  virtual ~Family() = default;

  virtual std::size_t parts(const Type& type) const = 0;
  Number input(const Type& type);
  /// Adds output wires, which decrypt without further bootstraps. The norm of an output is 1, or larger for sums that a
  /// family returns without a bootstrap.
  void output(const Number& x);
  /// Returns the same value with fresh noise, by one bootstrap per part.
  Number refresh(const Number& x);
  /// Returns a part with norm 1; bootstraps the part if it is a sum.
  virtual Linear clean(const Linear& part);
  virtual Number constant(std::uint64_t value, const Type& type) = 0;

  // Booleans. `table[i]`: the result if operand j is bit j of i. Takes one bootstrap if the encoding allows it.
  virtual Number truth_table(const std::vector<Number>& operands, const std::vector<bool>& table) = 0;
  virtual Number negate_boolean(const Number& a) = 0;  // takes no bootstrap
  virtual Number select(const Number& condition, const Number& a,
                        const Number& b) = 0;  // a if the condition is true, else b; a and b have one type
  /// Returns (sum, carry): a half adder, or a full adder if `c` is not null.
  virtual std::pair<Number, Number> adder(const Number& a, const Number& b, const Number* c) = 0;

  virtual Number add(const Number& a, const Number& b) = 0;
  virtual Number subtract(const Number& a, const Number& b) = 0;
  virtual Number negate(const Number& a) = 0;
  virtual Number multiply(const Number& a, const Number& b) = 0;
  virtual Number multiply_clear(const Number& a, std::uint64_t factor) = 0;
  virtual Number add_clear(const Number& a, std::uint64_t value) = 0;
  virtual Number less(const Number& a, const Number& b) = 0;   // boolean result; signed comparison for signed types
  virtual Number equal(const Number& a, const Number& b) = 0;  // boolean result
  virtual Number bitwise(Bitwise operation, const Number& a, const Number& b) = 0;  // integers or booleans
  virtual Number bit_not(const Number& a) = 0;
  /// Shifts or rotates by a clear amount of 0 to bits - 1.
  virtual Number shift_clear(Shift direction, const Number& a, unsigned amount) = 0;
  /// Shifts by an encrypted unsigned amount of any width, taken modulo bits if bits is a power of two. For other widths (24)
  /// an amount of bits or more gives 0 (or the sign) for shifts, and is taken modulo bits for rotations.
  virtual Number shift(Shift direction, const Number& a, const Number& amount) = 0;
  /// Returns the quotient, rounded toward zero, and the remainder with the dividend's sign, as in C. For a zero divisor, the
  /// quotient is all ones (unsigned 2^bits - 1, signed -1) and the remainder is a.
  virtual std::pair<Number, Number> divide(const Number& a, const Number& b) = 0;
  /// Returns the sum of any number of terms, in one tree with one carry propagation.
  virtual Number sum(const std::vector<Number>& terms) = 0;
  /// Returns the sum of a[i] * b[i], with all partial products in one tree.
  virtual Number dot(const std::vector<Number>& a, const std::vector<Number>& b) = 0;
  /// Truncates, or extends by zeros or the sign according to the source's type. A boolean becomes 0 or 1. An integer
  /// becomes the boolean "not 0".
  virtual Number convert(const Number& a, const Type& type) = 0;
  /// Returns a table's entry at an unsigned integer of at most 8 bits; the entries are integers modulo 2^type.bits.
  virtual Number look_up(const Number& a, const std::vector<std::uint64_t>& table, const Type& type) = 0;

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
