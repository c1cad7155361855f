// Stages that all bootstraps share: from values to angles in the slots at the highest levels, and from results back to
// values.
#pragma once

#include <optional>

#include "base/progress.h"
#include "schemes/ckks/bootstrapping.h"
#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

/// Throws ParameterError for sets without bootstrapping; WrongKeyError; MismatchError; MissingKeyError; LevelError;
/// ScaleError for products that were not rescaled.
void require_bootstrapping(const Ciphertext& x, const EvaluationKeys& keys);
/// Returns a tensor without items at a level, with the metadata of x.
Ciphertext nothing(const Ciphertext& x, std::size_t level);

class BootstrapStages {
 public:
  /// `packing`: whether one ciphertext may have both halves of an item, for sets with few slots and for repeated values.
  /// `period`: the period of the values, 0 for that of the set.
  BootstrapStages(const Ciphertext& x, const EvaluationKeys& keys, bool packing = false, std::size_t period = 0);
  /// Starts from phases in place of values: a tensor at the lowest level, whose coefficients are the phases t. `like` has
  /// one real item for each phase; the noise of `like` is the noise of t / q.
  BootstrapStages(const Ciphertext& like, const RnsTensor& phases, const EvaluationKeys& keys);

  Context& context() const { return context_; }
  const EvaluationKeys& keys() const { return keys_; }
  /// Returns the operand at the entry level of bootstrapping, of degree one, with items along one axis. Padding slots are
  /// zero if possible.
  const CiphertextData& low() const { return low_->data(); }
  /// Returns log2 of the noise of a value, or of a pair if two items are paired.
  rlwe::Figure noise() const { return work_->data().noise + log_growth() - std::log2(low().scale); }
  /// Returns log2 of the largest growth of a noise that does not repeat with the period. Each layer beyond the period mixes
  /// two copies with the weights |1 + z| / 2 and |1 - z| / 2, |z| = 1.
  double log_growth() const { return std::log2(static_cast<double>(context_.period() / repetition_.period)) / 2; }
  /// Returns the factor from a value to the lowest level's coefficients, if `angles` has factor 1.
  double unit() const;
  /// Returns twice (t / q) / kSineRange of each value, where t = value * unit() * factor plus a multiple of q, along a
  /// new first axis: real and imaginary parts, or the first and second half of real items. If the halves are packed, one
  /// ciphertext has one half in its first slots, followed by the other half. The result is at the level below the matrices.
  Ciphertext angles(double factor);
  /// Joins real halves to values in the operand's shape. Packed halves of pairs must be multiplied by share() and
  /// `weights`.
  RnsTensor joined(const Ciphertext& halves) const;
  bool packed() const { return packed_; }
  /// Returns the factor by which packed halves must be multiplied before `joined`.
  double share() const { return packed_ && pairs() ? 0.5 : 1; }
  /// Returns one weight per slot: 1 for the first packed half, `second` for the second half.
  Weights weights(std::complex<double> second) const;
  /// Returns log2 of eight standard deviations of a key switch's rounding error at a level. `rounding` returns this error at
  /// the level of the angles, relative to values.
  double deviations(std::size_t level) const;
  double rounding() const;
  /// Returns log2 of eight standard deviations of the angles' initial error, relative to q.
  double angle_noise() const;
  /// Returns compute(). Progress reports of compute() end at the fraction `end` of the bootstrap.
  template <class Compute>
  decltype(auto) until(double end, Compute&& compute) {
    return steps_.part_until(end, std::forward<Compute>(compute));
  }
  /// Returns the metadata of a result at a level, with the level's scale, and otherwise from the operand.
  CiphertextData result(std::size_t level) const;

 private:
  /// Returns the slots of a packed half.
  std::size_t half() const { return repetition_.alternating ? repetition_.period : context_.period(); }
  bool pairs() const { return !phases_ && !x_.complex() && low().tensor.items() > 1; }

  const Ciphertext x_;
  const EvaluationKeys& keys_;
  Context& context_;
  ProgressSteps steps_{1};
  Repetition repetition_;
  bool packed_;
  std::optional<Ciphertext> low_, work_;
  std::optional<RnsTensor> phases_;
};

/// Returns table[m] for phases m / p + e of a turn, p the table's size: functional_bootstrap without its first matrices.
/// `like`: metadata of the phases, whose noise is e p. Throws as functional_bootstrap.
Ciphertext functional_bootstrap(const Ciphertext& like, const RnsTensor& phases,
                                const std::vector<std::complex<double>>& table, const EvaluationKeys& keys);

}  // namespace heliograph::ckks
