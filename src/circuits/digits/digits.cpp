#include "circuits/digits/digits.h"

#include <algorithm>
#include <bit>

#include "base/errors.h"
#include "circuits/variants.h"

namespace heliograph::circuits {

Digits::Digits(Builder& builder, Goal goal, const std::string& variant) : Family(builder, goal, variant) {
  const Encoding& e = builder.encoding();
  if (e.message_bits < 1 || e.message_bits > 2 || e.carry_bits < e.message_bits || e.carry_bits > 4 ||
      e.norm < (1u << 2 * e.message_bits) + 1) {
    throw ParameterError(
        "integers need a set with 1 or 2 message bits, at least as many carry bits and a norm of at least 4^bits + 1; "
        "this set has " +
        std::to_string(e.message_bits) + ", " + std::to_string(e.carry_bits) + " and " + std::to_string(e.norm));
  }
  if (variant == "ripple") goal_ = Goal::fewest;
  if (variant == "prefix") goal_ = Goal::shallow;
  if (!variant.empty() && !is_one_of(variant, digit_variants::products))  // lists the variants of all operations
    throw ParameterError("unknown variant " + variant + " for digits; the variants are " +
                         text_of(digit_variants::products));
  bits_ = e.message_bits;
  base_ = 1u << e.message_bits;
  radix_ = e.message_bits + e.carry_bits;
  boxes_ = 1u << radix_;
}

std::size_t Digits::parts(const Type& type) const {
  if (type.boolean) return 1;
  if (type.bits == 0 || type.bits > 64 || type.bits % bits_ != 0) {
    throw DtypeError(type.text() + " cannot be divided into digits of " + std::to_string(bits_) + " bits");
  }
  return type.bits / bits_;
}

Number Digits::constant(std::uint64_t value, const Type& type) {
  Number result{{}, type};
  const std::size_t count = parts(type);
  for (std::size_t i = 0; i < count; ++i) {
    result.parts.push_back(units(static_cast<std::int64_t>(value >> (i * bits_) & (type.boolean ? 1 : base_ - 1))));
  }
  return result;
}

Linear Digits::units(std::int64_t value) const {
  return circuits::constant(static_cast<std::uint64_t>(value) * builder_.encoding().unit());
}

std::uint64_t Digits::constant_units(const Linear& x) const { return x.constant / builder_.encoding().unit(); }

Value Digits::digit(const Linear& x) const {
  return {x, is_constant(x) ? static_cast<unsigned>(constant_units(x)) : base_ - 1};
}

Value Digits::complement(const Value& a) const {
  return {units(base_ - 1) - a.x, is_constant(a.x) ? base_ - 1 - a.max : base_ - 1};
}

std::vector<Linear> Digits::complement(const std::vector<Linear>& digits) const {
  std::vector<Linear> result;
  for (const Linear& d : digits) result.push_back(units(base_ - 1) - d);
  return result;
}

Value Digits::add(const Value& a, const Value& b, int weight) {
  return {weight == 1 ? a.x + b.x : a.x + weight * b.x, a.max + static_cast<unsigned>(weight) * b.max};
}

std::vector<Linear> Digits::apply(const Value& v, const std::vector<Function>& functions) {
  const std::uint64_t unit = builder_.encoding().unit();
  std::vector<Linear> results;
  if (is_constant(v.x)) {
    for (const Function& f : functions) results.push_back(units(f(static_cast<unsigned>(constant_units(v.x)))));
    return results;
  }
  require<InternalError>(v.max < 2 * boxes_, "a value must be below the modulus of a ciphertext");
  const unsigned needed = std::bit_ceil(v.max + 1);
  const std::size_t together = needed <= boxes_ ? std::min<std::size_t>(boxes_ / needed, 8) : 1;
  for (std::size_t i = 0; i < functions.size();) {
    const unsigned outputs = std::bit_floor(static_cast<unsigned>(std::min(together, functions.size() - i)));
    // For inputs past the half turn, a bootstrap returns the table's value negated. So half the sum of the two values is
    // subtracted from the table and added to the result.
    std::int64_t sum = 0;
    for (unsigned j = boxes_; j <= v.max; ++j) {
      const std::int64_t here = functions[i](j) + functions[i](j - boxes_);
      require<InternalError>(j == boxes_ || here == sum, "a function's values half a turn apart must have a constant sum");
      sum = here;
    }
    const std::uint64_t middle = static_cast<std::uint64_t>(sum) * (unit / 2);
    std::vector<std::uint64_t> table(boxes_);
    for (unsigned j = 0; j < boxes_; ++j) {
      const unsigned which = j / (boxes_ / outputs), at = std::min(j % (boxes_ / outputs), v.max);
      table[j] = static_cast<std::uint64_t>(std::int64_t{functions[i + which](at)}) * unit - middle;
    }
    for (const Linear& r : builder_.bootstrap(plus(v.x, unit / 2), table, outputs)) results.push_back(plus(r, middle));
    i += outputs;
  }
  return results;
}

Linear Digits::apply(const Value& v, const Function& f) { return apply(v, std::vector<Function>{f})[0]; }

Linear Digits::pair(const Value& a, const Value& b, const std::function<int(unsigned, unsigned)>& f) {
  if (is_constant(a.x)) {
    const auto left = static_cast<unsigned>(constant_units(a.x));
    return apply(b, [&](unsigned x) { return f(left, x); });
  }
  if (is_constant(b.x)) {
    const auto right = static_cast<unsigned>(constant_units(b.x));
    return apply(a, [&](unsigned x) { return f(x, right); });
  }
  if (a.x == b.x) return apply(a, [&](unsigned x) { return f(x, x); });
  const unsigned width = b.max + 1;
  return apply(add(b, a, static_cast<int>(width)), [&](unsigned x) { return f(x / width, x % width); });
}

Value Digits::clean(const Value& v, std::uint64_t most) {
  if (Builder::norm(v.x) <= most) return v;
  return {apply(v, [](unsigned x) { return static_cast<int>(x); }), v.max};
}

Number Digits::cleaned(const Number& a, std::uint64_t most) {
  Number result = a;
  for (Linear& p : result.parts) p = clean(digit(p), most).x;
  return result;
}

std::unique_ptr<Family> digits_family(Builder& builder, Goal goal, const std::string& variant) {
  return std::make_unique<Digits>(builder, goal, variant);
}

}  // namespace heliograph::circuits
