#include "circuits/boolean/family.h"

#include <algorithm>
#include <bit>

#include "base/errors.h"
#include "circuits/variants.h"

namespace heliograph::circuits {

std::unique_ptr<Family> boolean_family(Builder& builder, Goal goal, const std::string& variant) {
  return std::make_unique<boolean::BooleanFamily>(builder, goal, variant);
}

namespace boolean {

namespace {

void same_type(const Number& a, const Number& b) {
  require<DtypeError>(a.type == b.type && a.parts.size() == b.parts.size(), "operands of a circuit must have one type");
}

}  // namespace

BooleanFamily::BooleanFamily(Builder& builder, Goal goal, const std::string& variant)
    : Family(builder, goal, variant), gates_(builder), adders_(gates_), products_(gates_, adders_) {
  require<ParameterError>(goal != Goal::automatic, "a circuit's goal must be fewest or shallow");
  if (variant.empty() || is_one_of(variant, bit_variants::additions) || is_one_of(variant, bit_variants::products)) return;
  throw ParameterError("unknown variant " + variant + "; for bits the variants are " + text_of(bit_variants::additions) +
                       " (additions) and " + text_of(bit_variants::products) + " (multiplications)");
}

Carry BooleanFamily::carry(const char* operation, bool wordwise) const {
  if (variant_.empty()) return goal_carry();
  if (variant_ == "ripple" || variant_ == "bitwise") return Carry::ripple;
  if (variant_ == "prefix") return Carry::prefix;
  if (variant_ == "numberwise" && wordwise) return Carry::wordwise;
  throw ParameterError(std::string(operation) + " has no variant " + variant_ + "; the variants are " +
                       (wordwise ? text_of(bit_variants::additions) : text_of(bit_variants::comparisons)));
}

void BooleanFamily::no_variant(const char* operation) const {
  if (!variant_.empty())
    throw ParameterError(std::string(operation) + " has no variants, not " + variant_ + "; leave it empty");
}

Number BooleanFamily::boolean(Bit bit) const { return {{std::move(bit)}, Type{}}; }

Number BooleanFamily::constant(std::uint64_t value, const Type& type) {
  Number result{{}, type};
  for (std::size_t i = 0; i < parts(type); ++i) result.parts.push_back(gates_.constant(i < 64 && (value >> i & 1) != 0));
  return result;
}

Number BooleanFamily::truth_table(const std::vector<Number>& operands, const std::vector<bool>& table) {
  Word bits;
  for (const Number& operand : operands) {
    require<DtypeError>(operand.type.boolean, "the operands of a truth table must be booleans");
    bits.push_back(operand.parts[0]);
  }
  require<ParameterError>(!bits.empty() && bits.size() <= 16, "a truth table must have 1 to 16 operands");
  return boolean(gates_.function(bits, table));
}

Number BooleanFamily::negate_boolean(const Number& a) { return bit_not(a); }

Number BooleanFamily::select(const Number& condition, const Number& a, const Number& b) {
  require<DtypeError>(condition.type.boolean, "the condition of a selection must be a boolean");
  same_type(a, b);
  Number result{{}, a.type};
  for (std::size_t i = 0; i < a.parts.size(); ++i) {
    result.parts.push_back(gates_.select(condition.parts[0], a.parts[i], b.parts[i]));
  }
  return result;
}

std::pair<Number, Number> BooleanFamily::adder(const Number& a, const Number& b, const Number* c) {
  require<DtypeError>(a.type.boolean && b.type.boolean && (!c || c->type.boolean),
                      "the operands of a bit adder must be booleans");
  auto [sum, carry] =
      c ? gates_.full_adder(a.parts[0], b.parts[0], c->parts[0], true) : gates_.half_adder(a.parts[0], b.parts[0], true);
  return {boolean(std::move(sum)), boolean(std::move(carry))};
}

Number BooleanFamily::add(const Number& a, const Number& b) {
  same_type(a, b);
  return {adders_.add(a.parts, b.parts, gates_.constant(false), carry("add", true), true), a.type};
}

Number BooleanFamily::subtract(const Number& a, const Number& b) {
  same_type(a, b);
  return {adders_.subtract(a.parts, b.parts, carry("subtract", true), true), a.type};
}

Number BooleanFamily::negate(const Number& a) {
  const Number zero = constant(0, a.type);
  return {adders_.subtract(zero.parts, a.parts, carry("negate", true), true), a.type};
}

Number BooleanFamily::multiply(const Number& a, const Number& b) {
  same_type(a, b);
  Product method = Products::best(a.parts.size());
  if (variant_ == "wallace") {
    method = Product::columns;
  } else if (variant_ == "booth") {
    method = Product::booth;
  } else if (variant_ == "tree") {
    method = Product::tree;
  } else if (variant_ == "karatsuba") {
    method = Product::karatsuba;
  } else if (!variant_.empty()) {
    throw ParameterError("multiply has no variant " + variant_ + "; the variants are " + text_of(bit_variants::products));
  }
  return {products_.multiply(a.parts, b.parts, a.parts.size(), method, goal_carry(), true), a.type};
}

Number BooleanFamily::multiply_clear(const Number& a, std::uint64_t factor) {
  no_variant("multiply_clear");
  return {products_.multiply_clear(a.parts, factor, a.parts.size(), goal_carry()), a.type};
}

Number BooleanFamily::add_clear(const Number& a, std::uint64_t value) {
  return {adders_.add(a.parts, constant(value, a.type).parts, gates_.constant(false), carry("add_clear", true), true),
          a.type};
}

Number BooleanFamily::less(const Number& a, const Number& b) {
  same_type(a, b);
  // Computes the borrow of a - b. The sign bit has negative weight, so both sign bits are inverted.
  Word x = Gates::negated(a.parts), y = b.parts;
  if (a.type.is_signed) x.back() = a.parts.back(), y.back() = gates_.negated(b.parts.back());
  std::vector<bool> used(x.size() + 1, false);
  used.back() = true;
  return boolean(adders_.carries(x, y, gates_.constant(false), x.size(), carry("less", false), used).back());
}

Number BooleanFamily::equal(const Number& a, const Number& b) {
  no_variant("equal");
  same_type(a, b);
  Word same;
  for (std::size_t i = 0; i < a.parts.size(); ++i) same.push_back(gates_.negated(gates_.xor_gate(a.parts[i], b.parts[i])));
  return boolean(gates_.all(std::move(same)));
}

Number BooleanFamily::bitwise(Bitwise operation, const Number& a, const Number& b) {
  same_type(a, b);
  Number result{{}, a.type};
  for (std::size_t i = 0; i < a.parts.size(); ++i) {
    const Bit &x = a.parts[i], &y = b.parts[i];
    if (operation == Bitwise::and_bits) {
      result.parts.push_back(gates_.and_gate(x, y));
    } else if (operation == Bitwise::or_bits) {
      result.parts.push_back(gates_.or_gate(x, y));
    } else {
      result.parts.push_back(gates_.xor_gate(x, y));
    }
  }
  return result;
}

Number BooleanFamily::bit_not(const Number& a) { return {Gates::negated(a.parts), a.type}; }

Word BooleanFamily::shifted(Shift direction, const Word& a, std::size_t amount, const Bit& fill) const {
  const std::size_t size = a.size();
  Word result(size, fill);
  for (std::size_t i = 0; i < size; ++i) {
    switch (direction) {
      case Shift::left:
        if (i >= amount) result[i] = a[i - amount];
        break;
      case Shift::right:
        if (i + amount < size) result[i] = a[i + amount];
        break;
      case Shift::rotate_left:
        result[i] = a[(i + size - amount % size) % size];
        break;
      case Shift::rotate_right:
        result[i] = a[(i + amount) % size];
        break;
    }
  }
  return result;
}

Number BooleanFamily::shift_clear(Shift direction, const Number& a, unsigned amount) {
  require<ParameterError>(amount < a.parts.size(), "the amount of a clear shift must be 0 to bits - 1");
  const Bit fill = direction == Shift::right && a.type.is_signed ? a.parts.back() : gates_.constant(false);
  return {shifted(direction, a.parts, amount, fill), a.type};
}

Number BooleanFamily::shift(Shift direction, const Number& a, const Number& amount) {
  no_variant("shift");
  require<DtypeError>(!amount.type.boolean && !amount.type.is_signed,
                      "an encrypted shift amount must be an unsigned integer");
  const std::size_t size = a.parts.size();
  const bool rotation = rotates(direction), whole = std::has_single_bit(size);
  const Bit fill = direction == Shift::right && a.type.is_signed ? gates_.clean(a.parts.back()) : gates_.constant(false);
  const auto stages = static_cast<std::size_t>(std::bit_width(size - 1));
  Word x = a.parts;
  std::size_t step = 1 % size;
  for (std::size_t j = 0; j < amount.parts.size(); ++j) {
    if (j >= stages && (whole || !rotation)) break;
    const Bit by = gates_.clean(amount.parts[j]);
    const Word y = shifted(direction, x, rotation ? step : std::size_t{1} << j, fill);
    for (std::size_t i = 0; i < size; ++i) x[i] = gates_.select(by, y[i], x[i]);
    step = step * 2 % size;
  }
  if (!rotation && !whole && amount.parts.size() > stages) {
    const Bit beyond = gates_.any(Word(amount.parts.begin() + static_cast<std::ptrdiff_t>(stages), amount.parts.end()));
    for (Bit& bit : x) bit = gates_.select(beyond, fill, bit);
  }
  return {x, a.type};
}

BooleanFamily::Division BooleanFamily::divide_unsigned(const Word& a, const Word& b) {
  const std::size_t size = a.size();
  const Carry how = goal_carry();
  const Bit no = gates_.constant(false);
  // above[k]: whether b has a 1 at bit k or higher.
  Word above(size + 1, no);
  if (how == Carry::prefix) {
    for (std::size_t k = 0; k < size; ++k) above[k] = gates_.any(Word(b.begin() + static_cast<std::ptrdiff_t>(k), b.end()));
  } else {
    for (std::size_t k = size; k-- > 0;) above[k] = gates_.or_gate(b[k], above[k + 1]);
  }
  // Divides by restoring division. After k steps the remainder is below 2^k. A divisor b that fits into the remainder then
  // has at most k bits.
  Division result{Word(size), {}, above[0]};
  Word& rest = result.remainder;
  for (std::size_t k = 1; k <= size; ++k) {
    rest.insert(rest.begin(), a[size - k]);
    // A divisor b with a bit above these k does not fit. One more step of the borrow chain, majority(1, above, borrow),
    // tests for such a bit.
    Word x = Gates::negated(rest), y(b.begin(), b.begin() + static_cast<std::ptrdiff_t>(k));
    if (!gates_.is(above[k], false)) x.push_back(gates_.constant(true)), y.push_back(above[k]);
    const Word borrow = adders_.carries(x, y, no, x.size(), how);
    const Bit fits = Gates::negated(borrow.back());
    result.quotient[size - k] = fits;
    // The new remainder is rest - b if b fits, in norm 1: rest ^ (fits & b) ^ (fits & borrow).
    for (std::size_t i = 0; i < k; ++i) {
      rest[i] = gates_.xor_gate(rest[i], gates_.and_gate(fits, b[i]), gates_.and_gate(fits, borrow[i]));
    }
  }
  return result;
}

std::pair<Number, Number> BooleanFamily::divide(const Number& a, const Number& b) {
  no_variant("divide");
  same_type(a, b);
  if (!a.type.is_signed) {
    Division d = divide_unsigned(a.parts, b.parts);
    return {{std::move(d.quotient), a.type}, {std::move(d.remainder), a.type}};
  }
  const Carry how = goal_carry();
  const Bit a_sign = a.parts.back(), b_sign = b.parts.back();
  const Division d = divide_unsigned(adders_.negate_if(a_sign, a.parts, how), adders_.negate_if(b_sign, b.parts, how));
  // After a division by zero all quotient bits are one; this quotient is not negated.
  const Bit turned = gates_.and_gate(gates_.xor_gate(a_sign, b_sign), d.nonzero);
  return {{adders_.negate_if(turned, d.quotient, how), a.type}, {adders_.negate_if(a_sign, d.remainder, how), a.type}};
}

Number BooleanFamily::sum(const std::vector<Number>& terms) {
  no_variant("sum");
  require<ShapeError>(!terms.empty(), "a sum must have at least one term");
  if (terms.size() == 1) return terms[0];
  Columns columns(terms[0].parts.size());
  for (const Number& term : terms) {
    same_type(terms[0], term);
    columns.add(gates_, term.parts, 0);
  }
  return {adders_.total(std::move(columns), goal_carry(), true), terms[0].type};
}

Number BooleanFamily::dot(const std::vector<Number>& a, const std::vector<Number>& b) {
  no_variant("dot");
  require<ShapeError>(!a.empty() && a.size() == b.size(),
                      "a dot product must have equally many numbers on both sides, at least one");
  Columns columns(a[0].parts.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    same_type(a[0], a[i]);
    same_type(a[0], b[i]);
    if (Products::best(columns.width()) == Product::booth) {
      products_.booth(columns, a[i].parts, b[i].parts, 0);
    } else {
      products_.partial(columns, a[i].parts, b[i].parts, 0);
    }
  }
  return {adders_.total(std::move(columns), goal_carry(), true), a[0].type};
}

Number BooleanFamily::convert(const Number& a, const Type& type) {
  if (type.boolean) return a.type.boolean ? a : boolean(gates_.any(a.parts));
  const Bit fill = !a.type.boolean && a.type.is_signed ? a.parts.back() : gates_.constant(false);
  Number result{a.parts, type};
  result.parts.resize(parts(type), fill);
  return result;
}

Number BooleanFamily::look_up(const Number& a, const std::vector<std::uint64_t>& table, const Type& type) {
  no_variant("look_up");
  require<DtypeError>(!a.type.boolean && !a.type.is_signed && a.type.bits <= 8,
                      "the operand of a table look-up must be an unsigned integer of at most 8 bits");
  require<ParameterError>(table.size() == std::size_t{1} << a.type.bits, "the table of a look-up must have 2^bits values");
  Number result{{}, type};
  for (std::size_t i = 0; i < parts(type); ++i) {
    std::vector<bool> column;
    for (const std::uint64_t value : table) column.push_back((value >> i & 1) != 0);
    result.parts.push_back(gates_.function(a.parts, column));
  }
  return result;
}

}  // namespace boolean

}  // namespace heliograph::circuits
