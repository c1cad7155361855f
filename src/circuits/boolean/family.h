// The family of encrypted bits: one wire per bit; every gate is the sign of a sum.
#pragma once

#include "circuits/boolean/products.h"
#include "circuits/family.h"

namespace heliograph::circuits::boolean {

/// Bits of a number have norm 1, or norm 2 if selections and half adders return free sums. Variants are those of
/// bit_variants.
class BooleanFamily : public Family {
 public:
  BooleanFamily(Builder& builder, Goal goal, const std::string& variant);

  std::size_t parts(const Type& type) const override { return type.boolean ? 1 : type.bits; }
  Linear clean(const Linear& part) override { return gates_.clean(part); }
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
  /// Returns the carry propagation of the variant, or of the goal. Throws ParameterError if the variant is not one, or is
  /// "numberwise" and `wordwise` is false.
  Carry carry(const char* operation, bool wordwise) const;
  Carry goal_carry() const { return goal_ == Goal::shallow ? Carry::prefix : Carry::ripple; }
  /// Throws ParameterError if a variant is given for an operation that has none.
  void no_variant(const char* operation) const;
  Number boolean(Bit bit) const;
  Word shifted(Shift direction, const Word& a, std::size_t amount, const Bit& fill) const;
  /// Quotient and remainder of unsigned words. `nonzero` is whether the divisor is not 0.
  struct Division {
    Word quotient, remainder;
    Bit nonzero;
  };
  Division divide_unsigned(const Word& a, const Word& b);

  Gates gates_;
  Adders adders_;
  Products products_;
};

}  // namespace heliograph::circuits::boolean
