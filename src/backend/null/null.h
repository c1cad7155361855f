// The null backend: address space without memory, kernels that compute nothing and count. What it counts is the floor of
// a program: each operand of a kernel read or written once, and the products modulo a prime that the kernel is made of
// (TFHE's products: null/tfhe.h).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "device/device.h"

namespace heliograph::backend::null {

using device::Count;

class NullDevice : public device::Device, public device::Counter {};

/// `preferred_items`: how many items composites are told to hold at a time; more reads keys less often, and allocates more.
std::unique_ptr<NullDevice> make_device(std::size_t preferred_items = 64);

}  // namespace heliograph::backend::null
