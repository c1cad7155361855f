// Ranks connect to each other even if other programs connect to their listening sockets.
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "mesh/transport/meet.h"
#include "ranks_rig.h"

namespace heliograph::mesh {
namespace {

using std::chrono::milliseconds;

Rendezvous meeting_of(std::size_t rank, std::size_t ranks, const std::string& port, milliseconds arrival) {
  Rendezvous m{.launch = {.rank = rank, .ranks = ranks}, .hosts = {"127.0.0.1"}, .port = port};
  m.arrival = arrival;
  return m;
}

tcp::Socket knock(const std::string& port) {
  for (;;) {
    if (tcp::Socket s = tcp::connect("127.0.0.1", port, milliseconds(1000))) return s;
    std::this_thread::sleep_for(milliseconds(5));
  }
}

/// Sends a few bytes, as another program might.
void say(const tcp::Socket& s, const std::string& bytes) {
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(bytes))};
  s.send(parts, milliseconds(1000));
}

// Half of all ports are ephemeral. So, of the test's many attempts, some sockets get the requested port as their own port
// (TCP self-connect).
TEST(Meeting, NoRankConnectsToItself) {
  const int number = std::stoi(test::Port().number());
  for (const std::string& port : {std::to_string(number & ~1), std::to_string(number | 1)}) {
    for (int i = 0; i < 40000; ++i) {
      const tcp::Socket s = tcp::connect("127.0.0.1", port, milliseconds(1000));
      ASSERT_TRUE(!s || s.own_port() != port) << "try " << i;
    }
  }
}

TEST(Meeting, OtherProgramsDelayNoRank) {
  const test::Port reserved;
  const std::string& port = reserved.number();
  std::vector<std::vector<RankInfo>> found(3);
  std::vector<std::thread> ranks;
  const auto join = [&](std::size_t r) {
    Rendezvous m = meeting_of(r, 3, port, milliseconds(20000));
    found[r] = meet(m, {}, {}, "");
  };
  ranks.emplace_back(join, 0);
  std::vector<tcp::Socket> strangers;
  for (int i = 0; i < 20; ++i) strangers.push_back(knock(port));  // these connections send nothing
  strangers.push_back(knock(port)), say(strangers.back(), "GET / HTTP/1.0\r\n\r\n");
  // this connection sends an incomplete message
  strangers.push_back(knock(port)), say(strangers.back(), {"\x05\0\0\0{", 5});
  strangers.push_back(knock(port)), say(strangers.back(), {"\x02\0\0\0[]", 6});  // this connection speaks another protocol
  // this connection announces a message of impossible length
  strangers.push_back(knock(port)), say(strangers.back(), "\xff\xff\xff\xff");
  knock(port);  // this connection disconnects
  ranks.emplace_back(join, 1), ranks.emplace_back(join, 2);
  for (std::thread& t : ranks) t.join();
  for (std::size_t r = 0; r < 3; ++r) {
    ASSERT_EQ(found[r].size(), 3U);
    for (std::size_t other = 0; other < 3; ++other) EXPECT_EQ(static_cast<bool>(found[r][other].socket), other != r);
  }
}

TEST(Meeting, SlowRanksAreWaitedFor) {
  const test::Port reserved;
  const std::string& port = reserved.number();
  std::string said;
  std::thread host([&] {
    Rendezvous m = meeting_of(0, 2, port, milliseconds(10000));
    try {
      meet(m, {}, {}, "");
    } catch (const DeviceError& e) {
      said = e.what();
    }
  });
  const tcp::Socket slow = knock(port);
  const std::string hello =
      R"({"greeting":"heliograph ranks","rank":1,"ranks":2,"name":"slow","host":"h","terms":{},"members":[],"trouble":"no memory"})";
  const auto size = static_cast<std::uint32_t>(hello.size());
  say(slow, std::string(reinterpret_cast<const char*>(&size), 4));
  for (std::size_t at = 0; at < hello.size(); at += 7) {
    say(slow, hello.substr(at, 7));
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_NE(slow.receive_text(milliseconds(9000)).find("no memory"), std::string::npos);
  host.join();
  EXPECT_NE(said.find("rank 1 (slow) cannot take part: no memory"), said.npos) << said;
}

TEST(Meeting, EndsInTimeDespiteOtherPrograms) {
  const test::Port reserved;
  const std::string& port = reserved.number();
  std::atomic<bool> over{false};
  std::vector<tcp::Socket> strangers;
  std::thread flood([&] {
    while (!over) {
      if (tcp::Socket s = tcp::connect("127.0.0.1", port, milliseconds(100))) strangers.push_back(std::move(s));
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  Rendezvous m = meeting_of(0, 2, port, milliseconds(1000));
  std::string said;
  try {
    meet(m, {}, {}, "");
  } catch (const DeviceError& e) {
    said = e.what();
  }
  over = true;  // other programs keep connecting until the ranks' time limit is over; this must not extend the limit
  flood.join();
  EXPECT_NE(said.find("rank 1 did not connect"), said.npos) << said;
}

}  // namespace
}  // namespace heliograph::mesh
