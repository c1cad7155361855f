// Matrices on slots by diagonals, as linear sums of baby steps and giant steps.
#pragma once

#include <set>

#include "schemes/ckks/linear_sum.h"

namespace heliograph::ckks {

/// Rotation steps of a matrix product: diagonal k is baby step k % baby, then giant step k - k % baby.
struct Steps {
  std::size_t baby = 0;  // diagonals per giant step
  std::vector<std::int64_t> babies, giants;

  /// Chooses the steps of diagonals `numbers` on `size` slots. `baby` 0: the number with the least cost in key products
  /// and divisions.
  Steps(const std::set<std::size_t>& diagonals, std::size_t size, std::size_t baby = 0);
};

/// Returns the product with a matrix on the first `size` slots, or on all N/2, for operands of `level`. `baby`: see Steps.
LinearSum sum_of(Context& context, const DiagonalViews& diagonals, std::size_t size, std::size_t level, std::size_t baby = 0,
                 const OwnKeys* own = nullptr);

/// Cost of a giant step in baby steps. A giant step divides and decomposes, so it takes about three times as long. A giant
/// step counts as two baby steps here, because the keys of baby steps take memory too.
inline constexpr std::size_t kGiantCost = 2;
/// A diagonal, and the giant step that its product is rotated by.
struct PlacedDiagonal {
  const DiagonalView* values;
  std::size_t giant;
};
/// Returns the number of values with which all diagonals repeat if that is less than `size`, at least 4; 0 otherwise.
std::size_t repeated_width(const DiagonalViews& diagonals, std::size_t size);
/// Returns the plaintexts of some diagonals, each rotated back by its giant step, because the giant step is applied after
/// the product.
Values turned_back(const PlacedDiagonal* diagonals, std::size_t count, std::size_t size, std::size_t width, bool complex);
/// Returns views of the diagonals, which must outlive the views.
DiagonalViews views_of(const Diagonals& diagonals);
std::set<std::size_t> numbers_of(const DiagonalViews& diagonals);
/// Returns whether a diagonal has an entry that is not real.
bool any_complex(const DiagonalViews& diagonals);

}  // namespace heliograph::ckks
