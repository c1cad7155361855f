// What bootstraps share: values become angles on slots at the highest levels, and what is made of the angles values again.
#pragma once

#include <optional>

#include "schemes/ckks/bootstrapping.h"
#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

/// Tells of parts of known lengths as of one whole.
class Parts {
 public:
  explicit Parts(const Progress& whole) : whole_(whole) {}
  /// The next part, which ends at `end` of the whole.
  Progress next(double end) {
    const double begin = end_;
    end_ = end;
    if (!whole_) return {};
    return [this, begin, end](double share) { whole_(begin + share * (end - begin)); };
  }

 private:
  const Progress& whole_;
  double end_ = 0;
};

/// Throws ParameterError for sets without bootstrapping, WrongKeyError, MismatchError, MissingKeyError, LevelError, and ScaleError for
/// products that were not rescaled.
void require_bootstrapping(const Ciphertext& x, const EvaluationKeys& keys);
/// A tensor without items, at a level.
Ciphertext nothing(const Ciphertext& x, std::size_t level);

class BootstrapStages {
 public:
  /// `packing`: where a set has few slots, both parts of an item are worked on in one.
  BootstrapStages(const Ciphertext& x, const EvaluationKeys& keys, const Progress& progress, bool packing = false);

  Context& context() const { return context_; }
  const EvaluationKeys& keys() const { return keys_; }
  /// The operand at the level that bootstrapping starts at, of degree one, items along one axis, with zeros behind values where
  /// they can be.
  const CiphertextData& low() const { return low_->data(); }
  /// Noise of a value, log2: of two items where they are done as one.
  rlwe::Figure noise() const { return work_->data().noise - std::log2(low().scale); }
  /// A value times this factor is how many units of the lowest level's coefficients, where the factor of `angles` is 1.
  double unit() const;
  /// Twice (t / q) / kSineRange of each value, t = value * unit() * factor and a multiple of q, along a new first axis: real and imaginary
  /// parts, or the first and the second half of real items. Packed, there is one half, whose slots have the one, then the other. At
  /// the highest level but those of the matrices.
  Ciphertext angles(double factor);
  /// Values of such halves, each real, in the operand's shape. Packed: of half so large ones for pairs, times `weights`.
  RnsTensor joined(const Ciphertext& halves) const;
  bool packed() const { return packed_; }
  /// What packed halves are times, for `joined`.
  double share() const { return packed_ && pairs() ? 0.5 : 1; }
  /// 1 and a number, for the one and the other of packed halves.
  Weights weights(std::complex<double> second) const;
  /// log2 of eight deviations of a key switch's rounding, of a level; where the angles are, in units of values.
  double deviations(std::size_t level) const;
  double rounding() const;
  /// The same of what the angles come with, in parts of q.
  double angle_noise() const;
  /// Tells of the next part, which ends at `end` of the whole.
  Progress next(double end) { return parts_.next(end); }
  /// What a result at a level, at its scale, has of the operand.
  CiphertextData result(std::size_t level) const;

 private:
  bool pairs() const { return !x_.complex() && low().tensor.items() > 1; }

  const Ciphertext x_;
  const EvaluationKeys& keys_;
  Context& context_;
  Parts parts_;
  bool packed_;
  std::optional<Ciphertext> low_, work_;
};

}  // namespace heliograph::ckks
