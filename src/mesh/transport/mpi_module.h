// Interface between the engine and its MPI module (mpi_loader.cpp, mpi.cpp).
#pragma once

#include "mesh/transport/mpi.h"

namespace heliograph::mesh::mpi {

/// The module's functions, as declared in mpi.h.
struct Calls {
  void (*start)(const LaunchInfo& launch, std::chrono::milliseconds limit);
  std::string (*broadcast)(std::string text, std::chrono::milliseconds limit);
  std::unique_ptr<Link> (*make_link)(std::size_t rank, std::size_t ranks, Link::Handlers handlers,
                                     std::chrono::milliseconds limit);
  void (*give_up)();
};
/// Symbol of these functions in the module.
inline constexpr const char* kCallsName = "heliograph_mpi_calls";

}  // namespace heliograph::mesh::mpi
