// Matrices on slots by their diagonals, as linear sums of baby and giant steps.
#pragma once

#include <set>

#include "schemes/ckks/linear_sum.h"

namespace heliograph::ckks {

/// What a matrix's product turns by: diagonal k is the giant step k - k % baby after the baby step k % baby.
struct Steps {
  std::size_t baby = 0;  // diagonals to a giant step
  std::vector<std::int64_t> babies, giants;

  /// Of diagonals with these numbers on `size` slots. `baby` 0: the choice that takes least, by key products and divisions.
  Steps(const std::set<std::size_t>& diagonals, std::size_t size, std::size_t baby = 0);
};

/// The product with a matrix on the first `size` of the slots, or of all places, for operands of `level`. `baby`: see Steps.
LinearSum sum_of(Context& context, const Diagonals& diagonals, std::size_t size, std::size_t level, std::size_t baby = 0,
                 const OwnKeys* own = nullptr);

/// The numbers of the diagonals.
std::set<std::size_t> numbers_of(const Diagonals& diagonals);

}  // namespace heliograph::ckks
