// TCP sockets; every wait has a limit.
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

  /// All bytes, or Closed; TimedOut where none could be sent or came for `limit`. `given_up` is called now and then.
  void send(std::span<const std::span<const std::byte>> parts, std::chrono::milliseconds limit,
            const std::function<bool()>& given_up = {}) const;
  void receive(std::span<std::byte> bytes, std::chrono::milliseconds limit,
               const std::function<bool()>& given_up = {}) const;
  /// A text of at most a MiB, after its length.
  void send_text(const std::string& text, std::chrono::milliseconds limit) const;
  std::string receive_text(std::chrono::milliseconds limit) const;
  /// Ends sending and receiving; wakes threads that wait for this socket.
  void shut() const;

  /// Of this end and of the other.
  std::string own_address() const;
  std::string peer_address() const;
  std::string own_port() const;

 private:
  int fd_ = -1;
};

/// A text (`Socket::send_text`) received in pieces, for a thread that reads several connections at once.
class IncomingText {
 public:
  explicit IncomingText(Socket from) : from_(std::move(from)) {}
  int fd() const { return from_.fd(); }
  /// Receives what has arrived, without waiting. True when the text is complete. Throws Closed; DeviceError if it is too long.
  bool take();
  const std::string& text() const { return text_; }
  Socket& from() { return from_; }

 private:
  Socket from_;
  std::uint32_t size_ = 0;
  std::size_t taken_ = 0;  // of the length and the text
  std::string text_;
};

/// Accepts connections and receives a text from each, from all of them at once: a slow or silent one delays no other.
class TextReceiver {
 public:
  /// `patience`: time limit for each connection's text.
  TextReceiver(const Socket& listener, std::chrono::milliseconds patience) : listener_(listener), patience_(patience) {}
  /// The next complete text, and its connection; nothing where there is none by `until`.
  std::optional<std::pair<std::string, Socket>> next(Clock::time_point until);

 private:
  struct Connection {
    IncomingText text;
    Clock::time_point until;
  };
  void accept_new();

  const Socket& listener_;
  const std::chrono::milliseconds patience_;
  std::deque<Connection> connections_;  // in the order in which they were accepted
};

/// Listens on that address; "0" is any port. Throws DeviceError.
Socket listen(const std::string& host, const std::string& port);
/// None where no process listens there now. Throws DeviceError where the name cannot be resolved.
Socket connect(const std::string& host, const std::string& port, std::chrono::milliseconds limit);

std::chrono::milliseconds left_until(Clock::time_point t);

}  // namespace heliograph::mesh::wire
