#include "circuits/operations.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/errors.h"
#include "schemes/tfhe/encoding.h"

namespace heliograph::circuits {

namespace {

using tfhe::Operation;
using Types = std::vector<Type>;
using Numbers = std::vector<Number>;

constexpr Type kBoolean{};

/// The types of an operation's results, and its circuit. `folds`: with one operand and one argument, the argument is the
/// right operand.
struct Entry {
  std::function<Types(const Operation&, const Types&)> types;
  std::function<Numbers(Family&, const Operation&, const Numbers&)> make;
  bool folds = false;
};

std::string listed(const Types& types) {
  std::string text;
  for (const Type& t : types) text += (text.empty() ? "" : ", ") + t.text();
  return text.empty() ? "nothing" : text;
}

[[noreturn]] void refuse(const Operation& o, const Types& types, const std::string& wanted) {
  throw DtypeError(o.name + " takes " + wanted + ", not " + listed(types));
}

void need_arguments(const Operation& o, std::size_t count) {
  if (o.arguments.size() == count) return;
  std::string text = o.name + " needs ";
  text += count == 0 ? "no clear integer" : count == 1 ? "one clear integer" : std::to_string(count) + " clear integers";
  text += " here, not " + std::to_string(o.arguments.size());
  throw ParameterError(text);
}

void need_operands(const Operation& o, const Types& types, std::size_t count) {
  if (types.size() == count) return;
  std::string text = o.name + " needs " + std::to_string(count);
  text += count == 1 ? " encrypted operand, not " : " encrypted operands, not ";
  throw ParameterError(text + std::to_string(types.size()));
}

/// Throws DtypeError, which names both types, unless they are equal.
void need_same(const Operation& o, const Type& a, const Type& b) {
  if (!(a == b))
    throw DtypeError(o.name + " needs operands of one type, not " + a.text() + " and " + b.text() +
                     "; convert one with .astype");
}

/// Returns the common type of `count` operands: an integer, or a boolean if `allowed`.
Type one_type(const Operation& o, const Types& types, std::size_t count, bool allowed) {
  need_operands(o, types, count);
  for (const Type& t : types) need_same(o, types[0], t);
  if (types[0].boolean && !allowed) refuse(o, types, "integers; convert booleans with .astype");
  return types[0];
}

void need_booleans(const Operation& o, const Types& types, std::size_t count) {
  need_operands(o, types, count);
  for (const Type& t : types)
    if (!t.boolean) refuse(o, types, "booleans");
}

std::function<Types(const Operation&, const Types&)> like_operands(std::size_t count, bool booleans) {
  return [=](const Operation& o, const Types& types) { return Types{one_type(o, types, count, booleans)}; };
}

Number table(Family& f, const Numbers& x, const std::vector<bool>& values) {
  if (x.size() <= 3) return f.truth_table(x, values);
  // The last operand selects between the halves of the table.
  const Numbers rest(x.begin(), x.end() - 1);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  const std::vector<bool> low(values.begin(), middle), high(middle, values.end());
  if (low == high) return table(f, rest, low);
  return f.select(x.back(), table(f, rest, high), table(f, rest, low));
}

std::vector<bool> bits_of(unsigned word, std::size_t count) {
  std::vector<bool> bits(count);
  for (std::size_t i = 0; i < count; ++i) bits[i] = (word >> i & 1) != 0;
  return bits;
}

Number bitwise(Family& f, Bitwise operation, const Number& a, const Number& b) { return f.bitwise(operation, a, b); }

/// Returns a two-input gate: on booleans by its table (bit 2b + a), on integers bitwise.
Entry gate(unsigned word, Bitwise operation, bool not_a, bool not_b, bool not_result) {
  Entry e;
  e.folds = true;
  e.types = like_operands(2, true);
  e.make = [=](Family& f, const Operation&, const Numbers& x) {
    if (x[0].type.boolean) return Numbers{f.truth_table(x, bits_of(word, 4))};
    Number r = bitwise(f, operation, not_a ? f.bit_not(x[0]) : x[0], not_b ? f.bit_not(x[1]) : x[1]);
    return Numbers{not_result ? f.bit_not(r) : r};
  };
  return e;
}

/// Returns a gate of three booleans, by its table (bit 4c + 2b + a).
Entry gate3(unsigned word) {
  Entry e;
  e.types = [](const Operation& o, const Types& types) {
    need_booleans(o, types, 3);
    return Types{kBoolean};
  };
  e.make = [=](Family& f, const Operation&, const Numbers& x) { return Numbers{f.truth_table(x, bits_of(word, 8))}; };
  return e;
}

Number negated(Family& f, const Number& boolean) { return f.negate_boolean(boolean); }

Number less(Family& f, const Number& a, const Number& b) {
  return a.type.boolean ? f.truth_table({a, b}, bits_of(0b0100, 4)) : f.less(a, b);
}

Number equal(Family& f, const Number& a, const Number& b) {
  return a.type.boolean ? f.truth_table({a, b}, bits_of(0b1001, 4)) : f.equal(a, b);
}

Entry comparison(std::function<Number(Family&, const Number&, const Number&)> make) {
  Entry e;
  e.folds = true;
  e.types = [](const Operation& o, const Types& types) {
    one_type(o, types, 2, true);
    return Types{kBoolean};
  };
  e.make = [make = std::move(make)](Family& f, const Operation&, const Numbers& x) { return Numbers{make(f, x[0], x[1])}; };
  return e;
}

Entry choice(bool smaller) {
  Entry e;
  e.folds = true;
  e.types = like_operands(2, true);
  e.make = [=](Family& f, const Operation&, const Numbers& x) {
    if (x[0].type.boolean) return Numbers{f.truth_table(x, bits_of(smaller ? 0b1000 : 0b1110, 4))};
    return Numbers{smaller ? f.minimum(x[0], x[1]) : f.maximum(x[0], x[1])};
  };
  return e;
}

Entry integer2(Number (Family::*make)(const Number&, const Number&),
               Number (*clear)(Family&, const Number&, std::uint64_t)) {
  Entry e;
  e.folds = true;
  e.types = like_operands(2, false);
  e.make = [=](Family& f, const Operation& o, const Numbers& x) {
    if (!o.arguments.empty()) return Numbers{clear(f, x[0], static_cast<std::uint64_t>(o.arguments[0]))};
    return Numbers{(f.*make)(x[0], x[1])};
  };
  return e;
}

Number add_clear(Family& f, const Number& a, std::uint64_t value) { return f.add_clear(a, value); }
Number subtract_clear(Family& f, const Number& a, std::uint64_t value) { return f.add_clear(a, 0 - value); }
Number multiply_clear(Family& f, const Number& a, std::uint64_t factor) { return f.multiply_clear(a, factor); }

/// Returns a shift by a clear amount, or by an encrypted integer whose bits are read as unsigned.
Entry shift(Shift direction) {
  const bool rotation = rotates(direction);
  Entry e;
  e.types = [](const Operation& o, const Types& types) {
    const bool clear = !o.arguments.empty();
    need_operands(o, types, clear ? 1 : 2);
    for (const Type& t : types)
      if (t.boolean) refuse(o, types, "integers");
    if (clear) need_arguments(o, 1);
    return Types{types[0]};
  };
  e.make = [=](Family& f, const Operation& o, const Numbers& x) {
    if (o.arguments.empty()) {
      Number amount = x[1];
      amount.type.is_signed = false;
      return Numbers{f.shift(direction, x[0], amount)};
    }
    const auto bits = static_cast<std::int64_t>(x[0].type.bits);
    std::int64_t amount = o.arguments[0];
    if (rotation) {
      amount = (amount % bits + bits) % bits;
    } else if (amount < 0) {
      throw ParameterError(o.name + " by " + std::to_string(amount) + ": the amount must not be negative");
    } else if (amount >= bits) {
      if (direction == Shift::left || !x[0].type.is_signed) return Numbers{f.constant(0, x[0].type)};
      amount = bits - 1;
    }
    return Numbers{f.shift_clear(direction, x[0], static_cast<unsigned>(amount))};
  };
  return e;
}

/// Returns the quotient rounded down and the remainder with the divisor's sign, as Python and NumPy. The function `divide`
/// defines the results for a zero divisor.
std::pair<Number, Number> floor_divide(Family& f, const Number& a, const Number& b) {
  auto [q, r] = f.divide(a, b);
  if (!a.type.is_signed) return {q, r};
  const Number zero = f.constant(0, a.type);
  const Number apart = f.truth_table({f.less(a, zero), f.less(b, zero)}, bits_of(0b0110, 4));
  const Number exact = f.equal(r, zero), nothing = f.equal(b, zero);
  const Number down = f.truth_table({apart, exact, nothing}, bits_of(0b00000010, 8));
  return {f.subtract(q, f.convert(down, a.type)), f.add(r, f.select(down, b, zero))};
}

enum class Part { quotient, remainder, both };

Entry division(bool floor, Part part) {
  Entry e;
  e.folds = true;
  e.types = [=](const Operation& o, const Types& types) {
    const Type t = one_type(o, types, 2, false);
    if (!o.arguments.empty() && o.arguments[0] == 0)
      throw ParameterError(o.name + " by a clear zero is undefined; use another divisor");
    return part == Part::both ? Types{t, t} : Types{t};
  };
  e.make = [=](Family& f, const Operation&, const Numbers& x) {
    const auto [q, r] = floor ? floor_divide(f, x[0], x[1]) : f.divide(x[0], x[1]);
    if (part == Part::both) return Numbers{q, r};
    return Numbers{part == Part::quotient ? q : r};
  };
  return e;
}

Entry unary(bool booleans, std::function<Number(Family&, const Number&)> make) {
  Entry e;
  e.types = like_operands(1, booleans);
  e.make = [make = std::move(make)](Family& f, const Operation&, const Numbers& x) { return Numbers{make(f, x[0])}; };
  return e;
}

Entry selection() {
  Entry e;
  e.types = [](const Operation& o, const Types& types) {
    need_operands(o, types, 3);
    if (!types[0].boolean) refuse(o, types, "a boolean and two operands of one type");
    need_same(o, types[1], types[2]);
    return Types{types[1]};
  };
  e.make = [](Family& f, const Operation&, const Numbers& x) { return Numbers{f.select(x[0], x[1], x[2])}; };
  return e;
}

Entry adder(std::size_t count) {
  Entry e;
  e.types = [=](const Operation& o, const Types& types) {
    need_booleans(o, types, count);
    return Types{kBoolean, kBoolean};
  };
  e.make = [=](Family& f, const Operation&, const Numbers& x) {
    const auto [sum, carry] = f.adder(x[0], x[1], count == 3 ? &x[2] : nullptr);
    return Numbers{sum, carry};
  };
  return e;
}

Entry truth_table() {
  Entry e;
  e.types = [](const Operation& o, const Types& types) {
    if (types.empty() || types.size() > 8) throw ParameterError(o.name + " needs 1 to 8 booleans");
    need_booleans(o, types, types.size());
    const std::size_t entries = std::size_t{1} << types.size();
    if (o.arguments.size() != entries) {
      std::string text = "a truth table of ";
      text += std::to_string(types.size()) + (types.size() == 1 ? " boolean must have " : " booleans must have ");
      text += std::to_string(entries) + " entries, not " + std::to_string(o.arguments.size());
      throw ParameterError(text);
    }
    for (std::int64_t v : o.arguments)
      if (v != 0 && v != 1) throw ParameterError("entries of a truth table must be 0 or 1, not " + std::to_string(v));
    return Types{kBoolean};
  };
  e.make = [](Family& f, const Operation& o, const Numbers& x) {
    return Numbers{table(f, x, std::vector<bool>(o.arguments.begin(), o.arguments.end()))};
  };
  return e;
}

/// Returns the type of a sum; booleans are counted in the operation's own type.
Type sum_type(const Operation& o, const Types& types) {
  if (types.empty()) throw ParameterError(o.name + " needs at least one operand");
  const Type t = one_type(o, types, types.size(), true);
  if (t.boolean && o.type.boolean) throw DtypeError(o.name + " of booleans needs an integer type for its result");
  return t.boolean ? o.type : t;
}

Entry sum() {
  Entry e;
  e.types = [](const Operation& o, const Types& types) { return Types{sum_type(o, types)}; };
  e.make = [](Family& f, const Operation& o, const Numbers& x) {
    Numbers terms;
    for (const Number& a : x) terms.push_back(a.type.boolean ? f.convert(a, o.type) : a);
    return Numbers{terms.size() == 1 ? terms[0] : f.sum(terms)};
  };
  return e;
}

Entry dot() {
  Entry e;
  e.types = [](const Operation& o, const Types& types) {
    if (types.empty() || types.size() % 2 != 0) throw ParameterError(o.name + " needs two vectors of equal length");
    return Types{one_type(o, types, types.size(), false)};
  };
  e.make = [](Family& f, const Operation&, const Numbers& x) {
    const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
    return Numbers{f.dot(Numbers(x.begin(), middle), Numbers(middle, x.end()))};
  };
  return e;
}

Entry conversion() {
  Entry e;
  e.types = [](const Operation& o, const Types& types) {
    need_operands(o, types, 1);
    return Types{o.type};
  };
  e.make = [](Family& f, const Operation& o, const Numbers& x) {
    return Numbers{x[0].type == o.type ? x[0] : f.convert(x[0], o.type)};
  };
  return e;
}

Entry look_up() {
  Entry e;
  e.types = [](const Operation& o, const Types& types) {
    need_operands(o, types, 1);
    if (!types[0].boolean && types[0].bits > 8) refuse(o, types, "an integer of at most 8 bits; convert it with .astype");
    const std::size_t entries = std::size_t{1} << (types[0].boolean ? 1 : types[0].bits);
    if (o.arguments.size() != entries) {
      std::string text = "a table for " + types[0].text() + " must have ";
      text += std::to_string(entries) + " entries, one for each value, not " + std::to_string(o.arguments.size());
      throw ParameterError(text);
    }
    return Types{o.type};
  };
  e.make = [](Family& f, const Operation& o, const Numbers& x) {
    const std::vector<std::uint64_t> values(o.arguments.begin(), o.arguments.end());
    if (x[0].type.boolean) return Numbers{f.select(x[0], f.constant(values[1], o.type), f.constant(values[0], o.type))};
    Number index = x[0];
    index.type.is_signed = false;
    return Numbers{f.look_up(index, values, o.type)};
  };
  return e;
}

void add_gates(std::map<std::string, Entry>& all) {
  all["and"] = gate(0b1000, Bitwise::and_bits, false, false, false);
  all["nand"] = gate(0b0111, Bitwise::and_bits, false, false, true);
  all["or"] = gate(0b1110, Bitwise::or_bits, false, false, false);
  all["nor"] = gate(0b0001, Bitwise::or_bits, false, false, true);
  all["xor"] = gate(0b0110, Bitwise::xor_bits, false, false, false);
  all["xnor"] = gate(0b1001, Bitwise::xor_bits, false, false, true);
  all["andny"] = gate(0b0100, Bitwise::and_bits, true, false, false);
  all["andyn"] = gate(0b0010, Bitwise::and_bits, false, true, false);
  all["orny"] = gate(0b1101, Bitwise::or_bits, true, false, false);
  all["oryn"] = gate(0b1011, Bitwise::or_bits, false, true, false);
  all["not"] = unary(true, [](Family& f, const Number& a) { return a.type.boolean ? negated(f, a) : f.bit_not(a); });
  all["and3"] = gate3(0b10000000);
  all["or3"] = gate3(0b11111110);
  all["majority"] = gate3(0b11101000);
  all["xor3"] = gate3(0b10010110);
  all["mux"] = all["select"] = selection();
  all["half_adder"] = adder(2);
  all["full_adder"] = adder(3);
  all["truth_table"] = truth_table();
}

void add_arithmetic(std::map<std::string, Entry>& all) {
  all["add"] = all["add_clear"] = integer2(&Family::add, &add_clear);
  all["subtract"] = all["subtract_clear"] = integer2(&Family::subtract, &subtract_clear);
  all["multiply"] = all["multiply_clear"] = integer2(&Family::multiply, &multiply_clear);
  // Computes a clear integer c minus the operand a: c - a = ~a + (c + 1).
  Entry from = unary(false, nullptr);
  from.make = [](Family& f, const Operation& o, const Numbers& x) {
    return Numbers{f.add_clear(f.bit_not(x[0]), static_cast<std::uint64_t>(o.arguments[0]) + 1)};
  };
  from.types = [](const Operation& o, const Types& types) {
    need_arguments(o, 1);
    return Types{one_type(o, types, 1, false)};
  };
  all["clear_subtract"] = from;
  all["negate"] = unary(false, [](Family& f, const Number& a) { return f.negate(a); });
  all["absolute"] = unary(false, [](Family& f, const Number& a) {
    return a.type.is_signed ? f.select(f.less(a, f.constant(0, a.type)), f.negate(a), a) : a;
  });
  all["divide"] = division(false, Part::quotient);
  all["remainder"] = division(false, Part::remainder);
  all["divmod"] = division(false, Part::both);
  all["floor_divide"] = division(true, Part::quotient);
  all["floor_remainder"] = division(true, Part::remainder);
  all["floor_divmod"] = division(true, Part::both);
  all["sum"] = sum();
  all["dot"] = dot();
}

std::map<std::string, Entry> entries() {
  std::map<std::string, Entry> all;
  add_gates(all);
  add_arithmetic(all);
  all["less"] = comparison(less);
  all["greater"] = comparison([](Family& f, const Number& a, const Number& b) { return less(f, b, a); });
  all["less_equal"] = comparison([](Family& f, const Number& a, const Number& b) { return negated(f, less(f, b, a)); });
  all["greater_equal"] = comparison([](Family& f, const Number& a, const Number& b) { return negated(f, less(f, a, b)); });
  all["equal"] = comparison(equal);
  all["not_equal"] = comparison([](Family& f, const Number& a, const Number& b) { return negated(f, equal(f, a, b)); });
  all["minimum"] = choice(true);
  all["maximum"] = choice(false);
  all["shift_left"] = shift(Shift::left);
  all["shift_right"] = shift(Shift::right);
  all["rotate_left"] = shift(Shift::rotate_left);
  all["rotate_right"] = shift(Shift::rotate_right);
  all["convert"] = conversion();
  all["refresh"] = unary(true, [](Family& f, const Number& a) { return f.refresh(a); });
  all["look_up"] = look_up();
  return all;
}

const std::map<std::string, Entry>& table_of_entries() {
  static const std::map<std::string, Entry> all = entries();
  return all;
}

const Entry& entry(const std::string& name) {
  const auto found = table_of_entries().find(name);
  if (found == table_of_entries().end()) {
    std::string known;
    for (const auto& [n, e] : table_of_entries()) known += (known.empty() ? "" : ", ") + n;
    throw ParameterError("unknown operation \"" + name + "\"; the operations are " + known);
  }
  return found->second;
}

bool folded(const Entry& e, const Operation& o, const Types& operands) {
  if (!e.folds || o.arguments.empty()) return false;
  need_operands(o, operands, 1);
  need_arguments(o, 1);
  return true;
}

/// Returns the properties of a parameter set that determine the encoding of values in wires.
tfhe::Spec spec_of(const Encoding& e) {
  return {.message_bits = e.message_bits, .carry_bits = e.carry_bits, .norm = e.norm};
}

}  // namespace

std::vector<Type> result_types(const Operation& operation, const std::vector<Type>& operands) {
  const Entry& e = entry(operation.name);
  if (!folded(e, operation, operands)) {
    if (e.folds) need_arguments(operation, 0);
    return e.types(operation, operands);
  }
  return e.types(operation, {operands[0], operands[0]});
}

tfhe::Circuit build(const Encoding& encoding, const Operation& operation, const std::vector<Type>& operands, Goal goal,
                    const std::vector<std::size_t>& same) {
  require<InternalError>(goal != Goal::automatic, "the goal of a circuit must not be automatic");
  const Types results = result_types(operation, operands);
  const Entry& e = entry(operation.name);
  check_variant(encoding, operation, operands);
  Builder builder(encoding);
  const std::unique_ptr<Family> family = encoding.boolean() ? boolean_family(builder, goal, operation.variant)
                                                            : digits_family(builder, goal, operation.variant);
  Numbers numbers;
  for (const Type& t : operands) parts(encoding, t);
  for (const Type& t : results) parts(encoding, t);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (same.empty() || same[i] == i) {
      numbers.push_back(family->input(operands[i]));
      continue;
    }
    Number again{numbers.at(same[i]).parts, operands[i]};
    require<InternalError>(same[i] < i && again.parts.size() == family->parts(operands[i]),
                           "operands with the same ciphertexts must have equally many parts");
    numbers.push_back(std::move(again));
  }
  if (folded(e, operation, operands))
    numbers.push_back(family->constant(static_cast<std::uint64_t>(operation.arguments[0]), operands[0]));
  const Numbers made = e.make(*family, operation, numbers);
  require<InternalError>(made.size() == results.size(), "the number of a circuit's results must be that of its operation");
  for (std::size_t i = 0; i < made.size(); ++i) {
    Number number{{}, results[i]};
    for (const Linear& part : made[i].parts) number.parts.push_back(family->clean(part));
    require<InternalError>(number.parts.size() == family->parts(results[i]),
                           "a result must have the number of parts of its type");
    family->output(number);
  }
  return builder.finish();
}

std::size_t parts(const Encoding& encoding, const Type& type) { return tfhe::wires_of(spec_of(encoding), type); }

std::vector<std::uint64_t> encode(const Encoding& encoding, const Type& type, std::uint64_t value) {
  std::vector<std::uint64_t> words(parts(encoding, type));
  tfhe::encode(spec_of(encoding), type, value, words.data());
  return words;
}

std::uint64_t decode(const Encoding& encoding, const Type& type, const std::vector<std::uint64_t>& words) {
  require<ShapeError>(words.size() == parts(encoding, type), "a value must have the number of parts of its type");
  return tfhe::decode(spec_of(encoding), type, words.data());
}

}  // namespace heliograph::circuits

namespace heliograph::tfhe {

std::vector<std::string> operations() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : circuits::table_of_entries()) names.push_back(name);
  return names;
}

}  // namespace heliograph::tfhe
