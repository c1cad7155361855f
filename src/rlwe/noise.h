// Noise: a model without the secret key, a measurement with its help.
//
// The model bounds noise in the canonical embedding (Gentry, Halevi, Smart, ePrint 2012/099, appendix A.5): a polynomial
// with independent coefficients of variance V has norm at most D sqrt(N V) except with probability N e^(-D^2), and norms
// multiply. Its infinity norm is at most the canonical one. With D = 10.4 a bound fails with probability 2^16 e^(-108.16), below 2^-140,
// at N = 2^16; over 4,096 random polynomials of a computation that stays below 2^-128. Whoever waits for a failure to learn the key
// (ePrint 2024/127, 2024/116) waits as long as for a guessed key. Rounding errors and ciphertext words are taken as uniform and
// independent. All values are log2.
//
// A product of two random polynomials, such as a rounding error times the secret, has at each point of the embedding the product
// of their values there. Two values of the complex normal distribution have a product beyond x deviations with probability
// 2 x K_1(2 x), about sqrt(pi x) e^(-2 x): far more often than one value alone. x = 55.5 is as improbable as D = 10.4.
#pragma once

#include <cstdint>
#include <vector>

#include "math/roots.h"
#include "rlwe/parameters.h"

namespace heliograph::rlwe {

/// A fixed-point quotient errs by less than 2^-20 of a unit, whatever the moduli (math/conversion.h: at most 63 sources, 28
/// bits), so a rounding error reaches 1/2 + 2^-20 and noise may fill 1/2 - 2^-20: log2 of 1 + 2^-19, with room.
inline constexpr double kRoundingSlack = 0x1p-18;

// Bounds, log2. NaN is unknown and makes all it meets unknown, but for infinity: where no bound holds any more, none will.
/// a + b
double log2_times(double a, double b);
/// log2(2^a + 2^b)
double log2_sum(double a, double b);
/// The larger.
double log2_max(double a, double b);

/// A bound kept twice.
struct Figure {
  double vouched;  // answered for by this process: nothing it rests on came from a file
  double assumed;  // true if files are what they say

  Figure(double both) : vouched(both), assumed(both) {}  // NOLINT(google-explicit-constructor): a number is a bound
  Figure(double vouched, double assumed) : vouched(vouched), assumed(assumed) {}
};
inline Figure operator+(Figure a, Figure b) { return {log2_times(a.vouched, b.vouched), log2_times(a.assumed, b.assumed)}; }
inline Figure operator-(Figure a, double b) { return {a.vouched - b, a.assumed - b}; }
inline Figure& operator+=(Figure& a, Figure b) { return a = a + b; }
inline Figure log2_sum(Figure a, Figure b) { return {log2_sum(a.vouched, b.vouched), log2_sum(a.assumed, b.assumed)}; }
inline Figure log2_max(Figure a, Figure b) { return {log2_max(a.vouched, b.vouched), log2_max(a.assumed, b.assumed)}; }

/// Figures in files are sixteenths of a bit, 0 to kMostStored, which stands for all above it and for infinity.
inline constexpr std::uint64_t kMostStored = std::uint64_t{1} << 20;
/// Rounded up, and so far from a tie that no other machine's logarithms give another number. `figure` is known.
std::uint64_t stored_figure(double figure);
double figure_from(std::uint64_t stored);

class NoiseModel {
 public:
  static constexpr double kFailureLog2 = -128;
  /// Deviations of one random polynomial, and of a product of two.
  static constexpr double kDeviations = 10.4, kProductDeviations = 55.5;
  struct Deviations {
    double one = kDeviations, product = kProductDeviations;
  };
  /// Bounds that fail with 2^-64: Heliograph 0.2's, by which it chose sets.
  static constexpr Deviations kFormer = {8, 33.2};

  /// D for rings of degree n: N / 2 points of the embedding, as the others are their conjugates, of 4,096 polynomials.
  static double least_deviations(std::size_t n);

  /// What noise spoils: coefficients, each of which is in a product a sum of N terms and lies far below the canonical norm, so that a
  /// product counts like any polynomial; or the embedding's values, the slots of CKKS.
  enum class Spoils { coefficients, values };

  explicit NoiseModel(std::size_t n, Spoils spoils = Spoils::coefficients)
      : NoiseModel(n, spoils, {spoils == Spoils::coefficients ? least_deviations(n) : kDeviations, kProductDeviations}) {}
  NoiseModel(std::size_t n, Spoils spoils, Deviations deviations)
      : n_(static_cast<double>(n)), spoils_(spoils), deviations_(deviations) {}

  /// Canonical norm of a polynomial with coefficient variance 2^log_variance.
  double random(double log_variance) const;
  /// The same of a sum of products of two.
  double random_product(double log_variance) const;
  /// A rounding error in [-1/2, 1/2] on each coefficient.
  double rounding() const;
  /// Rounding errors on `components` ciphertext components: r_0 + r_1 s + r_2 s^2.
  double rounding_times_secret(std::size_t components) const;
  double fresh_secret_key() const;
  /// The same with a rounding error on each coefficient, which is independent of the error: variances add.
  double fresh_secret_key_rounded() const;
  double fresh_public_key() const;
  /// The same of a key over Q P whose encryptions are divided by a P of log_p.
  double fresh_public_key(double log_p) const;
  /// Of c(s) = c_0 + c_1 s over the modulus 2^log_q, as a real multiple of it: log2 |c(s) / q|.
  double phase_over_modulus() const;
  /// One key switch at a level whose digits have these sizes (log2), with special primes of log_p (0: none).
  double key_switch(const std::vector<double>& log_digits, double log_p) const;

 private:
  double n_;
  Spoils spoils_;
  Deviations deviations_;
};

/// The canonical norm max |b(z)|, z^N = -1, of real polynomials of one degree: what multiplying by b does to noise at most.
class CanonicalNorm {
 public:
  /// n a power of two, at least 4.
  explicit CanonicalNorm(std::size_t n) : roots_(n) {}
  double operator()(const std::vector<double>& b) const;

 private:
  math::RealRoots roots_;
};

/// log2 of the largest |[multiplier * x]_Q| over all coefficients; words are `n` residues for each modulus in turn.
/// 0 gives -1. Exact big-integer arithmetic.
double log2_largest(const u64* words, std::size_t n, const std::vector<u64>& moduli, u64 multiplier);

/// The largest distance of multiplier * x / Q from an integer, 0 to 1/2, to 2^-55. In time and memory accesses that do not
/// depend on the words, which tell of the secret key.
double largest_fraction(const u64* words, std::size_t n, const std::vector<u64>& moduli, u64 multiplier);

}  // namespace heliograph::rlwe
