// MPI, if it is installed: rendezvous and messages between the processes that mpirun started.
#pragma once

#include <optional>

#include "mesh/transport/launch.h"
#include "mesh/transport/link.h"

namespace heliograph::mesh::mpi {

/// Returns why MPI cannot be used: the build has none, or its library does not load. Returns an empty text if MPI can be
/// used. Call this function before the other functions.
std::string trouble();
/// Joins the processes of the launcher in `launch`. Throws DeviceError if they do not all arrive within `limit`, or if the
/// launcher belongs to another MPI than the build. The function may be called again.
void start(const LaunchInfo& launch, std::chrono::milliseconds limit);
/// Returns rank 0's text, of at most 4000 bytes, on all ranks. All ranks must call this function. Throws DeviceError after
/// `limit`.
std::string broadcast(std::string text, std::chrono::milliseconds limit);
/// Makes the link of a mesh. All ranks must call this function. Throws DeviceError.
std::unique_ptr<Link> make_link(std::size_t rank, std::size_t ranks, Link::Handlers handlers,
                                std::chrono::milliseconds limit);
/// Lets the process exit without waiting for the other ranks. Call this function after a failure.
void give_up();

}  // namespace heliograph::mesh::mpi
