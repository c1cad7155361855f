// Composition of rotations from those that have keys, with the fewest key switches.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ring/tensor.h"

namespace heliograph::rlwe {

/// Composes rotations: finds, for every step modulo the period, the fewest steps of a set whose sum is that step.
/// A breadth-first search from 0 over the cyclic group finds all of them; level i has the steps that need i key switches. A
/// short level is a list; a long level is a bit set that is rotated by each step of the set. With k steps there are at most
/// 2 period / k levels (Kneser's theorem). So a search takes at most period^2 / 32 word operations for any set: 2^27 for the
/// largest ring.
class Compositions {
 public:
  /// `steps` are any integers; multiples of the period are ignored. The period is a power of two of at most 2^16.
  Compositions(std::span<const std::int64_t> steps, std::size_t period);

  std::size_t period() const { return fewest_.size(); }
  /// Returns the number of key switches that a step needs, 0 for a multiple of the period; nullopt if the set cannot compose
  /// it.
  std::optional<std::size_t> switches(std::int64_t step) const;
  /// Returns the steps that compose `step`, in order of application. The steps without the last step are the composition of
  /// their sum. Among possible last steps the lowest is taken. Returns nullopt if the set cannot compose the step.
  std::optional<std::vector<std::int64_t>> of(std::int64_t step) const;
  /// Returns the step that, added to the set, minimizes the total number of key switches of `wanted`. Candidates are the
  /// greatest common divisor of all wanted steps, and the first few of these steps.
  std::int64_t cheapest(std::span<const std::int64_t> wanted) const;
  /// The set composes the multiples of `divisor`, each with at most `most` key switches. For an empty set the divisor is the
  /// period.
  struct Reach {
    std::size_t divisor, most;
  };
  Reach reach() const;
  /// Returns the number of steps of the search: rotations, or words of 64 rotations, that were combined with a step.
  std::size_t searched() const { return searched_; }

 private:
  std::size_t reduced(std::int64_t step) const;
  void search();

  std::vector<std::uint32_t> steps_;   // the set's steps, ascending, without 0
  std::vector<std::uint16_t> fewest_;  // key switches of each step; 0: not composable (except step 0)
  std::size_t searched_ = 0;
};

/// A plan that computes rotations of one tensor from each other. Tensor 0 is the operand.
struct RotationPlan {
  struct Group {  // rotations of one tensor from one decomposition
    std::size_t from;
    std::vector<std::int64_t> steps;  // steps that have keys
    std::vector<std::size_t> to;
  };
  std::vector<Group> groups;         // groups in an order that computes `from` before its use
  std::vector<std::size_t> results;  // number of the tensor with the result of each requested step
  std::size_t tensors = 1;
  std::size_t switches = 0;  // number of key switches of the longest composition

  /// Plans one composition for each requested step. Common first steps are computed once.
  RotationPlan(const std::vector<std::vector<std::int64_t>>& compositions, std::size_t period);
};

/// Rotates a tensor by several steps; the tensor is decomposed once.
using RotateBy = std::function<void(const ring::RnsTensor& from, const std::vector<std::int64_t>& steps,
                                    const std::vector<ring::RnsTensor>& to)>;

void rotate(const RotationPlan& plan, const ring::RnsTensor& x, const std::vector<ring::RnsTensor>& out,
            const RotateBy& rotate_by);

}  // namespace heliograph::rlwe
