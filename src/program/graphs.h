// Replays of a program as one graph, on devices that have such.
#pragma once

#include <atomic>
#include <list>
#include <mutex>

#include "program/schedule.h"

namespace heliograph::program {

/// The graphs of one program. Each has results of its own, which are used again when nobody holds them any more; all share
/// the memory in between, for they run one after another. Under memory pressure they go, and are captured anew.
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
  struct Exit {
    std::vector<Buffer> results;           // of each area that is a result; else null
    std::unique_ptr<device::Graph> graph;  // null: the calls are made at each replay
    bool free() const;
  };
  /// Whether a replay as a graph is expected to take no longer than its calls one by one.
  bool pays() const;
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
  std::vector<std::weak_ptr<Memory>> bound_;  // the memory of each key place that the graphs name
  std::atomic<u64> replays_{0};
};

}  // namespace heliograph::program
