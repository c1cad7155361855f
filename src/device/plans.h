// Plans of the composite kernels: all constants that they need.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "device/constants.h"
#include "device/view.h"

namespace heliograph::device {

/// One small constant for each limb.
using LimbConstants = std::array<u64, kMaxLimbs>;

/// Division, with rounding, by the product F of the primes of some limbs, in the NTT domain (rescale, mod down):
///   out_j = own_j x_i + NTT(rest(divided limbs of x))_j;   for an added limb own_j is 0 and x_i is absent
/// If `rest` and `own` come from one conversion (math/conversion.h), the result has the same bits as that conversion on
/// coefficients.
struct DividePlan : Constant {
  struct Run {
    std::size_t from, to, count;  // first limb of x, first limb at the target, number of limbs
  };
  std::shared_ptr<const RingConstant> ring;
  PrimeList primes;  // primes of the limbs of x
  PrimeList out;     // primes of the result's limbs; a prime outside `primes` belongs to an added limb (rational rescaling)
  std::vector<Run> kept;                           // limbs of x that remain in the result, in ascending order of `to`
  std::vector<Run> divided;                        // limbs of x that are divided out: the sources of `rest`
  std::shared_ptr<const ConversionConstant> rest;  // from `divided` to `out`, no own operand; null if `divided` is empty
  LimbConstants own{};                             // constants of the result's limbs

  std::size_t divisors() const;
  /// Returns whether the kept limbs are the first limbs of x and the divided limbs the last. Backends fuse only divisions
  /// whose plan is simple.
  bool simple() const;
};

/// Hybrid key switching (Han, Ki, ePrint 2019/688) of a polynomial modulo the primes `chain`. A digit is a run of the
/// chain's limbs, extended to the chain and the special primes. If there are no special primes, there is no division.
struct KeySwitchPlan : Constant {
  std::shared_ptr<const RingConstant> ring;
  PrimeList chain;    // primes of the input and of the result
  PrimeList special;  // special primes, with product P; may be empty
  struct Digit {
    std::size_t first, count;                         // the digit's limbs in the chain
    PrimeList others;                                 // positions in `extended` of the primes outside the digit
    std::shared_ptr<const ConversionConstant> raise;  // mod up, from the digit's primes to `others`, centred
    /// For PartialKeySwitch: the digit's limbs in `coefficients`.
    struct Source {
      std::size_t first, count;
    };
    std::optional<Source> source = {};
    Source raised_from() const { return source.value_or(Source{first, count}); }
  };
  std::vector<Digit> digits;
  PrimeList extended;                                  // the chain, then the special primes
  PrimeList key_limbs;                                 // limb of a key for each prime of `extended`
  std::shared_ptr<const ConversionConstant> mod_down;  // division by P; null if P is empty

  // For the NTT domain: `add` is multiplied by `weight`, which has a constant for each limb of the chain, before it is added
  // to the sum. `down` divides the sum by P, or by the product of P and the last primes of the chain.
  LimbConstants weight{};
  DividePlan down;
};

/// Returns the division at the end of a key switch; the pointer keeps the plan alive.
std::shared_ptr<const DividePlan> division_of(const std::shared_ptr<const KeySwitchPlan>& plan);

/// A sum of plaintexts times rotations, by baby steps and giant steps (device/call.h: LinearSum). The plaintext of giant
/// step g and baby step b is diagonal g + b of a matrix.
struct LinearPlan : Constant {
  /// The plan of the steps' digits and keys and of the division at the end of the sum, in the NTT domain.
  std::shared_ptr<const KeySwitchPlan> key_switch;
  std::shared_ptr<const ConversionConstant> mod_down;  // mod down, rounded, with own operand; null without special primes
  /// Automorphisms of the NTT domain. The identity is represented by null and, if present, is the first.
  std::vector<std::shared_ptr<const PermutationConstant>> babies, giants;
  struct Term {
    u32 giant, baby;
  };
  std::vector<Term> terms;  // terms in ascending order; each giant step has at least one

  static std::size_t turning(const std::vector<std::shared_ptr<const PermutationConstant>>& steps) {
    return steps.size() - (!steps.empty() && !steps[0] ? 1 : 0);
  }
};

/// BFV multiplication with auxiliary primes R. The product modulo Q*R is exact if Q*R is large enough.
struct MultiplyPlan : Constant {
  std::shared_ptr<const RingConstant> ring;
  PrimeList chain;                                  // primes of Q
  PrimeList auxiliary;                              // auxiliary primes R
  PrimeList extended;                               // the primes of Q, then R
  std::shared_ptr<const ConversionConstant> lift;   // conversion from Q to R, centred
  std::shared_ptr<const ConversionConstant> scale;  // round(t/Q x), from Q and R to R
  std::shared_ptr<const ConversionConstant> lower;  // conversion from R to Q, centred
};

// Throw ShapeError if a plan's lists contradict each other or its conversions have other primes than its lists.
void check(const DividePlan&);
void check(const KeySwitchPlan&);
void check(const LinearPlan&);
void check(const MultiplyPlan&);

}  // namespace heliograph::device
