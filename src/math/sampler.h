// Random polynomials: the definition of every draw, by the ChaCha20 block function of RFC 8439.
#pragma once

#include <array>
#include <cstdint>

#include "math/modulus.h"

namespace heliograph::math {

using Key256 = std::array<unsigned char, 32>;

/// Returns one 64-byte ChaCha20 block as sixteen little-endian words (RFC 8439, section 2.3).
std::array<u32, 16> chacha20_block(const Key256& key, u32 counter, const std::array<u32, 3>& nonce);

/// Returns 32 random bytes of the operating system. Throws Error if the system gives none.
Key256 system_entropy();

/// Returns the nonce of a coefficient's draw: (purpose << 24 | component << 16 | prime, object, item). Here `prime` is the
/// prime's index in its ring (uniform draws) or 0xffff (small polynomials). A uniform draw takes 16 bytes of the stream, so
/// block c has the draws of coefficients 4c..4c+3. A small draw takes 8 bytes, so block c has the draws of coefficients
/// 8c..8c+7. Draws are little-endian and in order.
inline std::array<u32, 3> draw_nonce(unsigned char purpose, std::size_t component, u32 prime, u32 object, u32 item) {
  return {static_cast<u32>(purpose) << 24 | static_cast<u32>(component & 0xff) << 16 | prime, object, item};
}
inline constexpr u32 kSmallPolynomial = 0xffff;

/// Reduces a uniform 128-bit number modulo q; the bias is below 2^-64.
inline u64 uniform_from(u64 low, u64 high, u64 q) { return static_cast<u64>(((u128{high} << 64) | low) % q); }

/// Returns -1, 0 or 1 from 64 bits: floor(3 * draw / 2^64) - 1.
inline int ternary_from(u64 draw) { return static_cast<int>((u128{draw} * 3) >> 64) - 1; }

inline constexpr double kSigma = 3.19;
/// kGaussianTable[k] = round(2^63 * P(|X| <= k)) for the discrete Gaussian X of standard deviation 3.19. Values beyond the
/// table have probability below 2^-63.
inline constexpr std::array<u64, 29> kGaussianTable = {
    0x1001f9a1b2ca9468ULL, 0x2e7cf3ef07836cb6ULL, 0x48ca7e85d834a57aULL, 0x5d5d51778f760881ULL, 0x6bf35598550421b0ULL,
    0x7552dc90807bbed6ULL, 0x7ac8820561a4c975ULL, 0x7daa6596524b7ffdULL, 0x7f0b8114bba4ecb9ULL, 0x7fa4a9fc5ea574e9ULL,
    0x7fe0e1077aef391aULL, 0x7ff6563f810f15d0ULL, 0x7ffd4490999bc595ULL, 0x7fff4c0804cd386eULL, 0x7fffd5e18e7fda18ULL,
    0x7ffff709c679c2eeULL, 0x7ffffe445c790f6cULL, 0x7fffffb20f7aa54aULL, 0x7ffffff3903d235dULL, 0x7ffffffe32b06d1dULL,
    0x7fffffffc35125ccULL, 0x7ffffffff8c11765ULL, 0x7fffffffff36fe33ULL, 0x7fffffffffec3bf8ULL, 0x7ffffffffffe3c8bULL,
    0x7fffffffffffdb75ULL, 0x7ffffffffffffd51ULL, 0x7fffffffffffffd2ULL, 0x7ffffffffffffffdULL,
};
/// Returns a Gaussian number from 64 bits. The lowest bit is the sign; the magnitude is the number of table entries <= draw
/// >> 1. The function always reads every table entry.
inline int gaussian_from(u64 draw) {
  const u64 position = draw >> 1;
  int magnitude = 0;
  for (u64 entry : kGaussianTable) magnitude += position >= entry;
  const int sign = -static_cast<int>(draw & 1);
  return (magnitude ^ sign) - sign;
}

}  // namespace heliograph::math
