// Products modulo 2^width.
#pragma once

#include "circuits/boolean/adders.h"

namespace heliograph::circuits::boolean {

/// columns: all partial products in one tree of full adders and one addition (Wallace, Dadda). booth: that of half as many
/// rows, multiples of digits -2 .. 2. tree: shifted rows added two and two (Morshed et al. 2020, section 4). karatsuba: of
/// halves, where they are 8 bits or more.
enum class Product { columns, booth, tree, karatsuba };

class Products {
 public:
  Products(Gates& gates, Adders& adders) : gates_(gates), adders_(adders) {}

  /// a * b modulo 2^width; bits of norm 1, or 2 where `free`.
  Word multiply(const Word& a, const Word& b, std::size_t width, Product method, Carry how, bool free);
  /// Partial products of a * b * 2^at into columns.
  void partial(Columns& columns, const Word& a, const Word& b, std::size_t at);
  /// The same where a * 2^at and b * 2^at fill the columns, so that signs need no extension.
  void booth(Columns& columns, const Word& a, const Word& b, std::size_t at);
  /// The cheaper of the two.
  static Product best(std::size_t width) { return width >= 16 ? Product::booth : Product::columns; }
  /// a * factor modulo 2^width, by the factor's non-adjacent form.
  Word multiply_clear(const Word& a, std::uint64_t factor, std::size_t width, Carry how);

 private:
  Word tree(const Word& a, const Word& b, std::size_t width, Carry how, bool free);
  /// a * b * 2^at into columns.
  void karatsuba(Columns& columns, const Word& a, const Word& b, std::size_t at, Carry how);

  Gates& gates_;
  Adders& adders_;
};

}  // namespace heliograph::circuits::boolean
