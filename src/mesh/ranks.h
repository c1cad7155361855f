// A mesh over several processes: every rank takes the same decisions for all members and computes on its own members.
#pragma once

#include <functional>

#include "mesh/mesh.h"
#include "mesh/transport/meet.h"
#include "mesh/transport/transport.h"

namespace heliograph::mesh {

/// Stands for a device of another rank: has a name, and addresses that are never dereferenced; computes nothing.
class RemoteDevice final : public device::Device {
 public:
  RemoteDevice(MemberInfo info, std::string host, std::size_t rank)
      : info_(std::move(info)), host_(std::move(host)), rank_(rank) {}
  const std::string& host() const { return host_; }
  std::size_t rank() const { return rank_; }

  std::string name() const override { return info_.name; }
  std::string description() const override { return info_.description; }
  std::vector<std::string> report() override;
  device::MemoryState memory() const override { return {}; }  // known to its own rank, see State
  device::Buffer allocate(std::size_t bytes, device::Queue& queue) override;
  std::unique_ptr<device::Queue> make_queue() override;
  void upload(device::Queue&, std::span<const std::byte>, std::byte*) override;
  void download(device::Queue&, const std::byte*, std::span<std::byte>) override;
  device::Kernels& kernels() override;

 private:
  MemberInfo info_;
  std::string host_;
  std::size_t rank_;
};

/// Calls `make` on rank 0 and returns its result, or throws what it threw with the same type, on every rank.
std::vector<std::byte> broadcast_result(Transport& transport, const std::function<std::vector<std::byte>()>& make);
/// Throws MismatchError on every rank where one rank's `value` differs from rank 0's.
void confirm(Transport& transport, const std::string& what, const std::string& value);

/// One rank's devices and options.
struct Own {
  std::vector<std::shared_ptr<device::Device>> devices;
  Options options;
};
/// The mesh of all ranks. Where `open` throws, the other ranks throw too. `options`: their text.
/// Throws MismatchError on every rank where versions or options differ, DeviceError where a rank does not connect.
std::unique_ptr<Mesh> join_ranks(Rendezvous meeting, const std::function<Own()>& open, const std::string& options);

}  // namespace heliograph::mesh
