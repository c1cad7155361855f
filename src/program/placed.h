// A program on the members of a device of several parts: placement of its calls, and their replay.
#pragma once

#include "device/members.h"
#include "program/partition.h"
#include "program/program.h"

namespace heliograph::program {

/// A program as a graph of tasks. All steps that write one place are in one task, so that one executor writes the place.
struct Tasks {
  TaskGraph graph;
  std::vector<std::vector<u32>> steps;                    // steps of each task, ascending
  std::vector<std::vector<std::vector<double>>> seconds;  // [task][step][executor]
  std::vector<u32> places;                                // place of each value
  /// `lies`: the executor that has each input. `keys`: null if the keys of TFHE calls are unknown.
  Tasks(const Program::Parts& parts, const device::Members& members, const std::vector<std::size_t>& lies,
        const std::vector<const KeySource*>* keys, std::size_t peak_bytes);
};

/// The placement of a program for one layout of its inputs. The placement's data on members (copies of constants, graphs)
/// can be evicted.
class Placed final : public device::Resident {
 public:
  /// The arguments must outlive this object.
  Placed(const Program::Parts& parts, device::Members& members, const std::vector<std::size_t>& lies,
         const std::vector<const KeySource*>* keys, std::size_t peak_bytes);
  /// Returns whether calls run on single members; false if all run on all members together.
  bool places() const { return places_; }
  const Partition& partition() const { return partition_; }
  Program::Timeline timeline() const;
  /// `graphs` returns whether a member replayed a part as a graph. Throws OutOfMemoryError.
  std::vector<View> replay(const std::vector<View>& inputs, const std::vector<const KeySource*>& keys, bool& graphs);

  std::size_t evictable_bytes() override;
  std::size_t evict() override;

 private:
  /// A piece of the partition, as steps and places of the program.
  struct Part {
    std::size_t executor = 0;
    std::vector<u32> steps;
    std::vector<u32> takes;              // places of its inputs: inputs of the program and outputs of other parts
    std::vector<u32> outputs;            // places that other parts or the caller use
    std::vector<u32> keys;               // places of its keys, each once
    bool awaited = false;                // whether other executors use its outputs
    std::shared_ptr<const Program> own;  // the part as a program of a member with its own session; made at the first replay
    std::vector<u32> own_takes;          // places of the inputs of `own`
  };
  /// One action of a replay: a part, or one step of it. Actions are in the order of predicted starts.
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
  std::vector<u32> born_;      // first step that uses each place
  std::vector<u32> piece_of_;  // part that writes each place
  std::mutex mutex_;           // guards the members below and Part::own
  std::atomic<bool> busy_{false};
  std::vector<std::vector<Buffer>> constants_;  // copies of constants: [executor][place]
};

}  // namespace heliograph::program
