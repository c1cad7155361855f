// Gaussian deviates by Box and Muller's transform, without a branch, a division, a table or a call that depends on what was
// drawn: additions and products of doubles alone, whose time does not depend on their (never subnormal) operands.
#pragma once

#include <bit>
#include <cmath>

#include "math/reducer.h"

namespace heliograph::lwe {

using math::u64;

namespace branch_free {

/// Where `mask` is all ones `a`, where it is 0 `b`.
inline double select(u64 mask, double a, double b) {
  return std::bit_cast<double>((std::bit_cast<u64>(a) & mask) | (std::bit_cast<u64>(b) & ~mask));
}

/// -ln(u), 0 < u <= 1.
inline double minus_log(double u) {
  constexpr u64 fraction = (u64{1} << 52) - 1, one = u64{1023} << 52;
  constexpr double ln2 = 0x1.62e42fefa39efp-1;
  const u64 bits = std::bit_cast<u64>(u);
  // u = m 2^e, m from sqrt(1/2) to sqrt(2)
  const u64 high = static_cast<u64>((bits & fraction) > (std::bit_cast<u64>(0x1.6a09e667f3bcdp+0) & fraction));
  const double m = std::bit_cast<double>(((bits & fraction) | one) - (high << 52));
  const auto e = static_cast<double>(static_cast<math::i64>((bits >> 52) + high) - 1023);
  // ln m = 2 atanh(s), s = (m - 1) / (m + 1); the quotient by Newton's steps from a tangent of 1/x
  const double d = m + 1;
  double r = 0.9852 - 0.24267 * d;
  for (int i = 0; i < 4; ++i) r = r * (2 - d * r);
  const double s = (m - 1) * r, z = s * s;
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * z + 1.0 / k;
  return -(e * ln2 + 2 * s * sum);
}

/// The square root of x, 0 or 2^-100 <= x < 2^100.
inline double square_root(double x) {
  const double a = x + 0x1p-200;
  double r = std::bit_cast<double>(u64{0x5fe6eb50c7b537a9} - (std::bit_cast<u64>(a) >> 1));  // near a^(-1/2)
  for (int i = 0; i < 5; ++i) r = r * (1.5 - 0.5 * a * r * r);
  return x * r;
}

}  // namespace branch_free

/// Two independent ones, of deviation 1.
struct Deviates {
  double first, second;
};

/// From 128 random bits: 53 give the radius, below 8.7, and 64 the angle.
inline Deviates deviates_from(u64 radius_draw, u64 angle_draw) {
  using branch_free::select;
  const double u = (static_cast<double>(static_cast<math::i64>(radius_draw >> 11)) + 0.5) * 0x1p-53;
  const double radius = branch_free::square_root(2 * branch_free::minus_log(u));
  // The nearest quarter turn, and at most an eighth of a turn beside it.
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

/// The nearest integer; x itself from 2^51 on.
inline double nearest_whole(double x) {
  constexpr double shift = 0x1.8p52;
  return branch_free::select(math::mask_of(std::abs(x) < 0x1p51), (x + shift) - shift, x);
}

/// The nearest integer modulo 2^64, |x| < 2^62.
inline u64 nearest_word(double x) {
  const u64 half = std::bit_cast<u64>(0.5) | (std::bit_cast<u64>(x) & (u64{1} << 63));
  return static_cast<u64>(static_cast<math::i64>(x + std::bit_cast<double>(half)));
}

}  // namespace heliograph::lwe
