// A mesh over several processes. Every rank makes the decisions for all members, and computes on its own members.
#pragma once

#include <functional>

#include "mesh/mesh.h"
#include "mesh/transport/meet.h"
#include "mesh/transport/transport.h"

namespace heliograph::mesh {

/// A placeholder for a device of another rank, with a name, and addresses that this rank never dereferences. The placeholder
/// computes nothing.
class RemoteDevice final : public device::Device {
 public:
  RemoteDevice(MemberInfo info, std::string host, std::size_t rank)
      : info_(std::move(info)), host_(std::move(host)), rank_(rank) {}
  const std::string& host() const { return host_; }
  std::size_t rank() const { return rank_; }

  std::string name() const override { return info_.name; }
  std::string description() const override { return info_.description; }
  std::vector<std::string> report() override;
  device::MemoryState memory() const override { return {}; }  // only the device's own rank knows its memory, see State
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

/// Calls `make` on rank 0. Every rank returns its result, or throws an exception of the same type.
std::vector<std::byte> broadcast_result(Transport& transport, const std::function<std::vector<std::byte>()>& make);
/// Throws MismatchError on every rank if a rank's `value` differs from rank 0's.
void confirm(Transport& transport, const std::string& what, const std::string& value);

struct Own {
  std::vector<std::shared_ptr<device::Device>> devices;
  Options options;
};
/// Makes the mesh of all ranks. If `open` throws on a rank, all ranks throw. `options`: the options as text. Throws
/// MismatchError on every rank if versions or options differ, DeviceError if a rank does not connect.
std::unique_ptr<Mesh> join_ranks(Rendezvous meeting, const std::function<Own()>& open, const std::string& options);

}  // namespace heliograph::mesh
