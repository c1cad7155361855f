// A polynomial ring Z[X]/(X^N + 1) modulo a list of primes: what every backend prepares its tables from. Or rows of residues
// alone, of any length, for work that takes each residue by itself.
#pragma once

#include <memory>
#include <vector>

#include "math/modulus.h"

namespace heliograph::math {

/// The word residues are stored in.
enum class Word : unsigned char { w32 = 4, w64 = 8 };
inline std::size_t word_bytes(Word w) { return static_cast<std::size_t>(w); }

/// Position of a prime in its ring's list.
using PrimeIndex = std::uint16_t;

/// The order of a polynomial at rest.
/// `coefficient`: position i is the coefficient of X^i.
/// `ntt`: position i is the value at psi^(2 rev(i) + 1), rev reversing log2 N bits, psi the numerically
/// smallest primitive 2N-th root of unity modulo the prime. Words are canonical residues in both.
enum class Domain : unsigned char { coefficient = 0, ntt = 1 };

class Ring {
 public:
  /// Throws ParameterError unless n is a power of two in [2^1, 2^17], the primes are distinct, 1 modulo 2n, below
  /// 2^30 (w32) or 2^60 (w64).
  Ring(std::size_t n, Word word, std::vector<u64> primes);
  /// Rows of n residues, of no polynomial: there is no transform. Throws ParameterError unless n is a multiple of 64 up to
  /// 2^20, the primes are distinct and below 2^30 (w32) or 2^60 (w64).
  static Ring rows(std::size_t n, Word word, std::vector<u64> primes);

  std::size_t n() const { return n_; }
  /// log2 n, where there are transforms.
  int log_n() const { return log_n_; }
  Word word() const { return word_; }
  const std::vector<u64>& primes() const { return primes_; }
  u64 prime(PrimeIndex i) const { return primes_[i]; }
  bool transforms() const { return transforms_; }
  /// psi of prime i, where there are transforms.
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

/// psi^rev(i), i = 0..n-1: the forward NTT's twiddles, in the order a Cooley-Tukey network reads them.
std::vector<u64> forward_twiddles(std::size_t n, u64 root, u64 prime);
/// psi^-rev(i): the inverse NTT's.
std::vector<u64> inverse_twiddles(std::size_t n, u64 root, u64 prime);

/// Where each output of the automorphism X -> X^g comes from, in the NTT domain: out[i] = in[table[i]].
std::vector<u32> automorphism_table(std::size_t n, u64 galois);

}  // namespace heliograph::math
