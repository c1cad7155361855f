// Cache of weak references: at most one live object for each name.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace heliograph {

template <class T>
class Shared {
 public:
  /// Returns the live object under `name`, or inserts make(). If `make` throws, nothing is inserted.
  template <class Make>
  std::shared_ptr<T> open(const std::string& name, Make make) {
    const std::lock_guard lock(mutex_);
    if (const auto found = open_.find(name); found != open_.end()) {
      if (std::shared_ptr<T> held = found->second.lock()) return held;
    }
    // Names may come from files and are then unbounded, so expired entries are removed.
    std::erase_if(open_, [](const auto& entry) { return entry.second.expired(); });
    std::shared_ptr<T> made = make();
    open_.emplace(name, made);
    return made;
  }
  std::shared_ptr<T> find(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(name);
    return found == open_.end() ? nullptr : found->second.lock();
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return open_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<T>> open_;
};

}  // namespace heliograph
