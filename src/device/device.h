// Devices, queues and memory: the part of a backend that is not its kernels.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/sizes.h"
#include "device/call.h"
#include "device/capabilities.h"
#include "device/rates.h"
#include "device/residents.h"
#include "device/view.h"
#include "device/work.h"

namespace heliograph::device {

class Device;
class Fallback;
class Kernels;
class Members;
class TfheKernels;

/// A point in the sequence of a queue's work.
class Event {
 public:
  virtual ~Event() = default;
  /// Blocks until the queue has done all work before this point. Throws DeviceError if an earlier kernel failed.
  virtual void wait() = 0;
};

/// Work of a queue that was captured and can be replayed as a whole.
class Graph {
 public:
  virtual ~Graph() = default;
  /// Enqueues the captured work on the queue of its capture.
  virtual void replay() = 0;
};

/// An ordered stream of work. Kernel calls are enqueued; enqueue() does not block, allocate, synchronize or upload.
class Queue {
 public:
  virtual ~Queue() = default;
  /// Checks a call (device/call.h) and enqueues its execution. Throws the errors of `check`.
  void enqueue(const Call& call);
  virtual bool supports(const Call& call) const = 0;
  /// Executes the parts of a composite, without checking them again; for backends without a fused kernel. Passes a kernel
  /// that has no parts to the fallback. Throws InternalError if there is no fallback, so that no call is lost.
  void expand(const Call& call);
  virtual std::shared_ptr<Event> record() = 0;
  /// Makes work that is enqueued here later start after `event`, which any device of this kind may have recorded.
  virtual void after(const Event& event) = 0;
  /// Declares that work enqueued here uses `buffer`, which another queue of any device of this kind allocated.
  virtual void uses(const Buffer& buffer) = 0;
  virtual bool captures() const { return false; }
  /// Captures the work that `body` enqueues here, without executing it. Returns null and does not call `body` if the device
  /// has no graphs. The caller must keep the memory of the calls as long as it replays the graph. Throws DeviceError if a
  /// call cannot be captured. `others`: queues of devices whose memory this queue's device can access. The graph includes
  /// the work of the queues in `others`, ordered by events.
  virtual std::unique_ptr<Graph> capture(const std::function<void()>& /*body*/, const std::vector<Queue*>& /*others*/ = {}) {
    return nullptr;
  }
  /// Calls each part; the parts' results must be independent. In a graph, the parts' work may run concurrently.
  virtual void beside(const std::vector<std::function<void()>>& parts) {
    for (const auto& part : parts) part();
  }
  /// Returns the member devices of a mesh, among which a program may distribute its calls; null for a single device.
  virtual Members* members() { return nullptr; }
  /// Blocks until all enqueued work is done. Throws DeviceError with the name of the first failed kernel.
  virtual void wait() = 0;

 protected:
  virtual void perform(const Call& call) = 0;
  /// Returns the fallback for calls that this backend has no kernel for; may be null.
  virtual Fallback* fallback() { return nullptr; }

 private:
  friend class Fallback;
};

/// A second device that executes the calls for which a backend has no kernel. The fallback accesses the backend's memory by
/// address. The fallback has its own forms of constants, but not of TFHE's keys, because only the backend keeps the words of
/// these keys.
class Fallback {
 public:
  explicit Fallback(std::unique_ptr<Device> device);
  ~Fallback();
  /// Executes a call and counts it. Throws MismatchError for a call with a TFHE key.
  void perform(const Call& call);
  /// Returns a line such as "12 calls ran on the fallback device ref: 7 permute, 5 sample"; empty if no call did.
  std::string report() const;

 private:
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Queue> queue_;
  mutable std::mutex mutex_;
  std::map<std::string, u64> calls_;
};

struct MemoryState {
  std::size_t total = 0, available = 0, pooled = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;         // kind of the device: "cpu", "ref", "null"
  virtual std::string description() const = 0;  // one line for people: the instruction set, the number of threads
  /// Returns lines for people: one with name, description and free memory, then others such as the report of the fallback.
  virtual std::vector<std::string> report();
  virtual MemoryState memory() const = 0;
  /// Allocates uninitialized, 64-byte aligned memory in the order of `queue`. Throws OutOfMemoryError.
  virtual Buffer allocate(std::size_t bytes, Queue& queue) = 0;
  /// Allocates a dense tensor with limbs of these primes. A mesh that distributes limbs stores the limbs of a prime on the
  /// same member in all tensors.
  virtual Buffer allocate(const View& shape, const PrimeList& primes, Queue& queue);
  virtual std::unique_ptr<Queue> make_queue() = 0;
  /// Copies from host memory, which may be reused when the call returns.
  virtual void upload(Queue& queue, std::span<const std::byte> from, std::byte* to) = 0;
  /// Copies to host memory; waits for the queue.
  virtual void download(Queue& queue, const std::byte* from, std::span<std::byte> to) = 0;
  virtual Kernels& kernels() = 0;
  /// Whether addresses of this device are host addresses.
  virtual bool in_host_memory() const { return false; }
  /// Returns the optional capabilities of this device.
  virtual Capabilities capabilities() { return {}; }

  // These functions use a capability of the device, or return a default if the device lacks it (device/capabilities.h).

  Counter* counter() { return capabilities().counter; }
  Simulation* simulation() { return capabilities().simulation; }
  Processes* processes() { return capabilities().processes; }
  Endpoint* endpoint() { return capabilities().endpoint; }
  /// Throws DeviceError if the device has no TFHE kernels.
  TfheKernels& tfhe();
  /// By default, returns true for the device itself, and for any two devices in host memory.
  bool reaches(const Device& other);
  /// By default, returns null.
  std::shared_ptr<Meeting> make_meeting(std::span<Device* const> members, std::span<Queue* const> queues);
  /// By default, returns zero.
  Traffic traffic();
  /// By default, returns 0, which means unknown.
  double product_ceiling();
  double sum_ceiling();
  /// Rates of the device, measured at the first call in a fraction of a second.
  const Rates& rates();

  // These functions call the device's Processes. If processes() returns null, the device has a single process, which is
  // the key holder.

  Device* key_holder();
  std::vector<std::byte> broadcast(const std::function<std::vector<std::byte>()>& make);
  void scatter(Queue& queue, std::span<const std::byte> from, std::size_t bytes, std::byte* to);
  void gather(Queue& queue, const std::byte* from, std::size_t bytes, std::span<std::byte> to);
  void confirm(const std::string& what, const std::string& value);

  /// Returns the memory that this device may evict; ring/engine.h requests evictions.
  Residents& residents() { return residents_; }

 private:
  Residents residents_;
  std::once_flag rates_known_;
  Rates rates_;
};

/// Makes a device. `options`: the text after the kind's name and a colon; empty if there is none.
using DeviceFactory = std::function<std::unique_ptr<Device>(const std::string& options)>;
/// Adds a kind of device for open_device. Throws ParameterError if the name is already known or is not a word.
void register_device(const std::string& kind, DeviceFactory factory);
/// Opens a device of a registered kind, "KIND" or "KIND:OPTIONS": "cpu", "cpu:scalar", "cpu:avx2", "cpu:avx512", "cuda" (the
/// first GPU), "cuda:1", "rtl", "rtl:butterflies=8,clock=200" (backend/rtl/rtl.h), "ref", "null". Throws ParameterError;
/// DeviceError if the device is known and cannot be opened.
std::unique_ptr<Device> open_device(const std::string& name);
/// Names, for open_device, of this machine's default devices: all GPUs that this build can use, else the CPU.
std::vector<std::string> found_devices();

}  // namespace heliograph::device
