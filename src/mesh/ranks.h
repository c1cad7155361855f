// A mesh over several processes: every rank computes all decisions for all members, and works for its own.
#pragma once

#include <functional>

#include "mesh/mesh.h"
#include "mesh/transport/meet.h"
#include "mesh/transport/transport.h"

namespace heliograph::mesh {

/// In the place of another rank's device: has a name and addresses that mean nothing, and does nothing.
class RemoteDevice final : public device::Device {
 public:
  RemoteDevice(MemberCard card, std::string host, std::size_t rank)
      : card_(std::move(card)), host_(std::move(host)), rank_(rank) {}
  const std::string& host() const { return host_; }
  std::size_t rank() const { return rank_; }

  std::string name() const override { return card_.name; }
  std::string description() const override { return card_.description; }
  std::vector<std::string> report() override;
  device::MemoryState memory() const override { return {}; }  // its own rank says, see State
  device::Buffer allocate(std::size_t bytes, device::Queue& queue) override;
  std::unique_ptr<device::Queue> make_queue() override;
  void upload(device::Queue&, std::span<const std::byte>, std::byte*) override;
  void download(device::Queue&, const std::byte*, std::span<std::byte>) override;
  device::Kernels& kernels() override;

 private:
  MemberCard card_;
  std::string host_;
  std::size_t rank_;
};

/// What `make` returns on rank 0, or throws there, on every rank. An error keeps its type.
std::vector<std::byte> tell(Transport& transport, const std::function<std::vector<std::byte>()>& make);
/// Throws MismatchError on every rank where one says something else than rank 0.
void confirm(Transport& transport, const std::string& what, const std::string& value);

/// What one rank brings.
struct Own {
  std::vector<std::shared_ptr<device::Device>> devices;
  Options options;
};
/// The mesh of all ranks. `open`: where it throws, the other ranks are told. `options`: as they were written.
/// Throws MismatchError where ranks disagree, DeviceError where one does not come; on every rank.
std::unique_ptr<Mesh> join_ranks(Rendezvous meeting, const std::function<Own()>& open, const std::string& options);

}  // namespace heliograph::mesh
