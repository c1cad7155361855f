// What BFV, BGV and CKKS have in common: a ring, a chain of primes, a gadget.
#pragma once

#include <string>
#include <vector>

#include "math/ring.h"
#include "ring/entropy.h"

namespace heliograph::rlwe {

using math::u64;
using math::Word;

struct RingParameters {
  std::size_t n = 0;
  Word word = Word::w64;
  std::vector<u64> chain;           // Q: ciphertext primes
  std::vector<u64> special;         // P: only inside key switching; may be empty
  std::vector<u64> auxiliary;       // R: only inside BFV multiplication
  std::vector<std::size_t> digits;  // the gadget: how many chain primes each digit takes, in order
  /// The chain primes of each level, ascending, level 1 first. Empty: level l has the first l.
  std::vector<std::vector<math::PrimeIndex>> levels;

  /// Chain, special, auxiliary: the order of prime indices in the ring.
  std::vector<u64> all_primes() const;
  double log_q() const;
  double log_qp() const;
};

/// Largest log2(QP) that keeps 128 bits against classical attacks: uniform ternary secret, sigma 3.19
/// (Bossuat and others, ePrint 2024/463). 0 for ring degrees that are not in the table.
int largest_secure_log_qp(std::size_t n);

/// True where the table allows `parameters`.
bool is_secure(const RingParameters& parameters);

/// Throws SecurityError where it does not, unless the user said that the set is insecure.
void require_security(const RingParameters& parameters, bool insecure);

/// A rough level in bits: 128 scaled by table bound over log QP. For telling a person how far off a set is.
int rough_security_bits(const RingParameters& parameters);

using ring::KeyId;
inline std::string to_string(const KeyId& id) { return ring::key_text(id); }

double log2_product(const std::vector<u64>& values);

}  // namespace heliograph::rlwe
