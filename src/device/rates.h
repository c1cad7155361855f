// What a device can do a second: what predicted times are made of. Results never depend on it.
#pragma once

namespace heliograph::device {

class Device;

/// 0 where nothing is known.
struct Rates {
  double bytes = 0;        // read and written by a copy of the size it likes best, caches included
  double butterflies = 0;  // modular products with operands in registers, as transforms have them
  double sums = 0;         // the same of products that are summed before one reduction
  double transforms = 0;   // modular products within transforms of 2^14 words from memory to memory
};

/// Measured now, by calls that are waited for: a fraction of a second. `threads`: as many as the device's ceilings are of one.
Rates measured_rates(Device& device, double threads);

}  // namespace heliograph::device
