#include "base/process_state.h"

#include <pthread.h>

namespace heliograph {

namespace {

ProcessState& own() {
  static auto* const mine = new ProcessState;
  return *mine;
}

ProcessState* of_process = nullptr;  // state of the program that loaded this module; null: the module has its own state

const int registered =
    (own(), ::pthread_atfork(nullptr, nullptr, [] { own().forks.fetch_add(1, std::memory_order_relaxed); }));

}  // namespace

ProcessState& process_state() {
  (void)registered;
  return of_process ? *of_process : own();
}

void share(ProcessState& process) { of_process = &process; }

}  // namespace heliograph
