// Gates on encrypted bits, encoded as -1/8 and 1/8 of a turn. Each gate is the sign of a linear combination. Constants and
// repeated operands are folded. An operand that is too noisy for a combination is refreshed first.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "circuits/builder.h"

namespace heliograph::circuits::boolean {

/// A bit: a constant, an input or a result (norm 1), or a free sum of results (norm 2).
using Bit = Linear;
using Word = std::vector<Bit>;

class Gates {
 public:
  /// Throws ParameterError unless the encoding is of bits with norm 3 or more.
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
  /// Returns `a` if the condition is true, else `b`, by two bootstraps; norm 2.
  Bit select(const Bit& condition, const Bit& a, const Bit& b);
  /// Returns `a` with norm 1. If noise allows, a sum of norm 2 is recomputed from its operands; otherwise it is
  /// bootstrapped. A half adder's sum is recomputed by one bootstrap, in the layer of its carry; a selection's result is
  /// recomputed by two bootstraps (`in_turn`).
  Bit clean(const Bit& a);
  /// Returns (sum, carry). If `free`, takes one bootstrap, and the sum has norm 2. Otherwise takes two bootstraps of the
  /// same input, and both results have norm 1 (ADR 28).
  std::pair<Bit, Bit> half_adder(const Bit& a, const Bit& b, bool free);
  /// Returns (sum, carry), both of norm 1 unless `free` allows a sum of norm 2.
  std::pair<Bit, Bit> full_adder(const Bit& a, const Bit& b, const Bit& c, bool free);

  /// Returns any function of bits; table[i] is the result if bits[j] is bit j of i. A function of up to three bits takes the
  /// fewest bootstraps, at most three. A function of more bits is a tree of selections that share subtrees.
  Bit function(const Word& bits, const std::vector<bool>& table);
  /// Returns the AND of all bits by a balanced tree of the least depth.
  Bit all(Word bits);
  Bit any(const Word& bits) { return negated(all(negated(bits))); }

 private:
  /// A bootstrap of three bits: sign(w0 a0 + w1 a1 + w2 a2 + constant units). Possible phases are `scale` units apart.
  struct Sign {
    std::array<int, 3> weights{};
    int constant = 0;
    unsigned scale = 1;
    std::array<bool, 8> table{};
  };
  static const std::vector<Sign>& signs();
  /// Two sequential bootstraps: sign(size of `first` + w0 a0 + w1 a1 + w2 a2 + constant units). The result of bootstrap
  /// `first` is `size` units but has norm 1, because its table determines the size. At most two weights are nonzero.
  struct Turn {
    Sign first;
    int size = 0;
    std::array<int, 3> weights{};
    int constant = 0;
  };
  /// Returns every combination that computes `table`, in ascending order of the number of terms.
  const std::vector<Turn>& turns(const std::vector<bool>& table);
  /// Returns a function of three bits by two sequential bootstraps, norm 1; nullopt if none exists or noise forbids it.
  std::optional<Bit> in_turn(const Word& bits, const std::vector<bool>& table);

  Bit sign(const Linear& x, unsigned scale);
  /// Returns whether x, which is -3/8, -1/8 or 1/8, is -1/8: the XOR of two bits. The table is 1/4 at -1/8 and else 0;
  /// then 1/8 is subtracted.
  Bit middle(const Linear& x);
  Bit sign(const std::array<int, 3>& weights, int constant, unsigned scale, Word bits);
  /// Returns the sum of weight * bit. Bits that are too noisy for the sum are refreshed.
  Linear sum(const std::vector<int>& weights, Word bits, unsigned scale);
  Linear units(int count) const;
  Bit small_function(const Word& bits, const std::vector<bool>& table);
  Bit three(const Word& bits, const std::vector<bool>& table);

  Builder& builder_;
  /// The operands of a sum of norm 2: a half adder's combination, or a function of three bits.
  struct Sum {
    Bit sum;
    Linear combination;
    Word bits;
    std::vector<bool> table;
  };
  Bit remember(Sum made);
  std::optional<Bit> again(const Sum& made);
  std::map<std::pair<std::uint32_t, std::uint32_t>, Sum> sums_;  // indexed by the two wires of the sum
  std::map<std::vector<bool>, std::vector<Turn>> turns_;
};

}  // namespace heliograph::circuits::boolean
