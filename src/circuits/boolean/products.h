// Products modulo 2^width.
#pragma once

#include "circuits/boolean/adders.h"

namespace heliograph::circuits::boolean {

/// columns: all partial products in one tree of full adders and one addition (Wallace, Dadda). booth: like
/// columns, but with half as many rows, which are multiples of a by digits from -2 to 2. tree: adds shifted rows pairwise
/// (Morshed et al. 2020, section 4). karatsuba: recursion on halves of at least 8 bits.
enum class Product { columns, booth, tree, karatsuba };

class Products {
 public:
  Products(Gates& gates, Adders& adders) : gates_(gates), adders_(adders) {}

  /// Returns a * b modulo 2^width; bits of norm 1, or 2 if `free`.
  Word multiply(const Word& a, const Word& b, std::size_t width, Product method, Carry how, bool free);
  /// Adds the partial products of a * b * 2^at to the columns.
  void partial(Columns& columns, const Word& a, const Word& b, std::size_t at);
  /// Adds a * b * 2^at by Booth's digits. a * 2^at and b * 2^at must fill the columns, so that no sign extension is
  /// needed.
  void booth(Columns& columns, const Word& a, const Word& b, std::size_t at);
  /// Returns the cheaper one of booth and columns.
  static Product best(std::size_t width) { return width >= 16 ? Product::booth : Product::columns; }
  /// Returns a * factor modulo 2^width, by the factor's non-adjacent form.
  Word multiply_clear(const Word& a, std::uint64_t factor, std::size_t width, Carry how);

 private:
  Word tree(const Word& a, const Word& b, std::size_t width, Carry how, bool free);
  void karatsuba(Columns& columns, const Word& a, const Word& b, std::size_t at, Carry how);

  Gates& gates_;
  Adders& adders_;
};

}  // namespace heliograph::circuits::boolean
