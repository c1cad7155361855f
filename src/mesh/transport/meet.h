// How the ranks of a mesh find each other, and make sure that they are of one mind.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mesh/transport/wire.h"

namespace heliograph::mesh {

/// What HELIOGRAPH_RANK, HELIOGRAPH_RANKS, HELIOGRAPH_MEET ("host:port", where rank 0 listens) and HELIOGRAPH_TIMEOUT
/// (seconds, of every wait for another rank) say.
struct Rendezvous {
  std::size_t rank = 0, ranks = 1;
  std::string host, port;
  std::chrono::milliseconds limit{60000};
};
/// None where this process is alone. Throws ParameterError.
std::optional<Rendezvous> rendezvous_from_environment();

/// One member as its own rank sees it.
struct MemberCard {
  std::string name, description;
};

/// One rank.
struct Guest {
  std::string name;  // host and process
  std::vector<MemberCard> members;
  wire::Socket socket;  // to it; none to oneself
};

/// Joins all ranks, each with each. `terms` must be the same on every rank: pairs of what it is and what it says.
/// `trouble`: why this rank cannot take part; it comes all the same, so that the others need not wait.
/// Throws MismatchError on every rank where they disagree, DeviceError where one does not come or is in trouble.
/// Who can reach the port can take part, and seeds of secret keys go over these connections: for a trusted network.
std::vector<Guest> meet(const Rendezvous& meeting, const std::vector<std::pair<std::string, std::string>>& terms,
                        const std::vector<MemberCard>& members, const std::string& trouble);

}  // namespace heliograph::mesh
