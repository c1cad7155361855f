// The rank of this process, from the launcher's environment variables.
#pragma once

#include <cstddef>
#include <optional>

namespace heliograph::mesh {

struct LaunchInfo {
  std::size_t rank = 0, ranks = 1;
  std::size_t local_rank = 0, local_ranks = 1;  // rank and number of ranks on this host; if unknown: among all hosts
  bool launched = false;                        // an MPI launcher set the ranks, not HELIOGRAPH_RANKS and HELIOGRAPH_RANK
};

/// Returns the rank of this process; nullopt in a program of one process. HELIOGRAPH_RANKS takes precedence over the
/// variables of mpirun (Open MPI, or MPICH and its derivatives). Throws ParameterError.
std::optional<LaunchInfo> own_launch_info();

/// Returns a whole number from the environment. Throws ParameterError.
std::size_t number_in(const char* variable, std::size_t least, std::size_t most);

}  // namespace heliograph::mesh
