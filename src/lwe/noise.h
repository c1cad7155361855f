// Predicted noise of TFHE's steps, in squared turns (1 turn is 2^64), and the resulting failure probability of a bootstrap.
#pragma once

#include "lwe/keys.h"

namespace heliograph::lwe {

/// Variances that each step adds. The first constructor averages over keys; the second one, over ciphertexts and masks for
/// one key.
struct NoiseModel {
  double fresh = 0;           // variance of an encryption under the wide key
  double bootstrap = 0;       // variance of a bootstrap's result, for any input
  double key_switch = 0;      // variance that the key switch from wide to narrow adds
  double modulus_switch = 0;  // variance that rounding the narrow phase to an exponent of X adds

  explicit NoiseModel(const Parameters& parameters);
  NoiseModel(const Parameters& parameters, const SecretKey& secret);

  /// Returns the variance of the phase at which a bootstrap reads its table. The bootstrap's input is a linear combination
  /// of results (or encryptions); `norm` is the sum of the squared weights.
  double before_table(double norm) const;

 private:
  NoiseModel(const Parameters& parameters, double wide_weight);
};

/// Returns log2 of the probability that a Gaussian of this variance has magnitude `distance` or more.
double log2_tail(double variance, double distance);

/// Returns log2 of the smallest secure standard deviation (as a fraction of a turn) for an LWE dimension (or k * N): 128
/// bits of security with binary secrets and modulus 2^64. Interpolates linearly between the sets published with tfhe-rs 1.7,
/// which its authors chose by the lattice estimator (Albrecht, Player and Scott, ePrint 2015/046). For smaller dimensions it
/// extrapolates with the steepest slope and adds a quarter of a bit; for larger dimensions it is constant. This
/// interpolation is not an independent estimate of security.
double log2_least_secure_deviation(std::size_t dimension);
/// Returns the smallest dimension for which a standard deviation (log2) is secure.
double least_secure_dimension(double log2_deviation);
bool is_secure(const Parameters& parameters);
/// Returns 128 for a secure set; otherwise 128 times the dimension over the smallest secure dimension, as a rough
/// description.
int rough_security_bits(const Parameters& parameters);

}  // namespace heliograph::lwe
