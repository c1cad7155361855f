#include "mesh/transport/tcp.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

namespace heliograph::mesh::tcp {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSlice{50};  // interval at which is_cancelled is called
constexpr std::size_t kLongestText = std::size_t{1} << 20;
constexpr std::size_t kMostConnections = 256;  // largest number of simultaneous connections; another one closes the oldest

std::string reason(int code) { return std::strerror(code); }

/// Waits until `fd` is ready for `events`. Returns false after `limit`.
bool ready(int fd, short events, milliseconds limit) {
  pollfd p{.fd = fd, .events = events, .revents = 0};
  for (;;) {
    const int n = ::poll(&p, 1, static_cast<int>(std::max<milliseconds::rep>(0, limit.count())));
    if (n >= 0) return n > 0;
    if (errno != EINTR) throw DeviceError("waiting for a connection: " + reason(errno));
  }
}

/// Moves `count` bytes by calls of `step`, which returns the number of bytes that it moved.
template <class Step>
void move_all(int fd, short events, std::size_t count, milliseconds limit, const std::function<bool()>& is_cancelled,
              Step step) {
  Clock::time_point last = Clock::now();
  while (count > 0) {
    const ssize_t n = step();
    if (n > 0) {
      count -= static_cast<std::size_t>(n);
      last = Clock::now();
      continue;
    }
    if (n == 0) throw Closed("the connection was closed");
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) throw Closed("the connection was lost: " + reason(errno));
    if (is_cancelled && is_cancelled()) throw Closed("the connection was cancelled");
    if (Clock::now() - last > limit) throw TimedOut("no data moved within the time limit");
    ready(fd, events, std::min(kSlice, limit));
  }
}

struct Addresses {
  Addresses(const std::string& host, const std::string& port, bool passive) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC, hints.ai_socktype = SOCK_STREAM, hints.ai_flags = passive ? AI_PASSIVE : 0;
    addrinfo* found = nullptr;
    const int code = getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
    if (code != 0) throw DeviceError("cannot resolve the address \"" + host + ":" + port + "\": " + gai_strerror(code));
    list.reset(found);
  }
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list{nullptr, &freeaddrinfo};
};

Socket open(const addrinfo& a) {
  return Socket(::socket(a.ai_family, a.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a.ai_protocol));
}

void set(const Socket& s, int protocol, int option) {
  const int on = 1;
  ::setsockopt(s.fd(), protocol, option, &on, sizeof on);
}

void tune(const Socket& s) {
  set(s, IPPROTO_TCP, TCP_NODELAY);
  set(s, SOL_SOCKET, SO_KEEPALIVE);
}

std::string name_of(int fd, bool peer, bool port) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  char text[NI_MAXHOST] = "", number[NI_MAXSERV] = "";
  if ((peer ? getpeername(fd, raw, &size) : getsockname(fd, raw, &size)) == 0)
    getnameinfo(raw, size, text, sizeof text, number, sizeof number, NI_NUMERICHOST | NI_NUMERICSERV);
  return port ? number : text;
}

/// Returns whether the socket is connected to itself. TCP makes this connection (self-connect through the ephemeral port) if
/// no process listens at a local port.
bool is_self_connected(const Socket& s) {
  return name_of(s.fd(), false, true) == name_of(s.fd(), true, true) && s.own_address() == s.peer_address();
}

}  // namespace

milliseconds left_until(Clock::time_point t) {
  return std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(t - Clock::now()));
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

void Socket::shut() const { ::shutdown(fd_, SHUT_RDWR); }
std::string Socket::own_address() const { return name_of(fd_, false, false); }
std::string Socket::peer_address() const { return name_of(fd_, true, false); }
std::string Socket::own_port() const { return name_of(fd_, false, true); }

void Socket::send(std::span<const std::span<const std::byte>> parts, milliseconds limit,
                  const std::function<bool()>& is_cancelled) const {
  std::vector<iovec> list;
  std::size_t count = 0, at = 0;
  for (const auto& p : parts) {
    if (p.empty()) continue;
    list.push_back({.iov_base = const_cast<std::byte*>(p.data()), .iov_len = p.size()});
    count += p.size();
  }
  move_all(fd_, POLLOUT, count, limit, is_cancelled, [&] {
    msghdr message{};
    message.msg_iov = list.data() + at, message.msg_iovlen = std::min<std::size_t>(list.size() - at, 64);
    const ssize_t n = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    for (auto rest = static_cast<std::size_t>(std::max<ssize_t>(n, 0)); rest > 0;) {
      const std::size_t part = std::min(rest, list[at].iov_len);
      list[at].iov_base = static_cast<char*>(list[at].iov_base) + part;
      list[at].iov_len -= part, rest -= part;
      if (list[at].iov_len == 0) ++at;
    }
    return n;
  });
}

void Socket::receive(std::span<std::byte> bytes, milliseconds limit, const std::function<bool()>& is_cancelled) const {
  std::size_t at = 0;
  move_all(fd_, POLLIN, bytes.size(), limit, is_cancelled, [&] {
    const ssize_t n = ::recv(fd_, bytes.data() + at, bytes.size() - at, 0);
    at += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
    return n;
  });
}

void Socket::send_text(const std::string& text, milliseconds limit) const {
  const auto size = static_cast<std::uint32_t>(text.size());
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&size, 1)), std::as_bytes(std::span(text))};
  send(parts, limit);
}

std::string Socket::receive_text(milliseconds limit) const {
  std::uint32_t size = 0;
  receive(std::as_writable_bytes(std::span(&size, 1)), limit);
  if (size > kLongestText) throw DeviceError("a message exceeds the limit of 1 MiB");
  std::string text(size, '\0');
  receive(std::as_writable_bytes(std::span(text)), limit);
  return text;
}

bool IncomingText::take() {
  for (;;) {
    if (taken_ >= sizeof size_ && text_.size() == size_) return true;
    char piece[4096];
    const std::size_t left = taken_ < sizeof size_ ? sizeof size_ - taken_ : size_ - text_.size();
    const ssize_t n = ::recv(from_.fd(), piece, std::min(left, sizeof piece), 0);
    if (n == 0) throw Closed("the connection was closed");
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (n < 0) throw Closed("the connection was lost: " + reason(errno));
    const auto count = static_cast<std::size_t>(n);
    if (taken_ < sizeof size_)
      std::memcpy(reinterpret_cast<char*>(&size_) + taken_, piece, count);
    else
      text_.append(piece, count);  // grows as bytes arrive, so that a false length takes no memory
    taken_ += count;
    if (taken_ == sizeof size_ && size_ > kLongestText) throw DeviceError("a message exceeds the limit of 1 MiB");
  }
}

Socket listen(const std::string& host, const std::string& port) {
  const Addresses addresses(host, port, true);
  int code = 0;
  for (const addrinfo* a = addresses.list.get(); a != nullptr; a = a->ai_next) {
    Socket s = open(*a);
    if (!s) continue;
    set(s, SOL_SOCKET, SO_REUSEADDR);
    if (::bind(s.fd(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(s.fd(), 128) == 0) return s;
    code = errno;
  }
  throw DeviceError("cannot listen at " + host + ":" + port + ": " + reason(code));
}

void TextReceiver::accept_new() {
  for (;;) {
    Socket s(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!s) {
      const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (full && !connections_.empty()) connections_.pop_front();
      if (full) std::this_thread::sleep_for(milliseconds(10));  // poll will report the listener again
      return;
    }
    tune(s);
    if (connections_.size() >= kMostConnections) connections_.pop_front();
    connections_.push_back({.text = IncomingText(std::move(s)), .until = Clock::now() + limit_});
  }
}

std::optional<std::pair<std::string, Socket>> TextReceiver::next(Clock::time_point until) {
  for (;;) {
    std::optional<std::pair<std::string, Socket>> come;
    std::erase_if(connections_, [&](Connection& v) {
      try {
        if (come || !v.text.take()) return Clock::now() > v.until;
      } catch (const DeviceError&) {  // the peer is not a rank
        return true;
      }
      come.emplace(v.text.text(), std::move(v.text.from()));
      return true;
    });
    const Clock::time_point now = Clock::now();
    if (come || now >= until) return come;
    std::vector<pollfd> watched = {{.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
    for (const Connection& v : connections_) watched.push_back({.fd = v.text.fd(), .events = POLLIN, .revents = 0});
    const Clock::time_point wake = connections_.empty() ? until : std::min(until, connections_.front().until);
    const int n = ::poll(watched.data(), watched.size(), static_cast<int>(left_until(wake).count()) + 1);
    if (n < 0 && errno != EINTR) throw DeviceError("waiting for a connection: " + reason(errno));
    if (n > 0 && watched.front().revents != 0) accept_new();
  }
}

Socket connect(const std::string& host, const std::string& port, milliseconds limit) {
  const Addresses addresses(host, port, false);
  for (const addrinfo* a = addresses.list.get(); a != nullptr; a = a->ai_next) {
    Socket s = open(*a);
    if (!s) continue;
    if (::connect(s.fd(), a->ai_addr, a->ai_addrlen) != 0) {
      if (errno != EINPROGRESS || !ready(s.fd(), POLLOUT, limit)) continue;
      int code = 0;
      socklen_t size = sizeof code;
      if (::getsockopt(s.fd(), SOL_SOCKET, SO_ERROR, &code, &size) != 0 || code != 0) continue;
    }
    if (is_self_connected(s)) {
      const linger at_once{.l_onoff = 1, .l_linger = 0};  // frees the port immediately for a later listener
      ::setsockopt(s.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      continue;
    }
    tune(s);
    return s;
  }
  return {};
}

}  // namespace heliograph::mesh::tcp
