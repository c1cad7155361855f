// The registered kinds of devices.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <mutex>

#include "backend/cpu/cpu.h"
#include "backend/cuda/cuda.h"
#include "backend/null/null.h"
#include "backend/ref/ref.h"
#include "backend/rtl/rtl.h"
#include "device/device.h"

namespace heliograph::device {

namespace {

/// Returns the ordinal N of "cuda:N"; 0 if there are no options.
int ordinal_of(const std::string& options) {
  int ordinal = 0;
  const char* const end = options.data() + options.size();
  const auto [stop, error] = std::from_chars(options.data(), end, ordinal);
  if (!options.empty() && (error != std::errc() || stop != end || ordinal < 0))
    throw ParameterError("\"cuda:" + options + "\" is not the name of a GPU; use cuda:0, cuda:1 and so on");
  return ordinal;
}

DeviceFactory without_options(const std::string& kind, std::unique_ptr<Device> (*make)()) {
  return [=](const std::string& options) {
    if (!options.empty()) throw ParameterError("the device " + kind + " takes no options, got \"" + options + "\"");
    return make();
  };
}

struct Registry {
  std::mutex mutex;
  std::map<std::string, DeviceFactory> factories;
};

Registry& registry() {
  static Registry all{
      .mutex = {},
      .factories = {
          {"cpu", [](const std::string& options) { return backend::cpu::make_device(options, 0); }},
          {"cuda", [](const std::string& options) { return backend::cuda::make_device(ordinal_of(options)); }},
          {"null", without_options("null", [] { return std::unique_ptr<Device>(backend::null::make_device()); })},
          {"ref", without_options("ref", [] { return backend::ref::make_device(); })},
          {"rtl", [](const std::string& options) { return backend::rtl::make_device(options); }},
      }};
  return all;
}

}  // namespace

void register_device(const std::string& kind, DeviceFactory factory) {
  const bool word = std::all_of(kind.begin(), kind.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  if (kind.empty() || !word)
    throw ParameterError("the name of a kind of device must consist of letters, digits and _, got \"" + kind + "\"");
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (!all.factories.emplace(kind, std::move(factory)).second)
    throw ParameterError("this kind of device is already registered: " + kind);
}

std::unique_ptr<Device> open_device(const std::string& name) {
  const std::size_t colon = name.find(':');
  const std::string options = colon == name.npos ? "" : name.substr(colon + 1);
  DeviceFactory factory;
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    const auto found = all.factories.find(name.substr(0, colon));
    if (found == all.factories.end() || (colon != name.npos && options.empty())) {
      std::string kinds;
      for (const auto& [kind, make] : all.factories) kinds += (kinds.empty() ? "" : ", ") + kind;
      throw ParameterError("unknown device \"" + name + "\"; use one of " + kinds +
                           ", some with options: cpu:scalar, cpu:avx2, cpu:avx512, cuda:1 and so on");
    }
    factory = found->second;
  }
  return factory(options);
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
