// The scoreboard compared with its rules: every instruction that it issues may start, and every instruction that it holds
// back must wait.
#include <gtest/gtest.h>
#include <deque>
#include <optional>
#include <random>

#include "Vscoreboard.h"
#include "backend/rtl/clocked.h"

namespace heliograph::rtl {
namespace {

constexpr int kSlots = 8, kTables = 3, kBanks = 4, kUnits = 6;
constexpr unsigned kLate = 1;  // unit 0 is late: it claims its bank when it is ready to write

struct Instruction {
  unsigned reads, writes;
  bool reading = true, claimed = true;
};

unsigned banks(unsigned slots) {
  unsigned found = 0;
  for (int s = 0; s < kSlots; ++s)
    if (slots >> s & 1) found |= 1u << (s % kBanks);
  return found;
}

/// The running instructions of each unit, the oldest first.
struct Rules {
  std::deque<Instruction> units[kUnits];
  unsigned wanting = 0;

  bool may_go(int unit, unsigned reads, unsigned writes) const {
    if (units[unit].size() == 2) return false;
    for (int u = 0; u < kUnits; ++u) {
      for (const Instruction& i : units[u]) {
        const unsigned in_use = i.reading ? i.reads : i.reads >> kSlots << kSlots;  // tables are in use until the end
        if (reads & i.writes || writes & (i.writes | in_use)) return false;
        if (u == unit) continue;
        if (i.reading && banks(reads) & banks(i.reads)) return false;
        const bool holds = i.claimed || (wanting >> u & 1 && &i == &units[u].back());
        if (!(kLate >> unit & 1) && holds && banks(writes) & banks(i.writes)) return false;
      }
    }
    return true;
  }
};

TEST(Scoreboard, LetsGoWhatMayAndHoldsWhatMust) {
  Clocked<Vscoreboard> board;
  std::mt19937 random(17);
  board->rst_ni = 0;
  board->issue_i = 0;
  board->read_done_i = board->done_i = board->want_i = 0;
  board.tick();
  board.tick();
  board->rst_ni = 1;
  Rules rules;
  int issued = 0, held = 0, granted = 0, refused = 0;
  const auto some = [&](int bits) {
    return random() % 3 ? 1u << random() % bits : random() & random() & ((1u << bits) - 1);
  };
  for (int cycle = 0; cycle < 60000; ++cycle) {
    const int unit = static_cast<int>(random() % kUnits);
    const unsigned reads = some(kSlots) | (random() % 4 == 0 ? 1u << (kSlots + random() % kTables) : 0);
    const unsigned writes = random() % 6 ? some(kSlots) : 1u << (kSlots + random() % kTables);
    // Units end their reads, then their instructions, in order.
    unsigned read_done = 0, done = 0;
    for (int u = 0; u < kUnits; ++u) {
      auto& list = rules.units[u];
      if (list.empty()) continue;
      if (list.back().reading && random() % 4 == 0) read_done |= 1u << u;
      const bool ended = !list.front().reading && list.front().claimed;
      if (ended && random() % 4 == 0) done |= 1u << u;
    }
    auto& late = rules.units[0];
    if (!late.empty() && !late.back().reading && !late.back().claimed && random() % 3 == 0) rules.wanting = 1;
    board->unit_i = static_cast<unsigned char>(unit);
    board->reads_i = static_cast<unsigned short>(reads);
    board->writes_i = static_cast<unsigned short>(writes);
    board->read_done_i = static_cast<unsigned char>(read_done);
    board->done_i = static_cast<unsigned char>(done);
    board->want_i = static_cast<unsigned char>(rules.wanting);
    board->issue_i = 0;
    board->eval();
    const bool may = rules.may_go(unit, reads, writes);
    ASSERT_EQ(board->ok_o, may) << "cycle " << cycle << ", unit " << unit << ", reads " << reads << ", writes " << writes;
    (may ? issued : held)++;
    bool idle = true;
    for (const auto& list : rules.units) idle &= list.empty();
    ASSERT_EQ(board->idle_o, idle);
    // A unit accepts a second instruction only after it has read the operands of the first.
    const bool room = rules.units[unit].empty() || !rules.units[unit].back().reading;
    const bool waits = !rules.units[unit].empty() && !rules.units[unit].back().claimed;
    const bool issue = may && room && !waits && random() % 4 != 0;
    board->issue_i = issue;
    // A claim is granted in this cycle if no other unit holds the bank.
    bool claim = false;
    if (rules.wanting && !late.empty() && !late.back().claimed) {
      claim = true;
      for (int u = 1; u < kUnits; ++u)
        for (const Instruction& i : rules.units[u])
          if (banks(i.writes) & banks(late.back().writes)) claim = false;
      (claim ? granted : refused)++;
    }
    board.tick();
    for (int u = 0; u < kUnits; ++u) {
      auto& list = rules.units[u];
      if (read_done >> u & 1) list.back().reading = false;
    }
    if (claim) late.back().claimed = true, rules.wanting = 1;
    for (int u = 0; u < kUnits; ++u)
      if (done >> u & 1) {
        rules.units[u].pop_front();
        if (u == 0) rules.wanting = 0;
      }
    if (issue) {
      rules.units[unit].push_back({reads, writes, true, !(kLate >> unit & 1)});
      if (unit == 0) rules.wanting = 0;
    }
    board->want_i = static_cast<unsigned char>(rules.wanting);
    board->eval();
    const bool grant = rules.wanting && !late.empty() && late.back().claimed;
    ASSERT_EQ(board->grant_o & 1u, grant ? 1u : 0u) << "cycle " << cycle;
  }
  // The random instructions must have caused each outcome often.
  EXPECT_GT(issued, 1000);
  EXPECT_GT(held, 1000);
  EXPECT_GT(granted, 200);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace heliograph::rtl
