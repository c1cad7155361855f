// Cancellation of long computations by the caller.
#pragma once

#include <ctime>
#include <functional>

namespace heliograph {

/// During its lifetime, long computations on this thread call `check` about ten times a second. An exception of `check` ends
/// the computation and reaches the caller; operands stay valid. Of nested instances the innermost one is used.
class Interruptible {
 public:
  explicit Interruptible(std::function<void()> check) : check_(std::move(check)), outer_(innermost()), last_(ticks()) {
    innermost() = this;
  }
  ~Interruptible() { innermost() = outer_; }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  /// Cancellation point: may throw the exception of `check`. Long computations call this function between pieces of at most
  /// some milliseconds.
  static void heed() {
    if (Interruptible* const one = innermost()) one->look();
  }

 private:
  static Interruptible*& innermost() {
    thread_local Interruptible* one = nullptr;
    return one;
  }
  /// Returns tenths of a second of a clock that is cheap to read.
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
