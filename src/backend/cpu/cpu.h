// The CPU backend: AVX-512 IFMA, AVX2 or scalar code selected at run time; threads over items and limbs.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace heliograph::backend::cpu {

/// Makes a CPU device. `set` is "scalar", "avx2" or "avx512"; "" means the value of HELIOGRAPH_CPU, or else the best set of
/// this processor. `threads`: 0 means the value of HELIOGRAPH_THREADS, or else the number of cores this process may use.
/// Throws ParameterError.
std::unique_ptr<device::Device> make_device(const std::string& set = "", int threads = 0);

/// For tests: makes the k-th later allocation on `device` fail (1: the next one; 0: none).
void fail_allocation(device::Device& device, std::size_t k);

}  // namespace heliograph::backend::cpu
