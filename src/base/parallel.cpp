#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "heliograph/interrupt.h"

namespace heliograph {

namespace {

std::size_t threads() {
  const std::size_t all = std::max<std::size_t>(1, std::thread::hardware_concurrency());
  const char* const given = std::getenv("HELIOGRAPH_THREADS");
  const std::size_t limit = given ? std::strtoul(given, nullptr, 10) : 0;
  return limit ? std::min<std::size_t>(limit, 512) : all;
}

}  // namespace

void parallel_for(std::size_t count, std::size_t words, const std::function<void(std::size_t)>& f) {
  const std::size_t wanted = words < (std::size_t{1} << 18) ? 1 : std::min(threads(), count);
  std::atomic<std::size_t> next{0};
  std::exception_ptr error;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (std::size_t i; (i = next++) < count;) Interruptible::heed(), f(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (std::size_t t = 1; t < wanted; ++t) others.emplace_back(work);
    } catch (const std::system_error&) {  // the system refused further threads; the threads that started do all work
    }
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace heliograph
