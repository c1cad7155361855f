// Detects use in a child process after fork().
#pragma once

namespace heliograph {

/// Records the process that made this object. is_here() makes no system call, because it runs at every kernel call.
class ProcessMark {
 public:
  ProcessMark();
  /// Returns false in a child of a later fork().
  bool is_here() const;

 private:
  unsigned long forks_;
};

}  // namespace heliograph
