// The CUDA backend is a separate module, loaded when the engine searches for devices. The engine runs without the module,
// and the two are installed separately.
#include <dlfcn.h>

#include <cstring>

#include "backend/cuda/module.h"

namespace heliograph::backend::cuda {

namespace {

struct Module {
  const Calls* calls = nullptr;
  std::string trouble;
};

Module load() {
  // The name has no path: the run path finds the module beside an installed package, or in the build tree.
  void* const module = dlopen(kModuleName, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  const auto* const calls = module ? static_cast<const Calls*>(dlsym(module, kCallsName)) : nullptr;
  if (!calls) {
    const char* const error = dlerror();
    const std::string reason = error ? error : "no reason given";
    if (reason.starts_with(std::string(kModuleName) + ": cannot open shared object file"))
      return {nullptr,
              "the CUDA backend is not installed: pip install heliograph[cuda13], or build with it "
              "(docs/gpu.md)"};
    return {nullptr, "the CUDA backend cannot be loaded: " + reason};
  }
  if (std::strcmp(calls->engine, kEngine) != 0)
    return {nullptr, std::string("the installed CUDA backend belongs to another version of Heliograph, ") + calls->engine +
                         ", and this is " + kEngine + ": install both in one version"};
  calls->begin(process_state());
  return {calls, ""};
}

const Module& module() {
  static const Module loaded = load();
  return loaded;
}

const Calls& calls() {
  if (!module().calls) throw ParameterError(module().trouble);
  return *module().calls;
}

}  // namespace

bool is_built() { return module().calls != nullptr; }

int count(std::string* reason) {
  if (is_built()) return module().calls->count(reason);
  if (reason) *reason = module().trouble;
  return 0;
}

bool is_usable(int ordinal) { return is_built() && module().calls->is_usable(ordinal); }

std::unique_ptr<device::Device> make_device(int ordinal) { return calls().make_device(ordinal); }
std::unique_ptr<device::Device> make_device(std::shared_ptr<Driver> driver) {
  return calls().make_device_on(std::move(driver));
}

}  // namespace heliograph::backend::cuda
