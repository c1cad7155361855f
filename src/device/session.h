// Work on a device: a queue, and memory with eviction.
#pragma once

#include <new>
#include <stdexcept>

#include "base/checked.h"
#include "base/process.h"
#include "device/chunks.h"
#include "device/device.h"
#include "device/kernels.h"
#include "device/observer.h"

namespace heliograph::device {

class Session;

/// Scratch for calls of the same shape as `like`, with `items` items each; empty if the device allocates its own scratch.
class Scratch {
 public:
  Scratch(const Session& session, const Call& like, std::size_t items);
  Workspace all() const { return buffer_ ? Workspace(buffer_->address(), buffer_->bytes()) : Workspace(); }

 private:
  Buffer buffer_;
};

/// Throws RecordingError if a view has no data, because a recording skipped the call that would write it.
void require_words(const View& view);

class Session {
 public:
  /// `device` must outlive the session; the process's default device does.
  explicit Session(Device& device);
  /// Uses a queue of the device that other sessions may also use.
  Session(Device& device, std::shared_ptr<Queue> queue);

  Device& device() const { return device_; }
  Kernels& kernels() const { return device_.kernels(); }
  /// Returns the session's queue. Throws ForkError in a forked child of the process that made the session.
  Queue& queue() const;
  /// Enqueues a call. A composite without scratch gets some here, and its batch is cut into the device's preferred chunks.
  void enqueue(Call call) const { enqueue_observed(call, false); }
  /// Like `enqueue`; also reports the progress of the call after each chunk.
  void enqueue_reporting(Call call) const { enqueue_observed(call, true); }
  /// Returns the bytes of scratch for the call, for the device's preferred number of items at once.
  std::size_t scratch_wanted(const Call& call) const;
  /// Enqueues a call with this scratch and does not notify observers; for calls that were observed before.
  void enqueue_in(Call call, const Workspace& scratch) const;
  /// Returns whether the session divides batches. A device that divides batches itself must receive them whole.
  bool cuts_batches() const { return !kernels().brings_scratch(); }
  /// Returns how many of `items` items to process at once if each needs this many bytes of intermediate memory.
  std::size_t items_at_once(std::size_t bytes, std::size_t items) const;
  /// Allocates device memory. If memory is short, evicts residents of any parameter set, the least recently used first.
  /// Throws OutOfMemoryError if evicting all of them does not suffice.
  Buffer allocate(std::size_t bytes) const;
  Buffer allocate(const View& shape, const PrimeList& primes, Secrecy secrecy = Secrecy::open) const;
  /// Copies host memory to a view with contiguous words. The caller may reuse the host memory after return.
  void upload(std::span<const std::byte> from, const View& to) const;
  /// Copies a view to host memory; waits for the queue.
  void download(const View& from, std::span<std::byte> to) const;
  /// Upload and download between the key holder's host memory and the device (device/device.h). The span is empty in the
  /// processes that are not the key holder.
  void scatter(std::span<const std::byte> from, const View& to) const;
  void gather(const View& from, std::span<std::byte> to) const;
  std::size_t free_memory() const;
  /// Throws OutOfMemoryError, before any computation, if `bytes` more cannot be allocated. Evicts residents like `allocate`.
  void require_memory(std::size_t bytes, const char* purpose) const;
  /// Throws OutOfMemoryError if the host cannot allocate `bytes`; small requests are not checked.
  void require_host_memory(std::size_t bytes, const char* purpose) const;
  template <class T, class Vector = std::vector<T>>
  Vector host_array(std::size_t count, const char* purpose) const {
    const std::size_t bytes = checked_mul(count, sizeof(T));
    require_host_memory(bytes, purpose);
    try {
      return Vector(count);
    } catch (const std::bad_alloc&) {
    } catch (const std::length_error&) {
    }
    throw OutOfMemoryError(std::string(purpose) + " needs " + readable_bytes(bytes) + " on the host");
  }

  /// Calls `attempt`, and repeats it after evictions as long as it runs out of memory and evictions succeed. Returns the
  /// result of `attempt`.
  template <class Attempt>
  auto with_room(std::size_t bytes, Attempt attempt) const {
    for (;;) {
      const u64 seen = device_.residents().evicted_bytes();
      try {
        return attempt();
      } catch (const OutOfMemoryError&) {
        if (!make_room(bytes, bytes, seen)) throw;
      }
    }
  }

 private:
  /// Notifies observers and enqueues `call`, whose contents it may move.
  void enqueue_observed(Call& call, bool reports) const;
  /// Number of items of a call to process at once; 0 if the call needs no scratch on this device.
  std::size_t items_at_once(const Call& call) const;
  /// Enqueues a call in chunks of `at_once` items with this scratch; if the scratch is empty, enqueues the whole call.
  void enqueue_cut(Call call, const Workspace& scratch, std::size_t at_once, bool reports) const;
  /// Evicts at least `missing` bytes if evictions can free `bytes` in total. Returns false if another attempt to allocate is
  /// useless.
  bool make_room(std::size_t bytes, std::size_t missing, u64 seen) const;

  Device& device_;
  std::shared_ptr<Queue> queue_;  // shared, because memory that is wiped through the queue may outlive the session
  ProcessMark process_;
};

}  // namespace heliograph::device
