// Clear rows of bytes, and their products with an encrypted vector.
#pragma once

#include "schemes/exact/context.h"

namespace heliograph::exact {

struct ClearRowsData {
  std::shared_ptr<Context> context;
  RowsPlan plan;
  std::size_t rows = 0;
  /// The rows in the NTT domain, one component per column. On one device the rows are sliced: [primes of the plan's level x
  /// slices, blocks], each with one limb of a slice's words. A slice's columns are contiguous, and the vector's factor of
  /// a slice stays in cache for all blocks. On several devices: [blocks] with complete limbs, because the devices divide
  /// the blocks.
  RnsTensor words;
  bool sliced = false;
  std::vector<device::PermutationHandle> shifts;  // automorphism i multiplies by X^(-2^i)

  std::size_t blocks() const;
};

inline constexpr std::size_t kLeastSlice = 128;

/// Limit on log2 of the product of Q and a rounded fraction. The product is computed in 128 bits.
inline constexpr double kMostProductBits = 127;

/// Returns the row step of automorphism i of the expansion, X -> X^(N / 2^i + 1).
std::int64_t expansion_step(const Context& c, std::size_t i);

// Noise is log2 of a bound on coefficients, not of canonical norms. Each coefficient exceeds its bound with probability
// 2^-86.
/// Returns the canonical noise of each ciphertext of an expanded vector at the plan's level.
double expanded_noise(Context& c, const RowsPlan& plan, double vector_noise);
double product_noise(Context& c, const RowsPlan& plan, double vector_noise);
/// Returns the noise that the rounding of products adds.
double rounding_noise(Context& c, const RowsPlan& plan);

}  // namespace heliograph::exact
