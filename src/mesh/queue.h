// A queue of a mesh: one of each member.
#pragma once

#include "mesh/state.h"

namespace heliograph::mesh {

/// A point in a member's queue that another member may wait for before the host has reached it.
class Mark {
 public:
  /// On the member's thread.
  void set(std::shared_ptr<device::Event> event) {
    event_ = std::move(event);
    signal_.set();
  }
  /// Releases the waiting threads although the point is never reached.
  void give_up() { signal_.set(); }
  /// Blocks until the host has reached the point; null where it never will.
  const std::shared_ptr<device::Event>& get() {
    signal_.wait();
    return event_;
  }

 private:
  Signal signal_;
  std::shared_ptr<device::Event> event_;
};

/// Sets a mark, or gives it up when destroyed before that.
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
  /// Null where a layout is forced, or there is one member alone.
  device::Members* members() override;

  State& state() const { return *state_; }
  const std::shared_ptr<State>& shared_state() const { return state_; }
  Queue& queue(std::size_t member) const { return *queues_[member]; }
  const std::shared_ptr<Queue>& shared_queue(std::size_t member) const { return queues_[member]; }
  std::vector<Queue*> queues() const;
  /// Something is posted to a member's queue: who waits for this queue waits for it. The mesh's mutex is held.
  void touch(std::size_t member) { ++posted_[member]; }
  /// The members' synchronisation without the host; null where they have none. Made at the first call.
  const std::shared_ptr<device::Meeting>& meeting();
  /// A mark after all that was posted to a member so far.
  std::shared_ptr<Mark> mark(std::size_t member);
  /// Work posted to a member from now on starts after `mark`, of member `from`.
  void after(std::size_t member, std::size_t from, std::shared_ptr<Mark> mark);

 protected:
  void perform(const device::Call& call) override;

 private:
  std::shared_ptr<State> state_;
  std::unique_ptr<MeshKernels> ring_;
  std::unique_ptr<MeshTfheKernels> lwe_;
  std::vector<std::shared_ptr<Queue>> queues_;
  std::vector<device::u64> posted_;               // times that each was touched
  std::vector<std::atomic<device::u64>> waited_;  // of these, how many are known to be done
  std::optional<std::shared_ptr<device::Meeting>> meeting_;
  std::unique_ptr<device::Members> members_;
};

/// `queue` as a mesh's. Throws MismatchError.
MeshQueue& own(Queue& queue);

}  // namespace heliograph::mesh
