// Writes circuits: linear combinations are free and flattened, bootstraps are levelled as early as their inputs allow.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "schemes/tfhe/circuit.h"

namespace heliograph::circuits {

using tfhe::Linear;

/// What circuits must know of a parameter set.
struct Encoding {
  unsigned message_bits = 0, carry_bits = 0;  // of a digit; 0: bits as -1/8 and 1/8 turns
  unsigned norm = 0;                          // largest sum of squared weights a bootstrap's input may have

  bool boolean() const { return message_bits == 0; }
  /// One unit of a digit, or of a bit 1/8, in torus words.
  std::uint64_t unit() const {
    return boolean() ? std::uint64_t{1} << 61 : std::uint64_t{1} << (63 - message_bits - carry_bits);
  }
};

class Builder {
 public:
  explicit Builder(const Encoding& encoding) : encoding_(encoding) {}
  const Encoding& encoding() const { return encoding_; }

  /// A new input wire.
  Linear input();
  /// One bootstrap of `x` through `table` (values over the half turn; see tfhe::Table): `outputs` results. The same bootstrap
  /// asked for again is not made twice; where `x` is a constant, constants come back and nothing is computed.
  /// `scale`: the distance between values of `x` in units; norms are compared relative to it squared.
  /// Throws InternalError where the sum of squared weights is above encoding().norm * scale^2.
  std::vector<Linear> bootstrap(const Linear& x, const std::vector<std::uint64_t>& table, unsigned outputs = 1,
                                unsigned scale = 1);
  void output(const Linear& x);
  /// Bootstraps whose results no output needs are dropped.
  tfhe::Circuit finish();

  /// How many layers of bootstraps `x` waits for.
  std::size_t layer(const Linear& x) const;
  /// Sum of squared weights.
  static std::uint64_t norm(const Linear& x);

 private:
  struct Made {
    tfhe::Bootstrap bootstrap;
    std::size_t layer;
  };
  /// The bootstraps needed, by layer. Those of the same terms are neighbours, in the place of the first: they share a key
  /// switch, and devices may do for all of them what depends on it alone.
  std::vector<std::vector<std::uint32_t>> ordered(const std::vector<bool>& needed, std::size_t depth) const;

  Encoding encoding_;
  std::vector<std::uint64_t> sources_;  // of each wire: its bootstrap's number + 1; 0: an input
  std::vector<Made> made_;
  std::vector<tfhe::Table> tables_;
  std::map<std::vector<std::uint64_t>, std::uint32_t> table_numbers_;
  std::map<std::vector<std::uint64_t>, std::uint32_t> known_;  // by input, table, outputs: the bootstrap
  std::vector<Linear> outputs_;
  std::uint32_t inputs_ = 0;
};

Linear operator+(const Linear& a, const Linear& b);
Linear operator-(const Linear& a, const Linear& b);
Linear operator*(std::int32_t factor, const Linear& a);
/// A constant of torus words added.
Linear plus(const Linear& a, std::uint64_t constant);
Linear constant(std::uint64_t value);

/// The circuit on clear torus words, without noise: exactly what it computes, for tests and for clear runs. The table is
/// looked up at the exact phase.
std::vector<std::uint64_t> evaluate(const tfhe::Circuit& circuit, const std::vector<std::uint64_t>& inputs);

}  // namespace heliograph::circuits
