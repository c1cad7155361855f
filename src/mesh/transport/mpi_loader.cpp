// MPI lies in a module of its own, which alone links its library: what was built where there is MPI works where there is none.
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
  // By its name: an installed package has it beside itself, a program of the build tree where it was built (the run paths say).
  void* const module = dlopen(HELIOGRAPH_MPI_MODULE, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  const auto* const calls = module ? static_cast<const Calls*>(dlsym(module, kCallsName)) : nullptr;
  if (calls) return {calls, ""};
  const char* const said = dlerror();
  return {nullptr, std::string("the MPI that it was built with cannot be loaded (on Debian: install libopenmpi3): ") +
                       (said ? said : "no reason given")};
}
#else
Module load() { return {nullptr, "this build has no MPI (on Debian: install libopenmpi-dev and build again)"}; }
#endif

const Module& module() {
  static const Module loaded = load();
  return loaded;
}

const Calls& calls() {
  if (!module().calls) throw InternalError("MPI is used where it is not: " + module().trouble);
  return *module().calls;
}

}  // namespace

std::string trouble() { return module().trouble; }
void start(const Seat& seat, std::chrono::milliseconds limit) { calls().start(seat, limit); }
std::string told(std::string text, std::chrono::milliseconds limit) { return calls().told(std::move(text), limit); }
std::unique_ptr<Link> make_link(std::size_t rank, std::size_t ranks, Link::Ear ear, std::chrono::milliseconds limit) {
  return calls().make_link(rank, ranks, std::move(ear), limit);
}
void give_up() { calls().give_up(); }

}  // namespace heliograph::mesh::mpi
