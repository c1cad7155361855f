// A polynomial ring Z[X]/(X^N + 1) modulo a list of primes, from which every backend prepares its tables. A ring can
// also stand for rows of residues of any length, for operations on single residues.
#pragma once

#include <memory>
#include <vector>

#include "math/modulus.h"

namespace heliograph::math {

/// The word size of stored residues.
enum class Word : unsigned char { w32 = 4, w64 = 8 };
inline std::size_t word_bytes(Word w) { return static_cast<std::size_t>(w); }

using PrimeIndex = std::uint16_t;

/// The order of the words of a stored polynomial.
/// `coefficient`: position i is the coefficient of X^i.
/// `ntt`: position i is the value at psi^(2 rev(i) + 1), where rev reverses log2 N bits and psi is the numerically smallest
/// primitive 2N-th root of unity modulo the prime. Words are canonical residues in both orders.
enum class Domain : unsigned char { coefficient = 0, ntt = 1 };

class Ring {
 public:
  /// Makes a polynomial ring. Throws ParameterError unless n is a power of two in [2^1, 2^17] and the primes differ, are 1
  /// modulo 2n, and are below 2^30 (w32) or 2^60 (w64).
  Ring(std::size_t n, Word word, std::vector<u64> primes);
  /// Makes a ring of rows of n residues, without transforms. Throws ParameterError unless n is a multiple of 64 up to 2^20
  /// and the primes differ and are below 2^30 (w32) or 2^60 (w64).
  static Ring rows(std::size_t n, Word word, std::vector<u64> primes);

  std::size_t n() const { return n_; }
  int log_n() const { return log_n_; }
  Word word() const { return word_; }
  const std::vector<u64>& primes() const { return primes_; }
  u64 prime(PrimeIndex i) const { return primes_[i]; }
  bool transforms() const { return transforms_; }
  /// Returns psi of prime i, for rings with transforms.
  u64 root(PrimeIndex i) const { return roots_[i]; }

 private:
  struct Rows {};
  Ring(Rows, std::size_t n, Word word, std::vector<u64> primes);
  void check_primes(u64 step) const;

  std::size_t n_;
  int log_n_;
  Word word_;
  bool transforms_ = true;
  std::vector<u64> primes_, roots_;
};

/// Returns psi^rev(i) for i = 0..n-1: the twiddles of the forward NTT, in the order of a Cooley-Tukey network.
std::vector<u64> forward_twiddles(std::size_t n, u64 root, u64 prime);
/// Returns psi^-rev(i): the twiddles of the inverse NTT, in the same order.
std::vector<u64> inverse_twiddles(std::size_t n, u64 root, u64 prime);

/// Returns the automorphism X -> X^g in the NTT domain as source indices: out[i] = in[table[i]].
std::vector<u32> automorphism_table(std::size_t n, u64 galois);

}  // namespace heliograph::math
