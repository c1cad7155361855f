// The processor's cores: AVX-512 IFMA, AVX2 or plain code chosen at run time, threads over items and limbs.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace heliograph::backend::cpu {

/// `set`: "scalar", "avx2", "avx512", or "" for HELIOGRAPH_CPU or else the best this processor has.
/// `threads`: 0 for HELIOGRAPH_THREADS or else the cores this process may use. Throws ParameterError.
std::unique_ptr<device::Device> make_device(const std::string& set = "", int threads = 0);

/// For tests: the k-th allocation from now on fails (1: the next one; 0: none) on a device made here.
void fail_allocation(device::Device& device, std::size_t k);

}  // namespace heliograph::backend::cpu
