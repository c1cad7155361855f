#include "device/forms.h"

#include <algorithm>

#include "base/process_state.h"

namespace heliograph::device {

Slot::Slot() {
  ProcessState& all = process_state();
  const std::lock_guard lock(all.slots_mutex);
  auto& taken = all.slots_taken;
  place_ = static_cast<std::size_t>(std::find(taken.begin(), taken.end(), false) - taken.begin());
  if (place_ == taken.size()) taken.push_back(false);
  taken[place_] = true;
  id_ = ++all.slots_made;
}

Slot::~Slot() {
  ProcessState& all = process_state();
  const std::lock_guard lock(all.slots_mutex);
  all.slots_taken[place_] = false;
}

Forms& Forms::operator=(const Forms& other) {
  if (this != &other) clear();  // the forms belong to the constant's previous value
  return *this;
}

void Forms::keep(const Slot& slot, std::unique_ptr<const Form> form) const {
  Block* block = &first_;
  std::size_t place = slot.place();
  for (; place >= kPlaces; place -= kPlaces) {
    Block* next = block->next.load(std::memory_order_acquire);
    if (!next) {
      auto fresh = std::make_unique<Block>();
      if (block->next.compare_exchange_strong(next, fresh.get(), std::memory_order_acq_rel)) next = fresh.release();
    }
    block = next;
  }
  auto mine = std::make_unique<const Kept>(Kept{slot.id(), std::move(form)});
  std::atomic<const Kept*>& at = block->places[place];
  const Kept* before = at.load(std::memory_order_acquire);
  while (!before || before->owner != slot.id()) {
    if (!at.compare_exchange_weak(before, mine.get(), std::memory_order_acq_rel)) continue;
    mine.release();
    delete before;  // `before` belongs to a device that was closed
    return;
  }
}

void Forms::clear() {
  Block* block = &first_;
  while (block) {
    for (auto& place : block->places) delete place.exchange(nullptr);
    Block* const next = block->next.exchange(nullptr);
    if (block != &first_) delete block;
    block = next;
  }
}

}  // namespace heliograph::device
