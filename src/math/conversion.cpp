#include "math/conversion.h"

#include <algorithm>
#include <cmath>

namespace heliograph::math {

namespace {

u64 product_mod(const std::vector<u64>& values, u64 q, std::size_t skip = ~std::size_t{0}) {
  u64 r = 1 % q;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != skip) r = mul_mod(r, values[i] % q, q);
  }
  return r;
}

/// Returns [multiplier * (F / f_i)^-1] mod f_i for each modulus f_i; F is the product of `from`.
std::vector<u64> source_constants(const std::vector<u64>& from, u64 multiplier) {
  std::vector<u64> result;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const u64 f = from[i];
    result.push_back(mul_mod(multiplier % f, inverse_mod(product_mod(from, f, i), f), f));
  }
  return result;
}

}  // namespace

FixedPoint fixed_point(const std::vector<u64>& moduli) {
  require<ParameterError>(!moduli.empty() && moduli.size() < 64, "a conversion must have 1 to 63 source moduli");
  const auto [low, high] = std::minmax_element(moduli.begin(), moduli.end());
  FixedPoint f;
  // Here `bits` is at most 58, so that 63 terms below 2^bits plus one half fit 64 bits. For a power of two, `bits` is one
  // less, so that a fraction fits 64 bits (52 bits with shift 52).
  const int shortest = std::min(bit_length(*low - 1) - 1, 58);
  if (*high < (u64{1} << 30)) {
    f.shift = 0, f.bits = 58;
  } else {
    f.shift = *high < (u64{1} << 50) ? 52 : 64;
    f.bits = shortest;
    require<ParameterError>(shortest >= 28,
                            "moduli of 50 bits or more need source moduli of at least 29 bits in one conversion");
  }
  for (u64 q : moduli) f.fractions.push_back(static_cast<u64>((u128{1} << (f.shift + f.bits)) / q));
  // Rounding a fraction down loses up to y / 2^(shift+bits) < q / 2^(shift+bits); rounding a term down loses one unit.
  const double unit = std::ldexp(1.0, -f.bits);
  for (u64 q : moduli) f.error += std::ldexp(static_cast<double>(q), -(f.shift + f.bits)) + (f.shift ? unit : 0);
  return f;
}

Conversion extend_base(std::vector<u64> from, std::vector<u64> to, bool rounded, u64 multiplier) {
  Conversion c{.from = std::move(from), .to = std::move(to), .rounded = rounded};
  c.inverse = source_constants(c.from, multiplier);
  c.fixed = fixed_point(c.from);
  for (u64 q : c.to) {
    for (std::size_t i = 0; i < c.from.size(); ++i) c.matrix.push_back(product_mod(c.from, q, i));
    c.wrap.push_back(neg_mod(product_mod(c.from, q), q));
  }
  return c;
}

Conversion divide_and_round(std::vector<u64> from, std::vector<u64> to, u64 multiplier, u64 times) {
  return divide_and_round(std::move(from), std::move(to), std::vector<u64>{multiplier}, times);
}

Conversion divide_and_round(std::vector<u64> from, std::vector<u64> to, const std::vector<u64>& multipliers, u64 times) {
  // (m x - [m x]_F) / F = x * m F^-1 - sum y_i f_i^-1 + v
  Conversion c{.from = std::move(from), .to = std::move(to)};
  c.inverse = source_constants(c.from, 1);
  for (std::size_t i = 0; i < c.from.size(); ++i)
    c.inverse[i] = mul_mod(c.inverse[i], product_mod(multipliers, c.from[i]), c.from[i]);
  c.fixed = fixed_point(c.from);
  for (u64 q : c.to) {
    const u64 k = times % q;
    for (u64 f : c.from) c.matrix.push_back(mul_mod(k, neg_mod(inverse_mod(f % q, q), q), q));
    c.own.push_back(mul_mod(mul_mod(k, product_mod(multipliers, q), q), inverse_mod(product_mod(c.from, q), q), q));
    c.wrap.push_back(k);
  }
  return c;
}

Conversion divide_keeping(std::vector<u64> from, std::vector<u64> to, u64 t) {
  // d = t [t^-1 x]_F, so (x - d) / F = x F^-1 - t sum y_i f_i^-1 + t v with y of t^-1 x
  Conversion c = divide_and_round(std::move(from), std::move(to), 1, t);
  for (std::size_t i = 0; i < c.from.size(); ++i) {
    const u64 f = c.from[i];
    c.inverse[i] = mul_mod(c.inverse[i], inverse_mod(t % f, f), f);
  }
  for (std::size_t j = 0; j < c.to.size(); ++j) c.own[j] = inverse_mod(product_mod(c.from, c.to[j]), c.to[j]);
  return c;
}

Conversion without_own(Conversion c) {
  c.own.clear();
  return c;
}

Conversion scale_to_plain(std::vector<u64> from, u64 t) {
  // (t x - [t x]_Q) / Q mod t = -[t x]_Q Q^-1 = -sum y_i q_i^-1 + v
  Conversion c{.from = std::move(from), .to = {t}};
  c.inverse = source_constants(c.from, t);
  c.fixed = fixed_point(c.from);
  for (u64 f : c.from) c.matrix.push_back(neg_mod(inverse_mod(f % t, t), t));
  c.wrap.push_back(1 % t);
  return c;
}

Conversion scale_from_plain(u64 t, std::vector<u64> to) {
  // (Q m - [Q m]_t) / t mod q = -y t^-1 + v with y = Q m mod t
  Conversion c{.from = {t}, .to = std::move(to)};
  c.inverse = {product_mod(c.to, t)};
  c.fixed = fixed_point(c.from);
  for (u64 q : c.to) {
    c.matrix.push_back(neg_mod(inverse_mod(t % q, q), q));
    c.wrap.push_back(1 % q);
  }
  return c;
}

std::vector<u64> evaluate(const Conversion& c, const std::vector<u64>& x, const std::vector<u64>& own) {
  std::vector<u64> y(c.sources());
  u64 turns = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = mul_mod(x[i], c.inverse[i], c.from[i]);
    turns += static_cast<u64>(u128{y[i]} * c.fixed.fractions[i] >> c.fixed.shift);
  }
  const u64 v = c.rounded ? (turns + (u64{1} << (c.fixed.bits - 1))) >> c.fixed.bits : 0;
  std::vector<u64> out;
  for (std::size_t j = 0; j < c.targets(); ++j) {
    const u64 q = c.to[j];
    u64 sum = c.own.empty() ? 0 : mul_mod(own[j], c.own[j], q);
    for (std::size_t i = 0; i < y.size(); ++i) sum = add_mod(sum, mul_mod(y[i], c.matrix[j * y.size() + i], q), q);
    out.push_back(c.rounded ? add_mod(sum, mul_mod(v, c.wrap[j], q), q) : sum);
  }
  return out;
}

}  // namespace heliograph::math
