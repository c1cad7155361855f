// Rendezvous: connects the ranks of a mesh and checks that they run the same version with the same options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mesh/transport/launch.h"
#include "mesh/transport/tcp.h"

namespace heliograph::mesh {

constexpr std::size_t kMostRanks = 64;

/// Time limits for ranks that do not respond. HELIOGRAPH_HASTE=n divides each limit by n; only tests of these limits set
/// it.
struct TimeLimits {
  std::chrono::milliseconds probe_interval{1000};  // interval between two probes of a rank
  int max_probes = 6;                              // number of unanswered probes after which a rank is presumed dead
  // time without a byte after which the transfer of a started message has failed
  std::chrono::milliseconds stall_limit{7000};
  std::chrono::milliseconds late_arrivals{5000};  // time during which a failure is reported to late ranks
};
/// Throws ParameterError.
TimeLimits time_limits_from_environment();

/// The address at which ranks connect: HELIOGRAPH_MEET ("host:port" at which rank 0 listens), or an address that rank 0
/// broadcasts by MPI.
struct Rendezvous {
  LaunchInfo launch;
  std::vector<std::string> hosts;  // names of rank 0's host, tried in order
  std::string port;
  tcp::Socket listener;  // rank 0's listening socket, if it is already open
  bool by_mpi = false;
  std::chrono::milliseconds arrival{60000};  // time limit for all ranks to connect
  std::chrono::milliseconds limit{600000};   // HELIOGRAPH_TIMEOUT: time limit of other waits for a rank that answers probes
  TimeLimits limits;
};
/// Returns the rendezvous; nullopt in a program of one process. With MPI, all ranks must call this function. Throws
/// ParameterError, DeviceError.
std::optional<Rendezvous> rendezvous_from_environment();

std::string own_host();

/// A member (device), as its own rank describes it.
struct MemberInfo {
  std::string name, description;
};

struct RankInfo {
  std::string name;  // name of the host and number of the process
  std::string host;
  std::vector<MemberInfo> members;
  tcp::Socket socket;  // connection to the rank; closed for this rank itself
};

/// Connects every rank to every other. `terms`, pairs of a name and a value, must be equal on every rank. `trouble`:
/// reason why this rank cannot take part. A rank with such a reason connects nevertheless, so that the other ranks do not
/// wait for it. Throws MismatchError on every rank if terms differ, DeviceError if a rank does not connect or has `trouble`.
/// Connections are unauthenticated and carry decrypted values: use a trusted network only.
std::vector<RankInfo> meet(Rendezvous& meeting, const std::vector<std::pair<std::string, std::string>>& terms,
                           const std::vector<MemberInfo>& members, const std::string& trouble);

}  // namespace heliograph::mesh
