// Tensors of few values in blocks of slots: several ciphertexts share one, so that functions of slots run on fewer.
#pragma once

#include <cstdint>
#include <vector>

#include "heliograph/functions.h"

namespace heliograph::ckks {

/// Blocks for the ciphertexts of a tensor. A block has a power of two of slots. 2^k ciphertexts share one, for k steps of
/// rotations.
class Blocks {
 public:
  /// There are no steps, and nothing is packed, without automatic bootstraps, because unpacking takes a level; and if the
  /// keys lack a rotation.
  Blocks(const Operand& x, const Evaluator& by);
  const std::vector<std::int64_t>& steps() const { return steps_; }
  /// Returns ceil(count / 2^k) ciphertexts: block i % 2^k of ciphertext i / 2^k has ciphertext i. Adds ciphertexts that are
  /// rotated to their blocks.
  Operand pack(const Operand& x) const;
  /// Returns the ciphertexts that `pack` joined, times a factor, with zeros outside their values. Takes one level; without
  /// packing only if the factor is not 1. Rotates back and clears the slots outside the block.
  Operand unpack(const Operand& y, double factor = 1) const;

 private:
  const Evaluator& by_;
  Shape shape_;
  std::size_t width_, count_ = 1;
  std::vector<std::int64_t> steps_;
};

}  // namespace heliograph::ckks
