#include "backend/cpu/threads.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/threads.h"
#include "heliograph/interrupt.h"

namespace heliograph::backend::cpu {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSpin = std::chrono::microseconds(30);

/// Spins briefly until ready() is true; returns false on timeout.
template <class F>
bool spin(F&& ready) {
  const auto start = Clock::now();
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (Clock::now() - start < kSpin);
  return false;
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int i = 1; i < threads; ++i) workers_.push_back(start_thread([this, i] { loop(static_cast<std::size_t>(i)); }));
  } catch (...) {
    stop();  // the destructor does not run after an exception, so join the started threads here
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  for (std::thread& t : workers_) t.join();
}

bool& ThreadPool::inside() {
  thread_local bool flag = false;
  return flag;
}

void ThreadPool::work(Job& job, std::size_t worker) {
  inside() = true;
  try {
    for (;;) {
      const std::size_t first = job.next.fetch_add(job.grain, std::memory_order_relaxed);
      if (first >= job.count) break;
      if (worker == 0) Interruptible::heed();  // worker 0 is the calling thread
      const std::size_t last = std::min(job.count, first + job.grain);
      for (std::size_t i = first; i < last; ++i) job.call(job.body, i, worker);
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!job.error) job.error = std::current_exception();
    job.next.store(job.count, std::memory_order_relaxed);
  }
  inside() = false;
}

void ThreadPool::run(std::size_t count, std::size_t grain, Call call, void* body) {
  if (count == 0) return;
  std::unique_lock turn(turn_, std::defer_lock);
  if (workers_.empty() || count <= grain || inside() || !turn.try_lock()) {
    for (std::size_t i = 0; i < count; ++i) {
      if (i % grain == 0 && !inside()) Interruptible::heed();
      call(body, i, 0);
    }
    return;
  }
  Job job{.call = call, .body = body, .count = count, .grain = grain};
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  work(job, 0);
  std::atomic_ref<std::size_t> active(job.active);
  {
    const std::lock_guard lock(mutex_);
    job_ = nullptr;
  }
  if (!spin([&] { return active.load(std::memory_order_acquire) == 0; })) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return active.load(std::memory_order_acquire) == 0; });
  }
  // A worker finishes under the mutex: locking it once more ensures that no worker still uses `job`.
  const std::lock_guard lock(mutex_);
  if (job.error) std::rethrow_exception(job.error);
}

void ThreadPool::wait_for_job(std::uint64_t seen) {
  const auto fresh = [&] { return generation_.load(std::memory_order_acquire) != seen; };
  if (spin(fresh)) return;
  std::unique_lock lock(mutex_);
  wake_.wait(lock, fresh);
}

void ThreadPool::loop(std::size_t worker) {
  std::uint64_t seen = 0;
  for (;;) {
    wait_for_job(seen);
    Job* job = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      seen = generation_.load(std::memory_order_acquire);
      job = job_;
      if (job) std::atomic_ref(job->active).fetch_add(1, std::memory_order_acq_rel);
    }
    if (!job) continue;
    work(*job, worker);
    {
      const std::lock_guard lock(mutex_);
      std::atomic_ref(job->active).fetch_sub(1, std::memory_order_acq_rel);
      done_.notify_all();
    }
  }
}

void* thread_scratch(std::size_t bytes) {
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  thread_local std::unique_ptr<void, Free> block;
  thread_local std::size_t size = 0;
  if (bytes > size) {
    const std::size_t grown = (bytes + 4095) / 4096 * 4096;
    block.reset();
    size = 0;
    block.reset(std::aligned_alloc(4096, grown));
    if (!block) throw std::bad_alloc();
    size = grown;
  }
  return block.get();
}

}  // namespace heliograph::backend::cpu
