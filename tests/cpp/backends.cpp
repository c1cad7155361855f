// Opens devices by name and prints how many slots and forms of constants they use, or the error.
#include <cstdio>

#include "base/process_state.h"
#include "device/device.h"

int main(int count, char** names) {
  using namespace heliograph;
  std::vector<std::unique_ptr<device::Device>> devices;
  for (int i = 1; i < count; ++i) {
    try {
      devices.push_back(device::open_device(names[i]));
      std::printf("%s: %s\n", names[i], devices.back()->name().c_str());
    } catch (const Error& error) {
      std::printf("%s: %s\n", names[i], error.what());
    }
  }
  std::printf("opened %d devices\n", static_cast<int>(process_state().slots_made));
}
