// Devices, queues and memory: what a backend implements beside the kernels.
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
#include "device/channel.h"
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

/// A point in a queue's work.
class Event {
 public:
  virtual ~Event() = default;
  /// Blocks until the point is reached; throws DeviceError where a kernel before it failed.
  virtual void wait() = 0;
};

/// Work of a queue that it performs again as a whole.
class Graph {
 public:
  virtual ~Graph() = default;
  /// Enqueues it where it was captured.
  virtual void replay() = 0;
};

/// An ordered stream of work. Kernel calls enqueue; they never block, allocate, synchronise or upload.
class Queue {
 public:
  virtual ~Queue() = default;
  /// Checks a call (device/call.h) and performs it, in order. Throws what `check` throws.
  void enqueue(const Call& call);
  /// Whether this queue has code of its own for such a call.
  virtual bool supports(const Call& call) const = 0;
  /// Performs what a composite stands for, in smaller calls: for a backend that has nothing faster. Not checked again. A
  /// kernel that stands for no others is left to the fallback; InternalError where there is none: nothing is left undone in
  /// silence.
  void expand(const Call& call);
  virtual std::shared_ptr<Event> record() = 0;
  /// Work enqueued here afterwards starts after `event`, of any device of this kind.
  virtual void after(const Event& event) = 0;
  /// Notes that work enqueued here uses `buffer`, allocated for another queue, of any device of this kind.
  virtual void uses(const Buffer& buffer) = 0;
  /// Whether `capture` is more than nothing.
  virtual bool captures() const { return false; }
  /// What `body` enqueues here, which is not performed now; null where a device has nothing for it, and `body` is not called.
  /// The memory that calls name must stay as long as the graph is replayed. Throws DeviceError for what cannot be captured.
  /// `others`: queues of devices that reach this one's, whose work, ordered by events, is part of it.
  virtual std::unique_ptr<Graph> capture(const std::function<void()>& /*body*/, const std::vector<Queue*>& /*others*/ = {}) {
    return nullptr;
  }
  /// Calls the parts, which do not touch each other's results. What they enqueue may be performed at the same time in a graph.
  virtual void beside(const std::vector<std::function<void()>>& parts) {
    for (const auto& part : parts) part();
  }
  /// The members of a device of several, on which a program may place its calls; null where there are none.
  virtual Members* members() { return nullptr; }
  /// Blocks until all work enqueued so far is done; throws DeviceError naming the first failed kernel.
  virtual void wait() = 0;

 protected:
  virtual void perform(const Call& call) = 0;
  /// Where calls go that a backend has no code for; null: nowhere.
  virtual Fallback* fallback() { return nullptr; }

 private:
  friend class Fallback;
};

/// Another device that performs what a backend leaves to it, in the backend's own memory: one that reaches that memory by its
/// addresses. Constants it has in forms of its own, but for TFHE's keys, which have their words in the backend's alone.
class Fallback {
 public:
  explicit Fallback(std::unique_ptr<Device> device);
  ~Fallback();
  /// Throws MismatchError for a call with a key that the other device does not have.
  void perform(const Call& call);
  /// "12 calls were left to ref: 7 permute, 5 sample"; empty where none was.
  std::string report() const;

 private:
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Queue> queue_;
  mutable std::mutex mutex_;
  std::map<std::string, u64> calls_;
};

/// Where queues of several devices meet without the host.
class Meeting {
 public:
  virtual ~Meeting() = default;
  /// What is enqueued on `queue`, of the member of that number, from now on starts when all that every member enqueued
  /// before its own call is done, and is there to be read. Every member calls it equally often, each from one thread.
  virtual void meet(std::size_t member, Queue& queue) = 0;
};

struct MemoryState {
  std::size_t total = 0, available = 0, pooled = 0;
};

/// What has crossed between the host and a device, and what was asked of it. Zero where host and device are one.
struct Traffic {
  u64 uploads = 0, upload_bytes = 0, downloads = 0, download_bytes = 0;
  u64 launches = 0, allocations = 0, waits = 0;
};

/// What a simulated device has counted, in cycles of its clock.
struct Cycles {
  u64 lists = 0, descriptors = 0;         // what it was given to do, in how many instructions
  u64 cycles = 0, predicted = 0;          // while it had work; what its model says
  u64 waited = 0;                         // in which an instruction waited for a unit, an operand or a bank
  u64 bytes_read = 0, bytes_written = 0;  // of its memory
  u64 stalled = 0;                        // handshakes of its buses put off on purpose
  std::map<std::string, u64> busy;        // of each unit, the cycles in which it had work
  u64 sampled = 0, moved = 0;             // by software: limbs of random numbers, words that were copied
  double clock = 0;                       // Hz, assumed

  // Of two devices together, or since then. Several work side by side, yet their cycles are added.
  Cycles& operator+=(const Cycles& o) { return add(o, 1); }
  Cycles& operator-=(const Cycles& o) { return add(o, ~u64{0}); }

 private:
  Cycles& add(const Cycles& o, u64 times);
};
/// What an instruction of a simulated device took: the cycles [begin, end) of its list in a unit.
struct Span {
  std::string unit;
  u64 begin = 0, end = 0;
};
/// "81,234 cycles, 0.406 ms at an assumed 200 MHz (82,000 by the model), ...": for a person.
std::string readable(const Cycles& cycles);

/// What a counting device (backend/null) has seen.
class Counter {
 public:
  virtual ~Counter() = default;
  /// By kernel of the contract (and "upload", "download"). A composite counts as its parts.
  virtual std::map<std::string, Count> counts() const = 0;
  virtual Count total() const = 0;
  /// Forgets the counts and lets the peak start from what is allocated now.
  virtual void reset() = 0;
  /// Bytes allocated at this moment, and the most there were at any moment.
  virtual std::size_t live_bytes() const = 0;
  virtual std::size_t peak_bytes() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;         // "cpu", "ref", "null"
  virtual std::string description() const = 0;  // one line for a person: instruction set, threads
  /// For a person: name, description and free memory on one line; more lines where there is more to say, as what was left to
  /// another device.
  virtual std::vector<std::string> report();
  virtual MemoryState memory() const = 0;
  /// Uninitialised, 64-byte aligned, in `queue`'s order. Throws OutOfMemoryError.
  virtual Buffer allocate(std::size_t bytes, Queue& queue) = 0;
  /// The same for the words of a dense tensor; its limbs are of these primes (whose numbers mean nothing but which limbs of
  /// different tensors belong together). A device of several parts lays it out by that.
  virtual Buffer allocate(const View& shape, const PrimeList& primes, Queue& queue);
  virtual std::unique_ptr<Queue> make_queue() = 0;
  /// Copies from host memory, which may be reused when the call returns.
  virtual void upload(Queue& queue, std::span<const std::byte> from, std::byte* to) = 0;
  /// Copies to host memory; waits for the queue.
  virtual void download(Queue& queue, const std::byte* from, std::span<std::byte> to) = 0;
  virtual Kernels& kernels() = 0;
  /// Throws DeviceError on a device that has none.
  virtual TfheKernels& tfhe();
  /// Whether this device's kernels may read memory of `other` by its address.
  virtual bool reaches(const Device& other) const { return this == &other; }
  /// For one queue of each of several devices, this one among them. Null where they cannot meet without the host.
  virtual std::shared_ptr<Meeting> make_meeting(std::span<Device* const> members, std::span<Queue* const> queues);
  /// Whether addresses of this device are the host's.
  virtual bool in_host_memory() const { return false; }
  /// Modular products a second of one thread (or of the whole device) with operands in registers: measured when called.
  /// 0 where nothing is known.
  virtual double product_ceiling() { return 0; }
  /// The same of products that are summed before one reduction.
  virtual double sum_ceiling() { return 0; }
  /// What it does a second: measured when first asked for, which takes a fraction of a second.
  const Rates& rates() {
    std::call_once(rates_known_, [&] { rates_ = measure_rates(); });
    return rates_;
  }
  /// Since the device was opened.
  virtual Traffic traffic() const { return {}; }
  /// Since the device was opened, once all work is done; none where nothing is simulated.
  virtual std::optional<Cycles> cycles() { return std::nullopt; }
  /// The instructions of the last list, in their order, by the model; nothing where nothing is simulated.
  virtual std::vector<Span> timeline() { return {}; }
  /// Null on devices that compute.
  virtual Counter* counter() { return nullptr; }

  // A device may span several processes (docs/ranks.md), which make the same calls in the same order. Rank 0 is the key holder:
  // it alone has secret keys and the values to encrypt.

  /// The device on which the key holder computes with secrets; null in the other processes. The same one at each call.
  virtual Device* key_holder() { return this; }
  /// Calls `make` on the key holder alone and returns its result in every process. What it throws is thrown in every process.
  virtual std::vector<std::byte> broadcast(const std::function<std::vector<std::byte>()>& make) { return make(); }
  /// Uploads `bytes` bytes that only the key holder has (`from`, empty elsewhere): each process gets its own part.
  virtual void scatter(Queue& queue, std::span<const std::byte> from, std::size_t bytes, std::byte* to);
  /// Downloads on the key holder alone; `to` is empty elsewhere. Waits for the queue.
  virtual void gather(Queue& queue, const std::byte* from, std::size_t bytes, std::span<std::byte> to);
  /// Throws MismatchError in all processes where they do not say the same of `what` ("the parameters").
  virtual void confirm(const std::string& /*what*/, const std::string& /*value*/) {}
  /// Names this very device among all of all hosts, where devices of its kind are joined by channels between processes; else
  /// empty. One device cannot be at two ends.
  virtual std::string channel_identity() const { return {}; }
  /// What the devices of one set of channels need to find each other: asked of one of them, given to all.
  virtual std::vector<std::byte> invite() { return {}; }
  /// This device's end, once all `places` devices have called. Throws DeviceError.
  virtual std::unique_ptr<Channel> connect(std::span<const std::byte> invitation, std::size_t place, std::size_t places,
                                           const Patience& patience);
  /// What can be asked to leave when memory runs out (ring/engine.h asks).
  Residents& residents() { return residents_; }

 protected:
  virtual Rates measure_rates() { return measured_rates(*this, 1); }

 private:
  Residents residents_;
  std::once_flag rates_known_;
  Rates rates_;
};

/// A device of its own: "cpu", "cpu:scalar", "cpu:avx2", "cpu:avx512", "cuda:0", "cuda:1" and so on, "cuda" for the first of
/// these, "rtl" and "rtl:butterflies=8,clock=200" (backend/rtl/rtl.h), "ref", "null". Throws ParameterError, and DeviceError where the device is known but cannot be opened.
std::unique_ptr<Device> open_device(const std::string& name);
/// The devices of this machine that a program should use when told nothing: every GPU where this build can use them and
/// there are any, else the processor's cores. Names for open_device.
std::vector<std::string> found_devices();

}  // namespace heliograph::device
