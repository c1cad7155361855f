// Operands that show the same ciphertexts: their noise is one noise, and a circuit must know.
#pragma once

#include "heliograph/tfhe.h"
#include "lwe/tensor.h"

namespace heliograph::circuits {

/// How much two tensors of one shape share, element by element: nothing; some elements, or parts of them; all of each.
enum class Shared : unsigned char { nothing, some, all };
Shared shared(const lwe::Tensor& a, const lwe::Tensor& b);

/// Operands of one shape as a circuit takes them.
struct Operands {
  std::vector<std::size_t> same;     // of each operand: the first that shows the same ciphertexts
  std::vector<std::size_t> refresh;  // of each operand: so many bootstraps part its noise from that of those before it
};
Operands compare(const std::vector<lwe::Tensor>& operands);

/// The most terms of one sum's circuit.
inline constexpr std::size_t kSumTerms = 64;

}  // namespace heliograph::circuits
