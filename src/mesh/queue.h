// A queue of a mesh: one queue for each member.
#pragma once

#include "mesh/state.h"

namespace heliograph::mesh {

/// A point in a member's queue. Another member can wait for this point before the host has reached it.
class Mark {
 public:
  /// Sets the point. The member's thread calls this function.
  void set(std::shared_ptr<device::Event> event) {
    event_ = std::move(event);
    signal_.set();
  }
  /// Releases the waiting threads if the point will never be reached.
  void give_up() { signal_.set(); }
  /// Blocks until the host reaches the point. Returns null if the host will never reach the point.
  const std::shared_ptr<device::Event>& get() {
    signal_.wait();
    return event_;
  }

 private:
  Signal signal_;
  std::shared_ptr<device::Event> event_;
};

/// Sets a mark, or abandons it on destruction.
class Setter {
 public:
  explicit Setter(std::shared_ptr<Mark> mark) : mark_(std::move(mark)) {}
  ~Setter() { mark_->give_up(); }
  Setter(const Setter&) = delete;
  Setter& operator=(const Setter&) = delete;
  void set(std::shared_ptr<device::Event> event) { mark_->set(std::move(event)); }

 private:
  std::shared_ptr<Mark> mark_;
};

class MeshKernels;
class MeshTfheKernels;

class MeshQueue final : public Queue {
 public:
  explicit MeshQueue(std::shared_ptr<State> state);
  ~MeshQueue() override;

  bool supports(const device::Call& call) const override;
  std::shared_ptr<device::Event> record() override;
  void after(const device::Event& event) override;
  void uses(const Buffer& buffer) override;
  void wait() override;
  /// Returns null if a layout is forced, or if the mesh has a single member.
  device::Members* members() override;

  State& state() const { return *state_; }
  const std::shared_ptr<State>& shared_state() const { return state_; }
  Queue& queue(std::size_t member) const { return *queues_[member]; }
  const std::shared_ptr<Queue>& shared_queue(std::size_t member) const { return queues_[member]; }
  std::vector<Queue*> queues() const;
  /// Records that work is posted to a member's queue, so that wait() waits for it. The caller must hold the mesh's mutex.
  void touch(std::size_t member) { ++posted_[member]; }
  /// Returns the barrier of the members' devices, which works without the host; null if they have none. The barrier is made
  /// at the first call.
  const std::shared_ptr<device::Meeting>& meeting();
  /// Returns a mark after all work that is posted to a member so far.
  std::shared_ptr<Mark> mark(std::size_t member);
  /// Makes later work of a member start after `mark` of member `from`.
  void after(std::size_t member, std::size_t from, std::shared_ptr<Mark> mark);

 protected:
  void perform(const device::Call& call) override;

 private:
  std::shared_ptr<State> state_;
  std::unique_ptr<MeshKernels> ring_;
  std::unique_ptr<MeshTfheKernels> lwe_;
  std::vector<std::shared_ptr<Queue>> queues_;
  std::vector<device::u64> posted_;               // for each member, the number of touches
  std::vector<std::atomic<device::u64>> waited_;  // for each member, the number of touches whose work has finished
  std::optional<std::shared_ptr<device::Meeting>> meeting_;
  std::unique_ptr<device::Members> members_;
};

/// Casts `queue` to a mesh's queue. Throws MismatchError.
MeshQueue& own(Queue& queue);

}  // namespace heliograph::mesh
