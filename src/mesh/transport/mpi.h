// MPI, where it is installed: how the processes that mpirun started find each other and exchange messages.
#pragma once

#include <optional>

#include "mesh/transport/launch.h"
#include "mesh/transport/link.h"

namespace heliograph::mesh::mpi {

/// Why MPI cannot be used: the build has none, or its library does not load. Empty where it can be used. To be called before
/// the other functions.
std::string trouble();
/// Joins the processes of the launcher that gave `launch`. Throws DeviceError where they do not all come within `limit`, or
/// where the launcher is of another MPI than the build's. May be called again.
void start(const LaunchInfo& launch, std::chrono::milliseconds limit);
/// Rank 0's text, of at most 4000 bytes, on all ranks. Collective. Throws DeviceError after `limit`.
std::string broadcast(std::string text, std::chrono::milliseconds limit);
/// Collective. Throws DeviceError.
std::unique_ptr<Link> make_link(std::size_t rank, std::size_t ranks, Link::Handlers handlers,
                                std::chrono::milliseconds limit);
/// After a failure: at its end the process leaves without waiting for the other ranks.
void give_up();

}  // namespace heliograph::mesh::mpi
