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

/// Freed blocks of each stream. Later allocations of the stream reuse them, because their work follows all earlier uses.
class Pool {
 public:
  /// Returns the size class of `bytes`, at most an eighth larger.
  static std::size_t size_class(std::size_t bytes);
  /// Returns a block of this stream and size; null if there is none.
  void* take(StreamHandle stream, std::size_t size);
  void keep(StreamHandle stream, void* block, std::size_t size);
  /// Return to the driver the blocks of one stream, or all blocks.
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

/// Shared state of one GPU: the driver, the counts of its calls, and the first fault.
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
  const device::Slot& slot() const { return slot_; }
  /// Throws DeviceError that begins with `what` if `status` is an error; a fault disables the device.
  void check(Status status, const std::string& what);
  /// Throws DeviceError after a fault of this device, and ForkError in a forked child of the process that opened the device.
  void require_sound() const;
  device::Traffic traffic() const;
  /// Allocates from the driver; if it has no memory left, first returns the pool's blocks to it.
  Status allocate(std::size_t bytes, StreamHandle stream, void** address);
  StreamHandle table_stream() const { return table_stream_; }
  /// Frees memory on the table stream, after all work enqueued so far on any stream. During a capture, the memory is freed
  /// at the capture's end, because the events would become part of the graph.
  void free_after_all(void* memory);
  void begin_capture(StreamHandle stream);
  /// Joins a capture of another device's stream that includes work of this device.
  void join_capture();
  void leave_capture() { end_of_capture(); }
  Status end_capture(StreamHandle stream, void** graph);
  /// Events are reused, because creating one takes longer than recording it.
  Status take_event(EventHandle* event);
  void keep_event(EventHandle event);
  void add_stream(StreamHandle stream);
  void remove_stream(StreamHandle stream);
  /// Returns whether HELIOGRAPH_GPU_SYNC is set: each call then waits for its kernel, so that errors name the faulty kernel.
  bool waits_for_each() const { return waits_for_each_; }
  /// Returns whether kernels of this GPU may read the other GPU's memory; false for two GPUs if HELIOGRAPH_PEER is 0.
  bool reaches(const State& other) const;

  struct {
    std::atomic<device::u64> uploads{0}, upload_bytes{0}, downloads{0}, download_bytes{0}, launches{0}, allocations{0},
        waits{0};
  } counts;

 private:
  /// Does free_after_all with the mutex held.
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
  std::size_t captures_ = 0;          // number of active captures
  std::vector<void*> freed_between_;  // memory freed during captures
};

/// A CUDA stream. The stream lives as long as its queue and all memory that is freed in the stream's order.
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

/// Names of the last kernels of a queue, for errors.
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
    // Waits until the other queues' uses end. A destructor ignores errors; the next wait reports a fault.
    for (const auto& other : users_) {
      Driver& driver = other->state().driver();  // the other queue may belong to another GPU
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
  std::size_t size_;  // size of the pool's block
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
  /// Returns the stream for this thread's work: the queue's own, or the capture's during a capture.
  StreamHandle now() const;
  /// Throws DeviceError if this thread captures a graph of this queue, because a capture permits no waits.
  void require_no_capture() const;
  /// Returns the kernels enqueued since the last successful wait, for the text of an error.
  Recent recent() const;
  /// Throws if `status` is an error; `what` describes the call on this queue. A fault is attributed to the preceding
  /// kernels.
  void check(Status status, const std::string& what) const;

 protected:
  void perform(const device::Call& call) override;

 private:
  StreamHandle lane();

  std::shared_ptr<State> state_;
  std::shared_ptr<Stream> stream_;
  std::vector<std::unique_ptr<Stream>> lanes_;  // streams of captures; other threads use the queue's own stream meanwhile
  std::mutex capture_mutex_;                    // a capture holds this mutex, so captures run one at a time
  std::unique_ptr<CudaKernels> ring_;
  std::unique_ptr<CudaTfhe> lwe_;

  mutable std::mutex mutex_;
  Recent recent_;
};

/// Casts `queue` to a queue of this backend. Throws MismatchError for queues of other backends.
CudaQueue& own(device::Queue& queue);

/// A table: device memory that is written once and read by kernels of any queue. The constructor waits for the upload.
/// `room`: minimum size in bytes.
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
