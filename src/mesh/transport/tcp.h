// TCP sockets with a limit on every wait.
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

namespace heliograph::mesh::tcp {

using Clock = std::chrono::steady_clock;

/// Thrown if the peer closed the connection, or if the connection was lost.
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

  /// Sends or receives all bytes. Throws Closed, or TimedOut after `limit` without progress. Polls `is_cancelled` meanwhile.
  void send(std::span<const std::span<const std::byte>> parts, std::chrono::milliseconds limit,
            const std::function<bool()>& is_cancelled = {}) const;
  void receive(std::span<std::byte> bytes, std::chrono::milliseconds limit,
               const std::function<bool()>& is_cancelled = {}) const;
  /// Send or receive a text of at most 1 MiB, which its length precedes.
  void send_text(const std::string& text, std::chrono::milliseconds limit) const;
  std::string receive_text(std::chrono::milliseconds limit) const;
  /// Ends sending and receiving. Wakes threads that wait for this socket.
  void shut() const;

  std::string own_address() const;
  std::string peer_address() const;
  std::string own_port() const;

 private:
  int fd_ = -1;
};

/// A text of `Socket::send_text` that is received in pieces, so that a thread can read several connections at once.
class IncomingText {
 public:
  explicit IncomingText(Socket from) : from_(std::move(from)) {}
  int fd() const { return from_.fd(); }
  /// Receives available bytes without waiting. Returns true when the text is complete. Throws Closed; DeviceError if the
  /// text is too long.
  bool take();
  const std::string& text() const { return text_; }
  Socket& from() { return from_; }

 private:
  Socket from_;
  std::uint32_t size_ = 0;
  std::size_t taken_ = 0;  // received bytes of the length and the text
  std::string text_;
};

/// Accepts connections and receives a text from each of them at the same time, so that a slow connection does not delay
/// others.
class TextReceiver {
 public:
  /// `limit`: time limit for the text of each connection.
  TextReceiver(const Socket& listener, std::chrono::milliseconds limit) : listener_(listener), limit_(limit) {}
  /// Returns the next complete text and its connection; nullopt if there is none by `until`.
  std::optional<std::pair<std::string, Socket>> next(Clock::time_point until);

 private:
  struct Connection {
    IncomingText text;
    Clock::time_point until;
  };
  void accept_new();

  const Socket& listener_;
  const std::chrono::milliseconds limit_;
  std::deque<Connection> connections_;  // in the order of acceptance
};

/// Listens on an address; port "0" is any free port. Throws DeviceError.
Socket listen(const std::string& host, const std::string& port);
/// Connects to an address. Returns a closed socket if no process listens there. Throws DeviceError if the name cannot be
/// resolved.
Socket connect(const std::string& host, const std::string& port, std::chrono::milliseconds limit);

std::chrono::milliseconds left_until(Clock::time_point t);

}  // namespace heliograph::mesh::tcp
