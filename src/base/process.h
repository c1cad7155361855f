// Detects use in a child process after fork().
#pragma once

namespace heliograph {

/// Records the process that made this object. The check makes no system call, because every kernel call performs it.
class ProcessMark {
 public:
  ProcessMark();
  /// Returns false in a child of a later fork().
  bool is_here() const;

 private:
  unsigned long forks_;
};

}  // namespace heliograph
