// The members of a device of several, as recorded programs place their calls on them (program/placed.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "device/call.h"
#include "device/work.h"

namespace heliograph::device {

class Session;

/// One replay's copies between members. All of it is enqueued, nothing waits on the host for a device.
class Moves {
 public:
  /// What it holds is released after the members that still read it.
  virtual ~Moves() = default;
  /// A point behind all that was enqueued for a member so far.
  virtual std::size_t mark(std::size_t member) = 0;
  /// The words of a view on an executor: as they are where all of its memory lies there; else a copy, of the view alone if
  /// that is `dense`, else of all of its memory. `made`: a point of the member that holds it behind which its words are there.
  virtual View bring(const View& view, bool dense, std::size_t executor, std::optional<std::size_t> made) = 0;
};

class Members {
 public:
  virtual ~Members() = default;
  virtual std::size_t size() const = 0;
  /// The executor of this number is no member: calls for it run on all members, as the device chooses.
  std::size_t all() const { return size(); }
  virtual std::string name(std::size_t member) const = 0;

  // Predictions, in seconds; alike in all processes of the device.

  /// A call on an executor. A call of TFHE needs its keys for a prediction.
  virtual double seconds(const Call& call, const Count& work, u64 bytes, std::size_t executor) const = 0;
  struct Link {
    double latency, bytes_a_second;
  };
  virtual Link link(std::size_t from, std::size_t to) const = 0;
  /// The host's time to enqueue a call for an executor, and a piece of a program.
  struct Host {
    double call, piece;
  };
  virtual Host host(std::size_t executor) const = 0;
  /// Memory of a member in bytes.
  virtual std::size_t memory(std::size_t member) const = 0;

  // Where words lie.

  /// The member that holds all memory of a view; `all()` if several do.
  virtual std::size_t holder(const View& view) const = 0;
  virtual std::unique_ptr<Moves> moves() = 0;
  /// A copy of memory on a member that stays as long as the result is held; the memory itself if it lies there.
  virtual Buffer copy(const Buffer& memory, std::size_t member) = 0;
  /// While `body` runs, this thread's results lie on an executor.
  virtual void on(std::size_t executor, const std::function<void()>& body) = 0;

  // Members that run programs of their own.

  /// Work on a member's queue; null if the member must be given its calls one by one.
  virtual const Session* session(std::size_t member) = 0;
  /// Sees to it that the member has its forms of a call's constants.
  virtual void prepare(const Call& call, std::size_t member) = 0;
  /// Runs `body`, which enqueues on the member's session, when the member has all that was enqueued before.
  virtual void alone(std::size_t member, const std::function<void()>& body) = 0;
  /// The member's memory of what lies whole on it, and the address there of a view's first word; null if it lies elsewhere.
  virtual Buffer local(const Buffer& memory, std::size_t member) = 0;
  virtual std::byte* address(const View& view, std::size_t member) = 0;
  /// The member's memory that holds a key, which may leave when memory is short; `key` lies anywhere.
  virtual Buffer key(const Buffer& key, std::size_t member) = 0;
  /// Words that the member's session made at `from`, as memory of this device; `shape` is dense.
  virtual Buffer adopt(const View& from, const View& shape, std::size_t member) = 0;
};

}  // namespace heliograph::device
