// A host thread for each member of a mesh: launching on eight devices takes no longer than on one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace heliograph::mesh {

/// Something that happens once, on some thread.
class Signal {
 public:
  void set();
  /// Blocks until it is set.
  void wait();
  bool is_set() const { return set_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> set_{false};
  std::mutex mutex_;
  std::condition_variable condition_;
};

/// Runs tasks in order. The first exception is kept, and later tasks are skipped, but for those posted with `always`, for which
/// other threads wait.
class Worker {
 public:
  /// `spin`: how long an idle worker polls before it sleeps. `slowdown`: makes a member slow, for tests; 1 is none.
  /// `most`: tasks that may be queued; posting more blocks. `on_error` is called with the first exception.
  Worker(std::chrono::microseconds spin, double slowdown, std::size_t most,
         std::function<void(std::exception_ptr)> on_error = {});
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  using Task = std::function<void()>;
  struct Entry {
    Task task;
    bool always;
  };
  void post(Task task, bool always = false);
  /// Several in order: who posts is woken once, and room is waited for once.
  void post(std::vector<Entry> entries);
  /// Whether all that was posted has run.
  bool idle() const { return unfinished_.load(std::memory_order_acquire) == 0; }
  /// Runs an entry as the thread would, on the caller's: of an idle worker, to which nobody posts meanwhile.
  void run_here(Entry& entry) { execute(entry); }
  /// Set when all that was posted so far has run.
  std::shared_ptr<Signal> drained();
  /// Blocks until then. Throws what a task threw.
  void drain();
  /// Throws what a task threw.
  void require_sound() const;
  bool failed() const { return failed_.load(std::memory_order_acquire); }

 private:
  void run();
  void execute(Entry& entry);

  const std::chrono::microseconds spin_;
  const double slowdown_;
  const std::size_t most_;
  const std::function<void(std::exception_ptr)> on_error_;
  mutable std::mutex mutex_;
  std::condition_variable condition_, room_;
  std::deque<Entry> entries_;
  std::atomic<std::size_t> waiting_{0}, unfinished_{0};
  bool sleeping_ = false, stop_ = false;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace heliograph::mesh
