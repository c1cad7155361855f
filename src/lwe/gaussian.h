// Gaussian deviates by the Box-Muller transform in constant time. The code adds and multiplies doubles; no branch, division,
// table or call depends on drawn values. Operands are never subnormal.
#pragma once

#include <bit>
#include <cmath>

#include "math/reducer.h"

namespace heliograph::lwe {

using math::u64;

namespace branch_free {

/// Returns `a` if `mask` is all ones, `b` if it is 0.
inline double select(u64 mask, double a, double b) {
  return std::bit_cast<double>((std::bit_cast<u64>(a) & mask) | (std::bit_cast<u64>(b) & ~mask));
}

/// Returns -ln(u) for 0 < u <= 1.
inline double minus_log(double u) {
  constexpr u64 fraction = (u64{1} << 52) - 1, one = u64{1023} << 52;
  constexpr double ln2 = 0x1.62e42fefa39efp-1;
  const u64 bits = std::bit_cast<u64>(u);
  // u = m 2^e with m from sqrt(1/2) to sqrt(2)
  const u64 high = static_cast<u64>((bits & fraction) > (std::bit_cast<u64>(0x1.6a09e667f3bcdp+0) & fraction));
  const double m = std::bit_cast<double>(((bits & fraction) | one) - (high << 52));
  const auto e = static_cast<double>(static_cast<math::i64>((bits >> 52) + high) - 1023);
  // ln m = 2 atanh(s), s = (m - 1) / (m + 1); 1 / (m + 1) by Newton steps from a tangent of 1/x
  const double d = m + 1;
  double r = 0.9852 - 0.24267 * d;
  for (int i = 0; i < 4; ++i) r = r * (2 - d * r);
  const double s = (m - 1) * r, z = s * s;
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * z + 1.0 / k;
  return -(e * ln2 + 2 * s * sum);
}

/// Returns the square root of x, for 0 or 2^-100 <= x < 2^100.
inline double square_root(double x) {
  const double a = x + 0x1p-200;
  double r = std::bit_cast<double>(u64{0x5fe6eb50c7b537a9} - (std::bit_cast<u64>(a) >> 1));  // approximates 1 / sqrt(a)
  for (int i = 0; i < 5; ++i) r = r * (1.5 - 0.5 * a * r * r);
  return x * r;
}

}  // namespace branch_free

/// Two independent normal deviates with standard deviation 1.
struct Deviates {
  double first, second;
};

/// Computes deviates from 128 random bits: 53 bits for the radius, which is below 8.7, and 64 bits for the angle.
inline Deviates deviates_from(u64 radius_draw, u64 angle_draw) {
  using branch_free::select;
  const double u = (static_cast<double>(static_cast<math::i64>(radius_draw >> 11)) + 0.5) * 0x1p-53;
  const double radius = branch_free::square_root(2 * branch_free::minus_log(u));
  // The angle is the nearest quarter turn plus at most an eighth of a turn in either direction.
  const u64 quarter = (angle_draw + (u64{1} << 61)) >> 62;
  const double x = static_cast<double>(static_cast<math::i64>(angle_draw - (quarter << 62))) * 0x1.921fb54442d18p-62;
  const double z = x * x;
  double sine = 0, cosine = 0;
  for (int k = 17; k >= 3; k -= 2) sine = (1 - sine) * (z * (1.0 / (k * (k - 1))));
  for (int k = 18; k >= 2; k -= 2) cosine = (1 - cosine) * (z * (1.0 / (k * (k - 1))));
  sine = x * (1 - sine), cosine = 1 - cosine;
  const u64 crossed = u64{0} - (quarter & 1), first_sign = (quarter + 1) >> 1 << 63, second_sign = quarter >> 1 << 63;
  const double first = select(crossed, sine, cosine), second = select(crossed, cosine, sine);
  return {radius * std::bit_cast<double>(std::bit_cast<u64>(first) ^ first_sign),
          radius * std::bit_cast<double>(std::bit_cast<u64>(second) ^ second_sign)};
}

/// Returns the integer nearest to x; for |x| from 2^51 on, x itself.
inline double nearest_whole(double x) {
  constexpr double shift = 0x1.8p52;
  return branch_free::select(math::mask_of(std::abs(x) < 0x1p51), (x + shift) - shift, x);
}

/// Returns the nearest integer modulo 2^64, for |x| < 2^62.
inline u64 nearest_word(double x) {
  const u64 half = std::bit_cast<u64>(0.5) | (std::bit_cast<u64>(x) & (u64{1} << 63));
  return static_cast<u64>(static_cast<math::i64>(x + std::bit_cast<double>(half)));
}

}  // namespace heliograph::lwe
