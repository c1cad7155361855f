// Observers of the sessions of a thread, such as a recording (program/tape.h).
#pragma once

#include <optional>
#include <span>

#include "device/call.h"

namespace heliograph::device {

class Session;

/// The secrecy of a buffer. `open`: the buffer is not wiped. `passing`: the buffer is wiped, in the queue's order, before it
/// returns to the pool. `lasting`, for keys: the buffer is also wiped, and in host memory its pages are excluded from core
/// dumps (base/secret.h).
enum class Secrecy : unsigned char { open, passing, lasting };

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void allocated(const Buffer& buffer, const View& shape, const PrimeList& primes, Secrecy secrecy) = 0;
  /// Called before a session enqueues a call. If this function throws, the call is not enqueued. If this function returns
  /// false, the call is skipped and its outputs are marked blank: no executed call may read them.
  virtual bool enqueues(const Session& session, const Call& call) = 0;
  /// Called before the host writes or reads a view. If the function throws, the host neither writes nor reads the view.
  /// `from` is nullopt if only some processes have the bytes.
  virtual void uploads(const View& to, std::optional<std::span<const std::byte>> from) = 0;
  virtual void downloads(const View& from) = 0;
};

/// Registers an observer for this thread until destruction; earlier observers stay active.
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
  friend void notify_observers(F f);
  friend bool observed();
  static const Observing* last();

  Observer* observer_;  // null: no observers within this scope
  const Observing* former_;
};

/// Disables observers during its lifetime, for work that is not part of a result: reloading keys, or making tables at first
/// use.
class Unobserved : public Observing {
 public:
  Unobserved() : Observing(nullptr) {}
};

bool observed();

template <class F>
void notify_observers(F f) {
  for (const Observing* o = Observing::last(); o != nullptr && o->observer_ != nullptr; o = o->former_) f(*o->observer_);
}

}  // namespace heliograph::device
