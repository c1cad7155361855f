// Tables of encrypted integers, as an alternative to compositions of polynomials.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "circuits/ckks/approximation.h"

namespace heliograph::ckks {

/// The integers that a tensor may contain: the integers of an interval.
class Integers {
 public:
  using Function = std::function<double(std::int64_t)>;

  /// Throws PlaintextRangeError if the interval contains no integer, ParameterError if an end of the interval exceeds 2^53
  /// in magnitude.
  Integers(const Operand& x, const Interval& interval, const Evaluator& by, std::string what);
  /// Returns f of each integer by one functional bootstrap. Throws ParameterError, NoiseError.
  Operand looked_up(const Function& f, double error) const;
  /// Computes like `looked_up`, without a check of the result's error. Throws ParameterError.
  Operand unchecked(const Function& f, double error) const;
  /// Returns whether to use a table: by the given method, or for `automatic` by cost. `largest` and `gap` are the arguments
  /// of the alternative composition.
  bool takes_table(SignMethod method, const Function& f, double error, double largest, double gap) const;
  /// Returns the table that computes f to `error` in the shortest time. If f is an odd wave, the table is one too, because
  /// the polynomial of an odd wave has half of the powers.
  std::vector<double> chosen(const Function& f, double error) const;

 private:
  bool has_table(const Function& f, double error) const;
  double cost(const Function& f) const;
  /// Returns the table of f: entry k is f of the integer that is k modulo the table's size.
  std::vector<double> table(const Function& f) const;

  Operand x_;
  const Evaluator& by_;
  std::string what_;
  std::int64_t low_, high_;
  std::size_t count_;
};

}  // namespace heliograph::ckks
