// Which of several processes this one is, from the variables that the launcher sets.
#pragma once

#include <cstddef>
#include <optional>

namespace heliograph::mesh {

struct LaunchInfo {
  std::size_t rank = 0, ranks = 1;
  std::size_t local_rank = 0, local_ranks = 1;  // among those of this host; where unknown: of all
  bool launched = false;                        // by MPI's launcher, not by HELIOGRAPH_RANKS and HELIOGRAPH_RANK
};

/// None where this process is alone. HELIOGRAPH_RANKS goes before what mpirun (Open MPI's, or one of MPICH's kin) sets.
/// Throws ParameterError.
std::optional<LaunchInfo> own_launch_info();

/// A whole number from the environment. Throws ParameterError.
std::size_t number_in(const char* variable, std::size_t least, std::size_t most);

}  // namespace heliograph::mesh
