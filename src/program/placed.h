// A program on the members of a device of several: which calls run where, and their replay there.
#pragma once

#include "device/members.h"
#include "program/partition.h"
#include "program/program.h"

namespace heliograph::program {

/// A program as tasks: steps that write one place are one task, so that each place is made on one executor.
struct Tasks {
  TaskGraph graph;
  std::vector<std::vector<u32>> steps;                    // of each task, ascending
  std::vector<std::vector<std::vector<double>>> seconds;  // of each task, each of its steps, each executor
  std::vector<u32> places;                                // of each value
  /// `lies`: for each input's place the executor that holds it. `keys`: null where TFHE's calls have none.
  Tasks(const Program::Parts& parts, const device::Members& members, const std::vector<std::size_t>& lies,
        const std::vector<const KeySource*>* keys, std::size_t peak_bytes);
};

/// Made for inputs that lie so. What it keeps on members (copies of constants, graphs) leaves when memory is short.
class Placed final : public device::Resident {
 public:
  /// All outlive it.
  Placed(const Program::Parts& parts, device::Members& members, const std::vector<std::size_t>& lies,
         const std::vector<const KeySource*>* keys, std::size_t peak_bytes);
  /// Whether calls are placed on members; false where all of them run on all members together.
  bool places() const { return places_; }
  const Partition& partition() const { return partition_; }
  Program::Timeline timeline() const;
  /// `graphs`: whether a member replayed a part of it as a graph. Throws OutOfMemoryError.
  std::vector<View> replay(const std::vector<View>& inputs, const std::vector<const KeySource*>& keys, bool& graphs);

  std::size_t evictable_bytes() override;
  std::size_t evict() override;

 private:
  /// A piece of the partition in terms of the program.
  struct Part {
    std::size_t executor = 0;
    std::vector<u32> steps;
    std::vector<u32> takes;              // places of inputs and of what other pieces make
    std::vector<u32> outputs;            // places that it makes for others, and for the caller
    std::vector<u32> keys;               // places of the keys that it uses, each once
    bool awaited = false;                // by other executors
    std::shared_ptr<const Program> own;  // of a member that runs it by itself; made at the first replay
    std::vector<u32> own_takes;          // places of its inputs
  };
  /// In the order of the predicted start: a step of a part, or all of it.
  struct Action {
    double start;
    u32 part, step;
    std::vector<u32> releases = {};  // places that no later action uses
  };
  class Run;

  void make_parts();
  void make_own(Part& part);

  const Program::Parts& parts_;
  device::Members& members_;
  const Tasks tasks_;
  const Partition partition_;
  const bool places_;
  std::vector<Part> pieces_;
  std::vector<Action> actions_;
  std::vector<u32> born_;      // of each place, the step that uses it first
  std::vector<u32> piece_of_;  // of each place that is made
  std::mutex mutex_;           // of what follows, and of Part::own
  std::atomic<bool> busy_{false};
  std::vector<std::vector<Buffer>> constants_;  // copies, of each executor and place
};

}  // namespace heliograph::program
