// Carries, additions and sums of several numbers, bit by bit, modulo 2^width.
#pragma once

#include "circuits/boolean/gates.h"

namespace heliograph::circuits::boolean {

/// Carry propagation. ripple: bit by bit, the fewest bootstraps (Morshed et al. 2020: bitwise). prefix: a tree, the least
/// depth. wordwise: one half addition of the complete words per bit (Morshed et al. 2020: numberwise).
enum class Carry { ripple, prefix, wordwise };

/// Bits by weight: column i holds any number of bits of weight 2^i, and bit i of `ones` a constant one. Carries out of the
/// last column are dropped.
struct Columns {
  std::vector<Word> bits;
  Word::size_type width() const { return bits.size(); }
  std::vector<bool> ones;

  explicit Columns(std::size_t width) : bits(width), ones(width, false) {}
  void add_power(std::size_t at);
  /// Constant bits of the word are added to `ones`.
  void add(const Gates& gates, const Word& word, std::size_t at);
  void subtract(const Gates& gates, const Word& word, std::size_t at);
};

class Adders {
 public:
  explicit Adders(Gates& gates) : gates_(gates) {}

  /// Returns the carries into the bits from 0 to `wanted` of a + b + first; computes only the carries marked in `used`
  /// (empty: all).
  Word carries(const Word& a, const Word& b, const Bit& first, std::size_t wanted, Carry how,
               const std::vector<bool>& used = {});
  /// Returns a + b + first with the width of a and b, and a carry bit if `carry_out`. `free`: sums may have norm 2.
  Word add(const Word& a, const Word& b, const Bit& first, Carry how, bool free, bool carry_out = false);
  Word subtract(const Word& a, const Word& b, Carry how, bool free);
  /// Returns -a if the condition is true, else a; norm 1.
  Word negate_if(const Bit& condition, const Word& a, Carry how);
  /// Returns the sum of all columns. prefix: Dadda's tree of full adders, then one addition; ripple: column by column.
  Word total(Columns columns, Carry how, bool free);

 private:
  struct Prefix;
  Word wordwise(Word a, Word b);
  Word serial(Columns columns, bool free);

  Gates& gates_;
};

}  // namespace heliograph::circuits::boolean
