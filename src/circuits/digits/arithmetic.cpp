// Sums and products of numbers: the columns to which digits and partial products are added.

#include <algorithm>

#include "base/errors.h"
#include "circuits/digits/digits.h"

namespace heliograph::circuits {

Number Digits::add(const Number& a, const Number& b) { return sum({a, b}); }

Number Digits::sum(const std::vector<Number>& terms) {
  require<InternalError>(!terms.empty(), "a sum must have at least one term");
  Columns columns(parts(terms[0].type));
  for (const Number& t : terms) put(columns, 0, t.parts);
  return {resolve(std::move(columns)), terms[0].type};
}

Number Digits::subtract(const Number& a, const Number& b) {
  Columns columns(parts(a.type));
  put(columns, 0, a.parts);
  put(columns, 0, complement(b.parts));
  put(columns, 0, Value{units(1), 1});
  return {resolve(std::move(columns)), a.type};
}

Number Digits::negate(const Number& a) { return subtract(constant(0, a.type), a); }

Number Digits::add_clear(const Number& a, std::uint64_t value) { return add(a, constant(value, a.type)); }

void Digits::put_products(Columns& columns, std::size_t at, const std::vector<Linear>& a, const std::vector<Linear>& b,
                          bool wraps) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size() && at + i + j < columns.size(); ++j) {
      const Value x = digit(a[i]), y = digit(b[j]);
      if (x.max == 0 || y.max == 0) continue;
      const bool last = wraps && at + i + j + 1 == columns.size();
      const auto modulus = static_cast<int>(last ? base_ : base_ * base_);
      // Order the digits by their wires, so that the products a b and b a of a square are one bootstrap.
      const bool swap = !is_constant(x.x) && !is_constant(y.x) && y.x.terms[0].wire < x.x.terms[0].wire;
      const Linear product =
          pair(swap ? y : x, swap ? x : y, [&](unsigned p, unsigned q) { return static_cast<int>(p * q) % modulus; });
      put(columns, at + i + j, Value{product, std::min(x.max * y.max, static_cast<unsigned>(modulus - 1))});
    }
  }
}

std::vector<Linear> Digits::karatsuba(const std::vector<Linear>& a, const std::vector<Linear>& b) {
  const std::size_t count = a.size();
  Columns columns(2 * count);
  if (count < 4) {
    put_products(columns, 0, a, b, false);
    return resolve(std::move(columns));
  }
  const auto half = static_cast<std::ptrdiff_t>((count + 1) / 2);
  const std::vector<Linear> a0(a.begin(), a.begin() + half), a1(a.begin() + half, a.end());
  const std::vector<Linear> b0(b.begin(), b.begin() + half), b1(b.begin() + half, b.end());
  auto sum = [&](const std::vector<Linear>& low, const std::vector<Linear>& high) {
    Columns sums(static_cast<std::size_t>(half) + 1);
    put(sums, 0, low);
    put(sums, 0, high);
    return resolve(std::move(sums));
  };
  const std::vector<Linear> low = karatsuba(a0, b0), high = karatsuba(a1, b1);
  const std::vector<Linear> middle = karatsuba(sum(a0, a1), sum(b0, b1));
  const auto shift = static_cast<std::size_t>(half);
  put(columns, 0, low);
  put(columns, 2 * shift, high);
  put(columns, shift, middle);
  for (const auto* less : {&low, &high}) {
    // The complement of the shorter number has digits base - 1 up to the last column.
    std::vector<Linear> digits = complement(*less);
    digits.resize(columns.size() - shift, units(base_ - 1));
    put(columns, shift, digits);
    put(columns, shift, Value{units(1), 1});
  }
  return resolve(std::move(columns));
}

Number Digits::multiply(const Number& a, const Number& b) {
  const std::size_t count = parts(a.type);
  auto clear = [](const Number& x) { return std::all_of(x.parts.begin(), x.parts.end(), is_constant); };
  for (const auto& [x, y] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    if (!clear(*x)) continue;
    std::uint64_t factor = 0;
    for (std::size_t i = 0; i < count; ++i) factor |= constant_units(x->parts[i]) << (i * bits_);
    return multiply_clear(*y, factor);
  }
  Columns columns(count);
  if (variant_ == "karatsuba" && count >= 4) {
    // Computes the full product of the low halves, and the two cross products modulo the base's power.
    const auto half = static_cast<std::ptrdiff_t>(count / 2);
    const std::vector<Linear> a0(a.parts.begin(), a.parts.begin() + half), b0(b.parts.begin(), b.parts.begin() + half);
    const std::vector<Linear> a1(a.parts.begin() + half, a.parts.end()), b1(b.parts.begin() + half, b.parts.end());
    put(columns, 0, karatsuba(a0, b0));
    put_products(columns, count / 2, a0, b1, true);
    put_products(columns, count / 2, a1, b0, true);
    if (count % 2 != 0) put_products(columns, count / 2 * 2, a1, b1, true);
  } else {
    put_products(columns, 0, a.parts, b.parts, true);
  }
  return {resolve(std::move(columns)), a.type};
}

Number Digits::dot(const std::vector<Number>& a, const std::vector<Number>& b) {
  require<InternalError>(!a.empty() && a.size() == b.size(),
                         "a dot product must have equally many numbers on both sides, at least one");
  Columns columns(parts(a[0].type));
  for (std::size_t i = 0; i < a.size(); ++i) put_products(columns, 0, a[i].parts, b[i].parts, true);
  return {resolve(std::move(columns)), a[0].type};
}

void Digits::put_multiple(Columns& columns, const Number& a, std::uint64_t factor) const {
  const auto base = static_cast<int>(base_);
  int carry = 0;  // recoded digits are between -1 and base / 2
  for (std::size_t j = 0; j < columns.size(); ++j) {
    int weight = static_cast<int>(factor >> (j * bits_) & (base_ - 1)) + carry;
    // For base 2, the next bit decides whether digit -1 begins a run of ones.
    const bool run = base > 2 || (j + 1 < columns.size() && (factor >> (j + 1) & 1) != 0);
    carry = (base > 2 ? weight > base / 2 : weight == 2 || (weight == 1 && run)) ? 1 : 0;
    weight -= carry * base;
    if (weight == 0) continue;
    if (weight > 0) {
      for (std::size_t i = 0; i + j < columns.size(); ++i) put(columns, i + j, add({}, digit(a.parts[i]), weight));
    } else {
      std::vector<Linear> digits = complement(a.parts);
      digits.resize(columns.size() - j);
      put(columns, j, digits);
      put(columns, j, Value{units(1), 1});
    }
  }
}

Number Digits::multiply_clear(const Number& a, std::uint64_t factor) {
  Columns columns(parts(a.type));
  put_multiple(columns, a, factor);
  return {resolve(std::move(columns)), a.type};
}

}  // namespace heliograph::circuits
