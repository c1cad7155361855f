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

/// [multiplier * (F / f_i)^-1] mod f_i
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
  require<ParameterError>(!moduli.empty() && moduli.size() < 64, "a conversion has 1 to 63 source moduli");
  const auto [low, high] = std::minmax_element(moduli.begin(), moduli.end());
  FixedPoint f;
  const int shortest = bit_length(*low) - 1;
  if (*high < (u64{1} << 30)) {
    f.shift = 0, f.bits = 58;
  } else {
    f.shift = *high < (u64{1} << 50) ? 52 : 64;
    f.bits = shortest;
    require<ParameterError>(shortest >= 28, "moduli of very different lengths cannot share a conversion");
  }
  for (u64 q : moduli) f.fractions.push_back(static_cast<u64>((u128{1} << (f.shift + f.bits)) / q));
  // Each floor of a fraction loses up to y / 2^(shift+bits) < q / 2^(shift+bits), each floor of a term one unit.
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

Conversion divide_and_round(std::vector<u64> from, std::vector<u64> to, u64 multiplier) {
  // (m x - [m x]_F) / F = x * m F^-1 - sum y_i f_i^-1 + v
  Conversion c{.from = std::move(from), .to = std::move(to)};
  c.inverse = source_constants(c.from, multiplier);
  c.fixed = fixed_point(c.from);
  for (u64 q : c.to) {
    for (u64 f : c.from) c.matrix.push_back(neg_mod(inverse_mod(f % q, q), q));
    c.own.push_back(mul_mod(multiplier % q, inverse_mod(product_mod(c.from, q), q), q));
    c.wrap.push_back(1 % q);
  }
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

}  // namespace heliograph::math
