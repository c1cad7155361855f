// Common parameters of BFV, BGV and CKKS: a ring, a chain of primes, a gadget.
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
  std::vector<u64> chain;           // primes of the ciphertext modulus Q
  std::vector<u64> special;         // primes of P, for key switching; may be empty
  std::vector<u64> auxiliary;       // primes of R, for BFV multiplication
  std::vector<std::size_t> digits;  // the gadget: number of chain primes in each digit, in order
  /// Indices of the chain primes of each level, ascending, from level 1 on. If empty, level l has the first l primes.
  std::vector<std::vector<math::PrimeIndex>> levels;

  /// Returns the primes of chain, special and auxiliary, in the order of the ring's indices.
  std::vector<u64> all_primes() const;
  double log_q() const;
  double log_qp() const;
};

/// Returns the largest log2(QP) with 128 bits of security against classical attacks, for uniform ternary secrets and sigma
/// 3.19 (Bossuat and others, ePrint 2024/463); 0 for ring degrees outside the table.
int largest_secure_log_qp(std::size_t n);

bool is_secure(const RingParameters& parameters);

/// Throws SecurityError if the set is insecure, unless `insecure` is true.
void require_security(const RingParameters& parameters, bool insecure);

/// Returns a rough security level in bits for an insecure set: 128 times the table's limit over log2(QP).
int rough_security_bits(const RingParameters& parameters);

using ring::KeyId;
inline std::string to_string(const KeyId& id) { return ring::key_text(id); }

double log2_product(const std::vector<u64>& values);

}  // namespace heliograph::rlwe
