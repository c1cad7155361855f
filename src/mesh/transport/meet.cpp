#include "mesh/transport/meet.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "io/json.h"
#include "math/sampler.h"
#include "mesh/transport/mpi.h"

namespace heliograph::mesh {

std::string own_host() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return host;
}

namespace {

using io::Json;
using std::chrono::milliseconds;
using tcp::Clock;
using tcp::Socket;

constexpr const char* kGreeting = "heliograph ranks";
constexpr milliseconds kHello{5000};         // time limit for the first message of a connection
constexpr milliseconds kRetry{50};           // interval between attempts to connect
constexpr milliseconds kOneOfSeveral{2000};  // time limit per address, if there are several addresses

using Terms = std::vector<std::pair<std::string, std::string>>;

std::string own_name() { return own_host() + ", process " + std::to_string(getpid()); }

std::string named(std::size_t rank, const std::string& name) { return "rank " + std::to_string(rank) + " (" + name + ")"; }

std::string place_of(const Rendezvous& m) { return m.hosts.front() + ":" + m.port; }

std::string seconds(milliseconds t) { return std::to_string((t.count() + 999) / 1000) + " s"; }

Json to_json(const Rendezvous& m, const Terms& terms, const std::vector<MemberInfo>& members, const std::string& trouble) {
  Json equal_terms = Json::object(), infos = Json::array();
  for (const auto& [what, value] : terms) equal_terms[what] = value;
  for (const MemberInfo& c : members) {
    infos.push_back(Json::object({{"name", c.name}, {"description", c.description}}));
  }
  return Json::object({{"greeting", kGreeting},
                       {"rank", m.launch.rank},
                       {"ranks", m.launch.ranks},
                       {"name", own_name()},
                       {"host", own_host()},
                       {"terms", equal_terms},
                       {"members", infos},
                       {"trouble", trouble}});
}

std::vector<MemberInfo> members_of(const Json& hello) {
  std::vector<MemberInfo> infos;
  for (const Json& c : hello.array_at("members", kMostRanks)) {
    infos.push_back({.name = c.string_at("name", 256), .description = c.string_at("description", 4096)});
  }
  return infos;
}

RankInfo rank_info_of(const Json& info, Socket socket) {
  return {.name = info.string_at("name", 512),
          .host = info.string_at("host", 256),
          .members = members_of(info),
          .socket = std::move(socket)};
}

struct Arrival {
  std::size_t rank;
  Json hello;
  Socket socket;
  std::string name() const { return named(rank, hello.string_at("name", 512)); }
};

/// Parses the first message of a connection. Returns nullopt if no rank sent the message.
std::optional<Arrival> parse_arrival(const std::string& message, Socket socket) {
  try {
    Json hello = Json::parse(message);
    if (hello.string_at("greeting", 64) != kGreeting) return {};
    const std::size_t rank = hello.unsigned_at("rank", kMostRanks);
    hello.unsigned_at("ranks", kMostRanks), hello.string_at("name", 512), hello.string_at("host", 256),
        hello.string_at("trouble", 4096);
    hello.object_at("terms"), members_of(hello);
    return Arrival{.rank = rank, .hello = std::move(hello), .socket = std::move(socket)};
  } catch (const Error&) {
    return {};
  }
}

/// Describes the first term that differs from rank 0's; empty if all terms are equal.
std::string difference(const Json& host, const Arrival& a) {
  const auto mine = host.at("terms").as_object("terms"), theirs = a.hello.at("terms").as_object("terms");
  for (const auto& [what, value] : mine) {
    const auto found = theirs.find(what);
    const std::string theirs_value = found == theirs.end() ? "" : found->second.as_string(what, 4096);
    if (theirs_value != value.as_string(what, 4096))
      return a.name() + " has the " + what + " \"" + theirs_value + "\", rank 0 \"" + value.as_string(what, 4096) + "\"";
  }
  return mine.size() == theirs.size() ? "" : a.name() + " has more terms than rank 0";
}

struct Refusal {
  std::string text;
  bool mismatch = false;  // true: terms differ; false: a device failed or a connection was lost
};

Refusal objection(const Rendezvous& m, const Json& host, const std::vector<Arrival>& arrivals) {
  for (const Arrival& a : arrivals) {
    if (const std::string& trouble = a.hello.string_at("trouble", 4096); !trouble.empty())
      return {a.name() + " cannot take part: " + trouble, false};
  }
  std::vector<const Arrival*> seen(m.launch.ranks);
  for (const Arrival& a : arrivals) {
    const std::size_t ranks = a.hello.unsigned_at("ranks");
    if (ranks != m.launch.ranks)
      return {a.name() + " has " + std::to_string(ranks) + " ranks, rank 0 has " + std::to_string(m.launch.ranks), true};
    if (a.rank >= m.launch.ranks || a.rank == 0 || seen[a.rank] != nullptr)
      return {"two processes are rank " + std::to_string(a.rank) + ", one of them " + a.name(), true};
    seen[a.rank] = &a;
    if (const std::string text = difference(host, a); !text.empty()) return {text, true};
  }
  return {};
}

[[noreturn]] void refuse(const Refusal& r) {
  if (r.mismatch) throw MismatchError(r.text);
  throw DeviceError(r.text);
}

std::string missing_ranks(const Rendezvous& m, const std::vector<Arrival>& arrivals) {
  std::string text;
  for (std::size_t r = 1; r < m.launch.ranks; ++r) {
    if (std::none_of(arrivals.begin(), arrivals.end(), [&](const Arrival& a) { return a.rank == r; }))
      text += (text.empty() ? "rank " : ", rank ") + std::to_string(r);
  }
  return text;
}

Socket listen_by(const Rendezvous& m, Clock::time_point until) {
  for (;;) {  // an earlier mesh may still use the port
    try {
      return tcp::listen(m.hosts.front(), m.port);
    } catch (const DeviceError&) {
      if (Clock::now() + kRetry > until) throw;
      std::this_thread::sleep_for(kRetry);
    }
  }
}

Json rank_json(const Json& hello, const std::string& address, const std::string& port) {
  return Json::object({{"name", hello.at("name")},
                       {"host", hello.at("host")},
                       {"members", hello.at("members")},
                       {"address", address},
                       {"port", port}});
}

/// Rank 0 waits until all ranks have connected, then sends the result to all of them.
std::vector<RankInfo> host(Rendezvous& m, const Json& mine) {
  Clock::time_point until = Clock::now() + m.arrival;
  const Socket listener = m.listener ? std::move(m.listener) : listen_by(m, until);
  tcp::TextReceiver receiver(listener, kHello);
  std::vector<Arrival> arrivals;
  Refusal refusal;
  if (const std::string& trouble = mine.string_at("trouble", 4096); !trouble.empty())
    refusal = {named(0, mine.string_at("name", 512)) + " cannot take part: " + trouble, false};
  bool hurried = false;
  for (std::size_t expected = m.launch.ranks; arrivals.size() + 1 < expected;) {
    if (!refusal.text.empty() && !hurried) until = std::min(until, Clock::now() + m.limits.late_arrivals), hurried = true;
    auto come = receiver.next(until);
    if (!come) break;
    std::optional<Arrival> a = parse_arrival(come->first, std::move(come->second));
    if (!a) continue;
    expected = std::max<std::size_t>(expected, a->hello.unsigned_at("ranks"));
    arrivals.push_back(std::move(*a));
    if (refusal.text.empty()) refusal = objection(m, mine, arrivals);
  }
  const std::string missing = missing_ranks(m, arrivals);
  if (refusal.text.empty() && !missing.empty())
    refusal.text = missing + " did not connect to " + place_of(m) + " within " + seconds(m.arrival);
  std::sort(arrivals.begin(), arrivals.end(), [](const Arrival& a, const Arrival& b) { return a.rank < b.rank; });
  Json verdict = Json::object({{"refused", refusal.text}, {"mismatch", refusal.mismatch}});
  if (refusal.text.empty()) {
    // A key for this mesh, which rejects connections of earlier meshes and of other programs.
    std::string key;
    for (unsigned char byte : math::system_entropy())
      key += "0123456789abcdef"[byte >> 4], key += "0123456789abcdef"[byte & 15];
    verdict["key"] = key;
    Json joined = Json::array({rank_json(mine, "", "")});
    for (const Arrival& a : arrivals)
      joined.push_back(rank_json(a.hello, a.socket.peer_address(), a.hello.string_at("port", 16)));
    verdict["guests"] = joined;
  }
  for (const Arrival& a : arrivals) {
    try {
      a.socket.send_text(verdict.dump(), m.arrival);
    } catch (const DeviceError&) {
      if (refusal.text.empty()) throw DeviceError(a.name() + " disconnected during the rendezvous");
    }
  }
  if (!refusal.text.empty()) refuse(refusal);
  std::vector<RankInfo> joined;
  joined.push_back(rank_info_of(mine, {}));
  for (Arrival& a : arrivals) joined.push_back(rank_info_of(a.hello, std::move(a.socket)));
  return joined;
}

/// The other ranks repeat the attempt to connect until rank 0 answers.
std::vector<RankInfo> join(const Rendezvous& m, Json mine) {
  const Clock::time_point until = Clock::now() + m.arrival;
  Socket to_host, listener;
  Json verdict;
  for (;;) {
    if (Clock::now() > until) throw DeviceError("rank 0 did not answer at " + place_of(m) + " within " + seconds(m.arrival));
    for (const std::string& host : m.hosts) {
      const milliseconds left = tcp::left_until(until);
      to_host = tcp::connect(host, m.port, m.hosts.size() > 1 ? std::min(left, kOneOfSeveral) : left);
      if (to_host) break;
    }
    if (to_host) {
      try {
        listener = tcp::listen(to_host.own_address(), "0");
        mine["port"] = listener.own_port();
        to_host.send_text(mine.dump(), m.arrival);
        // Rank 0 may have started its time limit later than this rank. Rank 0's result arrives at the latest shortly after
        // rank 0's time limit.
        verdict = Json::parse(to_host.receive_text(m.arrival + m.limits.late_arrivals));
        break;
      } catch (const tcp::Closed&) {  // an earlier mesh at the same address was ending; try again
      } catch (const tcp::TimedOut&) {
        throw DeviceError("rank 0 at " + place_of(m) + " did not report within the time limit whether all ranks connected");
      }
    }
    std::this_thread::sleep_for(kRetry);
  }
  if (const std::string& text = verdict.string_at("refused", 1 << 14); !text.empty())
    refuse({text, verdict.bool_at("mismatch")});

  const Json::Array& list = verdict.array_at("guests", kMostRanks);
  const std::string& key = verdict.string_at("key", 64);
  std::vector<RankInfo> joined;
  for (const Json& g : list) joined.push_back(rank_info_of(g, {}));
  require<DeviceError>(joined.size() == m.launch.ranks, "this rank and rank 0 must have the same number of ranks");
  joined[0].socket = std::move(to_host);
  // All ranks are listening. This rank connects to lower ranks; higher ranks connect to this rank.
  for (std::size_t r = 1; r < m.launch.rank; ++r) {
    joined[r].socket = tcp::connect(list[r].string_at("address", 256), list[r].string_at("port", 16), m.arrival);
    if (!joined[r].socket) throw DeviceError(named(r, joined[r].name) + " cannot be reached");
    joined[r].socket.send_text(Json::object({{"key", key}, {"rank", m.launch.rank}}).dump(), m.arrival);
  }
  const Clock::time_point end = Clock::now() + m.arrival;
  tcp::TextReceiver receiver(listener, kHello);
  for (std::size_t missing = m.launch.ranks - 1 - m.launch.rank; missing > 0;) {
    auto come = receiver.next(end);
    if (!come)
      throw DeviceError("a rank did not connect to " + named(m.launch.rank, own_name()) + " within " + seconds(m.arrival));
    try {
      const Json hello = Json::parse(come->first);
      const std::size_t r = hello.unsigned_at("rank", m.launch.ranks - 1);
      if (hello.string_at("key", 64) != key || r <= m.launch.rank || joined[r].socket) continue;
      joined[r].socket = std::move(come->second);
      --missing;
    } catch (const Error&) {  // the connection is not from a rank of this mesh
    }
  }
  return joined;
}

}  // namespace

namespace {

/// Returns the addresses of this host at which other hosts may reach it.
std::vector<std::string> own_addresses() {
  ifaddrs* list = nullptr;
  std::vector<std::string> found;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    if ((i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[NI_MAXHOST] = "";
    if (getnameinfo(i->ifa_addr, sizeof(sockaddr_in), text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      found.emplace_back(text);
  }
  freeifaddrs(list);
  return found;
}

/// Rank 0 listens at a free port and broadcasts its address by MPI.
void agree_by_mpi(Rendezvous& m) {
  mpi::start(m.launch, m.arrival);
  std::string place;
  if (m.launch.rank == 0) {
    const bool one_host = m.launch.local_ranks == m.launch.ranks;
    m.hosts = one_host ? std::vector<std::string>() : own_addresses();
    if (m.hosts.empty()) m.hosts = {"127.0.0.1"};
    m.listener = tcp::listen(one_host ? "127.0.0.1" : "", "0");
    for (const std::string& host : m.hosts) {
      if (place.size() + host.size() < 3900) place += host + ",";
    }
    place += m.listener.own_port();
  }
  place = mpi::broadcast(place, m.arrival);
  m.hosts.clear();
  std::size_t from = 0;
  for (std::size_t at; (at = place.find(',', from)) != std::string::npos; from = at + 1)
    m.hosts.push_back(place.substr(from, at - from));
  m.port = place.substr(from);
  m.by_mpi = true;
}

}  // namespace

TimeLimits time_limits_from_environment() {
  TimeLimits w;
  if (const char* const haste = std::getenv("HELIOGRAPH_HASTE"); haste != nullptr && *haste != '\0') {
    const auto n = static_cast<milliseconds::rep>(number_in("HELIOGRAPH_HASTE", 1, 100));
    for (milliseconds* const wait : {&w.probe_interval, &w.stall_limit, &w.late_arrivals}) *wait /= n;
  }
  return w;
}

std::optional<Rendezvous> rendezvous_from_environment() {
  const std::optional<LaunchInfo> launch = own_launch_info();
  if (!launch) return {};
  Rendezvous m{.launch = *launch};
  m.limits = time_limits_from_environment();
  if (const char* const limit = std::getenv("HELIOGRAPH_TIMEOUT"); limit != nullptr && *limit != '\0') {
    m.limit = std::chrono::seconds(number_in("HELIOGRAPH_TIMEOUT", 1, 1000000));
    m.arrival = std::min(m.arrival, m.limit);
  }
  const char* const given = std::getenv("HELIOGRAPH_MEET");
  const std::string place = given != nullptr ? given : "";
  if (place.empty() && launch->launched) {
    if (const std::string trouble = mpi::trouble(); !trouble.empty()) {
      throw DeviceError("mpirun started this process as rank " + std::to_string(launch->rank) + " of " +
                        std::to_string(launch->ranks) + ", but " + trouble +
                        "; start ranks without MPI by `heliograph run` or with HELIOGRAPH_MEET=host:port");
    }
    agree_by_mpi(m);
    return m;
  }
  const std::size_t colon = place.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == place.size())
    throw ParameterError("HELIOGRAPH_MEET is \"" + place + "\"; it must be host:port, the address at which rank 0 listens");
  m.hosts = {place.substr(0, colon)}, m.port = place.substr(colon + 1);
  return m;
}

std::vector<RankInfo> meet(Rendezvous& m, const Terms& terms, const std::vector<MemberInfo>& members,
                           const std::string& trouble) {
  const Json mine = to_json(m, terms, members, trouble);
  return m.launch.rank == 0 ? host(m, mine) : join(m, mine);
}

}  // namespace heliograph::mesh
