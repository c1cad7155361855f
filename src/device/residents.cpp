#include "device/residents.h"

#include <algorithm>

namespace heliograph::device {

void Residents::add(const std::shared_ptr<Resident>& resident) {
  touch(*resident);
  const std::lock_guard lock(list_mutex_);
  std::erase_if(list_, [](const std::weak_ptr<Resident>& r) { return r.expired(); });
  list_.push_back(resident);
}

std::vector<std::shared_ptr<Resident>> Residents::by_use() {
  // Sorts by a copy of the times of use, because other threads change them meanwhile.
  std::vector<std::pair<std::uint64_t, std::shared_ptr<Resident>>> alive;
  {
    const std::lock_guard lock(list_mutex_);
    for (const std::weak_ptr<Resident>& r : list_) {
      if (std::shared_ptr<Resident> resident = r.lock()) {
        const std::uint64_t last_use = resident->last_use_;
        alive.emplace_back(last_use, std::move(resident));
      }
    }
  }
  std::sort(alive.begin(), alive.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::shared_ptr<Resident>> sorted;
  for (auto& [last_use, resident] : alive) sorted.push_back(std::move(resident));
  return sorted;
}

std::size_t Residents::evictable_bytes() {
  std::size_t total = 0;
  for (const auto& resident : by_use()) total += resident->evictable_bytes();
  return total;
}

bool Residents::make_room(std::size_t bytes, std::uint64_t seen) {
  // Only one thread evicts at a time. A second thread that waited may then find enough memory freed by the first.
  const std::lock_guard lock(room_mutex_);
  if (evicted_ != seen) return true;
  std::size_t done = 0;
  for (const auto& resident : by_use()) {
    if (done >= bytes) break;
    const std::size_t given = resident->evict();
    done += given, evicted_ += given;
  }
  return done > 0;
}

}  // namespace heliograph::device
