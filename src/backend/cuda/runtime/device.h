// Queues and memory of one GPU.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda/runtime/driver.h"
#include "backend/cuda/runtime/staging.h"
#include "base/process.h"
#include "device/device.h"

namespace heliograph::backend::cuda {

/// Freed blocks of each stream, kept for its next allocation: work there comes after what used them.
class Pool {
 public:
  /// The size class that holds `bytes`: at most an eighth more.
  static std::size_t size_class(std::size_t bytes);
  /// Null where none is kept.
  void* take(StreamHandle stream, std::size_t size);
  void keep(StreamHandle stream, void* block, std::size_t size);
  /// Gives kept blocks back to the driver: a stream's, or all.
  void release(Driver& driver, StreamHandle stream);
  void release_all(Driver& driver);
  std::size_t kept() const { return kept_; }

 private:
  using Blocks = std::map<std::size_t, std::vector<void*>>;
  void release_blocks(Driver& driver, StreamHandle stream, Blocks& blocks);

  std::mutex mutex_;
  std::map<StreamHandle, Blocks> streams_;
  std::atomic<std::size_t> kept_{0};
};

/// What everything of one device shares: the driver, the counts, and whether a fault has ended it.
class State {
 public:
  explicit State(std::shared_ptr<Driver> given);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  Driver& driver() const { return *driver_; }
  Pool& pool() { return pool_; }
  Staging& staging() { return staging_; }
  const Properties& properties() const { return properties_; }
  /// Where constants have their forms on this device.
  const device::Slot& slot() const { return slot_; }
  /// Throws DeviceError naming `what` where `status` is an error; a fault poisons the device.
  void check(Status status, const std::string& what);
  /// Throws DeviceError where an earlier fault has ended this device, ForkError in a child of the process that opened it.
  void require_sound() const;
  device::Traffic traffic() const;
  /// From the driver; where it has none left, what the pool keeps is given back first.
  Status allocate(std::size_t bytes, StreamHandle stream, void** address);
  /// Where tables are uploaded and freed.
  StreamHandle table_stream() const { return table_stream_; }
  /// Frees on the table stream, after all that is enqueued on any stream now. While one is captured, where an event would
  /// become part of the graph, it waits for the capture's end.
  void free_after_all(void* memory);
  void begin_capture(StreamHandle stream);
  /// Of work on another device's stream, which joins this one's.
  void join_capture();
  void leave_capture() { end_of_capture(); }
  Status end_capture(StreamHandle stream, void** graph);
  /// Events are used again: making one takes longer than recording it.
  Status take_event(EventHandle* event);
  void keep_event(EventHandle event);
  void add_stream(StreamHandle stream);
  void remove_stream(StreamHandle stream);
  /// HELIOGRAPH_GPU_SYNC: every kernel is waited for, so that a fault names it.
  bool waits_for_each() const { return waits_for_each_; }
  /// Whether kernels here may read the other's memory: never that of another device where HELIOGRAPH_PEER is 0.
  bool reaches(const State& other) const;

  struct {
    std::atomic<device::u64> uploads{0}, upload_bytes{0}, downloads{0}, download_bytes{0}, launches{0}, allocations{0},
        waits{0};
  } counts;

 private:
  /// free_after_all with the mutex held.
  void free_now(void* memory);
  void end_of_capture();

  const device::Slot slot_;
  std::shared_ptr<Driver> driver_;
  Pool pool_;
  Staging staging_;
  Properties properties_;
  bool waits_for_each_, uses_peers_;
  ProcessMark process_;
  mutable std::mutex mutex_;
  std::atomic<bool> poisoned_{false};
  std::string fault_;
  StreamHandle table_stream_ = nullptr;
  std::vector<StreamHandle> streams_;
  std::mutex events_mutex_;
  std::vector<EventHandle> events_;
  std::size_t captures_ = 0;          // going on
  std::vector<void*> freed_between_;  // while they did
};

/// A stream lives until its queue and all memory freed in its order are gone.
class Stream {
 public:
  explicit Stream(std::shared_ptr<State> state);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  StreamHandle handle() const { return handle_; }
  State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
  StreamHandle handle_ = nullptr;
};

/// The last kernels of a queue, by name.
struct Recent {
  static constexpr std::size_t kRemembered = 8;
  std::array<const char*, kRemembered> names{};
  std::size_t enqueued = 0;

  void add(const char* name) { names[enqueued++ % kRemembered] = name; }
  std::string text() const;
};

class CudaMemory final : public device::Memory {
 public:
  CudaMemory(std::shared_ptr<State> state, std::shared_ptr<Stream> stream, void* address, std::size_t bytes,
             std::size_t size)
      : Memory(static_cast<std::byte*>(address), bytes), state_(std::move(state)), stream_(std::move(stream)), size_(size) {}
  ~CudaMemory() override {
    // Other queues' work on it comes first. A destructor reports nothing: a fault shows at the next wait.
    for (const auto& other : users_) {
      Driver& driver = other->state().driver();  // maybe of another GPU
      EventHandle event = nullptr;
      const bool made = driver.make_event(&event) == 0;
      if (!made || driver.record(event, other->handle()) != 0 || state_->driver().wait_event(stream_->handle(), event) != 0)
        ++other->state().counts.waits, driver.synchronize(other->handle());
      if (made) driver.destroy_event(event);
    }
    state_->pool().keep(stream_->handle(), address_, size_);
  }
  void used_by(const std::shared_ptr<Stream>& stream) {
    const std::lock_guard lock(mutex_);
    if (stream != stream_ && std::find(users_.begin(), users_.end(), stream) == users_.end()) users_.push_back(stream);
  }

 private:
  std::shared_ptr<State> state_;
  std::shared_ptr<Stream> stream_;
  std::size_t size_;  // of the pool's block
  std::mutex mutex_;
  std::vector<std::shared_ptr<Stream>> users_;
};

class CudaKernels;
class CudaTfhe;

class CudaQueue final : public device::Queue {
 public:
  explicit CudaQueue(std::shared_ptr<State> state);
  ~CudaQueue() override;
  bool supports(const device::Call& call) const override;
  std::shared_ptr<device::Event> record() override;
  void after(const device::Event& event) override;
  void uses(const device::Buffer& buffer) override;
  bool captures() const override { return true; }
  std::unique_ptr<device::Graph> capture(const std::function<void()>& body,
                                         const std::vector<device::Queue*>& others) override;
  void beside(const std::vector<std::function<void()>>& parts) override;
  void wait() override;

  void launch(const Launch& l);
  State& state() const { return *state_; }
  const std::shared_ptr<State>& shared_state() const { return state_; }
  const std::shared_ptr<Stream>& stream() const { return stream_; }
  /// Where this thread's work goes: the queue's own stream, or while a graph is captured another.
  StreamHandle now() const;
  /// Throws DeviceError where this thread captures a graph of this queue, in which nothing can be waited for.
  void require_no_capture() const;
  /// The kernels enqueued since the last wait that succeeded, for an error's text.
  Recent recent() const;
  /// Throws where `status` is an error of `what`, a call on this queue; a fault is blamed on the kernels before it.
  void check(Status status, const std::string& what) const;

 protected:
  void perform(const device::Call& call) override;

 private:
  StreamHandle lane();

  std::shared_ptr<State> state_;
  std::shared_ptr<Stream> stream_;
  std::vector<std::unique_ptr<Stream>>
      lanes_;                 // what is captured goes through these, while other threads use the queue's own
  std::mutex capture_mutex_;  // one capture at a time
  std::unique_ptr<CudaKernels> ring_;
  std::unique_ptr<CudaTfhe> lwe_;

  mutable std::mutex mutex_;
  Recent recent_;
};

/// `queue` as a queue of this backend. Throws MismatchError.
CudaQueue& own(device::Queue& queue);

/// Memory filled once and read by kernels of any queue: tables. Waits until it is there. `room`: at least so many bytes.
class Table {
 public:
  Table(const std::shared_ptr<State>& state, const void* data, std::size_t bytes, std::size_t room = 0);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }

 private:
  std::shared_ptr<State> state_;
  void* data_ = nullptr;
};

}  // namespace heliograph::backend::cuda
