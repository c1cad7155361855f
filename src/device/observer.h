// Who sees what a thread's sessions do: a recording (program/tape.h).
#pragma once

#include <optional>
#include <span>

#include "device/call.h"

namespace heliograph::device {

class Session;

/// What becomes of memory when it is freed, and what may be made of it before. `passing`: wiped, in the queue's order, before
/// it returns to the pool. `lasting`, for keys: besides, where it is the host's, in pages that are in no dump (base/secret.h).
enum class Secrecy : unsigned char { open, passing, lasting };

class Observer {
 public:
  virtual ~Observer() = default;
  /// Memory of that shape was allocated.
  virtual void allocated(const Buffer& buffer, const View& shape, const PrimeList& primes, Secrecy secrecy) = 0;
  /// A call of a session that is about to be enqueued. What it throws keeps the call from being enqueued; so does false, and
  /// then all is as if it were, but what it writes is blank: nothing that is performed may read it.
  virtual bool enqueues(const Session& session, const Call& call) = 0;
  /// The host is about to write a view, or to read one. The same holds of what they throw. None: bytes that not every process has.
  virtual void uploads(const View& to, std::optional<std::span<const std::byte>> from) = 0;
  virtual void downloads(const View& from) = 0;
};

/// An observer sees what this thread does until this goes; those before it go on seeing it too.
class Observing {
 public:
  explicit Observing(Observer& observer) : Observing(&observer) {}
  ~Observing();
  Observing(const Observing&) = delete;
  Observing& operator=(const Observing&) = delete;

 protected:
  explicit Observing(Observer* observer);

 private:
  template <class F>
  friend void tell_observers(F f);
  friend bool observed();
  static const Observing* last();

  Observer* observer_;  // null: nobody sees anything
  const Observing* former_;
};

/// For work that is nobody's result: keys that come back to a device, tables made at first use.
class Unobserved : public Observing {
 public:
  Unobserved() : Observing(nullptr) {}
};

/// Whether anybody sees what this thread does.
bool observed();

/// Calls `f` with each observer of this thread.
template <class F>
void tell_observers(F f) {
  for (const Observing* o = Observing::last(); o != nullptr && o->observer_ != nullptr; o = o->former_) f(*o->observer_);
}

}  // namespace heliograph::device
