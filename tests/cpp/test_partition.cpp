// The scheduler of programs on several members: its schedules are valid, nearly optimal, and never slower than one member.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "program/partition.h"

namespace heliograph::program {
namespace {

using u32 = std::uint32_t;

/// Returns a graph of independent tasks on `members` equal members that have these links. A task that runs on all members
/// takes `together` times its duration.
TaskGraph graph_of(std::size_t members, const std::vector<double>& seconds, TaskGraph::Link link, double together = 1) {
  TaskGraph g;
  g.members = members;
  for (const double s : seconds) {
    TaskGraph::Task task;
    task.seconds.assign(members, s);
    task.seconds.push_back(s * together);
    g.tasks.push_back(task);
  }
  g.links.assign(members + 1, std::vector<TaskGraph::Link>(members + 1, link));
  for (std::size_t e = 0; e <= members; ++e) g.links[e][e] = {0, 1e18};
  g.call_host.assign(members + 1, 0), g.piece_host.assign(members + 1, 1e-6);
  return g;
}

/// Makes task `to` read a value of task `from`; if `from` is kInput, an input that is stored on the first member.
void connect(TaskGraph& g, u32 from, u32 to, double bytes) {
  const auto value = static_cast<u32>(g.values.size());
  g.values.push_back({.bytes = bytes, .maker = from, .lies = 0});
  if (from != TaskGraph::kInput) g.tasks[from].writes.push_back(value);
  g.tasks[to].reads.push_back(value);
}

TaskGraph random_graph(std::mt19937& random, std::size_t tasks, std::size_t members) {
  std::uniform_real_distribution<double> part(0, 1);
  std::vector<double> seconds;
  for (std::size_t t = 0; t < tasks; ++t) seconds.push_back(1e-4 * (0.2 + part(random)));
  TaskGraph g = graph_of(members, seconds, {10e-6, 1e11}, 0.3 + part(random));
  for (TaskGraph::Task& task : g.tasks) {
    for (std::size_t m = 0; m < members; ++m) task.seconds[m] *= 1 + static_cast<double>(m) * 0.3;
  }
  for (u32 t = 0; t < tasks; ++t) {
    if (part(random) < 0.4) connect(g, TaskGraph::kInput, t, 1e6 * part(random));
    for (u32 from = 0; from < t; ++from) {
      if (part(random) < 1.5 / static_cast<double>(tasks)) connect(g, from, t, 4e6 * part(random));
    }
  }
  return g;
}

/// Returns whether the schedule is valid: every task runs once, alone on its executor, after its inputs and their copies.
bool holds(const TaskGraph& g, const Partition& p) {
  constexpr double kEps = 1e-12;
  std::vector<std::size_t> executor(g.tasks.size(), g.executors()), piece(g.tasks.size());
  for (std::size_t i = 0; i < p.pieces.size(); ++i) {
    for (const u32 t : p.pieces[i].tasks) {
      if (executor[t] != g.executors()) return false;
      executor[t] = p.pieces[i].executor, piece[t] = i;
    }
  }
  const auto end = [&](u32 t) { return p.begins[t] + g.tasks[t].seconds[executor[t]]; };
  double last = 0;
  for (u32 t = 0; t < g.tasks.size(); ++t) {
    if (executor[t] == g.executors()) return false;
    last = std::max(last, end(t));
    for (const u32 v : g.tasks[t].reads) {
      const u32 maker = g.values[v].maker;
      const std::size_t from = maker == TaskGraph::kInput ? g.values[v].lies : executor[maker];
      double ready = maker == TaskGraph::kInput ? 0 : end(maker);
      if (from != executor[t]) {
        if (maker != TaskGraph::kInput && piece[maker] >= piece[t]) return false;
        if (maker != TaskGraph::kInput) ready = p.pieces[piece[maker]].end;
        // The copy may have been made by an earlier task of this executor.
        bool copied = false;
        for (std::size_t i = 0; i <= piece[t]; ++i) {
          const auto& copies = p.pieces[i].copies;
          if (p.pieces[i].executor == executor[t] && std::find(copies.begin(), copies.end(), v) != copies.end())
            copied = true;
        }
        if (!copied) return false;
        ready += g.values[v].bytes / g.links[from][executor[t]].bytes_a_second;
      }
      if (p.begins[t] < ready - kEps) return false;
    }
    for (u32 other = 0; other < t; ++other) {
      const bool share = executor[t] == executor[other] || executor[t] == g.all() || executor[other] == g.all();
      if (share && p.begins[t] < end(other) - kEps && p.begins[other] < end(t) - kEps) return false;
    }
  }
  return p.seconds >= last - kEps;
}

double best_single(const TaskGraph& g) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t e = 0; e < g.executors(); ++e) least = std::min(least, on_one(g, e).seconds);
  return least;
}

/// Returns the least makespan among all orders and executors.
double brute_force(const TaskGraph& g) {
  double least = std::numeric_limits<double>::infinity();
  const std::size_t tasks = g.tasks.size();
  std::vector<u32> order(tasks);
  std::iota(order.begin(), order.end(), 0);
  do {
    std::vector<std::size_t> place(tasks);
    for (std::size_t i = 0; i < tasks; ++i) place[order[i]] = i;
    bool sound = true;
    for (u32 t = 0; t < tasks; ++t) {
      for (const u32 v : g.tasks[t].reads) {
        const u32 maker = g.values[v].maker;
        sound = sound && (maker == TaskGraph::kInput || place[maker] < place[t]);
      }
    }
    if (!sound) continue;
    std::vector<std::size_t> executor(tasks);
    for (bool more = true; more;) {
      for (const bool early : {true, false}) least = std::min(least, lay_out(g, order, executor, early).seconds);
      more = false;
      for (std::size_t& e : executor) {
        if (++e < g.executors()) {
          more = true;
          break;
        }
        e = 0;
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(Partition, SchedulesOfTinyGraphsAreNearTheBest) {
  std::mt19937 random(7);
  double sum = 0, worst = 1;
  constexpr int kGraphs = 40;
  for (int i = 0; i < kGraphs; ++i) {
    const TaskGraph g = random_graph(random, 3 + static_cast<std::size_t>(i % 3), 2);
    const double best = brute_force(g), found = partition(g).seconds;
    EXPECT_GE(found, best * (1 - 1e-9));
    sum += found / best, worst = std::max(worst, found / best);
  }
  EXPECT_LT(sum / kGraphs, 1.05);
  EXPECT_LT(worst, 1.25);
}

TEST(Partition, SchedulesOfRandomGraphsAreValidAndNeverSlowerThanOneMember) {
  std::mt19937 random(11);
  std::size_t spread = 0;
  for (int i = 0; i < 120; ++i) {
    const std::size_t members = 2 + static_cast<std::size_t>(i % 4);
    const TaskGraph g = random_graph(random, 1 + static_cast<std::size_t>(random() % 60), members);
    const Partition p = partition(g);
    EXPECT_TRUE(holds(g, p)) << i;
    EXPECT_LE(p.seconds, best_single(g) * 1.03 + 1e-12) << i;
    EXPECT_LE(p.seconds, on_one(g, 0).seconds + 1e-12) << i;
    if (p.sole(g) == g.executors()) ++spread;
  }
  EXPECT_GT(spread, 60U);  // most schedules use several members
}

TEST(Partition, AnInvalidScheduleIsDetected) {
  std::mt19937 random(3);
  int seen = 0;
  for (int i = 0; i < 20; ++i) {
    const TaskGraph g = random_graph(random, 30, 3);
    Partition p = partition(g);
    if (p.sole(g) != g.executors()) continue;
    ASSERT_TRUE(holds(g, p));
    for (u32 t = 0; t < g.tasks.size(); ++t) {
      if (p.begins[t] < 1e-4) continue;
      Partition early = p;
      early.begins[t] = 0;  // task t begins before its inputs, or while another task runs
      EXPECT_FALSE(holds(g, early));
      ++seen;
    }
    Partition lost = p;
    lost.pieces.back().tasks.pop_back();
    EXPECT_FALSE(holds(g, lost));
  }
  EXPECT_GT(seen, 50);
}

TEST(Partition, AChainIsOnePieceOfOneMember) {
  TaskGraph g = graph_of(4, std::vector<double>(20, 1e-4), {10e-6, 3e11});
  connect(g, TaskGraph::kInput, 0, 1e7);
  for (u32 t = 1; t < 20; ++t) connect(g, t - 1, t, 1e7);
  const Partition p = partition(g);
  EXPECT_EQ(p.sole(g), 0U);  // the chain runs on the member that stores its input
  ASSERT_EQ(p.pieces.size(), 1U);
  EXPECT_TRUE(p.pieces[0].copies.empty());
}

TEST(Partition, TenUnequalBranchesKeepFourMembersBusy) {
  std::vector<double> seconds;
  for (int b = 1; b <= 10; ++b) {
    for (int k = 0; k < 2 + b; ++k) seconds.push_back(2.5e-4);
  }
  TaskGraph g = graph_of(4, seconds, {14e-6, 250e9});
  u32 t = 0;
  for (int b = 1; b <= 10; ++b) {
    connect(g, TaskGraph::kInput, t, 29e6);
    for (int k = 1; k < 2 + b; ++k, ++t) connect(g, t, t + 1, 29e6);
    ++t;
  }
  const Partition p = partition(g);
  EXPECT_TRUE(holds(g, p));
  EXPECT_GT(on_one(g, 0).seconds / p.seconds, 3.4);
  EXPECT_LE(p.pieces.size(), 10U);
}

TEST(Partition, ASlowMemberGetsFewerTasksAndASlowLinkNone) {
  TaskGraph g = graph_of(2, std::vector<double>(12, 1e-3), {10e-6, 1e11});
  for (TaskGraph::Task& task : g.tasks) task.seconds[1] *= 3;
  for (u32 t = 0; t < 12; ++t) connect(g, TaskGraph::kInput, t, 1e6);
  std::vector<std::size_t> count(3);
  for (const Piece& piece : partition(g).pieces) count[piece.executor] += piece.tasks.size();
  EXPECT_EQ(count, (std::vector<std::size_t>{9, 3, 0}));
  for (auto& row : g.links) {
    for (TaskGraph::Link& link : row) link.bytes_a_second = 1e8;
  }
  EXPECT_EQ(partition(g).sole(g), 0U);
}

TEST(Partition, TasksOfManyItemsRunOnAllMembersAndOthersOnOne) {
  // The graph has one operation on many items, then three long branches of one item each.
  TaskGraph g = graph_of(3, {3e-3, 1e-3, 1e-3, 1e-3}, {10e-6, 1e12});
  g.tasks[0].seconds[3] = 1e-3;
  for (u32 t = 1; t < 4; ++t) connect(g, 0, t, 1e6);
  const Partition p = partition(g);
  EXPECT_TRUE(holds(g, p));
  EXPECT_EQ(p.pieces.front().executor, g.all());
  EXPECT_LT(p.seconds, 2.2e-3);
}

TEST(Partition, SmallTasksStayTogetherIfCopiesTakeLonger) {
  // Two chains exchange values after each task; distributing them saves less time than the copies take.
  TaskGraph g = graph_of(2, std::vector<double>(40, 2e-6), {14e-6, 1e11});
  for (u32 t = 2; t < 40; ++t) connect(g, t - 2, t, 1e6), connect(g, (t ^ 1) - 2, t, 1e6);
  EXPECT_EQ(partition(g).sole(g), 0U);
  // Two pairs of exchanging chains that join at the end run on two members.
  TaskGraph two = graph_of(2, std::vector<double>(81, 5e-5), {14e-6, 1e11});
  for (u32 side : {0U, 40U}) {
    for (u32 t = 2; t < 40; ++t) connect(two, side + t - 2, side + t, 1e6), connect(two, side + (t ^ 1) - 2, side + t, 1e6);
  }
  connect(two, 39, 80, 1e6), connect(two, 79, 80, 1e6);
  const Partition p = partition(two);
  EXPECT_TRUE(holds(two, p));
  EXPECT_GT(on_one(two, 0).seconds / p.seconds, 1.85);
}

TEST(Partition, TheHostsEnqueueTimeIsIncluded) {
  // The host enqueues calls one by one. If this takes as long as the calls themselves, two members are not faster than one.
  TaskGraph g = graph_of(2, std::vector<double>(40, 10e-6), {10e-6, 1e12});
  for (u32 t = 2; t < 40; ++t) connect(g, t - 2, t, 1);
  EXPECT_LT(partition(g).seconds, 2.6e-4);
  g.call_host.assign(3, 10e-6);
  EXPECT_EQ(partition(g).sole(g), 0U);
}

}  // namespace
}  // namespace heliograph::program
