// The device's thread pool: one parallel loop at a time, in which the caller takes part.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace heliograph::backend::cpu {

class ThreadPool {
 public:
  /// Throws DeviceError if the operating system cannot start the threads.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  /// Returns how many threads a loop started here uses: 1 inside another loop.
  int usable() const { return inside() ? 1 : threads(); }

  /// Calls f(i, worker) once for each i < count; worker < threads() is the index of the executing thread. Threads take
  /// `grain` indices at a time. Loops inside a shared loop, and loops during another thread's shared loop, run in the caller
  /// alone as worker 0. Rethrows the first exception.
  template <class F>
  void parallel_for(std::size_t count, std::size_t grain, F&& f) {
    using Body = std::remove_reference_t<F>;
    run(
        count, grain, [](void* body, std::size_t i, std::size_t worker) { (*static_cast<Body*>(body))(i, worker); },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  using Call = void (*)(void* body, std::size_t index, std::size_t worker);
  struct Job {
    Call call;
    void* body;
    std::size_t count, grain;
    std::atomic<std::size_t> next{0};
    std::size_t active = 0;  // running workers; guarded by mutex_
    std::exception_ptr error;
  };

  void stop();
  static bool& inside();
  void run(std::size_t count, std::size_t grain, Call call, void* body);
  void work(Job& job, std::size_t worker);
  void loop(std::size_t worker);
  void wait_for_job(std::uint64_t seen);

  std::vector<std::thread> workers_;
  std::mutex turn_;  // the thread whose loop runs holds this mutex
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::atomic<std::uint64_t> generation_{0};
  Job* job_ = nullptr;
  bool stop_ = false;
};

/// Returns this thread's scratch, at least `bytes` long, 64-byte aligned. The scratch is valid until the next call, which
/// reuses it.
void* thread_scratch(std::size_t bytes);

}  // namespace heliograph::backend::cpu
