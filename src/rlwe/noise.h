// Noise: a model that needs no secret key, and a measurement that needs it.
//
// The model bounds noise in the canonical embedding (Gentry, Halevi, Smart, ePrint 2012/099, appendix A.5). A polynomial
// with independent coefficients of variance V has norm at most D sqrt(N V) except with probability N e^(-D^2), and norms
// multiply. The infinity norm of a polynomial is at most its canonical norm. With D = 10.4 a bound fails with probability
// 2^16 e^(-108.16), below 2^-140, at N = 2^16; over 4,096 random polynomials of a computation that stays below 2^-128. With
// this probability, key recovery from decryption failures (ePrint 2024/127, 2024/116) is as hard as guessing the key.
// Rounding errors and ciphertext words are modelled as uniform and independent. All values are log2.
//
// A product of two random polynomials, such as a rounding error times the secret, is the pointwise product of their
// values in the embedding. The product of two complex normal values exceeds x deviations with probability 2 x K_1(2
// x), about sqrt(pi x) e^(-2 x): far more often than one value does. x = 55.5 is as improbable as D = 10.4.
#pragma once

#include <cstdint>
#include <vector>

#include "math/roots.h"
#include "rlwe/parameters.h"

namespace heliograph::rlwe {

/// Margin for rounding. A fixed-point quotient errs by less than 2^-20 of a unit for all moduli (math/conversion.h: at most
/// 63 sources, 28 bits). So a rounding error may reach 1/2 + 2^-20, and noise may only reach 1/2 - 2^-20. The margin is log2
/// of 1 + 2^-19, rounded up.
inline constexpr double kRoundingSlack = 0x1p-18;

// The functions below compute with bounds as log2. NaN means unknown and propagates, except against infinity: a bound that
// no longer holds stays infinite.
/// Returns a + b, the log2 of the product.
double log2_times(double a, double b);
double log2_sum(double a, double b);
double log2_max(double a, double b);

/// A bound, once from trusted values only and once with the values that files state.
struct Figure {
  double vouched;  // trusted bound: does not depend on statements of files
  double assumed;  // assumed bound: holds if all files are truthful

  Figure(double both) : vouched(both), assumed(both) {}  // NOLINT(google-explicit-constructor): a number is a bound
  Figure(double vouched, double assumed) : vouched(vouched), assumed(assumed) {}
};
inline Figure operator+(Figure a, Figure b) { return {log2_times(a.vouched, b.vouched), log2_times(a.assumed, b.assumed)}; }
inline Figure operator-(Figure a, double b) { return {a.vouched - b, a.assumed - b}; }
inline Figure& operator+=(Figure& a, Figure b) { return a = a + b; }
inline Figure log2_sum(Figure a, Figure b) { return {log2_sum(a.vouched, b.vouched), log2_sum(a.assumed, b.assumed)}; }
inline Figure log2_max(Figure a, Figure b) { return {log2_max(a.vouched, b.vouched), log2_max(a.assumed, b.assumed)}; }

/// Bounds in files are sixteenths of a bit, from 0 to kMostStored; kMostStored stands for all larger values and infinity.
inline constexpr std::uint64_t kMostStored = std::uint64_t{1} << 20;
/// Rounds a known bound up, with a margin that makes the result independent of the machine's logarithm.
std::uint64_t stored_figure(double figure);
double figure_from(std::uint64_t stored);

class NoiseModel {
 public:
  static constexpr double kFailureLog2 = -128;
  /// Number of standard deviations that bounds one random polynomial, and a product of two.
  static constexpr double kDeviations = 10.4, kProductDeviations = 55.5;
  struct Deviations {
    double one = kDeviations, product = kProductDeviations;
  };
  /// Deviations whose bounds fail with probability 2^-64; version 0.2 chose parameter sets by them.
  static constexpr Deviations kFormer = {8, 33.2};

  /// Returns D for rings of degree n. D covers N / 2 points of the embedding (the other points are conjugates) and 4,096
  /// polynomials.
  static double least_deviations(std::size_t n);

  /// The representation in which noise causes a failure: coefficients, or values of the embedding (the slots of CKKS). The
  /// coefficients of a product are sums of N terms and far below the canonical norm, so a product counts as one polynomial.
  enum class Spoils { coefficients, values };

  explicit NoiseModel(std::size_t n, Spoils spoils = Spoils::coefficients)
      : NoiseModel(n, spoils, {spoils == Spoils::coefficients ? least_deviations(n) : kDeviations, kProductDeviations}) {}
  NoiseModel(std::size_t n, Spoils spoils, Deviations deviations)
      : n_(static_cast<double>(n)), spoils_(spoils), deviations_(deviations) {}

  /// Returns the canonical norm of a polynomial with coefficient variance 2^log_variance.
  double random(double log_variance) const;
  /// Returns the canonical norm of a sum of products of two random polynomials.
  double random_product(double log_variance) const;
  /// Returns the norm of a polynomial of rounding errors in [-1/2, 1/2].
  double rounding() const;
  /// Returns the norm of the rounding errors of `components` ciphertext components: r_0 + r_1 s + r_2 s^2.
  double rounding_times_secret(std::size_t components) const;
  double fresh_secret_key() const;
  /// Returns the noise of a fresh encryption plus a rounding error of each coefficient; the variances are added.
  double fresh_secret_key_rounded() const;
  double fresh_public_key() const;
  /// Returns the noise of an encryption by a public key modulo Q P: encryption computes modulo Q P and divides the result by
  /// P, which has log_p bits.
  double fresh_public_key(double log_p) const;
  /// Returns log2 |c(s) / q| for c(s) = c_0 + c_1 s over the modulus q.
  double phase_over_modulus() const;
  /// Returns the noise of one key switch. `log_digits` has the sizes of the level's digits (log2). The product P of the
  /// special primes has log_p bits (0: no special primes).
  double key_switch(const std::vector<double>& log_digits, double log_p) const;
  /// Returns by how many bits weighted sums of an error's coefficients are below the error's norm. The bounds above are
  /// norms: they bound the error of each slot. With weights w that do not depend on the error, a sum is at most |w| times
  /// the norm, divided by 2^spread_bits(). The value of one slot is such a sum, with |w| = sqrt(N).
  double spread_bits() const;

 private:
  double n_;
  Spoils spoils_;
  Deviations deviations_;
};

/// Computes the canonical norm max |b(z)| over z^N = -1, for real polynomials b of one degree. A product with b multiplies
/// noise by at most this norm.
class CanonicalNorm {
 public:
  /// `n` must be a power of two, at least 4.
  explicit CanonicalNorm(std::size_t n) : roots_(n) {}
  double operator()(const std::vector<double>& b) const;

 private:
  math::RealRoots roots_;
};

/// Returns log2 of the largest |[multiplier * x]_Q| over all coefficients, by exact big-integer arithmetic; -1 if all are 0.
/// `words` has n residues for each modulus, modulus after modulus.
double log2_largest(const u64* words, std::size_t n, const std::vector<u64>& moduli, u64 multiplier);

/// Returns the largest distance of multiplier * x / Q from an integer, from 0 to 1/2, with an error of 2^-55. Runs in
/// constant time, because the words reveal the secret key.
double largest_fraction(const u64* words, std::size_t n, const std::vector<u64>& moduli, u64 multiplier);

}  // namespace heliograph::rlwe
