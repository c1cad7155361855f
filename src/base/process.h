// Whether this is still the process that made something, or the child of a fork().
#pragma once

namespace heliograph {

/// Remembers the process that made it. Asking costs no system call: every kernel call asks.
class ProcessMark {
 public:
  ProcessMark();
  /// False in the child of a fork() since then.
  bool is_here() const;

 private:
  unsigned long forks_;
};

}  // namespace heliograph
