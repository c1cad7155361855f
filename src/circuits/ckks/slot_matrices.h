// Clear matrices on slots: checks, norms, and the range of a product.
#pragma once

#include "schemes/ckks/diagonals.h"

namespace heliograph::ckks {

/// Norms of a matrix W, from which bounds on W x follow.
struct MatrixNorms {
  struct Row {
    double plus = 0,
           minus = 0;  // sum of positive entries, sum of magnitudes of negative entries; complex entries count in `plus`
    double squares = 0;
  };
  std::vector<Row> rows;
  double spectral = 0;  // upper bound on ||W x||_2 / ||x||_2
  bool complex = false;
};

/// Computes the norms of a matrix on `size` slots.
MatrixNorms norms_of(const DiagonalViews& diagonals, std::size_t size);
/// Drops rows that change no bound: the rest has the extreme points of (plus, minus), with the largest squares of all rows.
MatrixNorms summary_of(MatrixNorms norms);
/// Returns the range of W x. `inside`: whether the matrix reads only values and no padding slots.
Range applied(const MatrixNorms& w, const Range& x, const Packing& packing, bool inside);

/// Returns the nonzero diagonals. Throws unless the diagonals form a matrix on `size` of the set's slots.
DiagonalViews checked(const Parameters& parameters, const DiagonalViews& diagonals, std::size_t size);
/// Size of the corner of a matrix that contains all nonzero entries.
struct Corner {
  std::size_t rows = 0, columns = 0;
};
Corner corner_of(const DiagonalViews& diagonals, std::size_t size);
/// Returns the level of a matrix product, the top for 0. Throws LevelError for a level without a lower one; SlotsError if
/// results cannot have `width` values.
std::size_t level_of_product(const Parameters& parameters, std::size_t level, std::size_t width);
/// Returns an operand of a matrix product: padding slots that the matrix reads are known, and the degree is one. `whole`:
/// whether the matrix is as large as the period. Throws MismatchError, LevelError.
Ciphertext operand_of_product(const Ciphertext& a, const Parameters& parameters, std::size_t level, bool whole,
                              const Corner& corner);
/// Returns whether a matrix reads only values of x, and no padding slots with other contents.
bool reads_values(const CiphertextData& x, bool whole, const Corner& corner);

}  // namespace heliograph::ckks
