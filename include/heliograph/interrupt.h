// Long work that its caller may end.
#pragma once

#include <ctime>
#include <functional>

namespace heliograph {

/// While one lives, long work of this thread calls `check` about ten times a second; what it throws ends the work and reaches
/// the caller, who loses nothing but that work. Of several the innermost counts.
class Interruptible {
 public:
  explicit Interruptible(std::function<void()> check) : check_(std::move(check)), outer_(innermost()), last_(ticks()) {
    innermost() = this;
  }
  ~Interruptible() { innermost() = outer_; }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  /// What long work calls between two pieces that take milliseconds at most.
  static void heed() {
    if (Interruptible* const one = innermost()) one->look();
  }

 private:
  static Interruptible*& innermost() {
    thread_local Interruptible* one = nullptr;
    return one;
  }
  /// Tenths of a second, of a clock that costs next to nothing to read.
  static long ticks() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * 10 + now.tv_nsec / 100'000'000;
  }
  void look() {
    const long now = ticks();
    if (now == last_) return;
    last_ = now;
    check_();
  }

  const std::function<void()> check_;
  Interruptible* const outer_;
  long last_;
};

}  // namespace heliograph
