#include "mesh/transport/sockets.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <set>

namespace heliograph::mesh {

namespace {

using std::chrono::milliseconds;
using wire::Clock;

constexpr std::uint32_t kMagic = 0x6b726768;
enum Kind : std::uint32_t { kPart = 1, kHost, kFailure, kGoodbye };
enum Failure : std::uint32_t { kDevice, kMemory };
constexpr milliseconds kForever = std::chrono::hours(100000);
constexpr milliseconds kLastWords{1000};

/// Those whose goodbye is due when the process ends.
struct Open {
  std::mutex mutex;
  std::set<SocketTransport*> all;
};
Open& open_ones() {
  static Open* const open = new Open;  // outlives every static object
  return *open;
}

std::string what_of(const std::exception_ptr& error, Failure& kind) {
  kind = kDevice;
  try {
    std::rethrow_exception(error);
  } catch (const OutOfMemoryError& e) {
    kind = kMemory;
    return e.what();
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an unknown error";
  }
}

}  // namespace

struct SocketTransport::Header {
  std::uint32_t magic = kMagic, kind = 0;
  u64 number = 0;
  std::uint32_t from = 0, to = 0;
  u64 bytes = 0;
};

SocketTransport::SocketTransport(const Rendezvous& meeting, std::vector<Guest> guests)
    : rank_(meeting.rank), limit_(meeting.limit), process_(getpid()) {
  for (std::size_t r = 0; r < guests.size(); ++r) {
    auto peer = std::make_unique<Peer>();
    peer->name = guests[r].name, peer->socket = std::move(guests[r].socket);
    peers_.push_back(std::move(peer));
    rank_of_.insert(rank_of_.end(), guests[r].members.size(), r);
  }
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    if (r != rank_) peers_[r]->reader = std::thread([this, r] { read_from(r); });
  }
  static const int registered = std::atexit(&say_goodbye_at_exit);
  (void)registered;
  const std::lock_guard lock(open_ones().mutex);
  open_ones().all.insert(this);
}

SocketTransport::~SocketTransport() {
  {
    const std::lock_guard lock(open_ones().mutex);
    open_ones().all.erase(this);
  }
  if (getpid() != process_) {  // the connections are the parent's, and so were the threads
    for (auto& p : peers_) {
      if (p->reader.joinable()) p->reader.detach();
    }
    return;
  }
  stopping_ = true;
  say_goodbye();
  for (auto& p : peers_) {
    if (p->reader.joinable()) p->reader.join();
  }
}

void SocketTransport::say_goodbye_at_exit() {
  const std::lock_guard lock(open_ones().mutex);
  for (SocketTransport* t : open_ones().all) {
    if (getpid() == t->process_) t->stopping_ = true, t->say_goodbye();
  }
}

void SocketTransport::say_goodbye() noexcept {
  const Header bye{.kind = kGoodbye};
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&bye, 1))};
  for (auto& p : peers_) {
    if (!p->socket) continue;
    const std::unique_lock lock(p->writing, std::try_to_lock);
    if (!lock) continue;
    try {
      p->socket.send(parts, kLastWords);
    } catch (...) {  // who does not hear it sees the connection close
    }
  }
}

std::string SocketTransport::called(std::size_t r) const {
  return "rank " + std::to_string(r) + " (" + peers_[r]->name + ")";
}

// ---- failures

void SocketTransport::require_sound() const {
  if (!failed_) return;
  const std::lock_guard lock(mutex_);
  std::rethrow_exception(error_);
}

void SocketTransport::fail(std::exception_ptr error) noexcept { end(std::move(error)); }

void SocketTransport::end(std::exception_ptr error, bool heard) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    error_ = error;
    failed_ = true;
  }
  condition_.notify_all();
  try {
    Failure kind = kDevice;
    const std::string what = what_of(error, kind), text = heard ? what : called(rank_) + ": " + what;
    const Header header{.kind = kFailure, .number = kind, .bytes = text.size()};
    const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&header, 1)), std::as_bytes(std::span(text))};
    for (auto& p : peers_) {
      if (!p->socket) continue;
      const std::lock_guard lock(p->writing);  // a writer that has not come through gives up now
      try {
        p->socket.send(parts, kLastWords);
      } catch (...) {
        p->socket.shut();
      }
    }
  } catch (...) {  // no memory for a text: the others will see the connections close
  }
}

// ---- what comes

void SocketTransport::read_from(std::size_t rank) {
  Peer& peer = *peers_[rank];
  const auto given_up = [this] { return stopping_.load(); };
  try {
    for (;;) {
      Header header;
      peer.socket.receive(std::as_writable_bytes(std::span(&header, 1)), kForever, given_up);
      require<DeviceError>(header.magic == kMagic, "what it sends cannot be understood");
      Bytes bytes(header.bytes);
      peer.socket.receive(bytes, limit_, given_up);
      take_in(rank, header, std::move(bytes));
    }
  } catch (const wire::Closed&) {
    const bool expected = [&] {
      const std::lock_guard lock(mutex_);
      return peer.left || stopping_;
    }();
    if (!expected)
      end(std::make_exception_ptr(DeviceError(called(rank) + " is gone: its process has ended or the connection was lost")));
  } catch (const std::exception& e) {
    end(std::make_exception_ptr(DeviceError(called(rank) + ": " + e.what())));
  }
}

void SocketTransport::take_in(std::size_t rank, const Header& header, Bytes bytes) {
  Peer& peer = *peers_[rank];
  if (header.kind == kFailure) {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    end(header.number == kMemory ? std::make_exception_ptr(OutOfMemoryError(text))
                                 : std::make_exception_ptr(DeviceError(text)),
        true);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (header.kind == kGoodbye) {
      peer.left = true;
    } else {
      Box& box = header.kind == kPart ? peer.parts[{header.from, header.to}] : peer.hosts;
      box.push_back({.number = header.number, .bytes = std::move(bytes)});
    }
  }
  condition_.notify_all();
}

SocketTransport::Bytes SocketTransport::receive(std::size_t rank, Box& box, u64 number, std::size_t* expected) {
  std::unique_lock lock(mutex_);
  const bool some = condition_.wait_for(lock, limit_, [&] { return failed_ || !box.empty() || peers_[rank]->left; });
  std::string trouble;
  if (failed_) {
    std::rethrow_exception(error_);
  } else if (!some) {
    trouble = called(rank) + " has sent nothing for " + std::to_string(limit_.count() / 1000) + " s";
  } else if (box.empty()) {
    trouble = called(rank) + " has left while others still need it";
  } else {
    Message message = std::move(box.front());
    box.pop_front();
    if (message.number == number && (expected == nullptr || message.bytes.size() == *expected))
      return std::move(message.bytes);
    trouble = called(rank) + " does not run the same program: at exchange " + std::to_string(number) + " it sent " +
              std::to_string(message.bytes.size()) + " bytes of exchange " + std::to_string(message.number);
  }
  lock.unlock();
  end(std::make_exception_ptr(DeviceError(trouble)));
  require_sound();
  return {};
}

// ---- what goes

void SocketTransport::send(std::size_t rank, Header header, std::span<const std::byte> bytes) {
  require_sound();
  header.bytes = bytes.size();
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&header, 1)), bytes};
  Peer& peer = *peers_[rank];
  std::string trouble;
  {
    const std::lock_guard lock(peer.writing);
    try {
      peer.socket.send(parts, limit_, [this] { return failed_.load(); });
      return;
    } catch (const wire::TimedOut&) {
      trouble = called(rank) + " has taken nothing for " + std::to_string(limit_.count() / 1000) + " s";
    } catch (const wire::Closed&) {
      trouble = called(rank) + " is gone: its process has ended or the connection was lost";
    }
    peer.socket.shut();  // half a message may have gone: no other can follow
  }
  end(std::make_exception_ptr(DeviceError(trouble)));
  require_sound();
}

void SocketTransport::exchange(u64 number, std::size_t member, device::Device& device, device::Queue& queue,
                               std::span<const Part> sends, std::span<const Part> receives) {
  const auto id = [](std::size_t m) { return static_cast<std::uint32_t>(m); };
  require_sound();
  if (device.in_host_memory()) queue.wait();
  for (const Part& p : sends) {
    const Header header{.kind = kPart, .number = number, .from = id(member), .to = id(p.member)};
    if (device.in_host_memory()) {
      send(rank_of_[p.member], header, {p.address, p.bytes});
    } else {
      Bytes bytes(p.bytes);
      device.download(queue, p.address, bytes);
      send(rank_of_[p.member], header, bytes);
    }
  }
  for (const Part& p : receives) {
    const std::size_t rank = rank_of_[p.member];
    Box& box = [&]() -> Box& {
      const std::lock_guard lock(mutex_);
      return peers_[rank]->parts[{p.member, member}];
    }();
    std::size_t expected = p.bytes;
    device.upload(queue, receive(rank, box, number, &expected), p.address);
  }
}

void SocketTransport::agree(std::span<std::byte> bytes) {
  const std::lock_guard lock(host_mutex_);
  const u64 number = host_number_++;
  if (rank_ != 0) {
    std::size_t expected = bytes.size();
    const Bytes got = receive(0, peers_[0]->hosts, number, &expected);
    std::copy(got.begin(), got.end(), bytes.begin());
    return;
  }
  for (std::size_t r = 1; r < peers_.size(); ++r) send(r, {.kind = kHost, .number = number}, bytes);
}

std::vector<std::byte> SocketTransport::scatter(std::span<const std::vector<std::byte>> each) {
  const std::lock_guard lock(host_mutex_);
  const u64 number = host_number_++;
  if (rank_ != 0) return receive(0, peers_[0]->hosts, number, nullptr);
  for (std::size_t r = 1; r < peers_.size(); ++r) send(r, {.kind = kHost, .number = number}, each[r]);
  return each[0];
}

std::vector<std::vector<std::byte>> SocketTransport::collect(std::span<const std::byte> mine) {
  const std::lock_guard lock(host_mutex_);
  const u64 number = host_number_++;
  if (rank_ != 0) {
    send(0, {.kind = kHost, .number = number}, mine);
    return {};
  }
  std::vector<Bytes> all = {Bytes(mine.begin(), mine.end())};
  for (std::size_t r = 1; r < peers_.size(); ++r) all.push_back(receive(r, peers_[r]->hosts, number, nullptr));
  return all;
}

std::vector<std::vector<std::byte>> SocketTransport::gather(std::span<const std::byte> mine) {
  const std::lock_guard lock(host_mutex_);
  const u64 number = host_number_++;
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    if (r != rank_) send(r, {.kind = kHost, .number = number}, mine);
  }
  std::vector<Bytes> all(peers_.size());
  for (std::size_t r = 0; r < peers_.size(); ++r)
    all[r] = r == rank_ ? Bytes(mine.begin(), mine.end()) : receive(r, peers_[r]->hosts, number, nullptr);
  return all;
}

}  // namespace heliograph::mesh
