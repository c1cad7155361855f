// Rows of bytes in the clear and how they are multiplied by an encrypted vector.
#pragma once

#include "schemes/exact/context.h"

namespace heliograph::exact {

struct ClearRowsData {
  std::shared_ptr<Context> context;
  RowsPlan plan;
  std::size_t rows = 0;
  /// The rows in the NTT domain, a component for each column. [primes of the plan's level x slices, blocks], of one limb, a slice's
  /// words: what a slice of all blocks is multiplied by stays in a cache, and its columns lie one after another. On several devices
  /// [blocks], whole limbs: blocks are what they share.
  RnsTensor words;
  bool sliced = false;
  std::vector<device::PermutationHandle> shifts;  // X^(-2^i) times a polynomial

  std::size_t blocks() const;
};

/// Words in a slice of a limb: at least so many.
inline constexpr std::size_t kLeastSlice = 128;

/// Q times a rounded fraction is below 2 to this.
inline constexpr double kMostProductBits = 127;

/// Automorphism i of the expansion, X -> X^(N / 2^i + 1), as a row step.
std::int64_t expansion_step(const Context& c, std::size_t i);

// Noise, log2, of coefficients rather than in the canonical embedding: each stays below its bound but with probability 2^-86.
/// Canonical, of each number of an expanded vector at the plan's level.
double expanded_noise(Context& c, const RowsPlan& plan, double vector_noise);
double product_noise(Context& c, const RowsPlan& plan, double vector_noise);
/// Of rounding alone.
double rounding_noise(Context& c, const RowsPlan& plan);

}  // namespace heliograph::exact
