// Rotations composed of those that there are keys for: the fewest key switches for every step.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ring/tensor.h"

namespace heliograph::rlwe {

/// For every step modulo the period: the fewest steps of a set whose sum it is.
///
/// One breadth-first search from 0 over the cyclic group finds them all: a level for each key switch. A level of few steps is a
/// list, another a set of bits that is turned by each step of the set. With k steps there are at most 2 period / k levels (Kneser's
/// theorem), so a search takes at most period^2 / 32 operations on words, for any set: 2^27 at the largest ring.
class Compositions {
 public:
  /// `steps` of any sign and size; those that are 0 modulo the period are left out. The period is a power of two, 2^16 at most.
  Compositions(std::span<const std::int64_t> steps, std::size_t period);

  std::size_t period() const { return fewest_.size(); }
  /// The fewest steps that make this one, 0 for a multiple of the period; nullopt: none do.
  std::optional<std::size_t> switches(std::int64_t step) const;
  /// Those steps in the order in which they are applied; what comes before the last one is the composition of their sum. Of several
  /// last steps it takes the lowest. nullopt: none.
  std::optional<std::vector<std::int64_t>> of(std::int64_t step) const;
  /// The one step that, added to the set, makes all of these in the fewest key switches together: tried are the step that divides them
  /// all, and the first few of them.
  std::int64_t cheapest(std::span<const std::int64_t> wanted) const;
  /// The set composes the multiples of `divisor`, each of `most` steps at most. Without steps the divisor is the period.
  struct Reach {
    std::size_t divisor, most;
  };
  Reach reach() const;

 private:
  std::size_t reduced(std::int64_t step) const;
  void search();

  std::vector<std::uint32_t> steps_;   // ascending, none 0
  std::vector<std::uint16_t> fewest_;  // by step; 0: none, but of step 0
};

/// How rotations of one tensor are computed from each other. Tensor 0 is the operand.
struct RotationPlan {
  struct Group {  // rotations of one tensor, from one decomposition
    std::size_t from;
    std::vector<std::int64_t> steps;  // there are keys for
    std::vector<std::size_t> to;
  };
  std::vector<Group> groups;         // each after the one that makes its `from`
  std::vector<std::size_t> results;  // the tensor of each step asked for
  std::size_t tensors = 1;
  std::size_t switches = 0;  // the most in a row

  /// Of compositions, one for each step; sums that several begin with are computed once.
  RotationPlan(const std::vector<std::vector<std::int64_t>>& compositions, std::size_t period);
};

/// Rotates a tensor by some steps, from one decomposition, into other tensors.
using RotateBy = std::function<void(const ring::RnsTensor& from, const std::vector<std::int64_t>& steps,
                                    const std::vector<ring::RnsTensor>& to, const ring::Progress& progress)>;

/// Writes the rotations of `x` to `out`, one for each of the plan's results.
void rotate(const RotationPlan& plan, const ring::RnsTensor& x, const std::vector<ring::RnsTensor>& out,
            const RotateBy& rotate_by, const ring::Progress& progress);

}  // namespace heliograph::rlwe
