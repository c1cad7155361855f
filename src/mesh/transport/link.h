// Another way for messages between ranks than the TCP connections of sockets.h: MPI.
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

/// The header of a message.
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
  /// Called on the link's thread: for each message, in the order in which that rank sent them, and for what ends the link.
  struct Handlers {
    std::function<void(std::size_t rank, const Envelope& envelope, Bytes bytes)> on_message;
    std::function<void(std::exception_ptr)> on_failure;
  };

  virtual ~Link() = default;
  /// Returns before the message has arrived. Safe from several threads.
  virtual void send(std::size_t rank, const Envelope& envelope, Bytes bytes) = 0;
  /// While a thread waits for a message (`waiting`) the link polls without sleeping.
  virtual void expect(bool waiting) = 0;
};

}  // namespace heliograph::mesh
