#include "mesh/transport/sockets.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <set>

#include "base/threads.h"
#include "mesh/transport/mpi.h"

namespace heliograph::mesh {

namespace {

using std::chrono::milliseconds;
using tcp::Clock;

enum Kind : std::uint32_t { kPart = 1, kHost, kFailure, kGoodbye, kHangUp, kAlive, kYes, kPacked };
enum Failure : std::uint32_t { kDevice, kMemory };
constexpr milliseconds kForever = std::chrono::hours(100000);
constexpr milliseconds kCloseLimit{1000};
constexpr milliseconds kReportLimit{10000};  // time for another rank to report its failure, after this program has ended
constexpr std::size_t kAtOnce = std::size_t{4} << 20;  // received bytes of a message after which the sender counts as alive

constexpr const char* kNoAnswer = " does not answer: its process is stopped, or its host or the network has failed";

/// Transports of this process. Transports must announce their end when the process exits.
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

SocketTransport::SocketTransport(const Rendezvous& meeting, std::vector<RankInfo> joined)
    : rank_(meeting.launch.rank), limit_(meeting.limit), limits_(meeting.limits), process_(getpid()) {
  for (std::size_t r = 0; r < joined.size(); ++r) {
    auto peer = std::make_unique<Peer>();
    peer->name = joined[r].name, peer->socket = std::move(joined[r].socket);
    peers_.push_back(std::move(peer));
    rank_of_.insert(rank_of_.end(), joined[r].members.size(), r);
  }
  try {
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      if (r != rank_) peers_[r]->reader = start_thread([this, r] { read_from(r); });
    }
  } catch (...) {
    end(std::current_exception());  // also reports the failure to the other ranks
    stopping_ = true;
    join_readers();
    throw;
  }
  static const int registered = std::atexit(&announce_end_at_exit);
  (void)registered;
  const std::lock_guard lock(open_ones().mutex);
  open_ones().all.insert(this);
}

SocketTransport::~SocketTransport() {
  {
    const std::lock_guard lock(open_ones().mutex);
    open_ones().all.erase(this);
  }
  if (getpid() != process_) {  // this process is a fork: connections and threads belong to the parent
    for (auto& p : peers_) {
      if (p->reader.joinable()) p->reader.detach();
    }
    return;
  }
  stopping_ = true;
  announce_end();
  link_ = nullptr;
  join_readers();
}

void SocketTransport::join_readers() {
  for (auto& p : peers_) {
    if (p->reader.joinable()) p->reader.join();
  }
}

void SocketTransport::announce_end_at_exit() {
  const std::lock_guard lock(open_ones().mutex);
  for (SocketTransport* t : open_ones().all) {
    if (getpid() != t->process_) continue;
    const bool sound = !t->failed_;
    t->announce_end();
    if (sound && t->link_) t->await_other_ends();
    t->stopping_ = true;
  }
}

void SocketTransport::await_other_ends() noexcept {
  std::unique_lock lock(mutex_);
  const auto is_here = [&](std::size_t r) { return r != rank_ && !peers_[r]->left && !peers_[r]->closes; };
  const auto is_alone = [&] {
    for (std::size_t r = 0; r < peers_.size(); ++r)
      if (is_here(r)) return false;
    return true;
  };
  while (!condition_.wait_for(lock, limits_.probe_interval, [&] { return failed_ || is_alone(); })) {
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      if (!is_here(r)) continue;
      lock.unlock();
      if (presumed_dead(r)) end(std::make_exception_ptr(DeviceError(name_of(r) + kNoAnswer)));
      lock.lock();
    }
  }
  if (!failed_) return;
  lock.unlock();
  std::this_thread::sleep_for(kReportLimit);  // mpirun ends this process after the report of the rank that failed
}

void SocketTransport::announce_end() noexcept {
  if (link_ && !failed_) {  // the announcement follows all messages of the link
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      try {
        if (r != rank_) link_->send(r, {.kind = kGoodbye}, {});
      } catch (...) {  // no memory; the other rank detects the closed connection
      }
    }
  }
  const Header bye{.kind = link_ ? kHangUp : kGoodbye};
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&bye, 1))};
  for (auto& p : peers_) {
    if (!p->socket) continue;
    const std::unique_lock lock(p->writing, std::try_to_lock);
    if (!lock) continue;
    try {
      p->socket.send(parts, kCloseLimit);
    } catch (...) {  // the other rank detects the closed connection
    }
  }
}

std::string SocketTransport::name_of(std::size_t r) const {
  return "rank " + std::to_string(r) + " (" + peers_[r]->name + ")";
}

// ---- failures

void SocketTransport::require_sound() const {
  if (!failed_) return;
  const std::lock_guard lock(mutex_);
  std::rethrow_exception(error_);
}

void SocketTransport::fail(std::exception_ptr error) noexcept { end(std::move(error)); }

void SocketTransport::end(std::exception_ptr error, bool from_other_rank) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    error_ = error;
    failed_ = true;
  }
  condition_.notify_all();
  if (link_) mpi::give_up();
  try {
    Failure kind = kDevice;
    const std::string what = what_of(error, kind), text = from_other_rank ? what : name_of(rank_) + ": " + what;
    const Header header{.kind = kFailure, .number = kind, .bytes = text.size()};
    const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&header, 1)), std::as_bytes(std::span(text))};
    for (auto& p : peers_) {
      if (!p->socket) continue;
      const std::lock_guard lock(p->writing);  // a thread that blocks in a write returns now
      try {
        p->socket.send(parts, kCloseLimit);
      } catch (...) {
        p->socket.shut();
      }
    }
  } catch (...) {  // no memory for a text; the other ranks detect the closed connections
  }
}

// ---- receiving

void SocketTransport::read_from(std::size_t rank) {
  Peer& peer = *peers_[rank];
  const auto is_cancelled = [this] { return stopping_.load(); };
  try {
    for (;;) {
      Header header;
      peer.socket.receive(std::as_writable_bytes(std::span(&header, 1)), kForever, is_cancelled);
      peer.unanswered = 0;
      require<DeviceError>(header.magic == Header::kMagic, "it sent an invalid message");
      Bytes bytes(header.bytes);
      for (std::size_t at = 0; at < bytes.size(); at += kAtOnce) {
        peer.socket.receive(std::span(bytes).subspan(at, std::min(kAtOnce, bytes.size() - at)), limits_.stall_limit,
                            is_cancelled);
        peer.unanswered = 0;
      }
      on_message(rank, header, std::move(bytes));
    }
  } catch (const tcp::Closed&) {
    const bool expected = [&] {
      const std::lock_guard lock(mutex_);
      return peer.left || peer.closes || stopping_;
    }();
    if (!expected)
      end(std::make_exception_ptr(
          DeviceError(name_of(rank) + " disconnected: its process has ended or the connection was lost")));
  } catch (const std::exception& e) {
    end(std::make_exception_ptr(DeviceError(name_of(rank) + ": " + e.what())));
  }
}

void SocketTransport::on_message(std::size_t rank, const Header& header, Bytes bytes) {
  Peer& peer = *peers_[rank];
  if (header.kind == kFailure) {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    end(header.number == kMemory ? std::make_exception_ptr(OutOfMemoryError(text))
                                 : std::make_exception_ptr(DeviceError(text)),
        true);
    return;
  }
  if (header.kind == kYes) return;
  if (header.kind == kAlive) return send_notice(rank, kYes);
  {
    const std::lock_guard lock(mutex_);
    if (header.kind == kGoodbye || header.kind == kHangUp) {
      (header.kind == kGoodbye ? peer.left : peer.closes) = true;
    } else {
      const bool packed = header.kind == kPacked;
      Box& box = packed || header.kind == kPart ? peer.parts[{header.from, header.to}] : peer.hosts;
      box.push_back({.number = header.number, .bytes = std::move(bytes), .packed = packed});
    }
  }
  condition_.notify_all();
}

void SocketTransport::send_notice(std::size_t rank, std::uint32_t kind) {
  Peer& peer = *peers_[rank];
  // If another thread holds the lock, this rank is sending a message, which itself proves that the rank is alive. The other
  // rank must not wait: a thread that reads messages must not wait for a thread that writes messages.
  const std::unique_lock lock(peer.writing, std::try_to_lock);
  if (!lock || !peer.socket) return;
  const Header header{.kind = kind};
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&header, 1))};
  try {
    peer.socket.send(parts, kCloseLimit, [this] { return failed_.load(); });
  } catch (const tcp::Closed&) {  // the thread that reads messages reports the failure
  } catch (const tcp::TimedOut&) {
    peer.socket.shut();
  }
}

bool SocketTransport::presumed_dead(std::size_t rank) {
  if (peers_[rank]->unanswered++ >= limits_.max_probes) return true;
  send_notice(rank, kAlive);
  return false;
}

void SocketTransport::check_liveness() {
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    const bool here = [&] {
      const std::lock_guard lock(mutex_);
      return r != rank_ && !peers_[r]->left;
    }();
    if (here && presumed_dead(r)) throw DeviceError(name_of(r) + kNoAnswer);
  }
}

SocketTransport::Message SocketTransport::next(std::size_t rank, Box& box, u64 number, const std::size_t* expected) {
  struct Waiting {  // makes the link poll without sleeping
    explicit Waiting(Link* l) : link(l) {
      if (link) link->set_waiting(true);
    }
    ~Waiting() {
      if (link) link->set_waiting(false);
    }
    Link* link;
  };
  std::unique_lock lock(mutex_);
  const auto come = [&] { return failed_ || !box.empty() || peers_[rank]->left; };
  bool some = come(), silent = false;
  if (!some) {
    const Waiting waiting(link_.get());
    const Clock::time_point end = Clock::now() + limit_;
    while (!some && !silent && Clock::now() < end) {
      some = condition_.wait_for(lock, std::min(limits_.probe_interval, limit_), come);
      if (some) break;
      lock.unlock();
      silent = presumed_dead(rank);
      lock.lock();
      some = come();
    }
    silent = silent && !some;
  }
  std::string trouble;
  if (failed_) {
    std::rethrow_exception(error_);
  } else if (silent) {
    trouble = name_of(rank) + kNoAnswer;
  } else if (!some) {
    trouble = name_of(rank) + " has sent nothing for " + std::to_string(limit_.count() / 1000) + " s";
  } else if (box.empty()) {
    trouble = name_of(rank) + " has ended while others still need it";
  } else {
    Message message = std::move(box.front());
    box.pop_front();
    if (message.number == number && (expected == nullptr || message.size() == *expected)) return message;
    trouble = name_of(rank) + " must run the same program: at exchange " + std::to_string(number) + " it sent " +
              std::to_string(message.size()) + " bytes of exchange " + std::to_string(message.number);
  }
  lock.unlock();
  end(std::make_exception_ptr(DeviceError(trouble)));
  require_sound();
  return {};
}

// ---- sending

Link::Handlers SocketTransport::handlers() {
  return {.on_message = [this](std::size_t rank, const Header& header,
                               Bytes bytes) { on_message(rank, header, std::move(bytes)); },
          .on_failure = [this](std::exception_ptr error) { end(std::move(error)); }};
}

void SocketTransport::send_by_link(std::size_t rank, Header header, Bytes bytes) {
  require_sound();
  header.bytes = bytes.size();
  link_->send(rank, header, std::move(bytes));
}

void SocketTransport::send_by_socket(std::size_t rank, Header header, std::span<const std::byte> bytes) {
  require_sound();
  header.bytes = bytes.size();
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&header, 1)), bytes};
  Peer& peer = *peers_[rank];
  std::string trouble;
  {
    const std::lock_guard lock(peer.writing);
    try {
      peer.socket.send(parts, limits_.stall_limit, [this] { return failed_.load(); });
      return;
    } catch (const tcp::TimedOut&) {
      trouble = name_of(rank) + kNoAnswer;
    } catch (const tcp::Closed&) {
      trouble = name_of(rank) + " disconnected: its process has ended or the connection was lost";
    }
    peer.socket.shut();  // no message can follow an incomplete one
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
    send_part(rank_of_[p.member], header, device, queue, p);
  }
  for (const Part& p : receives) {
    const std::size_t rank = rank_of_[p.member];
    Box& box = [&]() -> Box& {
      const std::lock_guard lock(mutex_);
      return peers_[rank]->parts[{p.member, member}];
    }();
    take_part(rank, next(rank, box, number, &p.bytes), device, queue, p);
  }
}

void SocketTransport::send_part(std::size_t rank, Header header, device::Device& device, device::Queue& queue,
                                const Part& part) {
  Bytes copy;
  std::span<const std::byte> words(part.address, part.bytes);
  if (!device.in_host_memory()) {
    copy.resize(part.bytes);
    device.download(queue, part.address, copy);
    words = copy;
  }
  if (std::optional<Bytes> packed = packing::packed(words)) {
    header.kind = kPacked;
    send(rank, header, std::move(*packed));
  } else if (copy.empty()) {
    send(rank, header, words);
  } else {
    send(rank, header, std::move(copy));
  }
}

void SocketTransport::take_part(std::size_t rank, const Message& message, device::Device& device, device::Queue& queue,
                                const Part& part) {
  if (!message.packed) return device.upload(queue, message.bytes, part.address);
  Bytes copy(device.in_host_memory() ? 0 : part.bytes);
  const std::span<std::byte> words = copy.empty() ? std::span(part.address, part.bytes) : std::span(copy);
  if (!packing::unpack(message.bytes, words)) {
    end(std::make_exception_ptr(DeviceError(name_of(rank) + ": it sent an invalid message")));
    require_sound();
  }
  if (!copy.empty()) device.upload(queue, copy, part.address);
}

void SocketTransport::broadcast(std::span<std::byte> bytes) {
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

std::vector<std::byte> SocketTransport::scatter(std::vector<std::vector<std::byte>> each) {
  const std::lock_guard lock(host_mutex_);
  const u64 number = host_number_++;
  if (rank_ != 0) return receive(0, peers_[0]->hosts, number, nullptr);
  for (std::size_t r = 1; r < peers_.size(); ++r) send(r, {.kind = kHost, .number = number}, std::move(each[r]));
  return std::move(each[0]);
}

std::vector<std::vector<std::byte>> SocketTransport::gather(std::vector<std::byte> mine) {
  const std::lock_guard lock(host_mutex_);
  const u64 number = host_number_++;
  if (rank_ != 0) {
    send(0, {.kind = kHost, .number = number}, std::move(mine));
    return {};
  }
  std::vector<Bytes> all;
  all.push_back(std::move(mine));
  for (std::size_t r = 1; r < peers_.size(); ++r) all.push_back(receive(r, peers_[r]->hosts, number, nullptr));
  return all;
}

std::vector<std::vector<std::byte>> SocketTransport::all_gather(std::span<const std::byte> mine) {
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
