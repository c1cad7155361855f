// Sockets: bytes to another process and back, never waited for without end.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heliograph/errors.h"

namespace heliograph::mesh::wire {

using Clock = std::chrono::steady_clock;

/// A connection closed by the other side, or lost.
class Closed : public DeviceError {
 public:
  using DeviceError::DeviceError;
};
class TimedOut : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Socket& operator=(Socket&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  /// All bytes, or Closed; TimedOut where none could be sent or came for `limit`. `given_up` is asked now and then.
  void send(std::span<const std::span<const std::byte>> parts, std::chrono::milliseconds limit,
            const std::function<bool()>& given_up = {}) const;
  void receive(std::span<std::byte> bytes, std::chrono::milliseconds limit,
               const std::function<bool()>& given_up = {}) const;
  /// A text of at most a MiB, after its length.
  void send_text(const std::string& text, std::chrono::milliseconds limit) const;
  std::string receive_text(std::chrono::milliseconds limit) const;
  /// No more is sent or received; who waits in another thread is woken.
  void shut() const;

  /// Of this end and of the other.
  std::string own_address() const;
  std::string peer_address() const;
  std::string own_port() const;

 private:
  int fd_ = -1;
};

/// A text (`Socket::send_text`) as it comes in pieces, for who listens to several connections at once.
class IncomingText {
 public:
  explicit IncomingText(Socket from) : from_(std::move(from)) {}
  int fd() const { return from_.fd(); }
  /// Takes what is there, without waiting. True when all of it has come. Throws Closed, DeviceError for what is too long.
  bool take();
  const std::string& text() const { return text_; }
  Socket& from() { return from_; }

 private:
  Socket from_;
  std::uint32_t size_ = 0;
  std::size_t taken_ = 0;  // of the length and the text
  std::string text_;
};

/// Receives a text of each who comes to a door, from all of them side by side: who says nothing, or says it slowly, keeps
/// nobody waiting.
class Reception {
 public:
  /// `patience`: how long each may take.
  Reception(const Socket& door, std::chrono::milliseconds patience) : door_(door), patience_(patience) {}
  /// The next text that has come whole, and its connection; nothing where none does by then.
  std::optional<std::pair<std::string, Socket>> next(Clock::time_point until);

 private:
  struct Visitor {
    IncomingText text;
    Clock::time_point until;
  };
  void admit();

  const Socket& door_;
  const std::chrono::milliseconds patience_;
  std::deque<Visitor> visitors_;  // in the order in which they came
};

/// Listens on that address; "0" is any port. Throws DeviceError.
Socket listen(const std::string& host, const std::string& port);
/// None where nobody listens there now. Throws DeviceError where the name means nothing.
Socket connect(const std::string& host, const std::string& port, std::chrono::milliseconds limit);

std::chrono::milliseconds left_until(Clock::time_point t);

}  // namespace heliograph::mesh::wire
