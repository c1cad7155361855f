// Builds circuits: flattens linear combinations, and places each bootstrap in the earliest layer that its inputs allow.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "schemes/tfhe/circuit.h"

namespace heliograph::circuits {

using tfhe::Linear;

/// Properties of a parameter set on which circuits depend.
struct Encoding {
  unsigned message_bits = 0, carry_bits = 0;  // bits of a digit; 0: bits, encoded as -1/8 and 1/8 turns
  unsigned norm = 0;                          // largest sum of squared weights in a bootstrap's input

  bool boolean() const { return message_bits == 0; }
  /// Returns one unit of a digit, or 1/8 of a turn for a bit, in torus words.
  std::uint64_t unit() const {
    return boolean() ? std::uint64_t{1} << 61 : std::uint64_t{1} << (63 - message_bits - carry_bits);
  }
};

class Builder {
 public:
  explicit Builder(const Encoding& encoding) : encoding_(encoding) {}
  const Encoding& encoding() const { return encoding_; }

  Linear input();
  /// Bootstraps `x` through `table` (values over the half turn; see tfhe::Table) and returns `outputs` results. Equal
  /// bootstraps are made once. If `x` is a constant, returns constants without a bootstrap. `scale`: the distance between
  /// values of `x` in units; norms are compared relative to its square. Throws InternalError if the sum of squared weights
  /// exceeds encoding().norm * scale^2.
  std::vector<Linear> bootstrap(const Linear& x, const std::vector<std::uint64_t>& table, unsigned outputs = 1,
                                unsigned scale = 1);
  void output(const Linear& x);
  /// Returns the circuit. Omits bootstraps whose results no output needs.
  tfhe::Circuit finish();

  /// Returns the number of layers of bootstraps before `x`.
  std::size_t layer(const Linear& x) const;
  static std::uint64_t norm(const Linear& x);

 private:
  struct Made {
    tfhe::Bootstrap bootstrap;
    std::size_t layer;
  };
  /// Returns the needed bootstraps by layer. Bootstraps with the same terms are adjacent, because they share a key
  /// switch, and on some devices other work.
  std::vector<std::vector<std::uint32_t>> ordered(const std::vector<bool>& needed, std::size_t depth) const;

  Encoding encoding_;
  std::vector<std::uint64_t> sources_;  // for each wire the number of its bootstrap plus 1; 0: an input
  std::vector<Made> made_;
  std::vector<tfhe::Table> tables_;
  std::map<std::vector<std::uint64_t>, std::uint32_t> table_numbers_;
  std::map<std::vector<std::uint64_t>, std::uint32_t> known_;  // bootstraps by input, table and outputs
  std::vector<Linear> outputs_;
  std::uint32_t inputs_ = 0;
};

Linear operator+(const Linear& a, const Linear& b);
Linear operator-(const Linear& a, const Linear& b);
Linear operator*(std::int32_t factor, const Linear& a);
/// `constant`: torus words.
Linear plus(const Linear& a, std::uint64_t constant);
Linear constant(std::uint64_t value);

/// Evaluates the circuit on clear torus words without noise, for tests and clear runs. Tables are looked up at the exact
/// phase, without modulus switching.
std::vector<std::uint64_t> evaluate(const tfhe::Circuit& circuit, const std::vector<std::uint64_t>& inputs);

}  // namespace heliograph::circuits
