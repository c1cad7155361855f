// Matrices of blocks on several ciphertexts: sums over the inputs of plaintexts times rotations, one result for each output.
//
// y_o is the sum over inputs i, giant steps g and baby steps b of turn_g(plaintext * turn_b(x_i)), rescaled. As in LinearSum
// (device/call.h), all sums are modulo Q P. The baby steps of an input serve all outputs. A giant step switches the sum of
// all inputs: each output has one key switch for each of its giant steps, and one division at the end.
#pragma once

#include "schemes/ckks/diagonals.h"

namespace heliograph::ckks {

struct BlockSum {
  /// A sum that one giant step switches.
  struct Target {
    std::size_t output;
    std::int64_t giant;
    auto operator<=>(const Target&) const = default;
  };
  struct Term {
    std::size_t target, baby;
  };
  struct Input {
    std::vector<std::int64_t> babies;  // ascending; 0: no rotation
    std::vector<Term> terms;           // ascending
    EncodedTerms plaintexts;
  };

  Context* context = nullptr;  // must outlive the sum
  std::size_t level = 0;       // level of the operands
  std::size_t outputs = 0;
  std::vector<Target> targets;  // ascending; each output has one at least
  std::vector<Input> inputs;
  bool complex = false;

  /// Returns the rotation steps that need keys, ascending.
  std::vector<std::int64_t> rotations() const;
  /// Returns the bytes of the plaintexts at rest.
  std::size_t bytes() const;
};

/// Block (o, i) of a matrix has its diagonals at blocks[o * inputs + i].
using Blocks = std::vector<DiagonalViews>;
/// Encodes a matrix of blocks on `size` slots for operands of `level`. `baby`: diagonals per giant step; 0: the cheapest
/// number. `store`: plaintexts at rest are coefficients (EncodedTerms). Throws PlaintextRangeError, OutOfMemoryError.
BlockSum block_sum_of(Context& context, const Blocks& blocks, std::size_t inputs, std::size_t size, std::size_t level,
                      std::size_t baby, bool store);

/// Returns whether plaintexts of `terms` diagonals are coefficients at rest. An automatic choice keeps transforms of at
/// most 256 MiB, and larger transforms if they leave half of the device's memory free.
bool stores(Context& context, std::size_t terms, std::size_t level, Storage storage);

/// Applies the sum to x: [inputs, items], degree one, the sum's level, NTT domain. Returns [outputs, items], one level down.
/// Throws MissingKeyError.
RnsTensor apply(const BlockSum& sum, const RnsTensor& x, const EvaluationKeys& keys);
/// Returns the level for which the keys of a sum were made; 0: usual keys.
std::size_t key_level_of(const BlockSum& sum, const EvaluationKeys& keys);
/// Returns log2 of the noise of each output, before rescaling. `noise` and `values`: log2 of the noise of the operands, and
/// of their largest values at their scale.
std::vector<rlwe::Figure> noise_of(const BlockSum& sum, const rlwe::Figure& noise, const rlwe::Figure& values,
                                   std::size_t key_level);

}  // namespace heliograph::ckks
