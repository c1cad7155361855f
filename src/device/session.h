// Work on a device: a queue, and memory with what may leave the device making room.
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

/// Scratch for several calls alike, `items` items each; none where the device finds its own.
class Scratch {
 public:
  Scratch(const Session& session, const Call& like, std::size_t items);
  Workspace all() const { return buffer_ ? Workspace(buffer_->address(), buffer_->bytes()) : Workspace(); }

 private:
  Buffer buffer_;
};

/// Throws RecordingError where a view shows what was only looked at.
void require_words(const View& view);

class Session {
 public:
  /// `device` must outlive the session (the process's own do).
  explicit Session(Device& device);
  /// Work on a queue of the device that others use too.
  Session(Device& device, std::shared_ptr<Queue> queue);

  Device& device() const { return device_; }
  Kernels& kernels() const { return device_.kernels(); }
  /// The queue work is enqueued on. Throws ForkError in a child of the process that made the session.
  Queue& queue() const;
  /// Enqueues a call. A composite that brings no scratch gets some here, and its batch is cut as the device likes it:
  /// `progress` is called after each stretch with the share done.
  void enqueue(Call call, const Progress& progress = {}) const;
  /// Bytes of scratch that such a call is given: what as many items want as the device likes at once.
  std::size_t scratch_wanted(const Call& call) const;
  /// Enqueues a call with the scratch it wants. For what was observed before.
  void enqueue_in(Call call, const Workspace& scratch, const Progress& progress = {}) const;
  /// Whether batches are cut here. A device that cuts them itself is several, and is best given everything at once.
  bool cuts_batches() const { return !kernels().brings_scratch(); }
  /// How many of `items` items to take at once, where each has so many bytes in between.
  std::size_t items_at_once(std::size_t bytes, std::size_t items) const;
  /// Where memory is short, what may leave the device makes room first: the least recently used, of any parameter set.
  /// Throws OutOfMemoryError where that is not enough.
  Buffer allocate(std::size_t bytes) const;
  Buffer allocate(const View& shape, const PrimeList& primes, Secrecy secrecy = Secrecy::open) const;
  /// Copies to what a view shows, whose words lie one after another, from host memory, which may be reused at return.
  void upload(std::span<const std::byte> from, const View& to) const;
  /// The other way; waits for the queue.
  void download(const View& from, std::span<std::byte> to) const;
  /// The same of the key holder's memory alone (device/device.h); elsewhere the host's side is empty.
  void scatter(std::span<const std::byte> from, const View& to) const;
  void gather(const View& from, std::span<std::byte> to) const;
  /// Bytes that can be had now, what may leave the device for them included.
  std::size_t free_memory() const;
  /// Throws OutOfMemoryError, before anything is computed, where `bytes` more are not to be had. Makes room as `allocate`.
  void require_memory(std::size_t bytes, const char* purpose) const;
  /// The same for memory of the host; little is not asked for.
  void require_host_memory(std::size_t bytes, const char* purpose) const;
  /// `count` zeros on the host. Throws OutOfMemoryError.
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

  /// What `attempt` returns, tried again as long as it runs out of memory and room can be made.
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
  /// How many items of a call to take at once; 0: it wants no scratch here.
  std::size_t items_at_once(const Call& call) const;
  /// With scratch for so many items at once, or none.
  void enqueue_cut(Call call, const Workspace& scratch, std::size_t at_once, const Progress& progress) const;
  /// Evicts at least `missing` bytes where that may lead to `bytes` free ones. False: trying again is of no use.
  bool make_room(std::size_t bytes, std::size_t missing, u64 seen) const;

  Device& device_;
  std::shared_ptr<Queue> queue_;  // memory to be wiped may go after the session
  ProcessMark process_;
};

}  // namespace heliograph::device
