// How the ranks of a mesh connect to each other and check that they run the same version with the same options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mesh/transport/launch.h"
#include "mesh/transport/wire.h"

namespace heliograph::mesh {

constexpr std::size_t kMostRanks = 64;

/// Time limits for ranks that do not answer. HELIOGRAPH_HASTE=n, for tests of these limits alone, divides each by n.
struct Waits {
  std::chrono::milliseconds ask{1000};            // between two liveness probes of a rank
  int most_questions = 6;                         // without an answer: the rank is taken for dead
  std::chrono::milliseconds nothing_moves{7000};  // of a message that has begun: a rank's threads receive all that comes
  std::chrono::milliseconds latecomers{5000};     // for ranks that arrive after a failure, to report it to them too
};
/// Throws ParameterError.
Waits waits_from_environment();

/// Where the ranks connect: to HELIOGRAPH_MEET ("host:port", where rank 0 listens), or to what rank 0 broadcasts by MPI.
struct Rendezvous {
  LaunchInfo launch;
  std::vector<std::string> hosts;  // names of rank 0's host, tried in turn
  std::string port;
  wire::Socket listener;  // rank 0's listening socket, where it is open already
  bool by_mpi = false;
  std::chrono::milliseconds arrival{60000};  // for all ranks to connect
  std::chrono::milliseconds limit{600000};   // HELIOGRAPH_TIMEOUT: of every other wait for a rank that answers probes
  Waits waits;
};
/// None in a program of one process. With MPI, all ranks call it. Throws ParameterError, DeviceError.
std::optional<Rendezvous> rendezvous_from_environment();

/// The name of this host.
std::string own_host();

/// A member (device), as its own rank describes it.
struct MemberInfo {
  std::string name, description;
};

/// One rank.
struct RankInfo {
  std::string name;  // host and process
  std::string host;
  std::vector<MemberInfo> members;
  wire::Socket socket;  // connected to it; none for this rank itself
};

/// Connects every rank to every other. `terms`, pairs of a name and a value, must be the same on every rank.
/// `trouble`: why this rank cannot take part; it connects all the same, so that the others need not wait for it.
/// Throws MismatchError on every rank where terms differ, DeviceError where a rank does not connect or has `trouble`.
/// Any process that reaches the port can take part, and decrypted values go over these connections: for a trusted network.
std::vector<RankInfo> meet(Rendezvous& meeting, const std::vector<std::pair<std::string, std::string>>& terms,
                           const std::vector<MemberInfo>& members, const std::string& trouble);

}  // namespace heliograph::mesh
