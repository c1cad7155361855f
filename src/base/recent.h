// Cache of the most recently used values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>

namespace heliograph {

/// Cache of values, not thread-safe. A returned pointer keeps its value alive.
template <class T>
class Recent {
 public:
  using Pointer = std::shared_ptr<const T>;

  /// Holds at most `count` values with a total weight of at most `weight`, but always the last used value.
  Recent(std::size_t count, std::size_t weight) : count_(count), weight_(weight) {}

  /// Returns the stored value for which is(value) holds; if there is none, inserts make().
  template <class Is, class Make, class Weigh>
  Pointer get(Is is, Make make, Weigh weigh) {
    const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Pointer& p) { return is(*p); });
    if (found != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, found);
      return kept_.front();
    }
    kept_.push_front(make());
    const Pointer made = kept_.front();
    std::size_t count = 0, weight = 0;
    for (auto p = kept_.begin(); p != kept_.end();) {
      weight += weigh(**p);
      p = ++count > 1 && (count > count_ || weight > weight_) ? kept_.erase(p) : std::next(p);
    }
    return made;
  }
  void clear() { kept_.clear(); }

 private:
  std::size_t count_, weight_;
  std::list<Pointer> kept_;  // values, the most recently used first
};

}  // namespace heliograph
