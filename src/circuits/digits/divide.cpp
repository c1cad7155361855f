// Restoring long division, one digit of the dividend at a time.

#include <algorithm>

#include "base/errors.h"
#include "circuits/digits/digits.h"

namespace heliograph::circuits {

/// Multiples of the divisor that a step of a division may subtract, each with one digit more than the divisor.
struct Digits::Multiples {
  std::vector<std::vector<Linear>> digits;
  std::vector<std::vector<Linear>> above;  // above[m][i]: whether multiple m has a nonzero digit at position i or higher

  std::vector<Linear> low(std::size_t m, std::size_t length) const {
    return {digits[m].begin(), digits[m].begin() + static_cast<std::ptrdiff_t>(length)};
  }
};

Digits::Multiples Digits::multiples_of(const std::vector<Linear>& b) {
  const std::size_t count = b.size();
  Multiples multiples;
  // All multiples up to base - 1 if they are subtracted at the same time; only the doublings if they are subtracted in
  // sequence.
  std::vector<Linear> wide = b;
  wide.push_back(units(0));
  const Number divisor{wide, {false, static_cast<unsigned>(wide.size()) * bits_, false}};
  for (unsigned m = 1; m < base_; ++m) {
    if (m == 1) {
      multiples.digits.push_back(wide);
    } else if (m == 2) {
      multiples.digits.push_back(shift_clear(Shift::left, divisor, 1).parts);
    } else if (goal_ == Goal::shallow) {
      Columns columns(wide.size());
      put(columns, 0, multiples.digits[0]);
      put(columns, 0, multiples.digits[1]);
      multiples.digits.push_back(resolve(std::move(columns)));
    }
  }
  const std::size_t group = (boxes_ - 1) / (base_ - 1);
  for (const auto& multiple : multiples.digits) {
    std::vector<Linear> flags(count + 2, units(0));
    for (std::size_t i = count + 1; i-- > 1;) {
      std::vector<Value> values;
      const std::size_t end = std::min(i + group, count + 1);
      for (std::size_t j = i; j < end; ++j) {
        if (!is_constant(multiple[j]) || multiple[j].constant != 0) values.push_back(digit(multiple[j]));
      }
      if (!is_constant(flags[end]) || constant_units(flags[end]) != 0) values.push_back({flags[end], 1});
      flags[i] = values.empty() ? units(0) : any(std::move(values), 0, 1);
    }
    multiples.above.push_back(std::move(flags));
  }
  return multiples;
}

std::vector<Linear> Digits::fits(const Multiples& multiples, std::size_t m, std::size_t length, const Linear& carry,
                                 const std::vector<Function>& functions) {
  const Value both{carry + (units(1) - multiples.above[m][length]), 2};
  return apply(both, functions);
}

Linear Digits::subtract_largest(const Multiples& multiples, std::vector<Linear>& rest) {
  const std::size_t length = rest.size();
  const auto base = static_cast<int>(base_);
  Linear quotient = units(0);
  Value digit_at_base;  // the base times the number of multiples that fit
  std::vector<std::vector<Linear>> choices{rest};
  for (std::size_t m = 0; m < multiples.digits.size(); ++m) {
    const std::vector<Linear> low = multiples.low(m, length);
    Columns columns(length);
    put(columns, 0, rest);
    put(columns, 0, complement(low));
    put(columns, 0, Value{units(1), 1});
    choices.push_back(resolve(std::move(columns)));
    const std::vector<Linear> found =
        fits(multiples, m, length, at_least(rest, low, false, 0, 1, true),
             {[base](unsigned x) { return x == 2 ? base : 0; }, [](unsigned x) { return x == 2 ? 1 : 0; }});
    digit_at_base = add(digit_at_base, {found[0], base_});
    quotient = quotient + found[1];
  }
  for (std::size_t j = 0; j < length; ++j) {
    Linear sum = units(0);
    for (unsigned m = 0; m < choices.size(); ++m) {
      sum = sum + apply(add(digit(choices[m][j]), digit_at_base),
                        [=, this](unsigned x) { return x / base_ == m ? static_cast<int>(x % base_) : 0; });
    }
    rest[j] = sum;
  }
  return quotient;
}

Linear Digits::subtract_in_turn(const Multiples& multiples, std::vector<Linear>& rest) {
  const std::size_t length = rest.size();
  const auto base = static_cast<int>(base_), scale = static_cast<int>(flag_scale());
  Linear quotient = units(0);
  for (std::size_t m = multiples.digits.size(); m-- > 0;) {
    const std::vector<Linear> subtracted = complement(multiples.low(m, length));
    std::vector<Linear> less(length);
    Linear carry = units(1);
    for (std::size_t j = 0; j < length; ++j) {
      const Value sum = add(add(digit(rest[j]), digit(subtracted[j])), {carry, 1});
      const std::vector<Linear> both = apply(sum, {[base](unsigned x) { return static_cast<int>(x) % base; },
                                                   [base](unsigned x) { return static_cast<int>(x) / base; }});
      less[j] = both[0];
      carry = both[1];
    }
    const int weight = 1 << m;
    const std::vector<Linear> found =
        fits(multiples, m, length, carry,
             {[scale](unsigned x) { return x == 2 ? 0 : scale; }, [weight](unsigned x) { return x == 2 ? weight : 0; }});
    for (std::size_t j = 0; j < length; ++j) rest[j] = choose({found[0], flag_scale()}, rest[j], less[j]);
    quotient = quotient + found[1];
  }
  return quotient;
}

std::pair<std::vector<Linear>, std::vector<Linear>> Digits::divide(const std::vector<Linear>& a,
                                                                   const std::vector<Linear>& b) {
  const Multiples multiples = multiples_of(b);
  std::vector<Linear> quotient(a.size()), rest;
  for (std::size_t i = a.size(); i-- > 0;) {
    rest.insert(rest.begin(), a[i]);
    quotient[i] = goal_ == Goal::shallow ? subtract_largest(multiples, rest) : subtract_in_turn(multiples, rest);
  }
  for (auto* digits : {&quotient, &rest}) {
    for (Linear& d : *digits) d = clean(digit(d)).x;
  }
  return {quotient, rest};
}

std::pair<Number, Number> Digits::divide(const Number& a, const Number& b) {
  if (!a.type.is_signed) {
    auto [quotient, rest] = divide(a.parts, b.parts);
    return {{quotient, a.type}, {rest, a.type}};
  }
  const std::size_t count = a.parts.size();
  const auto base = static_cast<int>(base_);
  auto sign_of = [&](const Number& x) {
    return apply(digit(x.parts.back()), [base](unsigned d) { return static_cast<int>(d) >= base / 2 ? 1 : 0; });
  };
  auto negate_where = [&](const Linear& sign, const std::vector<Linear>& digits) {
    const Value f = flag({sign, 1});
    const unsigned scale = flag_scale();
    Columns columns(count);
    for (std::size_t i = 0; i < count; ++i) {
      const Linear turned = apply(add(digit(digits[i]), f), [=](unsigned x) {
        return x >= scale ? base - 1 - static_cast<int>(x - scale) : static_cast<int>(x);
      });
      put(columns, i, digit(turned));
    }
    put(columns, 0, Value{sign, 1});
    return resolve(std::move(columns));
  };
  const Linear left = sign_of(a), right = sign_of(b);
  auto [quotient, rest] = divide(negate_where(left, a.parts), negate_where(right, b.parts));
  // With a zero divisor the quotient is all ones, which is not negated.
  std::vector<Value> digits;
  for (const Linear& d : b.parts) digits.push_back(digit(d));
  const Linear some = any(std::move(digits), 0, 1);
  std::vector<bool> table(8);
  for (unsigned i = 0; i < 8; ++i) table[i] = (i & 4) != 0 && ((i & 1) != 0) != ((i & 2) != 0);
  const Linear negative = truth({left, right, some}, table);
  return {{negate_where(negative, quotient), a.type}, {negate_where(left, rest), a.type}};
}

}  // namespace heliograph::circuits
