// Private look-up: parameters, and computations common to server and client.
//
// A matrix D holds bytes minus 128, [row i][column j]. A question for row r is q_i = (word i of the mask) + e_i + 2^24 [i =
// r] modulo 2^32. kStep words q_i are the body -a S + e of a ring ciphertext under a fresh secret S; the masks a follow from
// the table's seed. The server's product b_j = sum_i D_ij q_i has, under S, the phase 2^24 D_rj + noise with the precomputed
// mask p_j:
//   b_j + (constant coefficient of p_j S),   p_j = sum over the parts of N rows of D_j(X^-1) a   modulo X^N + 1.
//
// kStep products b_j are packed in one ring ciphertext (InsPIRe, section 3). The constant coefficient is N^-1 times the sum
// of all automorphisms. So with A_t = N^-1 sum_j X^j turn_t(p_j), the phase of column j is coefficient j of
//   sum_j b_j X^j + sum over odd t of A_t turn_t(S)   modulo Q.
// Each turn_t(S) is switched to its predecessor on the path t = 5^i, 5^(i-1), ..., 1, and finally -1 to 1. Two keys,
// rotated, serve all key switches of the path; the client sends their bodies. All masks are known in advance, and so are all
// their digits. The work per question is one sum of 2046 products of polynomials per kStep columns.
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

inline constexpr std::size_t kDegree = kStep;                   // ring degree N
inline constexpr u64 kGenerator = 5, kMinus = 2 * kDegree - 1;  // generators of the odd numbers modulo 2N: 5 and -1
inline constexpr std::size_t kSteps = kDegree / 2 - 1;          // from 5^(N/2 - 1) to 1; as many from -5^(N/2 - 1) to -1
inline constexpr std::size_t kTurns = 2 * kSteps;
inline constexpr unsigned kDigitShift = 26;                // a mask's digit is mask / 2^kDigitShift, rounded
inline constexpr unsigned kMaskBits = 24, kBodyBits = 16;  // bits of masks and bodies in an answer
inline constexpr unsigned kMessageShift = 24;              // position of the message in a question's 32-bit words

/// Ring modulo Q, one prime below 2^50, for packing. N = 2048 allows 53 bits at 128 bits of security.
const std::shared_ptr<const math::Ring>& packing_ring();
/// Ring modulo two primes of 30 bits. The primes' product exceeds every coefficient that is computed modulo 2^32.
const std::shared_ptr<const math::Ring>& exact_ring();
inline const PrimeList kQ = {0}, kExact = {0, 1};

void check(const Size& size);
Key256 seed_of(const std::string& text);
/// Opens the named device, or returns the process's device for an empty name.
std::shared_ptr<device::Device> device_of(const std::string& name);

/// Returns the masks of all questions, [row / N], in the NTT domain of the exact ring; mask_words returns the words of one
/// part.
RnsTensor question_masks(const std::shared_ptr<Engine>& exact, const Size& size, const Key256& seed);
std::vector<u32> mask_words(const Key256& seed, std::size_t part);
/// Returns the masks of the two keys as components in the NTT domain.
RnsTensor key_masks(const std::shared_ptr<Engine>& packing, const Key256& seed);

/// Joins residues modulo both primes of the exact ring to the centred number, modulo 2^32, in constant time.
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

/// Computes round(v 2^bits / Q) modulo 2^bits for v below Q by a reciprocal, with the same bits on every machine.
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
