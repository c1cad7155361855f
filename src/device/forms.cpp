#include "device/forms.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace heliograph::device {

namespace {

struct Places {
  std::mutex mutex;
  std::vector<bool> taken;
  std::uint64_t ids = 0;
};

/// Never destroyed: devices of static storage let go of their places late.
Places& places() {
  static auto* const all = new Places;
  return *all;
}

}  // namespace

Slot::Slot() {
  Places& all = places();
  const std::lock_guard lock(all.mutex);
  place_ = static_cast<std::size_t>(std::find(all.taken.begin(), all.taken.end(), false) - all.taken.begin());
  if (place_ == all.taken.size()) all.taken.push_back(false);
  all.taken[place_] = true;
  id_ = ++all.ids;
}

Slot::~Slot() {
  Places& all = places();
  const std::lock_guard lock(all.mutex);
  all.taken[place_] = false;
}

Forms& Forms::operator=(const Forms& other) {
  if (this != &other) clear();  // they were made of what the constant was
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
    delete before;  // of a device that is closed
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
