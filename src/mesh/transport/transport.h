// Communication between the processes (ranks) of a mesh. All ranks run the same program: they make the same calls in order.
#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"

namespace heliograph::mesh {

using device::u64;

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;  // ranks
  virtual std::string name() const = 0;  // "sockets"
  /// Bytes that this rank has sent to others, what their devices exchange and all else that a program asks for.
  virtual u64 sent_bytes() const = 0;

  struct Part {
    std::size_t member;  // it goes to or comes from
    std::byte* address;
    std::size_t bytes;
  };
  /// What one member sends and receives in the exchange of that number, in its queue's order: called on the thread that
  /// enqueues there, once an exchange; where it is staged, also first with what is sent and then with what is received. May block until what is received is there, never until what is sent has arrived.
  virtual void exchange(u64 number, std::size_t member, device::Device& device, device::Queue& queue,
                        std::span<const Part> sends, std::span<const Part> receives) = 0;
  /// Whether an exchange goes through the hosts' memory.
  virtual bool is_staged() const = 0;

  /// Overwrites `bytes` on every rank with rank 0's.
  virtual void broadcast(std::span<std::byte> bytes) = 0;
  /// Rank r receives each[r] of rank 0 (`each` is ignored on the other ranks).
  virtual std::vector<std::byte> scatter(std::vector<std::vector<std::byte>> each) = 0;
  /// Every rank's bytes, in the order of ranks, on rank 0; nothing on the others.
  virtual std::vector<std::vector<std::byte>> gather(std::vector<std::byte> mine) = 0;
  /// Every rank's bytes, in the order of ranks, on every rank.
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) = 0;
  void barrier() { all_gather({}); }

  /// Ends the mesh on every rank, for no rank can undo what failed on another. The first failure stays.
  virtual void fail(std::exception_ptr error) noexcept = 0;
  /// Throws the failure that has ended the mesh: DeviceError, or OutOfMemoryError; names the rank.
  virtual void require_sound() const = 0;
};

/// Of a single process.
std::unique_ptr<Transport> make_local_transport();

}  // namespace heliograph::mesh
