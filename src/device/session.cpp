#include "device/session.h"

#include <unistd.h>

namespace heliograph::device {

Session::Session(Device& device) : device_(device), queue_(device.make_queue()), process_(getpid()) {}

Queue& Session::queue() const {
  if (getpid() != process_)
    throw ForkError("Heliograph cannot be used in a child process after a fork; start the child with 'spawn'");
  return *queue_;
}

bool Session::make_room(std::size_t bytes, std::size_t missing, u64 seen) const {
  Residents& residents = device_.residents();
  const MemoryState m = device_.memory();
  // A hopeless wish costs nobody their memory.
  if (bytes > m.available + m.pooled + residents.evictable_bytes()) return residents.evicted_bytes() != seen;
  return residents.make_room(missing, seen);
}

Buffer Session::allocate(std::size_t bytes) const {
  return with_room(bytes, [&] { return device_.allocate(bytes, queue()); });
}

Buffer Session::allocate(const View& shape, const PrimeList& primes) const {
  return with_room(shape.bytes(), [&] { return device_.allocate(shape, primes, queue()); });
}

std::size_t Session::free_memory() const {
  queue();  // a child of a fork must not ask its parent's device
  const MemoryState m = device_.memory();
  return m.available + m.pooled + device_.residents().evictable_bytes();
}

void Session::require_memory(std::size_t bytes, const char* purpose) const {
  queue();  // a child of a fork must not ask its parent's device
  for (;;) {
    const u64 seen = device_.residents().evicted_bytes();
    const MemoryState m = device_.memory();
    const std::size_t have = m.available + m.pooled;
    if (bytes <= have) return;
    if (!make_room(bytes, bytes - have, seen)) {
      throw OutOfMemoryError(std::string(purpose) + " needs " + readable_bytes(bytes) + ", you have " +
                             readable_bytes(have + device_.residents().evictable_bytes()));
    }
  }
}

void Session::require_host_memory(std::size_t bytes, const char* purpose) const {
  constexpr std::size_t kLittle = std::size_t{1} << 26;
  if (bytes > kLittle && device_.in_host_memory()) require_memory(bytes, purpose);
}

}  // namespace heliograph::device
