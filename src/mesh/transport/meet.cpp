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
using wire::Clock;
using wire::Socket;

constexpr const char* kGreeting = "heliograph ranks";
constexpr milliseconds kHello{5000};         // from who comes, a stranger perhaps
constexpr milliseconds kRetry{50};           // between two knocks
constexpr milliseconds kOneOfSeveral{2000};  // for an address of several

using Terms = std::vector<std::pair<std::string, std::string>>;

std::string own_name() { return own_host() + ", process " + std::to_string(getpid()); }

std::string named(std::size_t rank, const std::string& name) { return "rank " + std::to_string(rank) + " (" + name + ")"; }

std::string place_of(const Rendezvous& m) { return m.hosts.front() + ":" + m.port; }

std::string seconds(milliseconds t) { return std::to_string((t.count() + 999) / 1000) + " s"; }

Json to_json(const Rendezvous& m, const Terms& terms, const std::vector<MemberCard>& members, const std::string& trouble) {
  Json said = Json::object(), cards = Json::array();
  for (const auto& [what, value] : terms) said[what] = value;
  for (const MemberCard& c : members) {
    cards.push_back(Json::object({{"name", c.name}, {"description", c.description}}));
  }
  return Json::object({{"greeting", kGreeting},
                       {"rank", m.seat.rank},
                       {"ranks", m.seat.ranks},
                       {"name", own_name()},
                       {"host", own_host()},
                       {"terms", said},
                       {"members", cards},
                       {"trouble", trouble}});
}

std::vector<MemberCard> members_of(const Json& hello) {
  std::vector<MemberCard> cards;
  for (const Json& c : hello.array_at("members", kMostRanks)) {
    cards.push_back({.name = c.string_at("name", 256), .description = c.string_at("description", 4096)});
  }
  return cards;
}

Guest guest_of(const Json& said, Socket socket) {
  return {.name = said.string_at("name", 512),
          .host = said.string_at("host", 256),
          .members = members_of(said),
          .socket = std::move(socket)};
}

/// A rank that has come to rank 0.
struct Arrival {
  std::size_t rank;
  Json hello;
  Socket socket;
  std::string name() const { return named(rank, hello.string_at("name", 512)); }
};

/// Null where what came is none of ours.
std::optional<Arrival> welcome(const std::string& said, Socket socket) {
  try {
    Json hello = Json::parse(said);
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

/// Where one's terms are not rank 0's; empty where they are.
std::string difference(const Json& host, const Arrival& a) {
  const auto mine = host.at("terms").as_object("terms"), theirs = a.hello.at("terms").as_object("terms");
  for (const auto& [what, value] : mine) {
    const auto found = theirs.find(what);
    const std::string said = found == theirs.end() ? "" : found->second.as_string(what, 4096);
    if (said != value.as_string(what, 4096))
      return a.name() + " has the " + what + " \"" + said + "\", rank 0 \"" + value.as_string(what, 4096) + "\"";
  }
  return mine.size() == theirs.size() ? "" : a.name() + " knows more terms than rank 0";
}

struct Refusal {
  std::string text;
  bool mismatch = false;  // else a device or a connection
};

Refusal objection(const Rendezvous& m, const Json& host, const std::vector<Arrival>& arrivals) {
  for (const Arrival& a : arrivals) {
    if (const std::string& trouble = a.hello.string_at("trouble", 4096); !trouble.empty())
      return {a.name() + " cannot take part: " + trouble, false};
  }
  std::vector<const Arrival*> seen(m.seat.ranks);
  for (const Arrival& a : arrivals) {
    const std::size_t ranks = a.hello.unsigned_at("ranks");
    if (ranks != m.seat.ranks)
      return {a.name() + " is of " + std::to_string(ranks) + " ranks, rank 0 of " + std::to_string(m.seat.ranks), true};
    if (a.rank >= m.seat.ranks || a.rank == 0 || seen[a.rank] != nullptr)
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
  for (std::size_t r = 1; r < m.seat.ranks; ++r) {
    if (std::none_of(arrivals.begin(), arrivals.end(), [&](const Arrival& a) { return a.rank == r; }))
      text += (text.empty() ? "rank " : ", rank ") + std::to_string(r);
  }
  return text;
}

Socket listen_by(const Rendezvous& m, Clock::time_point until) {
  for (;;) {  // the port may still be taken by those who met before
    try {
      return wire::listen(m.hosts.front(), m.port);
    } catch (const DeviceError&) {
      if (Clock::now() + kRetry > until) throw;
      std::this_thread::sleep_for(kRetry);
    }
  }
}

Json guest_json(const Json& hello, const std::string& address, const std::string& port) {
  return Json::object({{"name", hello.at("name")},
                       {"host", hello.at("host")},
                       {"members", hello.at("members")},
                       {"address", address},
                       {"port", port}});
}

/// Rank 0: waits for all, says yes or no to all.
std::vector<Guest> host(Rendezvous& m, const Json& mine) {
  Clock::time_point until = Clock::now() + m.arrival;
  const Socket door = m.door ? std::move(m.door) : listen_by(m, until);
  wire::Reception reception(door, kHello);
  std::vector<Arrival> arrivals;
  Refusal refusal;
  if (const std::string& trouble = mine.string_at("trouble", 4096); !trouble.empty())
    refusal = {named(0, mine.string_at("name", 512)) + " cannot take part: " + trouble, false};
  bool hurried = false;
  for (std::size_t expected = m.seat.ranks; arrivals.size() + 1 < expected;) {
    if (!refusal.text.empty() && !hurried) until = std::min(until, Clock::now() + m.waits.latecomers), hurried = true;
    auto come = reception.next(until);
    if (!come) break;
    std::optional<Arrival> a = welcome(come->first, std::move(come->second));
    if (!a) continue;
    expected = std::max<std::size_t>(expected, a->hello.unsigned_at("ranks"));
    arrivals.push_back(std::move(*a));
    if (refusal.text.empty()) refusal = objection(m, mine, arrivals);
  }
  const std::string missing = missing_ranks(m, arrivals);
  if (refusal.text.empty() && !missing.empty())
    refusal.text = missing + " did not come to " + place_of(m) + " within " + seconds(m.arrival);
  std::sort(arrivals.begin(), arrivals.end(), [](const Arrival& a, const Arrival& b) { return a.rank < b.rank; });
  Json verdict = Json::object({{"refused", refusal.text}, {"mismatch", refusal.mismatch}});
  if (refusal.text.empty()) {
    // A key of this meeting: those who met here before, and strangers, do not get in.
    std::string key;
    for (unsigned char byte : math::system_entropy())
      key += "0123456789abcdef"[byte >> 4], key += "0123456789abcdef"[byte & 15];
    verdict["key"] = key;
    Json guests = Json::array({guest_json(mine, "", "")});
    for (const Arrival& a : arrivals)
      guests.push_back(guest_json(a.hello, a.socket.peer_address(), a.hello.string_at("port", 16)));
    verdict["guests"] = guests;
  }
  for (const Arrival& a : arrivals) {
    try {
      a.socket.send_text(verdict.dump(), m.arrival);
    } catch (const DeviceError&) {
      if (refusal.text.empty()) throw DeviceError(a.name() + " went away while the ranks met");
    }
  }
  if (!refusal.text.empty()) refuse(refusal);
  std::vector<Guest> guests;
  guests.push_back(guest_of(mine, {}));
  for (Arrival& a : arrivals) guests.push_back(guest_of(a.hello, std::move(a.socket)));
  return guests;
}

/// The others: knock until rank 0 answers.
std::vector<Guest> join(const Rendezvous& m, Json mine) {
  const Clock::time_point until = Clock::now() + m.arrival;
  Socket to_host, door;
  Json verdict;
  for (;;) {
    if (Clock::now() > until) throw DeviceError("rank 0 did not answer at " + place_of(m) + " within " + seconds(m.arrival));
    for (const std::string& host : m.hosts) {
      const milliseconds left = wire::left_until(until);
      to_host = wire::connect(host, m.port, m.hosts.size() > 1 ? std::min(left, kOneOfSeveral) : left);
      if (to_host) break;
    }
    if (to_host) {
      try {
        door = wire::listen(to_host.own_address(), "0");
        mine["port"] = door.own_port();
        to_host.send_text(mine.dump(), m.arrival);
        // Rank 0 began to wait before we came: it says how it ended a little after its own limit at the latest.
        verdict = Json::parse(to_host.receive_text(m.arrival + m.waits.latecomers));
        break;
      } catch (const wire::Closed&) {  // those who met there before were just leaving
      } catch (const wire::TimedOut&) {
        throw DeviceError("rank 0 at " + place_of(m) + " did not say whether all ranks have come");
      }
    }
    std::this_thread::sleep_for(kRetry);
  }
  if (const std::string& text = verdict.string_at("refused", 1 << 14); !text.empty())
    refuse({text, verdict.bool_at("mismatch")});

  const Json::Array& list = verdict.array_at("guests", kMostRanks);
  const std::string& key = verdict.string_at("key", 64);
  std::vector<Guest> guests;
  for (const Json& g : list) guests.push_back(guest_of(g, {}));
  require<DeviceError>(guests.size() == m.seat.ranks, "rank 0 counts the ranks otherwise");
  guests[0].socket = std::move(to_host);
  // All doors are open by now. To those before us we go, those behind us come.
  for (std::size_t r = 1; r < m.seat.rank; ++r) {
    guests[r].socket = wire::connect(list[r].string_at("address", 256), list[r].string_at("port", 16), m.arrival);
    if (!guests[r].socket) throw DeviceError(named(r, guests[r].name) + " cannot be reached");
    guests[r].socket.send_text(Json::object({{"key", key}, {"rank", m.seat.rank}}).dump(), m.arrival);
  }
  const Clock::time_point end = Clock::now() + m.arrival;
  wire::Reception reception(door, kHello);
  for (std::size_t missing = m.seat.ranks - 1 - m.seat.rank; missing > 0;) {
    auto come = reception.next(end);
    if (!come)
      throw DeviceError("a rank did not come to " + named(m.seat.rank, own_name()) + " within " + seconds(m.arrival));
    try {
      const Json hello = Json::parse(come->first);
      const std::size_t r = hello.unsigned_at("rank", m.seat.ranks - 1);
      if (hello.string_at("key", 64) != key || r <= m.seat.rank || guests[r].socket) continue;
      guests[r].socket = std::move(come->second);
      --missing;
    } catch (const Error&) {  // a stranger
    }
  }
  return guests;
}

}  // namespace

namespace {

/// The addresses of this host, as others may reach them.
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

/// Rank 0 listens where it may and tells the others.
void agree_by_mpi(Rendezvous& m) {
  mpi::start(m.seat, m.arrival);
  std::string place;
  if (m.seat.rank == 0) {
    const bool one_host = m.seat.local_ranks == m.seat.ranks;
    m.hosts = one_host ? std::vector<std::string>() : own_addresses();
    if (m.hosts.empty()) m.hosts = {"127.0.0.1"};
    m.door = wire::listen(one_host ? "127.0.0.1" : "", "0");
    for (const std::string& host : m.hosts) {
      if (place.size() + host.size() < 3900) place += host + ",";
    }
    place += m.door.own_port();
  }
  place = mpi::told(place, m.arrival);
  m.hosts.clear();
  std::size_t from = 0;
  for (std::size_t at; (at = place.find(',', from)) != std::string::npos; from = at + 1)
    m.hosts.push_back(place.substr(from, at - from));
  m.port = place.substr(from);
  m.by_mpi = true;
}

}  // namespace

Waits waits_from_environment() {
  Waits w;
  if (const char* const haste = std::getenv("HELIOGRAPH_HASTE"); haste != nullptr && *haste != '\0') {
    const auto n = static_cast<milliseconds::rep>(number_in("HELIOGRAPH_HASTE", 1, 100));
    for (milliseconds* const wait : {&w.ask, &w.nothing_moves, &w.latecomers}) *wait /= n;
  }
  return w;
}

std::optional<Rendezvous> rendezvous_from_environment() {
  const std::optional<Seat> seat = own_seat();
  if (!seat) return {};
  Rendezvous m{.seat = *seat};
  m.waits = waits_from_environment();
  if (const char* const limit = std::getenv("HELIOGRAPH_TIMEOUT"); limit != nullptr && *limit != '\0') {
    m.limit = std::chrono::seconds(number_in("HELIOGRAPH_TIMEOUT", 1, 1000000));
    m.arrival = std::min(m.arrival, m.limit);
  }
  const char* const given = std::getenv("HELIOGRAPH_MEET");
  const std::string place = given != nullptr ? given : "";
  if (place.empty() && seat->launched) {
    if (const std::string trouble = mpi::trouble(); !trouble.empty()) {
      throw DeviceError("mpirun started this process as rank " + std::to_string(seat->rank) + " of " +
                        std::to_string(seat->ranks) + ", but " + trouble +
                        "; `heliograph run` starts ranks without it, and so does HELIOGRAPH_MEET=host:port");
    }
    agree_by_mpi(m);
    return m;
  }
  const std::size_t colon = place.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == place.size())
    throw ParameterError("HELIOGRAPH_MEET is \"" + place + "\", not host:port: where rank 0 listens");
  m.hosts = {place.substr(0, colon)}, m.port = place.substr(colon + 1);
  return m;
}

std::vector<Guest> meet(Rendezvous& m, const Terms& terms, const std::vector<MemberCard>& members,
                        const std::string& trouble) {
  const Json mine = to_json(m, terms, members, trouble);
  return m.seat.rank == 0 ? host(m, mine) : join(m, mine);
}

}  // namespace heliograph::mesh
