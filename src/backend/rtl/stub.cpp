// Replaces the simulated card in builds without Verilator.
#include "backend/rtl/rtl.h"

namespace heliograph::backend::rtl {

std::unique_ptr<device::Device> make_device(const std::string&) {
  throw DeviceError(
      "this build has no simulated co-processor, because Verilator was missing; install it (Debian: apt-get install "
      "verilator) and "
      "build again");
}

}  // namespace heliograph::backend::rtl
