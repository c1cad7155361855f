// Which devices there are.
#include <charconv>

#include "backend/cpu/cpu.h"
#include "backend/cuda/cuda.h"
#include "backend/null/null.h"
#include "backend/ref/ref.h"
#include "backend/rtl/rtl.h"
#include "device/device.h"

namespace heliograph::device {

namespace {

/// N of "cuda:N".
int ordinal_of(const std::string& name) {
  constexpr std::size_t kBefore = 5;
  int ordinal = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kBefore, end, ordinal);
  if (error != std::errc() || stop != end || ordinal < 0)
    throw ParameterError("\"" + name + "\" does not name a GPU: they are cuda:0, cuda:1 and so on");
  return ordinal;
}

}  // namespace

std::unique_ptr<Device> open_device(const std::string& name) {
  if (name == "ref") return backend::ref::make_device();
  if (name == "null") return backend::null::make_device();
  if (name == "cpu") return backend::cpu::make_device("", 0);
  if (name.starts_with("cpu:") && name.size() > 4) return backend::cpu::make_device(name.substr(4), 0);
  if (name == "cuda") return backend::cuda::make_device(0);
  if (name.starts_with("cuda:")) return backend::cuda::make_device(ordinal_of(name));
  if (name == "rtl") return backend::rtl::make_device();
  if (name.starts_with("rtl:") && name.size() > 4) return backend::rtl::make_device(name.substr(4));
  throw ParameterError("there is no device \"" + name +
                       "\"; there are cpu, cpu:scalar, cpu:avx2, cpu:avx512, cuda, cuda:1 and so on, rtl, ref and null");
}

std::vector<std::string> found_devices() {
  std::vector<std::string> names;
  for (int i = 0, count = backend::cuda::count(); i < count; ++i) {
    if (backend::cuda::is_usable(i)) names.push_back("cuda:" + std::to_string(i));
  }
  if (names.empty()) names.push_back("cpu");
  return names;
}

}  // namespace heliograph::device
