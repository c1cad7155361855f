// The co-processor (rtl/) as a device: calls become descriptors, and a simulated card performs them.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace heliograph::backend::rtl {

/// `options`: "butterflies=8,lanes=8,clock=200,stalls=0,seed=1", any of them; clock in MHz, stalls of 100 handshakes of its buses.
/// Throws ParameterError for what there is not, DeviceError where this build has no simulation.
std::unique_ptr<device::Device> make_device(const std::string& options = "");

}  // namespace heliograph::backend::rtl
