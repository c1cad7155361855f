// Measured rates of a device, for predictions of time. The results of calls never depend on the rates.
#pragma once

namespace heliograph::device {

class Device;

/// Rates of a device in operations per second; 0 if unknown.
struct Rates {
  double bytes = 0;        // bytes read and written by copies, at the fastest size (also within caches)
  double butterflies = 0;  // modular products with operands in registers, as in transforms
  double sums = 0;         // modular products that are added before one reduction
  double transforms = 0;   // modular products of transforms of 2^14 words, from memory to memory
};

/// Measures the rates by calls and waits, in a fraction of a second. `threads`: the device's number of threads if
/// product_ceiling() and sum_ceiling() are for one thread, else 1.
Rates measured_rates(Device& device, double threads);

}  // namespace heliograph::device
