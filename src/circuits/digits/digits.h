// Integers as digits of one or two message bits. Sums are free until a box of the table overflows, so most of a circuit is
// a plan of which digits to add up before each bootstrap.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "circuits/family.h"

namespace heliograph::circuits {

/// A linear combination worth 0 .. max units.
struct Value {
  Linear x;
  unsigned max = 0;
};

/// Values to be added up: [i] weighs base^i.
using Columns = std::vector<std::vector<Value>>;
using Function = std::function<int(unsigned)>;

class Digits final : public Family {
 public:
  /// Variants: "schoolbook" (as empty), "karatsuba"; "ripple" and "prefix" say how carries go whatever the goal.
  /// Throws ParameterError for a variant or an encoding it does not know.
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
  Number bitwise(char operation, const Number& a, const Number& b) override;
  Number bit_not(const Number& a) override;
  Number shift_clear(char direction, const Number& a, unsigned amount) override;
  Number shift(char direction, const Number& a, const Number& amount) override;
  std::pair<Number, Number> divide(const Number& a, const Number& b) override;
  Number sum(const std::vector<Number>& terms) override;
  Number dot(const std::vector<Number>& a, const std::vector<Number>& b) override;
  Number convert(const Number& a, const Type& type) override;
  Number look_up(const Number& a, const std::vector<std::uint64_t>& table, const Type& type) override;

 private:
  /// What a state of carries becomes: the low positions kill a carry, propagate it, or generate one.
  struct Emission {
    int kill, propagate, generate;
  };
  /// The state of one position, as its emission says.
  using Position = std::function<Linear(std::size_t, const Emission&)>;

  // Values.
  Linear units(std::int64_t value) const;
  Value digit(const Linear& x) const;  // a part
  Value complement(const Value& a) const;
  std::uint64_t constant_units(const Linear& x) const;
  static bool is_constant(const Linear& x) { return x.terms.empty(); }
  static Value add(const Value& a, const Value& b, int weight = 1);
  /// Functions of one value; several share a bootstrap where the value is small enough. A value may reach past the half turn
  /// where f(i) + f(i + boxes) is one constant.
  std::vector<Linear> apply(const Value& v, const std::vector<Function>& functions);
  Linear apply(const Value& v, const Function& f);
  /// A function of two digits: of (b.max + 1) * a + b, whose norm must be low enough.
  Linear pair(const Value& a, const Value& b, const std::function<int(unsigned, unsigned)>& f);
  /// `v` with norm at most `most`.
  Value clean(const Value& v, std::uint64_t most = 1);
  Number cleaned(const Number& a, std::uint64_t most = 1);

  // Columns.
  void put(Columns& columns, std::size_t at, const Value& v) const;
  void put(Columns& columns, std::size_t at, const std::vector<Linear>& digits) const;
  /// base - 1 less each digit: the negative number less 1.
  std::vector<Linear> complement(const std::vector<Linear>& digits) const;
  /// The sum modulo base^(number of columns), in clean digits.
  std::vector<Linear> resolve(Columns columns);
  /// The digit of a column; its carries go to `carries`, or nowhere where it is the last.
  Linear resolve_column(std::vector<Value> items, std::vector<Value>* carries);
  /// Takes values out of `items`, the largest first, while their sum is at most `max` and its norm at most `norm`.
  Value take(std::vector<Value>& items, unsigned max, std::uint64_t norm) const;
  /// One layer after another, all columns at once, until each sums to at most two digits' worth.
  void compress(Columns& columns);
  /// Clean digits of columns that sum to at most 2 * base - 2, the lowest 2 * base - 1 (lookahead: Kogge and Stone 1973).
  std::vector<Linear> propagate(const std::vector<Value>& sums);
  /// The state of the positions up to `last` from a multiple of radix^depth on. A sum of 2^i * state_i over count states
  /// generates from 2^count on and propagates just below it.
  Linear window(const Position& position, unsigned depth, std::size_t last, const Emission& emission);
  /// Whole products, 0 .. (base - 1)^2, one bootstrap a pair. `wraps`: the last column counts modulo the base only.
  void put_products(Columns& columns, std::size_t at, const std::vector<Linear>& a, const std::vector<Linear>& b,
                    bool wraps);
  /// The whole product of two numbers of one length (Karatsuba and Ofman 1962), resolved.
  std::vector<Linear> karatsuba(const std::vector<Linear>& a, const std::vector<Linear>& b);
  /// Adds factor * a: the factor in signed digits, each a free multiple, a negative one by the complement.
  void put_multiple(Columns& columns, const Number& a, std::uint64_t factor) const;

  // Comparisons.
  /// `yes` where a >= b, else `no`, in units. `sign`: both are signed.
  /// `shared`: a - b is resolved too, whose bootstraps serve both.
  Linear at_least(const std::vector<Linear>& a, const std::vector<Linear>& b, bool sign, int no, int yes,
                  bool shared = false);
  /// `yes` where any value is not 0, else `no`, in units.
  Linear any(std::vector<Value> values, int no, int yes);

  // Choices.
  unsigned flag_scale() const { return one_choice() ? 2 * base_ : base_; }
  bool one_choice() const { return 4 * base_ - 1 <= boxes_; }
  Value flag(const Value& condition);  // 0 or flag_scale()
  /// a where the flag is set, else b; of norm one more than b's, or 2.
  Linear choose(const Value& flag, const Linear& a, const Linear& b);
  /// Whole digits, for free.
  Number move(char direction, const Number& a, unsigned digits, const Linear& fill) const;
  /// base - 1 where a is signed and negative, else 0.
  Linear sign_fill(const Number& a);
  /// Each table's result at the number that `digits` are; norm 1 or base.
  std::vector<Linear> table_of(const std::vector<Linear>& digits, const std::vector<std::vector<int>>& tables);
  /// A function of booleans; entry i where operand j is bit j of i.
  Linear truth(const std::vector<Linear>& operands, const std::vector<bool>& table);
  /// Quotient and remainder, unsigned.
  std::pair<std::vector<Linear>, std::vector<Linear>> divide(const std::vector<Linear>& a, const std::vector<Linear>& b);
  Number boolean(const Linear& x) const { return {{x}, Type{}}; }
  std::uint64_t limit() const { return builder_.encoding().norm; }

  unsigned base_, boxes_, bits_;  // bits_: message bits
  unsigned radix_;                // positions that one bootstrap looks ahead: 2^radix_ boxes
};

}  // namespace heliograph::circuits
