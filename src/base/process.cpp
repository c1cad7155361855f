#include "base/process.h"

#include <pthread.h>

#include <atomic>

namespace heliograph {

namespace {

std::atomic<unsigned long> forks{0};  // that lie between the first process and this one
const int registered = ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

ProcessMark::ProcessMark() : forks_(forks.load(std::memory_order_relaxed)) { (void)registered; }

bool ProcessMark::is_here() const { return forks_ == forks.load(std::memory_order_relaxed); }

}  // namespace heliograph
