// Plans of the composite kernels: every constant they need.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "device/constants.h"
#include "device/view.h"

namespace heliograph::device {

/// One small constant for each limb.
using LimbConstants = std::array<u64, kMaxLimbs>;

/// Division in the NTT domain by the product F of some limbs' primes, rounded (rescaling, mod down):
///   out_j = own_j x_i + NTT(rest(divided limbs of x))_j     own_j is 0, and there is no x_i, for a limb that is added
/// With `rest` and `own` from one conversion (math/conversion.h) these are that conversion's bits on coefficients.
struct DividePlan : Constant {
  struct Run {
    std::size_t from, to, count;  // limbs
  };
  std::shared_ptr<const RingConstant> ring;
  PrimeList primes;          // limbs of x
  PrimeList out;             // limbs of the result; what is not in `primes` is added (rational rescaling)
  std::vector<Run> kept;     // from x to the result, ascending there
  std::vector<Run> divided;  // from x to the conversion's sources
  std::shared_ptr<const ConversionConstant> rest;  // divided -> out, no own operand; null where nothing is divided by
  LimbConstants own{};                             // one for each limb of the result

  std::size_t divisors() const;
  /// x's first limbs are the result's and its last are divided by: what backends fuse.
  bool simple() const;
};

/// Hybrid key switching (Han, Ki, ePrint 2019/688) of a polynomial modulo the primes `chain`.
/// A digit is a run of the chain's limbs; it is raised to the chain and the special primes (none: nothing is divided).
struct KeySwitchPlan : Constant {
  std::shared_ptr<const RingConstant> ring;
  PrimeList chain;    // limbs of the input and of the result
  PrimeList special;  // P, possibly empty
  struct Digit {
    std::size_t first, count;                         // limbs of the chain
    PrimeList others;                                 // positions in `extended` outside the digit
    std::shared_ptr<const ConversionConstant> raise;  // digit -> others, centred
  };
  std::vector<Digit> digits;
  PrimeList extended;                                  // chain, then special
  PrimeList key_limbs;                                 // where `extended` lies in a key
  std::shared_ptr<const ConversionConstant> mod_down;  // divide by P; null where there is none

  // In the NTT domain: what is added is first multiplied by `weight`, limb by limb of the chain, and `down` divides the sum,
  // by P or by P and the chain's last primes at once.
  LimbConstants weight{};
  DividePlan down;
};

/// The division at a key switch's end, which lives as long as its plan.
std::shared_ptr<const DividePlan> division_of(const std::shared_ptr<const KeySwitchPlan>& plan);

/// A sum of plaintexts times rotations by baby and giant steps (device/call.h: LinearSum). Diagonal g + b of a matrix is the
/// plaintext of giant step g and baby step b.
struct LinearPlan : Constant {
  /// In the NTT domain: its digits and keys are those of every step, its division is the one at the end.
  std::shared_ptr<const KeySwitchPlan> key_switch;
  std::shared_ptr<const ConversionConstant> mod_down;  // by P, rounded, with own; null where there are no special primes
  /// Automorphisms of the NTT domain; null, which turns nothing, is the first if it is there at all.
  std::vector<std::shared_ptr<const PermutationConstant>> babies, giants;
  struct Term {
    u32 giant, baby;
  };
  std::vector<Term> terms;  // ascending, each giant step in at least one

  /// Steps that turn.
  static std::size_t turning(const std::vector<std::shared_ptr<const PermutationConstant>>& steps) {
    return steps.size() - (!steps.empty() && !steps[0] ? 1 : 0);
  }
};

/// BFV multiplication with auxiliary primes R: the product is held modulo Q*R and must fit there.
struct MultiplyPlan : Constant {
  std::shared_ptr<const RingConstant> ring;
  PrimeList chain;                                  // Q
  PrimeList auxiliary;                              // R
  PrimeList extended;                               // Q, then R
  std::shared_ptr<const ConversionConstant> lift;   // Q -> R, centred
  std::shared_ptr<const ConversionConstant> scale;  // round(t/Q x): Q and R -> R
  std::shared_ptr<const ConversionConstant> lower;  // R -> Q, centred
};

// Throw ShapeError where a plan's lists do not fit each other, or its conversions are not between its primes.
void check(const DividePlan&);
void check(const KeySwitchPlan&);
void check(const LinearPlan&);
void check(const MultiplyPlan&);

}  // namespace heliograph::device
