#include "mesh/worker.h"

#include <chrono>

#include "base/threads.h"

namespace heliograph::mesh {

namespace {

using Clock = std::chrono::steady_clock;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void Signal::set() {
  {
    const std::lock_guard lock(mutex_);
    set_.store(true, std::memory_order_release);
  }
  condition_.notify_all();
}

void Signal::wait() {
  for (int i = 0; i < 2000; ++i) {  // members run at the same time, so the signal is often set already, or will be soon
    if (is_set()) return;
    pause();
  }
  std::unique_lock lock(mutex_);
  condition_.wait(lock, [&] { return is_set(); });
}

Worker::Worker(std::chrono::microseconds spin, double slowdown, std::size_t most,
               std::function<void(std::exception_ptr)> on_error)
    : spin_(spin),
      slowdown_(slowdown),
      most_(most),
      on_error_(std::move(on_error)),
      thread_(start_thread([this] { run(); })) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  condition_.notify_all();
  thread_.join();
}

void Worker::post(Task task, bool always) {
  std::vector<Entry> one;
  one.push_back({std::move(task), always});
  post(std::move(one));
}

void Worker::post(std::vector<Entry> entries) {
  bool wake = false;
  {
    std::unique_lock lock(mutex_);
    // This wait cannot deadlock: a task's dependences are posted before or with the task, so the queue will have room.
    room_.wait(lock, [&] { return entries_.size() < most_; });
    unfinished_.fetch_add(entries.size(), std::memory_order_relaxed);
    for (Entry& entry : entries) entries_.push_back(std::move(entry));
    waiting_.store(entries_.size(), std::memory_order_release);
    wake = sleeping_;
  }
  if (wake) condition_.notify_one();
}

std::shared_ptr<Signal> Worker::drained() {
  const auto done = std::make_shared<Signal>();  // shared, because the waiting thread may release it before set() returns
  post([done] { done->set(); }, true);
  return done;
}

void Worker::drain() {
  drained()->wait();
  require_sound();
}

void Worker::require_sound() const {
  if (!failed()) return;
  const std::lock_guard lock(mutex_);
  std::rethrow_exception(error_);
}

void Worker::execute(Entry& entry) {
  if (failed() && !entry.always) return;
  const auto start = slowdown_ > 1 ? Clock::now() : Clock::time_point{};
  try {
    entry.task();
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      failed_.store(true, std::memory_order_release);
    }
    if (on_error_) on_error_(std::current_exception());
  }
  if (slowdown_ > 1) std::this_thread::sleep_for((Clock::now() - start) * (slowdown_ - 1));
}

void Worker::run() {
  for (;;) {
    Entry entry;
    {
      if (spin_.count() > 0) {
        const auto until = Clock::now() + spin_;
        while (waiting_.load(std::memory_order_acquire) == 0 && Clock::now() < until) pause();
      }
      std::unique_lock lock(mutex_);
      sleeping_ = true;
      condition_.wait(lock, [&] { return stop_ || !entries_.empty(); });
      sleeping_ = false;
      if (entries_.empty()) return;
      entry = std::move(entries_.front());
      entries_.pop_front();
      waiting_.store(entries_.size(), std::memory_order_release);
    }
    room_.notify_one();
    execute(entry);
    entry = {};  // releases the memory of the task before the next task begins
    unfinished_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace heliograph::mesh
