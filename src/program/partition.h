// A list scheduler. The schedule assigns tasks and start times to the members of a device. The input of the schedule has
// only seconds and bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heliograph::program {

/// Tasks, the values that they pass to each other, and the costs of executors and links. Executor m < members is a single
/// member. Executor `members` is all members together, with the device's own data layout.
struct TaskGraph {
  static constexpr std::uint32_t kInput = ~std::uint32_t{0};
  struct Value {
    double bytes = 0;
    std::uint32_t maker = kInput;  // task that writes the value
    std::size_t lies = 0;          // for an input: executor that has the input at the start
  };
  struct Task {
    std::vector<double> seconds;               // predicted seconds for each executor; infinity: the task cannot run there
    std::vector<std::uint32_t> reads, writes;  // values without duplicates; `reads` excludes values that the task writes
    double calls = 1;
  };
  struct Link {
    double latency = 0;  // latency in seconds
    double bytes_a_second = 1;
  };
  std::size_t members = 1;
  std::vector<Task> tasks;  // a task reads only outputs of earlier tasks and inputs
  std::vector<Value> values;
  std::vector<std::vector<Link>> links;  // [from executor][to executor]
  std::vector<double> call_host;         // for each executor: seconds of host time per call
  std::vector<double> piece_host;        // for each executor: seconds of host time per piece

  std::size_t executors() const { return members + 1; }
  std::size_t all() const { return members; }
};

/// Consecutive tasks of one executor. The executor first copies values that it lacks, then runs the tasks. Other
/// executors can use the results after the last task.
struct Piece {
  std::size_t executor = 0;
  std::vector<std::uint32_t> tasks;
  std::vector<std::uint32_t> copies;  // values that are copied from other executors
  double start = 0, end = 0;          // predicted seconds
};

struct Partition {
  std::vector<Piece> pieces;    // in the order in which the host enqueues them; a piece follows those whose results it uses
  std::vector<double> begins;   // start time of each task
  std::vector<double> copying;  // seconds of copies before each task
  double seconds = 0;           // predicted total time
  /// Returns the executor of all pieces. Returns graph.executors() if there are several executors or none.
  std::size_t sole(const TaskGraph& graph) const;
};

/// Computes the schedule of tasks in this order, each on its executor. `early`: a piece ends at each task whose result
/// another executor uses. If `early` is false, a piece ends only when another executor starts to need a result.
Partition lay_out(const TaskGraph& graph, const std::vector<std::uint32_t>& order, const std::vector<std::size_t>& executor,
                  bool early);
Partition on_one(const TaskGraph& graph, std::size_t executor);
/// Returns the schedule with the least predicted time. Candidates are all tasks on one executor, and HEFT on clusters of
/// several sizes (Topcuoglu, 2002: upward ranks, earliest finish time with insertion). Several executors are chosen only
/// if they gain a tenth.
Partition partition(const TaskGraph& graph);

}  // namespace heliograph::program
