// Packs tensors of few values into blocks of slots: one ciphertext holds the values of several, so that functions run on
// fewer ciphertexts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heliograph/functions.h"

namespace heliograph::ckks {

/// Ciphertexts, and the error bounds of the slots behind their values.
struct Unpacked {
  Operand x;
  ErrorBounds padding;
};

/// Blocks for the ciphertexts of a tensor. The length of a block is a power of two. Packing joins 2^k ciphertexts to one, by
/// k rotations.
class Blocks {
 public:
  /// `padding`: error bounds of the slots behind the values, which packing adds to other blocks; nullopt: those of x. The
  /// number of packing steps keeps the error of packed values at most `most_error`. Nothing is packed without automatic
  /// bootstraps, because unpacking takes a level, or if the keys lack a rotation.
  Blocks(const Operand& x, const Evaluator& by, double most_error, std::optional<ErrorBounds> padding = {});
  const std::vector<std::int64_t>& steps() const { return steps_; }
  /// Returns ceil(count / 2^k) ciphertexts: ciphertext i of the input is block i % 2^k of ciphertext i / 2^k. Adds
  /// ciphertexts that are rotated to their blocks.
  Operand pack(const Operand& x) const;
  /// Returns the ciphertexts that `pack` joined, times a factor, with zeros outside their values. Takes one level; if
  /// nothing was packed and the factor is 1, takes none. Rotates back and clears the slots outside the block.
  Unpacked unpack(const Operand& y, double factor = 1) const;

 private:
  const Evaluator& by_;
  std::optional<ErrorBounds> padding_;
  Shape shape_;
  std::size_t width_, count_ = 1;
  std::vector<std::int64_t> steps_;
};

}  // namespace heliograph::ckks
