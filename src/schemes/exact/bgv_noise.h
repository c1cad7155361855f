// BGV's noise, the whole phase f m + t e, by the model: for a set at work and for a search of one. All values are log2.
#pragma once

#include "rlwe/noise.h"

namespace heliograph::bgv {

class Noise {
 public:
  Noise(std::size_t n, double log_t, rlwe::NoiseModel::Deviations deviations = {});

  /// A centred message modulo t, whatever it is: N t / 2.
  double message() const { return message_; }
  double fresh(bool public_key) const;
  /// Of rounding to a smaller modulus: t times a rounding error on each component.
  double floor(std::size_t degree) const;
  /// What one key switch adds; `plain` is the model's.
  double key_switch(double plain) const { return log_t_ + plain; }

 private:
  rlwe::NoiseModel model_;
  double log_t_, message_;
};

}  // namespace heliograph::bgv
