// Gates on encrypted bits, -1/8 and 1/8 of a turn: each is the sign of a linear combination. Constants and repeated operands
// fold; an operand whose noise does not fit beside the others is refreshed first.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "circuits/builder.h"

namespace heliograph::circuits::boolean {

/// A bit: a constant, an input, a result (norm 1), or a free sum of results (norm 2).
using Bit = Linear;
using Word = std::vector<Bit>;

class Gates {
 public:
  /// Throws ParameterError unless the encoding is of bits with norm 3 at least.
  explicit Gates(Builder& builder);
  Builder& builder() { return builder_; }

  Bit constant(bool value) const;
  static bool is_constant(const Bit& a) { return a.terms.empty(); }
  bool is(const Bit& a, bool value) const { return a == constant(value); }
  static Bit negated(const Bit& a) { return -1 * a; }
  static Word negated(const Word& a);

  Bit and_gate(const Bit& a, const Bit& b);
  Bit or_gate(const Bit& a, const Bit& b) { return negated(and_gate(negated(a), negated(b))); }
  Bit xor_gate(const Bit& a, const Bit& b);
  Bit majority(const Bit& a, const Bit& b, const Bit& c);
  Bit xor_gate(const Bit& a, const Bit& b, const Bit& c);
  /// Two bootstraps; norm 2.
  Bit select(const Bit& condition, const Bit& a, const Bit& b);
  /// a in norm 1. Sums are made again from their operands where noise allows, by one bootstrap for a half adder's, as early as
  /// its carry, by two for a selection's (`in_turn`); else by a bootstrap of the sum.
  Bit clean(const Bit& a);
  /// (sum, carry). `free`: of one bootstrap, the sum in norm 2; else of two of one input, both in norm 1 (ADR 28).
  std::pair<Bit, Bit> half_adder(const Bit& a, const Bit& b, bool free);
  /// (sum, carry), both of norm 1 unless `free` allows sums of norm 2.
  std::pair<Bit, Bit> full_adder(const Bit& a, const Bit& b, const Bit& c, bool free);

  /// Any function: table[i] is the result where bits[j] is bit j of i. Up to three bits: the fewest bootstraps, three at
  /// most; above: selections, equal parts made once.
  Bit function(const Word& bits, const std::vector<bool>& table);
  /// Least of a balanced tree of AND or OR gates in depth.
  Bit all(Word bits);
  Bit any(const Word& bits) { return negated(all(negated(bits))); }

 private:
  /// sign(w0 a0 + w1 a1 + w2 a2 + constant units) with results at a distance of `scale` units.
  struct Sign {
    std::array<int, 3> weights{};
    int constant = 0;
    unsigned scale = 1;
    std::array<bool, 8> table{};
  };
  static const std::vector<Sign>& signs();
  /// sign(size of `first` + w0 a0 + w1 a1 + w2 a2 + constant units): the result of another bootstrap counts `size` units but has
  /// norm 1, for its table says what it is. At most two weights.
  struct Turn {
    Sign first;
    int size = 0;
    std::array<int, 3> weights{};
    int constant = 0;
  };
  /// All that make a table, those of the fewest terms first.
  const std::vector<Turn>& turns(const std::vector<bool>& table);
  /// A function of three bits by two bootstraps in a row, norm 1; none where there is no such way or noise forbids it.
  std::optional<Bit> in_turn(const Word& bits, const std::vector<bool>& table);

  Bit sign(const Linear& x, unsigned scale);
  /// Whether x is -1/8, of -3/8, -1/8 and 1/8: XOR by the table that has 1/4 there and 0 elsewhere, less 1/8.
  Bit middle(const Linear& x);
  Bit sign(const std::array<int, 3>& weights, int constant, unsigned scale, Word bits);
  /// The sum of weight * bit, where bits that are too noisy for it are refreshed first.
  Linear sum(const std::vector<int>& weights, Word bits, unsigned scale);
  Linear units(int count) const;
  Bit small_function(const Word& bits, const std::vector<bool>& table);
  Bit three(const Word& bits, const std::vector<bool>& table);

  Builder& builder_;
  /// What made a sum of norm 2: a half adder's combination, or a function of three bits.
  struct Sum {
    Bit sum;
    Linear combination;
    Word bits;
    std::vector<bool> table;
  };
  Bit remember(Sum made);
  std::optional<Bit> again(const Sum& made);
  std::map<std::pair<std::uint32_t, std::uint32_t>, Sum> sums_;  // by their two wires
  std::map<std::vector<bool>, std::vector<Turn>> turns_;
};

}  // namespace heliograph::circuits::boolean
