// Sockets: bytes to another process and back, never waited for without end.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
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

/// Listens on that address; "0" is any port. Throws DeviceError.
Socket listen(const std::string& host, const std::string& port);
/// Who came by then; none where nobody did.
Socket accept(const Socket& listening, Clock::time_point until);
/// None where nobody listens there now. Throws DeviceError where the name means nothing.
Socket connect(const std::string& host, const std::string& port, std::chrono::milliseconds limit);

std::chrono::milliseconds left_until(Clock::time_point t);

}  // namespace heliograph::mesh::wire
