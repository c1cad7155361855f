// Parts of functions of order.
#pragma once

#include <string>
#include <vector>

#include "circuits/ckks/approximation.h"

namespace heliograph::ckks {

inline constexpr double kRankError = 0x1p-12;  // error of the comparisons of one value with all other values

/// Throws ShapeError unless the tensor fills the set's period.
void require_full(const Ciphertext& x, const std::string& what);
/// Returns signs with an error of about `error`. The error bounds include the error of the composition. `after` is the
/// argument of plan_signs.
Operand rank_signs(const Operand& x, const Evaluator& by, double largest, double gap, double error, const std::string& what,
                   std::size_t after = 0);

/// All pairs of the first n slots, as m rows of m slots, where m is a power of two: slot j of row i has the pair of values i
/// and j. A ciphertext holds `rows` rows, along a new first axis: row i of the pairs is row i % rows of ciphertext i / rows.
class SlotPairs {
 public:
  /// `values`: the values and their interval. Throws ShapeError, ParameterError, MissingKeyError.
  SlotPairs(const Bounded& values, double gap, const std::optional<std::size_t>& count, const Evaluator& by,
            std::string what);
  std::size_t count() const { return n_; }
  /// Returns the values in ascending order, in the first n slots.
  Operand sorted() const;
  /// Returns the index of the largest value in every slot; with `one_hot`, 1 in the slot of the largest value and 0 in all
  /// others.
  Operand largest(bool one_hot) const;

 private:
  /// Position of a pair: its row and its slot.
  struct Place {
    std::size_t row, column;
  };
  template <class F>
  Values each(std::size_t first, std::size_t blocks, const F& f) const;
  template <class F>
  Values every_slot(const F& f) const;
  Place at(std::size_t block, std::size_t slot) const;
  template <class F>
  Operand summed(const F& compute) const;
  Operand ranks(const Operand& rows, const Operand& columns, std::size_t first, std::size_t blocks, double spread) const;
  Operand signs(const Operand& x, double largest, double gap, double error) const;
  std::vector<std::int64_t> steps_down() const;
  Operand down(const Operand& x) const;
  Operand across(const Operand& x, const Values& weights, std::size_t first, std::size_t blocks) const;
  Operand repeated(const Operand& x, const std::vector<std::int64_t>& steps) const;

  Operand x_;
  double low_, high_, gap_;
  const Evaluator& by_;
  std::string what_;
  std::size_t period_, n_, m_, rows_, blocks_;
};

}  // namespace heliograph::ckks
