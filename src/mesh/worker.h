// A host thread for each member of a mesh. With these threads, a launch on eight devices takes no longer than on one.
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

/// An event between threads that occurs once.
class Signal {
 public:
  void set();
  void wait();
  bool is_set() const { return set_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> set_{false};
  std::mutex mutex_;
  std::condition_variable condition_;
};

/// A thread that runs tasks in order. After the first exception of a task, the worker stores the exception and skips later
/// tasks. The worker still runs tasks posted with `always`, because other threads wait for them.
class Worker {
 public:
  /// `spin`: time that an idle worker polls before it sleeps. `slowdown`: factor by which tests slow the member down; 1:
  /// none. `most`: largest number of queued tasks; if the queue is full, a post waits. `on_error` is called with the first
  /// exception.
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
  /// Posts several entries in order, with at most one wait for room and one wake-up.
  void post(std::vector<Entry> entries);
  bool idle() const { return unfinished_.load(std::memory_order_acquire) == 0; }
  /// Runs an entry on the calling thread. The worker must be idle, and no other thread may post during the call.
  void run_here(Entry& entry) { execute(entry); }
  /// Returns a signal that is set when all tasks posted so far have run.
  std::shared_ptr<Signal> drained();
  /// Blocks until all posted tasks have run. Throws the exception of a failed task.
  void drain();
  /// Throws the exception of a failed task, if any.
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
