#include "mesh/transport/channels.h"

#include "base/threads.h"

namespace heliograph::mesh {

namespace {

constexpr std::chrono::milliseconds kCheckInterval{20};  // interval at which channels and ranks are checked

using device::Channel;

class ChannelTransport final : public Transport {
 public:
  ChannelTransport(std::unique_ptr<SocketTransport> sockets, std::vector<std::unique_ptr<Channel>> channels,
                   std::size_t first)
      : sockets_(std::move(sockets)),
        channels_(std::move(channels)),
        first_(first),
        watcher_(start_thread([this] { watch(); })) {}
  ~ChannelTransport() override {
    stopping_ = true;
    watcher_.join();
    std::vector<std::thread> threads;  // closing a channel may wait for the others
    for (auto& c : channels_) {
      try {
        threads.push_back(start_thread([&c] { c.reset(); }));
      } catch (const DeviceError&) {  // no thread could start; an aborted channel closes without waiting
        c->abort();
      }
    }
    for (std::thread& t : threads) t.join();
  }

  std::size_t rank() const override { return sockets_->rank(); }
  std::size_t size() const override { return sockets_->size(); }
  std::string name() const override { return "channels"; }
  u64 sent_bytes() const override { return sent_ + sockets_->sent_bytes(); }
  void exchange(u64, std::size_t member, device::Device&, device::Queue& queue, std::span<const Part> sends,
                std::span<const Part> receives) override {
    require_sound();
    const auto parts = [](std::span<const Part> list) {
      std::vector<Channel::Part> r;
      for (const Part& p : list) r.push_back({.place = p.member, .address = p.address, .bytes = p.bytes});
      return r;
    };
    for (const Part& p : sends) {
      if (p.member < first_ || p.member >= first_ + channels_.size()) sent_ += p.bytes;
    }
    try {
      channels_[member - first_]->exchange(queue, parts(sends), parts(receives));
    } catch (...) {
      fail(std::current_exception());
      require_sound();
    }
  }
  bool is_staged() const override { return false; }
  void broadcast(std::span<std::byte> bytes) override { sockets_->broadcast(bytes); }
  std::vector<std::byte> scatter(std::vector<std::vector<std::byte>> each) override {
    return sockets_->scatter(std::move(each));
  }
  std::vector<std::vector<std::byte>> gather(std::vector<std::byte> mine) override {
    return sockets_->gather(std::move(mine));
  }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
    return sockets_->all_gather(mine);
  }
  void fail(std::exception_ptr error) noexcept override { sockets_->fail(std::move(error)); }
  void require_sound() const override { sockets_->require_sound(); }

 private:
  /// Checks the ranks. If a rank has failed, aborts the channels, because devices that wait for that rank would never
  /// finish.
  void watch() {
    const int checks =
        static_cast<int>(std::max<std::chrono::milliseconds::rep>(1, sockets_->limits().probe_interval / kCheckInterval));
    for (int looks = 1; !stopping_; ++looks) {
      try {
        require_sound();
        if (looks % checks == 0) sockets_->check_liveness();
        for (const auto& c : channels_) c->check();
      } catch (...) {
        fail(std::current_exception());  // before the abort, so that threads that it wakes find the reason
        for (const auto& c : channels_) c->abort();
        return;
      }
      std::this_thread::sleep_for(kCheckInterval);
    }
  }

  std::unique_ptr<SocketTransport> sockets_;
  std::vector<std::unique_ptr<Channel>> channels_;  // destroyed before the sockets, which the channels may use when they end
  std::size_t first_;
  std::atomic<u64> sent_{0};
  std::atomic<bool> stopping_{false};
  std::thread watcher_;
};

}  // namespace

namespace {

device::Endpoint& endpoint_of(device::Device& device) {
  device::Endpoint* const endpoint = device.endpoint();
  if (endpoint == nullptr) throw DeviceError(device.name() + " has no channels between processes");
  return *endpoint;
}

}  // namespace

std::unique_ptr<Transport> make_channel_transport(std::unique_ptr<SocketTransport> sockets,
                                                  const std::vector<std::shared_ptr<device::Device>>& mine,
                                                  std::size_t first, std::size_t members) {
  std::vector<std::byte> invitation;
  u64 size = 0;
  if (sockets->rank() == 0) {
    try {
      invitation = endpoint_of(*mine.front()).invite();
    } catch (...) {
      sockets->fail(std::current_exception());
      throw;
    }
    size = invitation.size();
  }
  sockets->broadcast(std::as_writable_bytes(std::span(&size, 1)));
  invitation.resize(size);
  sockets->broadcast(invitation);
  // Connecting is a collective operation, so each member of this process connects in its own thread.
  const device::WaitLimit wait_limit{.limit = sockets->limit(), .check = [&] { sockets->require_sound(); }};
  std::vector<std::unique_ptr<Channel>> channels(mine.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const auto connect = [&, i] {
      try {
        channels[i] = endpoint_of(*mine[i]).connect(invitation, first + i, members, wait_limit);
      } catch (...) {
        sockets->fail(std::current_exception());
      }
    };
    try {
      threads.push_back(start_thread(connect));
    } catch (...) {  // makes the threads that are connecting return
      sockets->fail(std::current_exception());
      break;
    }
  }
  for (std::thread& t : threads) t.join();
  sockets->require_sound();
  return std::make_unique<ChannelTransport>(std::move(sockets), std::move(channels), first);
}

}  // namespace heliograph::mesh
