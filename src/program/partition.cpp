#include "program/partition.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace heliograph::program {

namespace {

using u32 = std::uint32_t;

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr u32 kNoPiece = ~u32{0};
/// Least gain for which a schedule on several executors is chosen. Predictions of two schedules have similar errors,
/// except for the host and the links.
constexpr double kGain = 1.1;
/// Least gain for which all members together are chosen instead of one member.
constexpr double kSlack = 1.03;
/// Largest time of a cluster on all members together, relative to one member.
constexpr double kShared = 0.75;
/// Largest number of moves of single clusters that are tried after HEFT.
constexpr std::size_t kMostTried = 4000;

}  // namespace

std::size_t Partition::sole(const TaskGraph& graph) const {
  for (const Piece& p : pieces) {
    if (p.executor != pieces.front().executor) return graph.executors();
  }
  return pieces.empty() ? graph.executors() : pieces.front().executor;
}

Partition lay_out(const TaskGraph& graph, const std::vector<u32>& order, const std::vector<std::size_t>& executor,
                  bool early) {
  const std::size_t executors = graph.executors(), all = graph.all();
  Partition laid;
  laid.begins.assign(graph.tasks.size(), 0), laid.copying.assign(graph.tasks.size(), 0);
  std::vector<u32> open(executors, kNoPiece), piece_of(graph.tasks.size(), kNoPiece);
  std::vector<double> busy(executors, 0);
  std::vector<std::vector<bool>> lies(graph.values.size(), std::vector<bool>(executors));
  std::vector<bool> exported(graph.tasks.size());
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const TaskGraph::Value& value = graph.values[v];
    lies[v][value.maker == TaskGraph::kInput ? value.lies : executor[value.maker]] = true;
  }
  for (const u32 t : order) {
    for (const u32 v : graph.tasks[t].reads) {
      const u32 maker = graph.values[v].maker;
      if (maker != TaskGraph::kInput && executor[maker] != executor[t]) exported[maker] = true;
    }
  }
  double host = 0;
  for (const u32 t : order) {
    const TaskGraph::Task& task = graph.tasks[t];
    const std::size_t e = executor[t];
    // A call on all members together uses every member's queue, so all pieces on single members end before this call.
    for (std::size_t other = 0; other < executors; ++other) {
      if ((e == all) != (other == all)) open[other] = kNoPiece;
    }
    std::vector<u32> wanted;
    bool fresh = open[e] == kNoPiece;
    double ready = 0;
    for (const u32 v : task.reads) {
      if (lies[v][e]) continue;
      wanted.push_back(v);
      const u32 maker = graph.values[v].maker;
      if (maker == TaskGraph::kInput) continue;
      fresh = true;
      const u32 source = piece_of[maker];
      ready = std::max(ready, laid.pieces[source].end);
      if (open[executor[maker]] == source) open[executor[maker]] = kNoPiece;
    }
    double from = e == all ? *std::max_element(busy.begin(), busy.end()) : std::max(busy[e], busy[all]);
    if (fresh) {
      host += graph.piece_host[e];
      from = std::max({from, ready, host});
      open[e] = static_cast<u32>(laid.pieces.size());
      laid.pieces.push_back({.executor = e, .tasks = {}, .copies = {}, .start = from, .end = from});
    }
    Piece& piece = laid.pieces[open[e]];
    double copying = 0;
    if (!wanted.empty()) {
      double latency = 0;
      for (const u32 v : wanted) {
        const TaskGraph::Value& value = graph.values[v];
        const std::size_t source = value.maker == TaskGraph::kInput ? value.lies : executor[value.maker];
        const TaskGraph::Link& link = graph.links[source][e];
        if (piece.copies.empty()) latency = std::max(latency, link.latency);
        copying += value.bytes / link.bytes_a_second;
        lies[v][e] = true;
      }
      copying += latency;
      piece.copies.insert(piece.copies.end(), wanted.begin(), wanted.end());
    }
    laid.copying[t] = copying;
    laid.begins[t] = std::max(from + copying, host);
    host += graph.call_host[e] * task.calls;
    piece.tasks.push_back(t);
    piece.end = busy[e] = laid.begins[t] + task.seconds[e];
    piece_of[t] = open[e];
    laid.seconds = std::max({laid.seconds, piece.end, host});
    if (early && exported[t]) open[e] = kNoPiece;
  }
  return laid;
}

Partition on_one(const TaskGraph& graph, std::size_t executor) {
  std::vector<u32> order(graph.tasks.size());
  std::iota(order.begin(), order.end(), 0);
  return lay_out(graph, order, std::vector<std::size_t>(graph.tasks.size(), executor), false);
}

namespace {

/// Tasks grouped into clusters. A cluster reads only from earlier clusters.
class Clusters {
 public:
  explicit Clusters(const TaskGraph& graph) : graph_(graph), of_(graph.tasks.size()) {
    std::iota(of_.begin(), of_.end(), 0);
    build();
  }

  std::size_t size() const { return tasks_.size(); }
  const std::vector<u32>& tasks(std::size_t c) const { return tasks_[c]; }
  const std::vector<u32>& reads(std::size_t c) const { return reads_[c]; }
  const std::vector<u32>& after(std::size_t c) const { return after_[c]; }
  double seconds(std::size_t c, std::size_t e) const { return seconds_[c][e]; }
  u32 of(u32 task) const { return of_[task]; }

  /// Merges chains. Then merges each cluster of less than `grain` seconds with its only predecessor, or its only
  /// successor. The merge creates no cycle, because no other path connects the two clusters.
  void coarsen(double grain) {
    for (bool more = true; more;) {
      const std::size_t before = size();
      join([&](u32 c) { return before_[c].size() == 1 && after_[before_[c][0]].size() == 1 ? before_[c][0] : c; });
      join([&](u32 c) { return before_[c].size() == 1 && least(c) < grain ? before_[c][0] : c; });
      join([&](u32 c) { return after_[c].size() == 1 && least(c) < grain ? after_[c][0] : c; });
      more = size() < before;
    }
  }
  /// Merges all clusters that are connected by values that tasks write.
  void join_connected() {
    std::vector<u32> root(size());
    std::iota(root.begin(), root.end(), 0);
    const auto find = [&](u32 c) {
      while (root[c] != c) c = root[c] = root[root[c]];
      return c;
    };
    for (u32 c = 0; c < size(); ++c) {
      for (const u32 next : after_[c]) root[find(next)] = find(c);
    }
    join([&](u32 c) { return find(c); });
  }

 private:
  double least(u32 c) const { return *std::min_element(seconds_[c].begin(), seconds_[c].end()); }

  /// Merges each cluster with the cluster that `into` returns for it.
  template <class Into>
  void join(Into into) {
    std::vector<u32> root(size());
    std::iota(root.begin(), root.end(), 0);
    const auto find = [&](u32 c) {
      while (root[c] != c) c = root[c] = root[root[c]];
      return c;
    };
    bool changed = false;
    for (u32 c = 0; c < size(); ++c) {
      const u32 a = find(c), b = find(into(c));
      if (a != b) root[a] = b, changed = true;
    }
    if (!changed) return;
    for (u32& c : of_) c = find(c);
    build();
  }

  void build() {
    // Numbers the clusters in topological order. If the order allows several clusters, the cluster with the lowest first
    // task comes first.
    std::map<u32, u32> dense;
    for (const u32 c : of_) dense.try_emplace(c, static_cast<u32>(dense.size()));
    for (u32& c : of_) c = dense[c];
    const std::size_t count = dense.size();
    std::vector<std::set<u32>> next(count);
    std::vector<u32> waits(count), first(count, ~u32{0});
    for (u32 t = 0; t < graph_.tasks.size(); ++t) {
      first[of_[t]] = std::min(first[of_[t]], t);
      for (const u32 v : graph_.tasks[t].reads) {
        const u32 maker = graph_.values[v].maker;
        if (maker == TaskGraph::kInput || of_[maker] == of_[t]) continue;
        if (next[of_[maker]].insert(of_[t]).second) ++waits[of_[t]];
      }
    }
    std::set<std::pair<u32, u32>> free;
    for (u32 c = 0; c < count; ++c) {
      if (waits[c] == 0) free.emplace(first[c], c);
    }
    std::vector<u32> number(count);
    u32 given = 0;
    while (!free.empty()) {
      const u32 c = free.begin()->second;
      free.erase(free.begin());
      number[c] = given++;
      for (const u32 other : next[c]) {
        if (--waits[other] == 0) free.emplace(first[other], other);
      }
    }
    tasks_.assign(count, {}), reads_.assign(count, {}), before_.assign(count, {}), after_.assign(count, {});
    seconds_.assign(count, std::vector<double>(graph_.executors()));
    for (u32 c = 0; c < count; ++c) {
      for (const u32 other : next[c])
        after_[number[c]].push_back(number[other]), before_[number[other]].push_back(number[c]);
    }
    std::vector<u32> seen(graph_.values.size(), ~u32{0});
    for (u32& c : of_) c = number[c];
    for (u32 t = 0; t < graph_.tasks.size(); ++t) tasks_[of_[t]].push_back(t);
    for (u32 c = 0; c < count; ++c) {
      for (const u32 t : tasks_[c]) {
        for (std::size_t e = 0; e < graph_.executors(); ++e) seconds_[c][e] += graph_.tasks[t].seconds[e];
        for (const u32 v : graph_.tasks[t].reads) {
          const u32 maker = graph_.values[v].maker;
          if (seen[v] == c || (maker != TaskGraph::kInput && of_[maker] == c)) continue;
          seen[v] = c;
          reads_[c].push_back(v);
        }
      }
    }
  }

  const TaskGraph& graph_;
  std::vector<u32> of_;  // cluster of each task
  std::vector<std::vector<u32>> tasks_, reads_, before_, after_;
  std::vector<std::vector<double>> seconds_;
};

struct Assignment {
  std::vector<std::size_t> executor;  // indexed by cluster
  std::vector<u32> order;
};

Partition laid(const TaskGraph& graph, const Clusters& clusters, const Assignment& a, bool early) {
  std::vector<u32> order;
  std::vector<std::size_t> executor(graph.tasks.size());
  for (const u32 c : a.order) {
    for (const u32 t : clusters.tasks(c)) order.push_back(t), executor[t] = a.executor[c];
  }
  return lay_out(graph, order, executor, early);
}

Partition laid(const TaskGraph& graph, const Clusters& clusters, const Assignment& a) {
  Partition one = laid(graph, clusters, a, true), other = laid(graph, clusters, a, false);
  return one.seconds <= other.seconds ? one : other;
}

/// Returns the length of the longest path from each cluster's start to the end, in mean seconds of tasks and copies.
std::vector<double> upward_ranks(const TaskGraph& graph, const Clusters& clusters) {
  const double members = static_cast<double>(graph.members);
  double latency = 0, byte = 0;
  for (std::size_t a = 0; a < graph.members; ++a) {
    for (std::size_t b = 0; b < graph.members; ++b) {
      if (a == b) continue;
      latency += graph.links[a][b].latency, byte += 1 / graph.links[a][b].bytes_a_second;
    }
  }
  // Returns the mean over all pairs of members. A member's copies to itself cost nothing.
  latency /= members * members, byte /= members * members;
  std::vector<double> bytes(clusters.size());  // bytes that each cluster reads from other clusters
  std::vector<double> rank(clusters.size());
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    for (const u32 v : clusters.reads(c)) bytes[c] += graph.values[v].bytes;
  }
  for (std::size_t c = clusters.size(); c-- > 0;) {
    double mean = 0, count = 0, ahead = 0;
    for (std::size_t e = 0; e < graph.executors(); ++e) {
      if (clusters.seconds(c, e) < kInfinite) mean += clusters.seconds(c, e), ++count;
    }
    for (const u32 next : clusters.after(c)) ahead = std::max(ahead, latency + bytes[next] * byte + rank[next]);
    rank[c] = mean / std::max(1.0, count) + ahead;
  }
  return rank;
}

struct Interval {
  double begin, end;
};

/// Returns the start of the first free interval of `length` seconds after `ready`.
double gap_in(const std::vector<Interval>& busy, double ready, double length) {
  double at = ready;
  for (const Interval& i : busy) {
    if (at + length <= i.begin) break;
    at = std::max(at, i.end);
  }
  return at;
}

void occupy(std::vector<Interval>& busy, Interval one) {
  busy.insert(
      std::upper_bound(busy.begin(), busy.end(), one.begin, [](double at, const Interval& i) { return at < i.begin; }), one);
}

/// Schedules clusters by HEFT. `together`: clusters may also run on all members together.
Assignment heft(const TaskGraph& graph, const Clusters& clusters, bool together) {
  const std::size_t count = clusters.size(), all = graph.all();
  const std::vector<double> rank = upward_ranks(graph, clusters);
  Assignment a{.executor = std::vector<std::size_t>(count), .order = std::vector<u32>(count)};
  std::iota(a.order.begin(), a.order.end(), 0);
  std::stable_sort(a.order.begin(), a.order.end(), [&](u32 x, u32 y) { return rank[x] > rank[y]; });
  // A cluster's rank exceeds the ranks of its successors, so this order respects dependences. Clusters of zero time
  // remain in the order of their numbers.
  std::vector<std::vector<Interval>> busy(graph.members);
  std::vector<double> finish(count), start(count);
  std::vector<std::vector<bool>> lies(graph.values.size(), std::vector<bool>(graph.executors()));
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].maker == TaskGraph::kInput) lies[v][graph.values[v].lies] = true;
  }
  // A cluster on all members together occupies every member. A cluster on all members is allowed only if it is much faster
  // than on one member.
  const auto shares = [&](u32 c) {
    double least = kInfinite;
    for (std::size_t m = 0; m < graph.members; ++m) least = std::min(least, clusters.seconds(c, m));
    return clusters.seconds(c, all) < kShared * least;
  };
  for (const u32 c : a.order) {
    double best = kInfinite, best_start = 0;
    std::size_t chosen = all;
    for (std::size_t e = 0; e < graph.executors(); ++e) {
      if (clusters.seconds(c, e) == kInfinite || (e == all && (!together || !shares(c)))) continue;
      double ready = 0, copying = 0, latency = 0;
      for (const u32 v : clusters.reads(c)) {
        const TaskGraph::Value& value = graph.values[v];
        if (value.maker != TaskGraph::kInput) ready = std::max(ready, finish[clusters.of(value.maker)]);
        if (lies[v][e]) continue;
        const std::size_t from = value.maker == TaskGraph::kInput ? value.lies : a.executor[clusters.of(value.maker)];
        const TaskGraph::Link& link = graph.links[from][e];
        latency = std::max(latency, link.latency + (value.maker == TaskGraph::kInput ? 0 : graph.piece_host[e]));
        copying += value.bytes / link.bytes_a_second;
      }
      const double length = latency + copying + clusters.seconds(c, e);
      double at = ready;
      if (e == all) {
        for (const auto& list : busy) at = std::max(at, list.empty() ? 0 : list.back().end);
      } else {
        at = gap_in(busy[e], ready, length);
      }
      if (at + length < best) best = at + length, best_start = at, chosen = e;
    }
    a.executor[c] = chosen;
    start[c] = best_start, finish[c] = best;
    for (std::size_t m = 0; m < graph.members; ++m) {
      if (m == chosen || chosen == all) occupy(busy[m], {best_start, best});
    }
    for (const u32 v : clusters.reads(c)) lies[v][chosen] = true;
    for (const u32 t : clusters.tasks(c)) {
      for (const u32 v : graph.tasks[t].writes) lies[v][chosen] = true;
    }
  }
  std::sort(a.order.begin(), a.order.end(), [&](u32 x, u32 y) { return std::pair(start[x], x) < std::pair(start[y], y); });
  return a;
}

/// Moves single clusters to other executors, as long as the predicted time decreases.
void improve(const TaskGraph& graph, const Clusters& clusters, Assignment& a, Partition& best) {
  const std::size_t each = clusters.size() * (graph.executors() - 1) * std::max<std::size_t>(1, graph.tasks.size());
  std::size_t left = each > kMostTried * 64 ? 0 : kMostTried;
  for (bool more = left > 0; more;) {
    more = false;
    for (std::size_t c = 0; c < clusters.size() && left > 0; ++c) {
      for (std::size_t e = 0; e < graph.executors() && left > 0; ++e) {
        if (e == a.executor[c] || clusters.seconds(c, e) == kInfinite) continue;
        const std::size_t before = std::exchange(a.executor[c], e);
        Partition tried = laid(graph, clusters, a);
        --left;
        if (tried.seconds < best.seconds * (1 - 1e-9))
          best = std::move(tried), more = true;
        else
          a.executor[c] = before;
      }
    }
  }
}

}  // namespace

Partition partition(const TaskGraph& graph) {
  Partition least = on_one(graph, graph.all());
  Partition one{.pieces = {}, .begins = {}, .copying = {}, .seconds = kInfinite};
  for (std::size_t m = 0; m < graph.members; ++m) {
    if (Partition p = on_one(graph, m); p.seconds < one.seconds) one = std::move(p);
  }
  if (one.seconds < kInfinite && !(least.seconds * kSlack < one.seconds)) least = std::move(one);
  if (graph.members < 2 || graph.tasks.size() < 2) return least;
  double copy = 0;
  for (std::size_t m = 0; m < graph.members; ++m) copy = std::max(copy, graph.links[0][m].latency + graph.piece_host[m]);
  Partition best{.pieces = {}, .begins = {}, .copying = {}, .seconds = kInfinite};
  std::optional<Clusters> best_clusters;
  Assignment best_assignment;
  const auto consider = [&](const Clusters& clusters) {
    if (clusters.size() < 2) return;
    for (const bool together : {false, true}) {
      const Assignment a = heft(graph, clusters, together);
      Partition p = laid(graph, clusters, a);
      if (p.seconds < best.seconds) best = std::move(p), best_clusters.emplace(clusters), best_assignment = a;
    }
  };
  for (const double grain : {0.0, 1.0, 4.0, 16.0, 64.0}) {
    Clusters clusters(graph);
    clusters.coarsen(grain * copy);
    consider(clusters);
  }
  Clusters connected(graph);
  connected.join_connected();
  consider(connected);
  if (best_clusters) improve(graph, *best_clusters, best_assignment, best);
  return best.seconds * kGain < least.seconds ? best : least;
}

}  // namespace heliograph::program
