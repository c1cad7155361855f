// Which member of a device of several runs which tasks, and when: a list scheduler. Numbers alone: seconds and bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heliograph::program {

/// Tasks that hand values to each other, and what executors and links take. Executor m < members is a member alone; executor
/// `members` is all members together, on data that lies as the device chooses.
struct TaskGraph {
  static constexpr std::uint32_t kInput = ~std::uint32_t{0};
  struct Value {
    double bytes = 0;
    std::uint32_t maker = kInput;  // the task that writes it
    std::size_t lies = 0;          // of an input: the executor that has it at the start
  };
  struct Task {
    std::vector<double> seconds;               // on each executor; infinity: it cannot run there
    std::vector<std::uint32_t> reads, writes;  // values, each once; what a task writes itself it does not read
    double calls = 1;
  };
  struct Link {
    double latency = 0;  // seconds of a copy of nothing
    double bytes_a_second = 1;
  };
  std::size_t members = 1;
  std::vector<Task> tasks;  // a task reads what earlier ones write
  std::vector<Value> values;
  std::vector<std::vector<Link>> links;  // [from][to], of executors
  std::vector<double> call_host;         // seconds of the host for a call of each executor
  std::vector<double> piece_host;        // the same for a piece

  std::size_t executors() const { return members + 1; }
  std::size_t all() const { return members; }
};

/// Consecutive tasks of one executor. It copies what lies elsewhere, then runs; others may use its results when all of it is done.
struct Piece {
  std::size_t executor = 0;
  std::vector<std::uint32_t> tasks;
  std::vector<std::uint32_t> copies;  // values that it copies from elsewhere
  double start = 0, end = 0;          // predicted seconds
};

struct Partition {
  std::vector<Piece> pieces;    // in the order in which the host enqueues them: each after those whose results it uses
  std::vector<double> begins;   // of each task
  std::vector<double> copying;  // seconds of the copies right before each task
  double seconds = 0;           // predicted, of the whole
  /// The only executor; `executors` of the graph where there are several or none.
  std::size_t sole(const TaskGraph& graph) const;
};

/// The schedule of tasks that run in this order, each on its executor. `early`: a piece ends with a task whose results others
/// use; else it goes on until they are wanted.
Partition lay_out(const TaskGraph& graph, const std::vector<std::uint32_t>& order, const std::vector<std::size_t>& executor,
                  bool early);
/// All tasks on one executor.
Partition on_one(const TaskGraph& graph, std::size_t executor);
/// The schedule with the least predicted time among: one executor; and HEFT (Topcuoglu 2002: upward ranks, earliest finish time
/// with insertion) on tasks clustered at several granularities. Several executors only where that gains a tenth.
Partition partition(const TaskGraph& graph);

}  // namespace heliograph::program
