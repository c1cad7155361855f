// Tables of encrypted integers, as an alternative to compositions of polynomials.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "circuits/ckks/approximation.h"

namespace heliograph::ckks {

/// The integers of a tensor: those of an interval.
class Integers {
 public:
  using Function = std::function<double(std::int64_t)>;

  /// Throws PlaintextRangeError if no integer is in the interval, ParameterError for an end beyond 2^53.
  Integers(const Operand& x, const Interval& interval, const Evaluator& by, std::string what);
  /// Returns f of each integer by one functional bootstrap. Throws ParameterError, NoiseError.
  Operand looked_up(const Function& f, double error) const;
  /// Returns whether a table is the method: as given, or by cost. `largest` and `gap` are those of the composition.
  bool takes_table(SignMethod method, const Function& f, double error, double largest, double gap) const;
  /// Returns the table that computes f to `error` in the shortest time: of an odd wave, whose polynomial has half of the
  /// powers, if f is one.
  std::vector<double> chosen(const Function& f, double error) const;

 private:
  bool has_table(const Function& f, double error) const;
  double cost(const Function& f) const;
  /// Returns f of each residue of the integers modulo the size of the table.
  std::vector<double> table(const Function& f) const;

  Operand x_;
  const Evaluator& by_;
  std::string what_;
  std::int64_t low_, high_;
  std::size_t count_;
};

}  // namespace heliograph::ckks
