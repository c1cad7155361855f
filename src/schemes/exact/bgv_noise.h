// BGV's noise model. Noise is the whole phase f m + t e, as log2. Computations and the search for parameter sets use this
// noise.
#pragma once

#include "rlwe/noise.h"

namespace heliograph::bgv {

class Noise {
 public:
  Noise(std::size_t n, double log_t, rlwe::NoiseModel::Deviations deviations = {});

  /// Returns a bound on any centred message modulo t: N t / 2.
  double message() const { return message_; }
  double fresh(bool public_key) const;
  /// Returns the noise of the rounding in a modulus switch: t times a rounding error in each component.
  double floor(std::size_t degree) const;
  /// Returns the noise that one key switch adds; `plain`: the model's bound without the factor t.
  double key_switch(double plain) const { return log_t_ + plain; }

 private:
  rlwe::NoiseModel model_;
  double log_t_, message_;
};

}  // namespace heliograph::bgv
