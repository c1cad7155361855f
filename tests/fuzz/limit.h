// The time limit of an input in processor time, which does not become longer on a busy machine.
#pragma once

#include <sys/time.h>

#include <csignal>

namespace heliograph::fuzz {

/// Installs the handler of inputs that take too long. The handler runs on the signal stack if there is one.
inline void end_slow_inputs(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  ::sigaction(SIGPROF, &action, nullptr);
}

/// The time limit of one input while the object exists.
class TimeLimit {
 public:
  static constexpr time_t kSeconds = 30;

  TimeLimit() { set(kSeconds); }
  ~TimeLimit() { set(0); }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  static void set(time_t seconds) {
    const itimerval limit = {.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
    ::setitimer(ITIMER_PROF, &limit, nullptr);
  }
};

}  // namespace heliograph::fuzz
