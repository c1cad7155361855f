// Detects operands that are views of the same ciphertexts, whose noise is therefore equal, not independent.
#pragma once

#include "heliograph/tfhe.h"
#include "lwe/tensor.h"

namespace heliograph::circuits {

/// Overlap of two tensors of one shape, element by element: none; some elements or parts of elements; all elements
/// entirely.
enum class Shared : unsigned char { nothing, some, all };
Shared shared(const lwe::Tensor& a, const lwe::Tensor& b);

/// Distinct operands of one shape.
struct Operands {
  std::vector<std::size_t> same;     // for each operand, the first operand with the same ciphertexts
  std::vector<std::size_t> refresh;  // for each operand, the number of refreshes that give it different noise from
                                     // earlier operands
};
Operands compare(const std::vector<lwe::Tensor>& operands);

/// Largest number of terms in the circuit of a sum.
inline constexpr std::size_t kSumTerms = 64;

}  // namespace heliograph::circuits
