// Progress of long computations.
#pragma once

#include <functional>
#include <utility>

namespace heliograph {

/// Progress callback, called from time to time with the completed fraction, 0 to 1. The callback may throw CancelledError to
/// stop the computation.
using Progress = std::function<void(double)>;

/// During its lifetime, each long computation that this thread starts reports its progress to `callback`. An exception of
/// `callback` ends the computation and reaches the caller; operands stay valid. Of nested instances the innermost one is
/// used.
class ProgressScope {
 public:
  explicit ProgressScope(Progress callback) : callback_(std::move(callback)), outer_(current()) {
    current() = {callback_ ? &callback_ : nullptr};
  }
  ~ProgressScope() { current() = outer_; }
  ProgressScope(const ProgressScope&) = delete;
  ProgressScope& operator=(const ProgressScope&) = delete;

 private:
  friend class ProgressSteps;  // base/progress.h
  /// The part [begin, end] of the callback's range that this thread's next computation reports.
  struct Part {
    const Progress* callback = nullptr;
    double begin = 0, end = 1;
  };
  static Part& current() {
    thread_local Part part;
    return part;
  }

  const Progress callback_;
  const Part outer_;
};

}  // namespace heliograph
