// Which of several processes this one is, as whatever started them says.
#pragma once

#include <cstddef>
#include <optional>

namespace heliograph::mesh {

struct Seat {
  std::size_t rank = 0, ranks = 1;
  std::size_t local_rank = 0, local_ranks = 1;  // among those of this host; where nobody says: of all
  bool launched = false;                        // by an MPI's launcher, not by HELIOGRAPH_RANKS and HELIOGRAPH_RANK
};

/// None where this process is alone. HELIOGRAPH_RANKS goes before what mpirun (Open MPI's, or one of MPICH's kin) sets.
/// Throws ParameterError.
std::optional<Seat> own_seat();

/// A whole number from the environment. Throws ParameterError.
std::size_t number_in(const char* variable, std::size_t least, std::size_t most);

}  // namespace heliograph::mesh
