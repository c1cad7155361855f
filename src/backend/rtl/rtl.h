// The co-processor (rtl/) as a device: calls become descriptors, which a simulated card performs.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace heliograph::backend::rtl {

/// `options`: any of "butterflies=8,lanes=8,clock=200,stalls=0,seed=1"; clock in MHz, stalls in percent of bus handshakes.
/// Throws ParameterError for unknown options; DeviceError if this build has no simulation.
std::unique_ptr<device::Device> make_device(const std::string& options = "");

}  // namespace heliograph::backend::rtl
