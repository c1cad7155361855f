// Replays of a program as one graph, on devices with graphs.
#pragma once

#include <atomic>
#include <list>
#include <mutex>

#include "program/schedule.h"

namespace heliograph::program {

/// The graphs of one program. An exit is a set of result buffers, reused when all results in it are released. An exit has
/// a graph for each of the owners whose keys were used last. All graphs share the memory of intermediate values, because
/// they run one after another. Under memory pressure graphs are evicted and captured again later. Tests set
/// HELIOGRAPH_REPLAY=batched: replays then always use the batched schedule. Devices without graphs then execute the batched
/// calls one by one.
class Graphs final : public device::Resident {
 public:
  /// `parts` must outlive this object.
  explicit Graphs(const Program::Parts& parts);
  /// Replays as a graph. Returns nullopt if the program or its device has no graphs, or memory is short; the caller then
  /// makes each call.
  std::optional<std::vector<View>> replay(const std::vector<View>& inputs, const std::vector<const KeySource*>& keys);
  std::size_t evictable_bytes() override;
  std::size_t evict() override;
  u64 replays() const { return replays_; }
  /// Number of calls of a replay after batching; 0 without graphs.
  std::size_t launches() const { return schedule_ ? schedule_->launches() : 0; }

 private:
  /// A graph, and the memory of the keys to which it is bound.
  struct Bound {
    std::vector<std::weak_ptr<Memory>> keys;
    std::unique_ptr<device::Graph> graph = nullptr;  // null: a replay enqueues the calls one by one
    bool to(const std::vector<Buffer>& memory) const;
  };
  struct Exit {
    std::vector<Buffer> results;  // indexed by area: the buffer of a result; null for other areas
    std::list<Bound> bound = {};  // most recently used first
    bool free() const;
    /// Moves the graph of these keys to the front and returns it; null if there is none.
    Bound* bound_to(const std::vector<Buffer>& keys);
  };
  /// Returns whether a graph replay is predicted to be about as fast as single calls, or faster.
  bool pays() const;
  /// Returns a free exit whose first graph is bound to these keys; null if no exit is free.
  Exit* open(const std::vector<Buffer>& keys);
  void enqueue_all(const Exit& exit, const std::vector<Buffer>& keys) const;
  std::byte* address(const Spot& spot, const Exit& exit) const;
  std::size_t held_bytes() const;

  const Program::Parts& parts_;
  const Session* session_ = nullptr;
  std::unique_ptr<const Schedule> schedule_;  // null: the program has no graphs
  bool always_ = false;
  std::atomic<bool> refused_{false};  // true: the device cannot capture these calls
  /// Set while a thread replays. The replaying thread holds the mutex, and its allocations may call evict(), which must then
  /// not lock the mutex.
  std::atomic<bool> busy_{false};
  std::mutex mutex_;  // guards the members below
  Buffer arena_;
  std::list<Exit> exits_;
  std::atomic<u64> replays_{0};
};

}  // namespace heliograph::program
