// Reports of progress by the library's computations.
#pragma once

#include <utility>

#include "heliograph/interrupt.h"
#include "heliograph/progress.h"

namespace heliograph {

/// Counts the steps of a computation and reports them to the thread's ProgressScope. During the lifetime of this object,
/// other computations of the thread report their progress only within the range `part`.
class ProgressSteps {
 public:
  explicit ProgressSteps(double total) : whole_(std::exchange(ProgressScope::current(), {})), total_(total) {}
  ~ProgressSteps() { ProgressScope::current() = whole_; }
  ProgressSteps(const ProgressSteps&) = delete;
  ProgressSteps& operator=(const ProgressSteps&) = delete;

  bool has_observer() const { return whole_.callback != nullptr; }
  /// Reports that `steps` more steps are done. A cancellation point.
  void add(double steps = 1) { add_until(done_ + steps); }
  /// Reports that `end` steps are done since the start. A cancellation point.
  void add_until(double end) {
    if (end <= done_) return;
    done_ = end;
    Interruptible::heed();
    if (whole_.callback) (*whole_.callback)(position());
  }
  /// Returns compute(). The progress of `compute` is reported as the next `steps` steps.
  template <class Compute>
  decltype(auto) part(double steps, Compute&& compute) {
    return part_until(done_ + steps, std::forward<Compute>(compute));
  }
  /// Returns compute(). The progress of `compute` is reported as the steps from the present one to `end`, counted from
  /// the start.
  template <class Compute>
  decltype(auto) part_until(double end, Compute&& compute) {
    const double begin = position();
    done_ = end;
    const Inside inside({whole_.callback, begin, position()});
    return std::forward<Compute>(compute)();
  }

 private:
  struct Inside {
    explicit Inside(const ProgressScope::Part& part) { ProgressScope::current() = part; }
    ~Inside() { ProgressScope::current() = {}; }
  };

  /// Returns the argument of the progress callback after the completed steps; at the end it is exact despite rounding.
  double position() const {
    return done_ >= total_ ? whole_.end : whole_.begin + done_ / total_ * (whole_.end - whole_.begin);
  }

  const ProgressScope::Part whole_;
  const double total_;
  double done_ = 0;
};

/// During the lifetime of this object, computations of this thread report no progress, because they only prepare
/// another computation.
class Unreported {
 private:
  const ProgressSteps none_{0};
};

}  // namespace heliograph
