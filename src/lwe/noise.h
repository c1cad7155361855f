// Predicted noise of TFHE's steps, in turns squared, and what follows from it: the probability that a bootstrap fails.
#pragma once

#include "lwe/keys.h"

namespace heliograph::lwe {

/// Variances. Each counts what its step adds, over all keys, or over ciphertexts and masks for one key (the second form).
struct NoiseModel {
  double fresh = 0;           // of an encryption under the wide key
  double bootstrap = 0;       // of a bootstrap's result, whatever its input
  double key_switch = 0;      // wide to narrow
  double modulus_switch = 0;  // of the narrow ciphertext's phase, as exponents of X see it

  explicit NoiseModel(const Parameters& parameters);
  NoiseModel(const Parameters& parameters, const SecretKey& secret);

  /// Of the phase that a bootstrap's table is read at, its input a linear combination of results (or encryptions) with this
  /// sum of squared weights.
  double before_table(double norm) const;

 private:
  NoiseModel(const Parameters& parameters, double wide_weight);
};

/// log2 of the probability that a Gaussian of this variance is at least `distance` away from 0, either side.
double log2_tail(double variance, double distance);

/// log2 of the least standard deviation, as a part of a turn, that gives 128 bits at an LWE dimension (or k * N) with binary
/// secrets and modulus 2^64: straight lines between the sets published with tfhe-rs 1.7, which its authors chose by the
/// lattice estimator (Albrecht, Player and Scott, ePrint 2015/046). Below the smallest of them the steepest line goes on and
/// a quarter of a bit of noise is added; beyond the largest the value stays. An interpolation, not an estimate of its own.
double log2_least_secure_deviation(std::size_t dimension);
/// The dimension at which a deviation (log2) is the least secure one.
double least_secure_dimension(double log2_deviation);
bool is_secure(const Parameters& parameters);
/// For telling a person how far off a set is: 128, or that times dimension over least secure dimension.
int rough_security_bits(const Parameters& parameters);

}  // namespace heliograph::lwe
