// Which devices there are.
#include <unistd.h>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "backend/cpu/cpu.h"
#include "backend/cuda/cuda.h"
#include "backend/null/null.h"
#include "backend/ref/ref.h"
#include "device/device.h"

namespace heliograph::device {

std::unique_ptr<Device> open_device(const std::string& name) {
  if (name == "ref") return backend::ref::make_device();
  if (name == "null") return backend::null::make_device();
  if (name == "cpu") return backend::cpu::make_device("", 0);
  if (name.starts_with("cpu:") && name.size() > 4) return backend::cpu::make_device(name.substr(4), 0);
  if (name == "cuda") return backend::cuda::make_device(0);
  throw ParameterError("there is no device \"" + name +
                       "\"; there are cpu, cpu:scalar, cpu:avx2, cpu:avx512, cuda, ref and null");
}

Device& default_device() {
  static std::atomic<pid_t> owner{0};  // set before the device opens: a child of a fork never waits for the mutex
  static std::mutex mutex;
  static Device* opened = nullptr;  // never closed: buffers may outlive every static object
  pid_t expected = 0;
  if (!owner.compare_exchange_strong(expected, getpid()) && expected != getpid()) {
    throw ForkError("this process was forked after Heliograph had opened its device; start workers with spawn instead");
  }
  const std::lock_guard lock(mutex);
  if (opened == nullptr) {
    const char* name = std::getenv("HELIOGRAPH_DEVICE");
    try {
      owner = getpid();
      opened = open_device(name != nullptr && *name != '\0' ? name : backend::cuda::count() > 0 ? "cuda" : "cpu").release();
    } catch (...) {
      owner = 0;
      throw;
    }
  }
  return *opened;
}

}  // namespace heliograph::device
