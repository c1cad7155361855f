#include "mesh/ranks.h"

#include "mesh/transport/channels.h"

#ifndef HELIOGRAPH_VERSION
#error "the build gives the version"
#endif

namespace heliograph::mesh {

namespace {

constexpr const char* kProtocol = "1";  // of what ranks send, and of all that they compute alike

class NowhereMemory final : public device::Memory {
 public:
  explicit NowhereMemory(std::size_t bytes) : Memory(reinterpret_cast<std::byte*>(std::size_t{1} << 48), bytes) {}
};

class IdleQueue final : public device::Queue {
 public:
  std::shared_ptr<device::Event> record() override { return nullptr; }
  void after(const device::Event&) override {}
  void uses(const device::Buffer&) override {}
  void wait() override {}
};

[[noreturn]] void misuse() { throw InternalError("a device of another rank was told to work"); }

}  // namespace

std::vector<std::string> RemoteDevice::report() {
  return {name() + ": " + description() + ", of rank " + std::to_string(rank_)};
}
device::Buffer RemoteDevice::allocate(std::size_t bytes, device::Queue&) { return std::make_shared<NowhereMemory>(bytes); }
std::unique_ptr<device::Queue> RemoteDevice::make_queue() { return std::make_unique<IdleQueue>(); }
void RemoteDevice::upload(device::Queue&, std::span<const std::byte>, std::byte*) { misuse(); }
void RemoteDevice::download(device::Queue&, const std::byte*, std::span<std::byte>) { misuse(); }
device::Kernels& RemoteDevice::kernels() { misuse(); }

std::unique_ptr<Mesh> join_ranks(const Rendezvous& meeting, const std::function<Own()>& open, const std::string& options) {
  Own own;
  std::vector<MemberCard> cards;
  std::exception_ptr trouble;
  std::string reason;
  try {
    own = open();
    for (const auto& d : own.devices) cards.push_back({.name = d->name(), .description = d->description()});
  } catch (const Error& e) {
    trouble = std::current_exception();
    reason = std::string(e.what()).substr(0, 4000);
  }
  std::vector<Guest> guests;
  try {
    guests = meet(meeting, {{"version", HELIOGRAPH_VERSION}, {"protocol", kProtocol}, {"options", options}}, cards, reason);
  } catch (...) {
    if (trouble) std::rethrow_exception(trouble);
    throw;
  }
  std::vector<std::shared_ptr<device::Device>> all;
  std::size_t first = 0;
  for (std::size_t r = 0; r < guests.size(); ++r) {
    if (r == meeting.rank) {
      first = all.size();
      all.insert(all.end(), own.devices.begin(), own.devices.end());
      continue;
    }
    for (const MemberCard& card : guests[r].members) all.push_back(std::make_shared<RemoteDevice>(card, r));
  }
  auto sockets = std::make_unique<SocketTransport>(meeting, std::move(guests));
  std::byte channels{!own.options.sockets};
  for (const auto& d : own.devices) channels &= std::byte{d->has_channels()};
  bool everywhere = true;
  for (const auto& theirs : sockets->gather({&channels, 1})) everywhere = everywhere && theirs == std::vector{std::byte{1}};
  std::unique_ptr<Transport> transport;
  if (everywhere) {
    transport = make_channel_transport(std::move(sockets), own.devices, first, all.size());
  } else {
    transport = std::move(sockets);
  }
  return make_mesh(std::move(all), own.options, std::move(transport));
}

}  // namespace heliograph::mesh
