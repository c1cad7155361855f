// Plans of the composite kernels: every constant they need, prepared for one device.
#pragma once

#include "device/kernels.h"

namespace heliograph::device {

/// Hybrid key switching (Han, Ki, ePrint 2019/688) of a polynomial modulo the primes `chain`.
/// A digit is a run of the chain's limbs; it is raised to the chain and the special primes (none: nothing is divided).
struct KeySwitchPlan {
  std::shared_ptr<const PreparedRing> ring;
  PrimeList chain;    // limbs of the input and of the result
  PrimeList special;  // P, possibly empty
  struct Digit {
    std::size_t first, count;                         // limbs of the chain
    PrimeList others;                                 // positions in `extended` outside the digit
    std::shared_ptr<const PreparedConversion> raise;  // digit -> others, centred
  };
  std::vector<Digit> digits;
  PrimeList extended;                                  // chain, then special
  PrimeList key_limbs;                                 // where `extended` lies in a key
  std::shared_ptr<const PreparedConversion> mod_down;  // divide by P; null where there is none
};

/// BFV multiplication with auxiliary primes R: the product is held modulo Q*R and must fit there.
struct MultiplyPlan {
  std::shared_ptr<const PreparedRing> ring;
  PrimeList chain;                                  // Q
  PrimeList auxiliary;                              // R
  PrimeList extended;                               // Q, then R
  std::shared_ptr<const PreparedConversion> lift;   // Q -> R, centred
  std::shared_ptr<const PreparedConversion> scale;  // round(t/Q x): Q and R -> R
  std::shared_ptr<const PreparedConversion> lower;  // R -> Q, centred
};

}  // namespace heliograph::device
