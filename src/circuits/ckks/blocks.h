// Packs tensors of few values into blocks of slots: one ciphertext holds the values of several, so that functions run on
// fewer ciphertexts.
#pragma once

#include <cstdint>
#include <vector>

#include "heliograph/functions.h"

namespace heliograph::ckks {

/// Blocks for the ciphertexts of a tensor. The length of a block is a power of two. Packing joins 2^k ciphertexts to one, by
/// k rotations.
class Blocks {
 public:
  /// Nothing is packed (k = 0) without automatic bootstraps, because unpacking takes a level, or if the keys lack a
  /// rotation.
  Blocks(const Operand& x, const Evaluator& by);
  const std::vector<std::int64_t>& steps() const { return steps_; }
  /// Returns ceil(count / 2^k) ciphertexts: block i % 2^k of ciphertext i / 2^k has ciphertext i. The result is the sum of
  /// the ciphertexts, each rotated to its block.
  Operand pack(const Operand& x) const;
  /// Separates the ciphertexts that `pack` joined, and multiplies the values by a factor. Rotates each block back and sets
  /// all other slots to 0. Takes one level; without packing, only if the factor is not 1.
  Operand unpack(const Operand& y, double factor = 1) const;

 private:
  const Evaluator& by_;
  Shape shape_;
  std::size_t width_, count_ = 1;
  std::vector<std::int64_t> steps_;
};

}  // namespace heliograph::ckks
