// Carries, additions and sums of many numbers, bit by bit, all modulo 2^width.
#pragma once

#include "circuits/boolean/gates.h"

namespace heliograph::circuits::boolean {

/// How a carry runs. ripple: from bit to bit, fewest bootstraps (Morshed et al. 2020: bitwise). prefix: a tree, least deep.
/// wordwise: half additions of whole words, as many as there are bits (Morshed et al. 2020: numberwise).
enum class Carry { ripple, prefix, wordwise };

/// Bits by their weight: column i holds any number of bits worth 2^i, and bit i of `ones` one more. Carries past the last
/// column are dropped.
struct Columns {
  std::vector<Word> bits;
  Word::size_type width() const { return bits.size(); }
  std::vector<bool> ones;

  explicit Columns(std::size_t width) : bits(width), ones(width, false) {}
  /// 2^at, modulo 2^width.
  void add_power(std::size_t at);
  /// word * 2^at; constants among its bits are added up.
  void add(const Gates& gates, const Word& word, std::size_t at);
  /// -word * 2^at
  void subtract(const Gates& gates, const Word& word, std::size_t at);
};

class Adders {
 public:
  explicit Adders(Gates& gates) : gates_(gates) {}

  /// Carries into bits 0 .. wanted of a + b + first, of which only those marked in `used` (all where empty) are made.
  Word carries(const Word& a, const Word& b, const Bit& first, std::size_t wanted, Carry how,
               const std::vector<bool>& used = {});
  /// a + b + first of as many bits as a and b have, and one more where `carry_out`. `free`: sums may have norm 2.
  Word add(const Word& a, const Word& b, const Bit& first, Carry how, bool free, bool carry_out = false);
  Word subtract(const Word& a, const Word& b, Carry how, bool free);
  /// Minus a where the condition is true; norm 1.
  Word negate_if(const Bit& condition, const Word& a, Carry how);
  /// All columns added up. prefix: Dadda's tree of full adders, then one addition; ripple: column after column.
  Word total(Columns columns, Carry how, bool free);

 private:
  struct Prefix;
  Word wordwise(Word a, Word b);
  Word serial(Columns columns, bool free);

  Gates& gates_;
};

}  // namespace heliograph::circuits::boolean
