// The device's threads: one parallel loop at a time, the caller works too.
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
  /// Throws DeviceError where the operating system does not start so many threads.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  /// How many threads a loop started here would use: 1 inside another loop.
  int usable() const { return inside() ? 1 : threads(); }

  /// Calls f(i, worker) once for each i < count, worker < threads() naming the calling thread's place. Indices are handed
  /// out `grain` at a time. Loops inside a shared loop, and loops while another thread's loop is shared, run in the caller
  /// alone, as worker 0.
  /// The first exception thrown is rethrown here.
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
    std::size_t active = 0;  // workers inside; guarded by mutex_
    std::exception_ptr error;
  };

  void stop();
  static bool& inside();
  void run(std::size_t count, std::size_t grain, Call call, void* body);
  void work(Job& job, std::size_t worker);
  void loop(std::size_t worker);
  void wait_for_job(std::uint64_t seen);

  std::vector<std::thread> workers_;
  std::mutex turn_;  // held by the thread whose loop runs
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::atomic<std::uint64_t> generation_{0};
  Job* job_ = nullptr;
  bool stop_ = false;
};

/// This thread's scratch, at least `bytes` long, 64-byte aligned; kept and grown, valid until the next call.
void* thread_scratch(std::size_t bytes);

}  // namespace heliograph::backend::cpu
