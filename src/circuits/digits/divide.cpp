// Long division: a digit of the dividend at a time, restoring.

#include <algorithm>

#include "base/errors.h"
#include "circuits/digits/digits.h"

namespace heliograph::circuits {

std::pair<std::vector<Linear>, std::vector<Linear>> Digits::divide(const std::vector<Linear>& a,
                                                                   const std::vector<Linear>& b) {
  const std::size_t count = a.size();
  const auto base = static_cast<int>(base_);
  const bool shallow = goal_ == Goal::shallow;
  // Multiples of the divisor that are tried: all up to base - 1 at once, or its doublings one after another.
  std::vector<std::vector<Linear>> multiples;
  std::vector<Linear> wide = b;
  wide.push_back(units(0));
  const Number divisor{wide, {false, static_cast<unsigned>(wide.size()) * bits_, false}};
  for (unsigned m = 1; m < base_; ++m) {
    if (m == 1) {
      multiples.push_back(wide);
    } else if (m == 2) {
      multiples.push_back(shift_clear('l', divisor, 1).parts);
    } else if (shallow) {
      multiples.push_back(resolve([&] {
        Columns columns(wide.size());
        put(columns, 0, multiples[0]);
        put(columns, 0, multiples[1]);
        return columns;
      }()));
    }
  }
  // above[m][i]: whether the multiple has a digit that is not 0 at i or above.
  std::vector<std::vector<Linear>> above;
  const std::size_t group = (boxes_ - 1) / (base_ - 1);
  for (const auto& multiple : multiples) {
    std::vector<Linear> flags(count + 2, units(0));
    for (std::size_t i = count + 1; i-- > 1;) {
      std::vector<Value> values;
      const std::size_t end = std::min(i + group, count + 1);
      for (std::size_t j = i; j < end; ++j) {
        if (!is_constant(multiple[j]) || multiple[j].constant != 0) values.push_back(digit(multiple[j]));
      }
      if (!is_constant(flags[end])) {
        values.push_back({flags[end], 1});
      } else if (constant_units(flags[end]) != 0) {
        values.push_back({flags[end], 1});
      }
      flags[i] = values.empty() ? units(0) : any(std::move(values), 0, 1);
    }
    above.push_back(std::move(flags));
  }
  std::vector<Linear> quotient(count), rest;
  const auto scale = static_cast<int>(flag_scale());
  for (std::size_t i = count; i-- > 0;) {
    rest.insert(rest.begin(), a[i]);
    const std::size_t length = rest.size();
    auto fits = [&](std::size_t m, const Linear& carry, const std::vector<Function>& functions) {
      const Value both{carry + (units(1) - above[m][length]), 2};
      return apply(both, functions);
    };
    auto low = [&](std::size_t m) {
      return std::vector<Linear>(multiples[m].begin(), multiples[m].begin() + static_cast<std::ptrdiff_t>(length));
    };
    quotient[i] = units(0);
    if (shallow) {
      Value digit_at_base;
      std::vector<std::vector<Linear>> choices{rest};
      for (std::size_t m = 0; m < multiples.size(); ++m) {
        Columns columns(length);
        put(columns, 0, rest);
        put(columns, 0, complement(low(m)));
        put(columns, 0, Value{units(1), 1});
        choices.push_back(resolve(std::move(columns)));
        const std::vector<Linear> found =
            fits(m, at_least(rest, low(m), false, 0, 1, true),
                 {[base](unsigned x) { return x == 2 ? base : 0; }, [](unsigned x) { return x == 2 ? 1 : 0; }});
        digit_at_base = add(digit_at_base, {found[0], base_});
        quotient[i] = quotient[i] + found[1];
      }
      for (std::size_t j = 0; j < length; ++j) {
        Linear sum = units(0);
        for (unsigned m = 0; m < choices.size(); ++m) {
          sum = sum + apply(add(digit(choices[m][j]), digit_at_base),
                            [=, this](unsigned x) { return x / base_ == m ? static_cast<int>(x % base_) : 0; });
        }
        rest[j] = sum;
      }
      continue;
    }
    for (std::size_t m = multiples.size(); m-- > 0;) {
      const std::vector<Linear> subtracted = complement(low(m));
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
          fits(m, carry,
               {[scale](unsigned x) { return x == 2 ? 0 : scale; }, [weight](unsigned x) { return x == 2 ? weight : 0; }});
      for (std::size_t j = 0; j < length; ++j) rest[j] = choose({found[0], flag_scale()}, rest[j], less[j]);
      quotient[i] = quotient[i] + found[1];
    }
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
  // A zero divisor's quotient is all ones already.
  std::vector<Value> digits;
  for (const Linear& d : b.parts) digits.push_back(digit(d));
  const Linear some = any(std::move(digits), 0, 1);
  std::vector<bool> table(8);
  for (unsigned i = 0; i < 8; ++i) table[i] = (i & 4) != 0 && ((i & 1) != 0) != ((i & 2) != 0);
  const Linear negative = truth({left, right, some}, table);
  return {{negate_where(negative, quotient), a.type}, {negate_where(left, rest), a.type}};
}

}  // namespace heliograph::circuits
