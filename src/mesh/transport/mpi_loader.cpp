// A separate module links MPI's library and is loaded at run time. So a build with MPI also works on machines where MPI is
// not installed.
#include <dlfcn.h>

#include "heliograph/errors.h"
#include "mesh/transport/mpi_module.h"

namespace heliograph::mesh::mpi {

namespace {

struct Module {
  const Calls* calls = nullptr;
  std::string trouble;
};

#ifdef HELIOGRAPH_MPI_MODULE
Module load() {
  // The name has no path: the run path contains the folder of an installed package, or of the build tree.
  void* const module = dlopen(HELIOGRAPH_MPI_MODULE, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  const auto* const calls = module ? static_cast<const Calls*>(dlsym(module, kCallsName)) : nullptr;
  if (calls) return {calls, ""};
  const char* const error = dlerror();
  return {nullptr, std::string("the MPI that it was built with cannot be loaded (on Debian: install libopenmpi3): ") +
                       (error ? error : "no reason given")};
}
#else
Module load() { return {nullptr, "this build has no MPI (on Debian: install libopenmpi-dev and build again)"}; }
#endif

const Module& module() {
  static const Module loaded = load();
  return loaded;
}

const Calls& calls() {
  if (!module().calls) throw InternalError("cannot call MPI: " + module().trouble);
  return *module().calls;
}

}  // namespace

std::string trouble() { return module().trouble; }
void start(const LaunchInfo& launch, std::chrono::milliseconds limit) { calls().start(launch, limit); }
std::string broadcast(std::string text, std::chrono::milliseconds limit) {
  return calls().broadcast(std::move(text), limit);
}
std::unique_ptr<Link> make_link(std::size_t rank, std::size_t ranks, Link::Handlers handlers,
                                std::chrono::milliseconds limit) {
  return calls().make_link(rank, ranks, std::move(handlers), limit);
}
void give_up() { calls().give_up(); }

}  // namespace heliograph::mesh::mpi
