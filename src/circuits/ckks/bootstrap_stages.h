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
  /// `packing`: if the set has few slots, one ciphertext has both halves of an item.
  BootstrapStages(const Ciphertext& x, const EvaluationKeys& keys, bool packing = false);
  /// Takes phases from elsewhere, in place of those that the values' matrices make: a tensor at the lowest level with t in
  /// its coefficients. The noise of `like`, one real item for each phase, is that of values t / q.
  BootstrapStages(const Ciphertext& like, const RnsTensor& phases, const EvaluationKeys& keys);

  Context& context() const { return context_; }
  const EvaluationKeys& keys() const { return keys_; }
  /// Returns the operand at the entry level of bootstrapping, of degree one, with items along one axis. Padding slots are
  /// zero if possible.
  const CiphertextData& low() const { return low_->data(); }
  /// Returns log2 of the noise of a value; if two items are paired, of the pair.
  rlwe::Figure noise() const { return work_->data().noise - std::log2(low().scale); }
  /// Returns the factor from a value to the lowest level's coefficients, for factor 1 in `angles`.
  double unit() const;
  /// Returns twice (t / q) / kSineRange of each value, where t = value * unit() * factor plus a multiple of q, along a
  /// new first axis: real and imaginary parts, or the first and second half of real items. If packed, one ciphertext has
  /// one half in its first slots and the other half after it. The result is at the level below the matrices.
  Ciphertext angles(double factor);
  /// Joins real halves to values in the operand's shape. Packed halves of pairs must be multiplied by share() and
  /// `weights`.
  RnsTensor joined(const Ciphertext& halves) const;
  bool packed() const { return packed_; }
  /// Returns the factor of packed halves for `joined`.
  double share() const { return packed_ && pairs() ? 0.5 : 1; }
  /// Returns weights 1 and `second` for the two packed halves.
  Weights weights(std::complex<double> second) const;
  /// Returns log2 of eight standard deviations of a key switch's rounding at a level. `rounding` returns it at the
  /// angles' level, relative to values.
  double deviations(std::size_t level) const;
  double rounding() const;
  /// Returns log2 of eight standard deviations of the angles' initial error, relative to q.
  double angle_noise() const;
  /// Returns compute(), whose progress ends at fraction `end` of the whole.
  template <class Compute>
  decltype(auto) until(double end, Compute&& compute) {
    return steps_.part_until(end, std::forward<Compute>(compute));
  }
  /// Returns the metadata of a result at a level, at its scale, from the operand.
  CiphertextData result(std::size_t level) const;

 private:
  bool pairs() const { return !phases_ && !x_.complex() && low().tensor.items() > 1; }

  const Ciphertext x_;
  const EvaluationKeys& keys_;
  Context& context_;
  ProgressSteps steps_{1};
  bool packed_;
  std::optional<Ciphertext> low_, work_;
  std::optional<RnsTensor> phases_;
};

/// Returns table[m] for phases m / p + e of a turn, p the table's size: functional_bootstrap without its first matrices.
/// `like`: metadata of the phases, whose noise is e p. Throws as functional_bootstrap.
Ciphertext functional_bootstrap(const Ciphertext& like, const RnsTensor& phases,
                                const std::vector<std::complex<double>>& table, const EvaluationKeys& keys);

}  // namespace heliograph::ckks
