#include "mesh/queue.h"

#include <utility>

#include "device/perform.h"
#include "mesh/kernels.h"
#include "mesh/members.h"
#include "mesh/tfhe.h"

namespace heliograph::mesh {

namespace {

class MeshEvent final : public device::Event {
 public:
  MeshEvent(std::shared_ptr<State> state, std::vector<std::shared_ptr<Mark>> marks)
      : state_(std::move(state)), marks_(std::move(marks)) {}
  void wait() override {
    for (const auto& mark : marks_) {
      if (const auto& event = mark->get()) event->wait();
    }
    state_->require_sound();
  }
  const std::vector<std::shared_ptr<Mark>>& marks() const { return marks_; }

 private:
  std::shared_ptr<State> state_;
  std::vector<std::shared_ptr<Mark>> marks_;
};

}  // namespace

MeshQueue::MeshQueue(std::shared_ptr<State> state)
    : state_(std::move(state)),
      ring_(std::make_unique<MeshKernels>(state_)),
      lwe_(std::make_unique<MeshTfheKernels>(state_)),
      posted_(state_->size()),
      waited_(state_->size()) {
  for (std::size_t m = 0; m < state_->size(); ++m) queues_.push_back(state_->member(m).device->make_queue());
  if (state_->size() > 1 && !state_->options().layout) members_ = std::make_unique<MeshMembers>(*this, *lwe_);
}

device::Members* MeshQueue::members() { return members_.get(); }

bool MeshQueue::supports(const device::Call& call) const { return device::performs<MeshKernels, MeshTfheKernels>(call); }

void MeshQueue::perform(const device::Call& call) {
  const std::lock_guard lock(state_->mutex());
  state_->require_sound();
  // If one member holds all operands, it executes the call. A long call of one ciphertext is an exception, because the
  // limbs' owners may share it.
  if (!State::is_long(call) && ring_->directly(*this, call)) return;
  state_->place_result(call, *this);
  if (!ring_->directly(*this, call)) device::perform(*this, call, *ring_, *lwe_);
}

MeshQueue::~MeshQueue() {
  members_ = nullptr;
  // Posted work must end before the members' queues do.
  const std::lock_guard lock(state_->mutex());
  for (std::size_t m = 0; m < queues_.size(); ++m)
    state_->post(
        m, [queue = std::move(queues_[m])]() mutable { queue.reset(); }, true);
}

MeshQueue& own(Queue& queue) {
  auto* const mine = dynamic_cast<MeshQueue*>(&queue);
  require<MismatchError>(mine != nullptr, "cannot use a queue of another device");
  return *mine;
}

std::vector<Queue*> MeshQueue::queues() const {
  std::vector<Queue*> r;
  for (const auto& q : queues_) r.push_back(q.get());
  return r;
}

const std::shared_ptr<device::Meeting>& MeshQueue::meeting() {
  if (!meeting_) {
    meeting_ = nullptr;
    if (!state_->options().events && !state_->options().staged && state_->size() > 1) {
      state_->drain();  // waits until no thread uses the queues
      std::vector<device::Device*> devices;
      for (std::size_t m = 0; m < state_->size(); ++m) devices.push_back(state_->member(m).device.get());
      meeting_ = devices[0]->make_meeting(devices, queues());
    }
  }
  return *meeting_;
}

std::shared_ptr<Mark> MeshQueue::mark(std::size_t m) {
  const auto mark = std::make_shared<Mark>();
  state_->post(m, [setter = std::make_shared<Setter>(mark), queue = queues_[m].get()] { setter->set(queue->record()); });
  return mark;
}

void MeshQueue::after(std::size_t m, std::size_t from, std::shared_ptr<Mark> mark) {
  const bool ordered = state_->reaches(m, from);
  state_->post(m, [mark = std::move(mark), queue = queues_[m].get(), ordered] {
    const auto& event = mark->get();
    if (!event) return;
    ordered ? queue->after(*event) : event->wait();
  });
}

std::shared_ptr<device::Event> MeshQueue::record() {
  const std::lock_guard lock(state_->mutex());
  std::vector<std::shared_ptr<Mark>> marks;
  for (std::size_t m = 0; m < queues_.size(); ++m) marks.push_back(mark(m));
  return std::make_shared<MeshEvent>(state_, std::move(marks));
}

void MeshQueue::after(const device::Event& event) {
  const auto* const mine = dynamic_cast<const MeshEvent*>(&event);
  require<MismatchError>(mine != nullptr, "cannot use an event of another device");
  const std::lock_guard lock(state_->mutex());
  for (std::size_t m = 0; m < queues_.size(); ++m) touch(m), after(m, m, mine->marks()[m]);
}

void MeshQueue::uses(const Buffer& buffer) {
  const auto* const memory = dynamic_cast<const MeshMemory*>(buffer.get());
  require<MismatchError>(memory != nullptr, "cannot use memory of another device");
  const std::lock_guard lock(state_->mutex());
  for (std::size_t m = 0; m < queues_.size(); ++m) {
    if (!memory->local(m)) continue;
    Buffer mine = memory->local(m);
    while (const auto* const part = dynamic_cast<const Within*>(mine.get())) mine = part->whole();
    state_->post(m, [queue = queues_[m].get(), mine = std::move(mine)] { queue->uses(mine); });
  }
}

void MeshQueue::wait() {
  std::vector<device::u64> posted;
  {
    const std::lock_guard lock(state_->mutex());
    posted = posted_;
  }
  state_->drain();
  for (std::size_t m = 0; m < queues_.size(); ++m) {
    if (waited_[m].load() >= posted[m]) continue;
    queues_[m]->wait();
    // if two threads wait, the thread with the smaller count may finish last; the maximum keeps the larger count
    waited_[m].store(std::max(waited_[m].load(), posted[m]));
  }
  state_->require_sound();
}

}  // namespace heliograph::mesh
