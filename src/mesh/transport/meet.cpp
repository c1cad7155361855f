#include "mesh/transport/meet.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <thread>

#include "io/json.h"
#include "math/sampler.h"

namespace heliograph::mesh {

namespace {

using io::Json;
using std::chrono::milliseconds;
using wire::Clock;
using wire::Socket;

constexpr const char* kGreeting = "heliograph ranks";
constexpr std::size_t kMostRanks = 64;
constexpr milliseconds kHello{5000};       // from a stranger
constexpr milliseconds kRetry{50};         // between two knocks
constexpr milliseconds kLatecomers{5000};  // who are still told why nothing comes of it

using Terms = std::vector<std::pair<std::string, std::string>>;

std::size_t number_in(const char* variable, std::size_t least, std::size_t most) {
  const char* const given = std::getenv(variable);
  const std::string text = given != nullptr ? given : "";
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw ParameterError(std::string(variable) + " is \"" + text + "\", not a number from " + std::to_string(least) +
                         " to " + std::to_string(most));
  }
  return value;
}

std::string own_name() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return std::string(host) + ", process " + std::to_string(getpid());
}

std::string named(std::size_t rank, const std::string& name) { return "rank " + std::to_string(rank) + " (" + name + ")"; }

std::string place_of(const Rendezvous& m) { return m.host + ":" + m.port; }

std::string seconds(milliseconds t) { return std::to_string((t.count() + 999) / 1000) + " s"; }

Json to_json(const Rendezvous& m, const Terms& terms, const std::vector<MemberCard>& members, const std::string& trouble) {
  Json said = Json::object(), cards = Json::array();
  for (const auto& [what, value] : terms) said[what] = value;
  for (const MemberCard& c : members) {
    cards.push_back(Json::object({{"name", c.name}, {"description", c.description}}));
  }
  return Json::object({{"greeting", kGreeting},
                       {"rank", m.rank},
                       {"ranks", m.ranks},
                       {"name", own_name()},
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

/// A rank that has come to rank 0.
struct Arrival {
  std::size_t rank;
  Json hello;
  Socket socket;
  std::string name() const { return named(rank, hello.string_at("name", 512)); }
};

/// Null where what came is none of ours.
std::optional<Arrival> welcome(Socket socket, milliseconds limit) {
  try {
    Json hello = Json::parse(socket.receive_text(limit));
    if (hello.string_at("greeting", 64) != kGreeting) return {};
    const std::size_t rank = hello.unsigned_at("rank", kMostRanks);
    hello.unsigned_at("ranks", kMostRanks), hello.string_at("name", 512), hello.string_at("trouble", 4096);
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
  std::vector<const Arrival*> seen(m.ranks);
  for (const Arrival& a : arrivals) {
    const std::size_t ranks = a.hello.unsigned_at("ranks");
    if (ranks != m.ranks)
      return {a.name() + " is of " + std::to_string(ranks) + " ranks, rank 0 of " + std::to_string(m.ranks), true};
    if (a.rank >= m.ranks || a.rank == 0 || seen[a.rank] != nullptr)
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
  for (std::size_t r = 1; r < m.ranks; ++r) {
    if (std::none_of(arrivals.begin(), arrivals.end(), [&](const Arrival& a) { return a.rank == r; }))
      text += (text.empty() ? "rank " : ", rank ") + std::to_string(r);
  }
  return text;
}

Socket listen_by(const Rendezvous& m, Clock::time_point until) {
  for (;;) {  // the port may still be taken by those who met before
    try {
      return wire::listen(m.host, m.port);
    } catch (const DeviceError&) {
      if (Clock::now() + kRetry > until) throw;
      std::this_thread::sleep_for(kRetry);
    }
  }
}

Json guest_json(const Json& hello, const std::string& address, const std::string& port) {
  return Json::object({{"name", hello.at("name")}, {"members", hello.at("members")}, {"address", address}, {"port", port}});
}

/// Rank 0: waits for all, says yes or no to all.
std::vector<Guest> host(const Rendezvous& m, const Json& mine) {
  Clock::time_point until = Clock::now() + m.limit;
  const Socket door = listen_by(m, until);
  std::vector<Arrival> arrivals;
  Refusal refusal;
  if (const std::string& trouble = mine.string_at("trouble", 4096); !trouble.empty())
    refusal = {named(0, mine.string_at("name", 512)) + " cannot take part: " + trouble, false};
  bool hurried = false;
  for (std::size_t expected = m.ranks; arrivals.size() + 1 < expected;) {
    if (!refusal.text.empty() && !hurried) until = std::min(until, Clock::now() + kLatecomers), hurried = true;
    Socket socket = wire::accept(door, until);
    if (!socket) break;
    std::optional<Arrival> a = welcome(std::move(socket), kHello);
    if (!a) continue;
    expected = std::max<std::size_t>(expected, a->hello.unsigned_at("ranks"));
    arrivals.push_back(std::move(*a));
    if (refusal.text.empty()) refusal = objection(m, mine, arrivals);
  }
  const std::string missing = missing_ranks(m, arrivals);
  if (refusal.text.empty() && !missing.empty())
    refusal.text = missing + " did not come to " + place_of(m) + " within " + seconds(m.limit);
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
      a.socket.send_text(verdict.dump(), m.limit);
    } catch (const DeviceError&) {
      if (refusal.text.empty()) throw DeviceError(a.name() + " went away while the ranks met");
    }
  }
  if (!refusal.text.empty()) refuse(refusal);
  std::vector<Guest> guests;
  guests.push_back({.name = mine.string_at("name", 512), .members = members_of(mine), .socket = {}});
  for (Arrival& a : arrivals)
    guests.push_back(
        {.name = a.hello.string_at("name", 512), .members = members_of(a.hello), .socket = std::move(a.socket)});
  return guests;
}

/// The others: knock until rank 0 answers.
std::vector<Guest> join(const Rendezvous& m, Json mine) {
  const Clock::time_point until = Clock::now() + m.limit;
  Socket to_host, door;
  Json verdict;
  for (;;) {
    if (Clock::now() > until) throw DeviceError("rank 0 did not answer at " + place_of(m) + " within " + seconds(m.limit));
    to_host = wire::connect(m.host, m.port, wire::left_until(until));
    if (to_host) {
      try {
        door = wire::listen(to_host.own_address(), "0");
        mine["port"] = door.own_port();
        to_host.send_text(mine.dump(), m.limit);
        // Rank 0 began to wait before we came: it says how it ended a little after its own limit at the latest.
        verdict = Json::parse(to_host.receive_text(m.limit + kLatecomers));
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
  for (const Json& g : list) guests.push_back({.name = g.string_at("name", 512), .members = members_of(g), .socket = {}});
  require<DeviceError>(guests.size() == m.ranks, "rank 0 counts the ranks otherwise");
  guests[0].socket = std::move(to_host);
  // All doors are open by now. To those before us we go, those behind us come.
  for (std::size_t r = 1; r < m.rank; ++r) {
    guests[r].socket = wire::connect(list[r].string_at("address", 256), list[r].string_at("port", 16), m.limit);
    if (!guests[r].socket) throw DeviceError(named(r, guests[r].name) + " cannot be reached");
    guests[r].socket.send_text(Json::object({{"key", key}, {"rank", m.rank}}).dump(), m.limit);
  }
  const Clock::time_point end = Clock::now() + m.limit;
  for (std::size_t missing = m.ranks - 1 - m.rank; missing > 0;) {
    Socket s = wire::accept(door, end);
    if (!s) throw DeviceError("a rank did not come to " + named(m.rank, own_name()) + " within " + seconds(m.limit));
    try {
      const Json hello = Json::parse(s.receive_text(kHello));
      const std::size_t r = hello.unsigned_at("rank", m.ranks - 1);
      if (hello.string_at("key", 64) != key || r <= m.rank || guests[r].socket) continue;
      guests[r].socket = std::move(s);
      --missing;
    } catch (const Error&) {  // a stranger
    }
  }
  return guests;
}

}  // namespace

std::optional<Rendezvous> rendezvous_from_environment() {
  const char* const ranks = std::getenv("HELIOGRAPH_RANKS");
  if (ranks == nullptr || *ranks == '\0') return {};
  Rendezvous m;
  m.ranks = number_in("HELIOGRAPH_RANKS", 1, kMostRanks);
  if (m.ranks == 1) return {};
  m.rank = number_in("HELIOGRAPH_RANK", 0, m.ranks - 1);
  const char* const given = std::getenv("HELIOGRAPH_MEET");
  const std::string place = given != nullptr ? given : "";
  const std::size_t colon = place.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == place.size())
    throw ParameterError("HELIOGRAPH_MEET is \"" + place + "\", not host:port: where rank 0 listens");
  m.host = place.substr(0, colon), m.port = place.substr(colon + 1);
  if (const char* const limit = std::getenv("HELIOGRAPH_TIMEOUT"); limit != nullptr && *limit != '\0')
    m.limit = std::chrono::seconds(number_in("HELIOGRAPH_TIMEOUT", 1, 1000000));
  return m;
}

std::vector<Guest> meet(const Rendezvous& m, const Terms& terms, const std::vector<MemberCard>& members,
                        const std::string& trouble) {
  const Json mine = to_json(m, terms, members, trouble);
  return m.rank == 0 ? host(m, mine) : join(m, mine);
}

}  // namespace heliograph::mesh
