// The members of a device that consists of several devices. Recorded programs place their calls on members
// (program/placed.h). An executor is one member, or all members together.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "device/call.h"
#include "device/work.h"

namespace heliograph::device {

class Session;

/// Copies between members during one replay. All copies are enqueued; the host waits for no device.
class Moves {
 public:
  /// The destructor releases the copies' memory after the members that read it have finished.
  virtual ~Moves() = default;
  /// Marks the end of all work that was enqueued for a member so far; returns the number of the mark.
  virtual std::size_t mark(std::size_t member) = 0;
  /// Returns a view's words in memory of an executor. Returns `view` itself if the executor holds all words of the view.
  /// Otherwise returns a copy of the view alone if `dense`, else a copy of all memory of the view. `made`: the mark on the
  /// holding member after which the words are valid.
  virtual View bring(const View& view, bool dense, std::size_t executor, std::optional<std::size_t> made) = 0;
};

class Members {
 public:
  virtual ~Members() = default;
  virtual std::size_t size() const = 0;
  /// Returns the index of the executor that has all members; the device distributes its calls over them.
  std::size_t all() const { return size(); }
  virtual std::string name(std::size_t member) const = 0;

  // Predictions in seconds. The predictions are equal in all processes of the device.

  /// Predicts the time of a call on an executor. A TFHE call must have its keys.
  virtual double seconds(const Call& call, const Count& work, u64 bytes, std::size_t executor) const = 0;
  struct Link {
    double latency, bytes_a_second;
  };
  virtual Link link(std::size_t from, std::size_t to) const = 0;
  /// Seconds of host time to enqueue a call for an executor, and to enqueue a piece of a program.
  struct Host {
    double call, piece;
  };
  virtual Host host(std::size_t executor) const = 0;
  virtual std::size_t memory(std::size_t member) const = 0;

  /// Returns the member that holds all memory of a view; `all()` if several members hold parts.
  virtual std::size_t holder(const View& view) const = 0;
  virtual std::unique_ptr<Moves> moves() = 0;
  /// Copies memory to a member; the copy is valid as long as the result is held. Returns the memory itself if the member
  /// holds it.
  virtual Buffer copy(const Buffer& memory, std::size_t member) = 0;
  /// Runs `body`; results that this thread allocates in it are on the executor.
  virtual void on(std::size_t executor, const std::function<void()>& body) = 0;

  // Functions for members that run their own programs.

  /// Returns the session of a member's queue; null if calls for the member must go through the device.
  virtual const Session* session(std::size_t member) = 0;
  virtual void prepare(const Call& call, std::size_t member) = 0;
  /// Runs `body`, which enqueues on the member's session, after all earlier work for the member is enqueued.
  virtual void alone(std::size_t member, const std::function<void()>& body) = 0;
  /// The first function returns the member's memory if the member has all of `memory`; the second returns the address
  /// of a view's first word there. Both functions return null otherwise.
  virtual Buffer local(const Buffer& memory, std::size_t member) = 0;
  virtual std::byte* address(const View& view, std::size_t member) = 0;
  /// Returns the member's copy of a key's memory, which may be evicted if memory is short. `key` may be on any member.
  virtual Buffer key(const Buffer& key, std::size_t member) = 0;
  /// Makes words at `from`, which the member's session allocated, accessible as memory of this device; `shape` must be
  /// dense.
  virtual Buffer adopt(const View& from, const View& shape, std::size_t member) = 0;
};

}  // namespace heliograph::device
