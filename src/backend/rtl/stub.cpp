// A build without Verilator has no card.
#include "backend/rtl/rtl.h"

namespace heliograph::backend::rtl {

std::unique_ptr<device::Device> make_device(const std::string&) {
  throw DeviceError(
      "this build has no simulated co-processor: there was no Verilator when it was made (Debian: apt-get install "
      "verilator, then "
      "build again)");
}

}  // namespace heliograph::backend::rtl
