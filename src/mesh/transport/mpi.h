// MPI, where it is: how the processes that mpirun started find each other, and carry words.
#pragma once

#include <optional>

#include "mesh/transport/link.h"
#include "mesh/transport/seat.h"

namespace heliograph::mesh::mpi {

/// Why MPI cannot be used: the build has none, or its library does not load. Empty where it can; the others ask first.
std::string trouble();
/// Joins the processes of the launcher that gave `seat`. Throws DeviceError where they do not all come within `limit`, or
/// where the launcher is of another MPI than the build's. May be called again.
void start(const Seat& seat, std::chrono::milliseconds limit);
/// Rank 0's text on all ranks, of at most 4000 bytes. All call it in one order. DeviceError after `limit`.
std::string told(std::string text, std::chrono::milliseconds limit);
/// All ranks make it at once. Throws DeviceError.
std::unique_ptr<Link> make_link(std::size_t rank, std::size_t ranks, Link::Ear ear, std::chrono::milliseconds limit);
/// The ranks are not of one mind any more: at its end the process leaves without waiting for the others.
void give_up();

}  // namespace heliograph::mesh::mpi
