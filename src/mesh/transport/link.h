// A channel for messages between ranks that replaces the TCP connections of sockets.h: MPI.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace heliograph::mesh {

struct Envelope {
  static constexpr std::uint32_t kMagic = 0x6b726768;
  std::uint32_t magic = kMagic, kind = 0;
  std::uint64_t number = 0;
  std::uint32_t from = 0, to = 0;
  std::uint64_t bytes = 0;
};

class Link {
 public:
  using Bytes = std::vector<std::byte>;
  /// The link's thread calls on_message for each message, in the order in which a rank sent them, and on_failure for a
  /// failure that ends the link.
  struct Handlers {
    std::function<void(std::size_t rank, const Envelope& envelope, Bytes bytes)> on_message;
    std::function<void(std::exception_ptr)> on_failure;
  };

  virtual ~Link() = default;
  /// Sends a message. Returns before the message arrives. Thread-safe.
  virtual void send(std::size_t rank, const Envelope& envelope, Bytes bytes) = 0;
  /// Sets whether a thread waits for a message; the link then polls without sleeping.
  virtual void set_waiting(bool waiting) = 0;
};

}  // namespace heliograph::mesh
