// How the ranks of a mesh find each other, and make sure that they are of one mind.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mesh/transport/seat.h"
#include "mesh/transport/wire.h"

namespace heliograph::mesh {

constexpr std::size_t kMostRanks = 64;

/// How long a rank waits for what may never come. HELIOGRAPH_HASTE=n, for tests of silence alone, divides each by n.
struct Waits {
  std::chrono::milliseconds ask{1000};            // between two questions whether a rank is alive
  int most_questions = 6;                         // without an answer
  std::chrono::milliseconds nothing_moves{7000};  // at a rank's end: its threads take in all that comes
  std::chrono::milliseconds latecomers{5000};     // who are still told why nothing comes of a meeting
};
/// Throws ParameterError.
Waits waits_from_environment();

/// Where and how the ranks meet: at HELIOGRAPH_MEET ("host:port", where rank 0 listens), or where rank 0 tells by MPI.
struct Rendezvous {
  Seat seat;
  std::vector<std::string> hosts;  // names of one, tried in turn
  std::string port;
  wire::Socket door;  // of rank 0, where it listens already
  bool by_mpi = false;
  std::chrono::milliseconds arrival{60000};  // how long all may take to come
  std::chrono::milliseconds limit{600000};   // HELIOGRAPH_TIMEOUT: of every other wait for a rank that is alive
  Waits waits;
};
/// None where this process is alone. With MPI, all ranks call it. Throws ParameterError, DeviceError.
std::optional<Rendezvous> rendezvous_from_environment();

/// The name of this host.
std::string own_host();

/// One member as its own rank sees it.
struct MemberCard {
  std::string name, description;
};

/// One rank.
struct Guest {
  std::string name;  // host and process
  std::string host;
  std::vector<MemberCard> members;
  wire::Socket socket;  // to it; none to oneself
};

/// Joins all ranks, each with each. `terms` must be the same on every rank: pairs of what it is and what it says.
/// `trouble`: why this rank cannot take part; it comes all the same, so that the others need not wait.
/// Throws MismatchError on every rank where they disagree, DeviceError where one does not come or is in trouble.
/// Who can reach the port can take part, and what is decrypted goes over these connections: for a trusted network.
std::vector<Guest> meet(Rendezvous& meeting, const std::vector<std::pair<std::string, std::string>>& terms,
                        const std::vector<MemberCard>& members, const std::string& trouble);

}  // namespace heliograph::mesh
