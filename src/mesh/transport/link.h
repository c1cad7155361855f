// What carries words between ranks where their connections (sockets.h) do not do it themselves.
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

/// The head of a message.
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
  /// Told, on the link's thread, of each message in the order in which that rank sent it, and of what ends the link.
  struct Ear {
    std::function<void(std::size_t rank, const Envelope& envelope, Bytes bytes)> take_in;
    std::function<void(std::exception_ptr)> fail;
  };

  virtual ~Link() = default;
  /// Does not wait until it has arrived. Safe from several threads.
  virtual void send(std::size_t rank, const Envelope& envelope, Bytes bytes) = 0;
  /// While somebody waits for a message the link looks for it without a rest.
  virtual void expect(bool waiting) = 0;
};

}  // namespace heliograph::mesh
