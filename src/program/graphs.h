// Replays of a program as one graph, on devices that have such.
#pragma once

#include <atomic>
#include <list>
#include <mutex>

#include "program/schedule.h"

namespace heliograph::program {

/// The graphs of one program. Some have results of their own, which are used again when nobody holds them any more: an exit,
/// which has a graph for each of the owners whose keys were used last. All share the memory in between, for they run one
/// after another. Under memory pressure they go, and are captured anew.
/// HELIOGRAPH_REPLAY=batched, for tests: always, and where a device has no graphs the same calls on batches one by one.
class Graphs final : public device::Resident {
 public:
  /// `parts` must outlive it.
  explicit Graphs(const Program::Parts& parts);
  /// None where this program or its device has no graphs, or memory is short: the calls are then to be made one by one.
  std::optional<std::vector<View>> replay(const std::vector<View>& inputs, const std::vector<const KeySource*>& keys);
  std::size_t evictable_bytes() override;
  std::size_t evict() override;
  u64 replays() const { return replays_; }
  /// Calls of a replay, alike ones on a batch taken together; 0 where there are no graphs.
  std::size_t launches() const { return schedule_ ? schedule_->launches() : 0; }

 private:
  /// A graph, and the memory of each key place that it names.
  struct Bound {
    std::vector<std::weak_ptr<Memory>> keys;
    std::unique_ptr<device::Graph> graph = nullptr;  // null: the calls are made at each replay
    bool to(const std::vector<Buffer>& memory) const;
  };
  struct Exit {
    std::vector<Buffer> results;  // of each area that is a result; else null
    std::list<Bound> bound = {};  // the one used last first
    bool free() const;
    /// The one of these keys, now the first; null where there is none.
    Bound* bound_to(const std::vector<Buffer>& keys);
  };
  /// Whether a replay as a graph is expected to take no longer than its calls one by one.
  bool pays() const;
  /// An exit that is free, whose first graph is bound to these keys; null where all are held.
  Exit* open(const std::vector<Buffer>& keys);
  void enqueue_all(const Exit& exit, const std::vector<Buffer>& keys) const;
  std::byte* address(const Spot& spot, const Exit& exit) const;
  std::size_t held_bytes() const;

  const Program::Parts& parts_;
  const Session* session_ = nullptr;
  std::unique_ptr<const Schedule> schedule_;  // null: no graphs
  bool always_ = false;
  std::atomic<bool> refused_{false};  // the device could not capture these calls
  /// Whoever replays has the mutex and may be asked, by its own allocations, to leave: it must not try to lock.
  std::atomic<bool> busy_{false};
  std::mutex mutex_;  // of all below
  Buffer arena_;
  std::list<Exit> exits_;
  std::atomic<u64> replays_{0};
};

}  // namespace heliograph::program
