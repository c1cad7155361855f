// Communication between the processes (ranks) of a mesh. All ranks run the same program and make the same calls in the same
// order.
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
  virtual std::size_t size() const = 0;  // number of ranks
  virtual std::string name() const = 0;  // name of the transport, such as "sockets"
  /// Returns the bytes that this rank has sent: exchanges of its devices, and all other data that a program requests.
  virtual u64 sent_bytes() const = 0;

  struct Part {
    std::size_t member;  // source or destination on another rank
    std::byte* address;
    std::size_t bytes;
  };
  /// Exchanges parts of one member with members of other ranks, in the order of its queue. The thread that enqueues to
  /// this queue calls it, once per exchange; for a staged transport possibly twice, first with sends, then with receives.
  /// May block until the received parts have arrived. Never waits until parts that it sends have arrived.
  virtual void exchange(u64 number, std::size_t member, device::Device& device, device::Queue& queue,
                        std::span<const Part> sends, std::span<const Part> receives) = 0;
  virtual bool is_staged() const = 0;

  /// Overwrites `bytes` on every rank with rank 0's bytes.
  virtual void broadcast(std::span<std::byte> bytes) = 0;
  /// Sends each[r] of rank 0 to rank r (`each` is ignored on the other ranks).
  virtual std::vector<std::byte> scatter(std::vector<std::vector<std::byte>> each) = 0;
  /// Returns every rank's bytes, in the order of ranks, on rank 0; an empty list on all other ranks.
  virtual std::vector<std::vector<std::byte>> gather(std::vector<std::byte> mine) = 0;
  /// Returns every rank's bytes, in the order of ranks, on every rank.
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) = 0;
  void barrier() { all_gather({}); }

  /// Ends the mesh on every rank, because no rank can undo another rank's failure. Stores the first failure.
  virtual void fail(std::exception_ptr error) noexcept = 0;
  /// Throws the failure that ended the mesh, if any: DeviceError or OutOfMemoryError, with the rank.
  virtual void require_sound() const = 0;
};

std::unique_ptr<Transport> make_local_transport();

}  // namespace heliograph::mesh
