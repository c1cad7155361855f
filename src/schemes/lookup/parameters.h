// The numbers of private look-up, and what server and client compute alike.
//
// A matrix D of bytes less 128, [row i][column j]. A question for row r is q_i = (a's part) + e_i + 2^24 [i = r] modulo 2^32:
// kStep words are a ring ciphertext's body, -a S + e, under a secret S of the question's own; the masks a are the table's, from its
// seed. The server's product b_j = sum_i D_ij q_i has, with S, the phase 2^24 D_rj + noise under the mask p_j, known beforehand:
//   b_j + (constant coefficient of p_j S),   p_j = sum over the rows' parts of D_j(X^-1) a   modulo X^N + 1.
// kStep of these become one ring ciphertext (InsPIRe, section 3): the constant coefficient is N^-1 times the sum of all
// automorphisms, so with A_t = N^-1 sum_j X^j turn_t(p_j) the phase of column j is coefficient j of
//   sum_j b_j X^j + sum over odd t of A_t turn_t(S)   modulo Q.
// Each turn_t(S) is switched to the one before it on the way t = 5^i, 5^(i-1), .., 1, and -1 to 1 at last: two keys, of which the
// client sends bodies, serve all, turned. Masks are known beforehand, so all their digits are: of a question there is left one
// sum of 2046 products of polynomials for each kStep columns.
#pragma once

#include "base/secret.h"
#include "device/device.h"
#include "heliograph/lookup.h"
#include "math/reducer.h"
#include "math/sampler.h"
#include "ring/tensor.h"

namespace heliograph::lookup {

using device::PrimeList;
using math::Key256;
using math::u128;
using math::u32;
using math::u64;
using ring::Domain;
using ring::Engine;
using ring::RnsTensor;

inline constexpr std::size_t kDegree = kStep;                   // N
inline constexpr u64 kGenerator = 5, kMinus = 2 * kDegree - 1;  // of the odd numbers modulo 2N, with -1
inline constexpr std::size_t kSteps = kDegree / 2 - 1;          // from 5^(N/2 - 1) to 1, of either sign
inline constexpr std::size_t kTurns = 2 * kSteps;
inline constexpr unsigned kDigitShift = 26;  // a mask's digit is what is left of it without so many bits, rounded
inline constexpr unsigned kMaskBits = 24, kBodyBits = 16;  // of an answer
inline constexpr unsigned kMessageShift = 24;              // of a question's 32 bits

/// Modulo Q, one prime below 2^50: packing. Security as of all rings here: N = 2048 has 53 bits.
const std::shared_ptr<const math::Ring>& packing_ring();
/// Modulo two primes of 30 bits, whose product no coefficient that is wanted modulo 2^32 exceeds.
const std::shared_ptr<const math::Ring>& exact_ring();
inline const PrimeList kQ = {0}, kExact = {0, 1};

void check(const Size& size);
Key256 seed_of(const std::string& text);
/// The device, of its own or the process's.
std::shared_ptr<device::Device> device_of(const std::string& name);

/// The masks of all questions, [row / N], in the NTT domain of the exact ring; and words of one part.
RnsTensor question_masks(const std::shared_ptr<Engine>& exact, const Size& size, const Key256& seed);
std::vector<u32> mask_words(const Key256& seed, std::size_t part);
/// The masks of the two keys, components of the NTT domain.
RnsTensor key_masks(const std::shared_ptr<Engine>& packing, const Key256& seed);

/// From residues modulo both primes of the exact ring to the number nearest 0, modulo 2^32. Its time tells nothing.
class Joined {
 public:
  Joined();
  u32 operator()(u32 first, u32 second) const {
    const u64 step = second_.multiply(second_.subtract(second_(second), second_(first)), inverse_);
    const u64 x = first + step * p_;
    return static_cast<u32>(x - (product_ & math::mask_of(x > product_ / 2)));
  }

 private:
  u64 p_, product_;
  math::Reducer second_;
  math::Reducer::Factor inverse_;
};

/// round(v 2^bits / Q) modulo 2^bits, v below Q: by one reciprocal, the same everywhere.
class Lowered {
 public:
  Lowered() : reciprocal_(static_cast<u64>((u128{1} << 96) / packing_ring()->prime(0))) {}
  u32 operator()(u64 v, unsigned bits) const {
    const u128 scaled = (u128{v} * reciprocal_ + (u128{1} << (95 - bits))) >> (96 - bits);
    return static_cast<u32>(scaled) & ((u32{1} << bits) - 1);
  }

 private:
  u64 reciprocal_;
};

}  // namespace heliograph::lookup
