#include "mesh/ranks.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "mesh/transport/channels.h"
#include "mesh/transport/mpi.h"

#ifndef HELIOGRAPH_VERSION
#error "the build gives the version"
#endif

namespace heliograph::mesh {

namespace {

constexpr const char* kProtocol = "3";  // version of the messages, and of the decisions that all ranks must make equally

class NowhereMemory final : public device::Memory {
 public:
  explicit NowhereMemory(std::size_t bytes) : Memory(reinterpret_cast<std::byte*>(std::size_t{1} << 48), bytes) {}
};

[[noreturn]] void misuse() { throw InternalError("a device of another rank cannot execute calls"); }

class IdleQueue final : public device::Queue {
 public:
  bool supports(const device::Call&) const override { return false; }
  std::shared_ptr<device::Event> record() override { return nullptr; }
  void after(const device::Event&) override {}
  void uses(const device::Buffer&) override {}
  void wait() override {}

 protected:
  [[noreturn]] void perform(const device::Call&) override { misuse(); }
};

}  // namespace

std::vector<std::string> RemoteDevice::report() {
  return {name() + ": " + description() + ", of rank " + std::to_string(rank_) + " on " + host_};
}
device::Buffer RemoteDevice::allocate(std::size_t bytes, device::Queue&) { return std::make_shared<NowhereMemory>(bytes); }
std::unique_ptr<device::Queue> RemoteDevice::make_queue() { return std::make_unique<IdleQueue>(); }
void RemoteDevice::upload(device::Queue&, std::span<const std::byte>, std::byte*) { misuse(); }
void RemoteDevice::download(device::Queue&, const std::byte*, std::span<std::byte>) { misuse(); }
device::Kernels& RemoteDevice::kernels() { misuse(); }

namespace {

/// A type of exception whose objects are sent as bytes: index of the type, errno if it has one, and message.
struct Thrown {
  bool (*is)(const std::exception&);
  void (*raise)(const std::string&, int);
};
template <class E>
constexpr Thrown kind() {
  return {[](const std::exception& e) { return dynamic_cast<const E*>(&e) != nullptr; },
          [](const std::string& text, int code) {
            if constexpr (std::is_same_v<E, FileError>)
              throw E(text, code);
            else
              throw E(text);
          }};
}
// A derived type follows its base type in the table, because the search for an exception's type runs from the end.
// Exceptions of unknown types become InternalError.
#define HELIOGRAPH_KIND(Name, Base) , kind<Name>()
constexpr Thrown kThrown[] = {kind<FileError>() HELIOGRAPH_ERRORS(HELIOGRAPH_KIND)};
#undef HELIOGRAPH_KIND

}  // namespace

std::vector<std::byte> broadcast_result(Transport& transport, const std::function<std::vector<std::byte>()>& make) {
  struct Head {
    u64 bytes = 0;
    std::uint32_t error = 0, code = 0;  // 0: no error; otherwise the index in kThrown plus one
  } head;
  std::vector<std::byte> bytes;
  std::exception_ptr mine;
  if (transport.rank() == 0) {
    try {
      bytes = make();
    } catch (const std::exception& e) {
      mine = std::current_exception();
      const auto found = std::find_if(std::rbegin(kThrown), std::rend(kThrown), [&](const Thrown& t) { return t.is(e); });
      head.error = static_cast<std::uint32_t>(found == std::rend(kThrown) ? std::size(kThrown) : std::rend(kThrown) - found);
      if (const auto* const file = dynamic_cast<const FileError*>(&e)) head.code = static_cast<std::uint32_t>(file->code());
      const std::string_view text = e.what();
      bytes.assign(reinterpret_cast<const std::byte*>(text.data()),
                   reinterpret_cast<const std::byte*>(text.data() + text.size()));
    }
    head.bytes = bytes.size();
  }
  transport.broadcast(std::as_writable_bytes(std::span(&head, 1)));
  require<DeviceError>(head.error <= std::size(kThrown), "the ranks must run the same program; one rank made another call");
  bytes.resize(head.bytes);
  transport.broadcast(bytes);
  if (mine) std::rethrow_exception(mine);
  if (head.error == 0) return bytes;
  kThrown[head.error - 1].raise(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                                static_cast<int>(head.code));
  return {};
}

void confirm(Transport& transport, const std::string& what, const std::string& value) {
  const auto all = transport.all_gather(std::as_bytes(std::span(value)));
  const auto text = [](const std::vector<std::byte>& b) {
    return std::string(reinterpret_cast<const char*>(b.data()), b.size());
  };
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r] != all[0])
      throw MismatchError("rank " + std::to_string(r) + " has " + what + " " + text(all[r]) + ", rank 0 " + text(all[0]));
  }
}

std::unique_ptr<Mesh> join_ranks(Rendezvous meeting, const std::function<Own()>& open, const std::string& options) {
  Own own;
  std::vector<MemberInfo> infos;
  std::exception_ptr trouble;
  std::string reason;
  try {
    own = open();
    for (const auto& d : own.devices) infos.push_back({.name = d->name(), .description = d->description()});
  } catch (const Error& e) {
    trouble = std::current_exception();
    reason = std::string(e.what()).substr(0, 4000);
  }
  std::vector<RankInfo> joined;
  try {
    joined = meet(meeting, {{"version", HELIOGRAPH_VERSION}, {"protocol", kProtocol}, {"options", options}}, infos, reason);
  } catch (...) {
    if (trouble) std::rethrow_exception(trouble);
    throw;
  }
  std::vector<std::shared_ptr<device::Device>> all;
  std::size_t first = 0;
  for (std::size_t r = 0; r < joined.size(); ++r) {
    if (r == meeting.launch.rank) {
      first = all.size();
      all.insert(all.end(), own.devices.begin(), own.devices.end());
      continue;
    }
    for (const MemberInfo& info : joined[r].members) all.push_back(std::make_shared<RemoteDevice>(info, joined[r].host, r));
  }
  auto sockets = std::make_unique<SocketTransport>(meeting, std::move(joined));
  if (meeting.by_mpi && !own.options.sockets)
    sockets->use(mpi::make_link(meeting.launch.rank, meeting.launch.ranks, sockets->handlers(), meeting.arrival));
  // Channels require that no two members are the same device.
  std::string identities;
  for (const auto& d : own.devices) {
    device::Endpoint* const endpoint = d->endpoint();
    identities += own.options.sockets ? "-\n" : (endpoint ? endpoint->identity() : "") + "\n";
  }
  std::set<std::string> different;
  std::size_t with_channel = 0;
  for (const auto& theirs : sockets->all_gather(std::as_bytes(std::span(identities)))) {
    std::string text(reinterpret_cast<const char*>(theirs.data()), theirs.size());
    for (std::size_t at; (at = text.find('\n')) != std::string::npos; text.erase(0, at + 1)) {
      if (at > 1) different.insert(text.substr(0, at)), ++with_channel;
    }
  }
  const bool everywhere = with_channel == all.size() && different.size() == all.size();
  std::unique_ptr<Transport> transport;
  if (everywhere) {
    transport = make_channel_transport(std::move(sockets), own.devices, first, all.size());
  } else {
    transport = std::move(sockets);
  }
  return make_mesh(std::move(all), own.options, std::move(transport));
}

}  // namespace heliograph::mesh
