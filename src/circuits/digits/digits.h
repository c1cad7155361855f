// Integers as digits of one or two message bits. A sum needs no bootstrap while the table has an entry (box) for each of
// its values. A circuit therefore mainly decides which digits to add before each bootstrap.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "circuits/family.h"

namespace heliograph::circuits {

/// A linear combination whose value is between 0 and max units.
struct Value {
  Linear x;
  unsigned max = 0;
};

/// Values to add; the values of column i have weight base^i.
using Columns = std::vector<std::vector<Value>>;
using Function = std::function<int(unsigned)>;

class Digits final : public Family {
 public:
  /// Variants: "schoolbook" (default), "karatsuba"; "ripple" and "prefix" set the carry propagation for any goal. Throws
  /// ParameterError for an unknown variant or encoding.
  Digits(Builder& builder, Goal goal, const std::string& variant);

  std::size_t parts(const Type& type) const override;
  Number constant(std::uint64_t value, const Type& type) override;
  Number truth_table(const std::vector<Number>& operands, const std::vector<bool>& table) override;
  Number negate_boolean(const Number& a) override;
  Number select(const Number& condition, const Number& a, const Number& b) override;
  std::pair<Number, Number> adder(const Number& a, const Number& b, const Number* c) override;
  Number add(const Number& a, const Number& b) override;
  Number subtract(const Number& a, const Number& b) override;
  Number negate(const Number& a) override;
  Number multiply(const Number& a, const Number& b) override;
  Number multiply_clear(const Number& a, std::uint64_t factor) override;
  Number add_clear(const Number& a, std::uint64_t value) override;
  Number less(const Number& a, const Number& b) override;
  Number equal(const Number& a, const Number& b) override;
  Number bitwise(Bitwise operation, const Number& a, const Number& b) override;
  Number bit_not(const Number& a) override;
  Number shift_clear(Shift direction, const Number& a, unsigned amount) override;
  Number shift(Shift direction, const Number& a, const Number& amount) override;
  std::pair<Number, Number> divide(const Number& a, const Number& b) override;
  Number sum(const std::vector<Number>& terms) override;
  Number dot(const std::vector<Number>& a, const std::vector<Number>& b) override;
  Number convert(const Number& a, const Type& type) override;
  Number look_up(const Number& a, const std::vector<std::uint64_t>& table, const Type& type) override;

 private:
  /// Output values, in units, for the carry states of positions: they kill a carry, propagate it, or generate one.
  struct Emission {
    int kill, propagate, generate;
  };
  /// Function that returns the state of one position as output values.
  using Position = std::function<Linear(std::size_t, const Emission&)>;

  Linear units(std::int64_t value) const;
  Value digit(const Linear& x) const;  // the value of one digit of a number
  Value complement(const Value& a) const;
  std::uint64_t constant_units(const Linear& x) const;
  static bool is_constant(const Linear& x) { return x.terms.empty(); }
  static Value add(const Value& a, const Value& b, int weight = 1);
  /// Applies functions to one value. Several functions share a bootstrap if the value is small enough. A value may exceed
  /// the half turn if f(i) + f(i + boxes) is constant.
  std::vector<Linear> apply(const Value& v, const std::vector<Function>& functions);
  Linear apply(const Value& v, const Function& f);
  /// Applies a function of two digits to (b.max + 1) * a + b, whose norm must be at most limit().
  Linear pair(const Value& a, const Value& b, const std::function<int(unsigned, unsigned)>& f);
  /// Returns the value of `v` with a norm of at most `most`.
  Value clean(const Value& v, std::uint64_t most = 1);
  Number cleaned(const Number& a, std::uint64_t most = 1);

  // Sums of values in columns.
  void put(Columns& columns, std::size_t at, const Value& v) const;
  void put(Columns& columns, std::size_t at, const std::vector<Linear>& digits) const;
  /// Returns base - 1 minus each digit: minus the number, minus 1.
  std::vector<Linear> complement(const std::vector<Linear>& digits) const;
  /// Returns the sum modulo base^(number of columns), in digits of norm 1.
  std::vector<Linear> resolve(Columns columns);
  /// Returns the digit of a column. Appends the column's carries to `carries`; a null pointer drops them (last column).
  Linear resolve_column(std::vector<Value> items, std::vector<Value>* carries);
  /// Removes values from `items`, the largest first, and returns their sum, which is at most `max` with a norm of at most
  /// `norm`.
  Value take(std::vector<Value>& items, unsigned max, std::uint64_t norm) const;
  /// Reduces all columns layer by layer until each sums to at most two digits.
  void compress(Columns& columns);
  /// Returns the digits, of norm 1, of columns whose sums are at most 2 * base - 2 (lowest column: 2 * base - 1). Uses
  /// carry lookahead (Kogge and Stone, 1973).
  std::vector<Linear> propagate(const std::vector<Value>& sums);
  /// Returns the state of the positions up to `last`, from a multiple of radix^depth. In a sum of 2^i * state_i over `count`
  /// states, values from 2^count on generate a carry, and the value 2^count - 1 propagates one.
  Linear window(const Position& position, unsigned depth, std::size_t last, const Emission& emission);
  /// Adds whole products, between 0 and (base - 1)^2, with one bootstrap per pair of digits. `wraps`: the last column counts
  /// modulo the base.
  void put_products(Columns& columns, std::size_t at, const std::vector<Linear>& a, const std::vector<Linear>& b,
                    bool wraps);
  /// Returns the full product of two numbers of equal length (Karatsuba and Ofman 1962), resolved.
  std::vector<Linear> karatsuba(const std::vector<Linear>& a, const std::vector<Linear>& b);
  /// Adds factor * a by signed digits of the factor: each signed digit is a multiple without a bootstrap, and a negative one
  /// uses the complement.
  void put_multiple(Columns& columns, const Number& a, std::uint64_t factor) const;

  // Comparisons.
  /// Returns `yes` if a >= b, else `no`, in units. `sign`: both numbers are signed. `shared`: the caller also resolves a -
  /// b, which shares bootstraps with the comparison.
  Linear at_least(const std::vector<Linear>& a, const std::vector<Linear>& b, bool sign, int no, int yes,
                  bool shared = false);
  /// Returns `yes`, in units, if any value is not 0, else `no`.
  Linear any(std::vector<Value> values, int no, int yes);

  unsigned flag_scale() const { return one_choice() ? 2 * base_ : base_; }
  bool one_choice() const { return 4 * base_ - 1 <= boxes_; }
  Value flag(const Value& condition);  // the value 0 or flag_scale()
  /// Returns a if the flag is set, else b. The norm of the result is the norm of b plus one, or 2.
  Linear choose(const Value& flag, const Linear& a, const Linear& b);
  /// Moves complete digits, without a bootstrap.
  Number move(Shift direction, const Number& a, unsigned digits, const Linear& fill) const;
  /// Returns base - 1 if a is signed and negative, else 0.
  Linear sign_fill(const Number& a);
  /// Returns each table's entry at the number with these digits; norm 1 or base.
  std::vector<Linear> table_of(const std::vector<Linear>& digits, const std::vector<std::vector<int>>& tables);
  /// Returns a function of booleans: the table's entry i, where operand j is bit j of i.
  Linear truth(const std::vector<Linear>& operands, const std::vector<bool>& table);
  /// Returns `truth` of distinct operands by one bootstrap of a weighted sum; nullopt if no weights keep the norm within the
  /// limit.
  std::optional<Linear> truth_of_count(const std::vector<Linear>& operands, const std::vector<bool>& table);
  std::optional<Linear> truth_of_weighted_sum(const std::vector<Linear>& operands, const std::vector<bool>& table);

  struct Multiples;
  Multiples multiples_of(const std::vector<Linear>& b);
  /// Applies functions to a value that is 2 if multiple m of the divisor is at most the remainder of `length` digits.
  /// `carry`: the carry out of the subtraction of the multiple's low digits.
  std::vector<Linear> fits(const Multiples& multiples, std::size_t m, std::size_t length, const Linear& carry,
                           const std::vector<Function>& functions);
  /// Subtracts the largest multiple that fits `rest`, and returns the quotient's digit. Computes the differences for all
  /// multiples at the same time.
  Linear subtract_largest(const Multiples& multiples, std::vector<Linear>& rest);
  /// Subtracts the doublings that fit `rest`, the largest first, and returns the quotient's digit.
  Linear subtract_in_turn(const Multiples& multiples, std::vector<Linear>& rest);
  std::pair<std::vector<Linear>, std::vector<Linear>> divide(const std::vector<Linear>& a, const std::vector<Linear>& b);
  Number boolean(const Linear& x) const { return {{x}, Type{}}; }
  std::uint64_t limit() const { return builder_.encoding().norm; }

  unsigned base_, boxes_, bits_;  // bits_: message bits of a digit
  unsigned radix_;                // a bootstrap's carry lookahead covers radix_ positions: 2^radix_ boxes
};

}  // namespace heliograph::circuits
