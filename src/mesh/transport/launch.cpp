#include "mesh/transport/launch.h"

#include <charconv>
#include <cstdlib>
#include <string>

#include "heliograph/errors.h"
#include "mesh/transport/meet.h"

namespace heliograph::mesh {

namespace {

bool is_set(const char* variable) {
  const char* const given = std::getenv(variable);
  return given != nullptr && *given != '\0';
}

/// A launcher's variables: rank, number of ranks, and both within one host.
struct Names {
  const char *rank, *ranks, *local_rank, *local_ranks;
};
constexpr Names kLaunchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};

LaunchInfo launch_named(const Names& n, std::size_t most) {
  LaunchInfo s;
  s.ranks = number_in(n.ranks, 1, most);
  s.rank = number_in(n.rank, 0, s.ranks - 1);
  s.local_rank = s.rank, s.local_ranks = s.ranks;
  if (n.local_rank != nullptr && is_set(n.local_rank) && is_set(n.local_ranks)) {
    s.local_ranks = number_in(n.local_ranks, 1, s.ranks);
    s.local_rank = number_in(n.local_rank, 0, s.local_ranks - 1);
  }
  return s;
}

}  // namespace

std::size_t number_in(const char* variable, std::size_t least, std::size_t most) {
  const char* const given = std::getenv(variable);
  const std::string text = given != nullptr ? given : "";
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw ParameterError(std::string(variable) + " is \"" + text + "\"; it must be a number from " + std::to_string(least) +
                         " to " + std::to_string(most));
  }
  return value;
}

std::optional<LaunchInfo> own_launch_info() {
  std::optional<LaunchInfo> launch;
  if (is_set("HELIOGRAPH_RANKS")) {
    launch = launch_named({"HELIOGRAPH_RANK", "HELIOGRAPH_RANKS", nullptr, nullptr}, kMostRanks);
  } else {
    for (const Names& n : kLaunchers) {
      if (launch || !is_set(n.rank) || !is_set(n.ranks)) continue;
      launch = launch_named(n, kMostRanks);
      launch->launched = true;
    }
  }
  if (launch && launch->ranks == 1) launch.reset();
  return launch;
}

}  // namespace heliograph::mesh
