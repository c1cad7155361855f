// Ranks connected by TCP through host memory. Failures are always reported over the sockets; other messages use a link (MPI)
// if there is one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "mesh/transport/link.h"
#include "mesh/transport/meet.h"
#include "mesh/transport/packing.h"
#include "mesh/transport/transport.h"

namespace heliograph::mesh {

/// A thread for each other rank receives its messages before they are requested, so that no sender waits for a receiver
/// and no deadlock can arise. Early messages are queued without a limit. While this rank waits for another rank, it sends
/// that rank a probe every second. A rank that answers no probe for some seconds has failed. A rank that answers probes has
/// failed only after the time limit.
class SocketTransport final : public Transport {
 public:
  SocketTransport(const Rendezvous& meeting, std::vector<RankInfo> joined);
  /// Announces the end of this rank. Another rank continues until it needs this rank.
  ~SocketTransport() override;

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return peers_.size(); }
  std::string name() const override { return link_ ? "MPI" : "sockets"; }
  u64 sent_bytes() const override { return sent_; }
  void exchange(u64 number, std::size_t member, device::Device& device, device::Queue& queue, std::span<const Part> sends,
                std::span<const Part> receives) override;
  bool is_staged() const override { return true; }
  void broadcast(std::span<std::byte> bytes) override;
  std::vector<std::byte> scatter(std::vector<std::vector<std::byte>> each) override;
  std::vector<std::vector<std::byte>> gather(std::vector<std::byte> mine) override;
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override;
  void fail(std::exception_ptr error) noexcept override;
  void require_sound() const override;

  std::chrono::milliseconds limit() const { return limit_; }
  const TimeLimits& limits() const { return limits_; }
  /// Sends all later messages by this link, which must call the functions of `handlers()`.
  void use(std::unique_ptr<Link> link) { link_ = std::move(link); }
  Link::Handlers handlers();
  /// Probes all ranks. A thread that waits for ranks without this transport must call it about every
  /// `limits().probe_interval`. Throws DeviceError if a rank has not answered for some seconds.
  void check_liveness();

 private:
  using Bytes = Link::Bytes;
  using Header = Envelope;
  struct Message {
    u64 number;
    Bytes bytes;
    bool packed;

    std::size_t size() const { return packed ? packing::plain_size(bytes) : bytes.size(); }
  };
  using Box = std::deque<Message>;
  struct Peer {
    std::string name;
    tcp::Socket socket;
    std::mutex writing;
    std::thread reader;
    std::map<std::pair<std::size_t, std::size_t>, Box> parts;  // parts of exchanges, by sending and receiving member
    Box hosts;                                                 // messages of broadcast, scatter, gather and all_gather
    bool left = false, closes = false;                         // the rank announced its end; it will close the connection
    std::atomic<int> unanswered{0};                            // number of probes since the last message from the rank
  };

  std::string name_of(std::size_t rank) const;
  void read_from(std::size_t rank);
  void join_readers();
  void on_message(std::size_t rank, const Header& header, Bytes bytes);
  void send(std::size_t rank, Header header, std::span<const std::byte> bytes) {
    sent_ += bytes.size();
    if (link_) return send_by_link(rank, header, Bytes(bytes.begin(), bytes.end()));
    send_by_socket(rank, header, bytes);
  }
  void send(std::size_t rank, Header header, Bytes&& bytes) {
    sent_ += bytes.size();
    if (link_) return send_by_link(rank, header, std::move(bytes));
    send_by_socket(rank, header, bytes);
  }
  void send_by_link(std::size_t rank, Header header, Bytes bytes);
  void send_by_socket(std::size_t rank, Header header, std::span<const std::byte> bytes);
  /// Returns whether the rank has not answered probes for too long. Otherwise sends another probe and returns false.
  bool presumed_dead(std::size_t rank);
  void send_notice(std::size_t rank, std::uint32_t kind);
  Message next(std::size_t rank, Box& box, u64 number, const std::size_t* expected);
  Bytes receive(std::size_t rank, Box& box, u64 number, const std::size_t* expected) {
    return next(rank, box, number, expected).bytes;
  }
  /// Send a part of an exchange, and store a received part.
  void send_part(std::size_t rank, Header header, device::Device& device, device::Queue& queue, const Part& part);
  void take_part(std::size_t rank, const Message& message, device::Device& device, device::Queue& queue, const Part& part);
  /// Records the first failure and reports it to all ranks, also if another rank reported it (`from_other_rank`). Without
  /// that report, a rank would take this process's exit for the cause of the failure.
  void end(std::exception_ptr error, bool from_other_rank = false) noexcept;
  void announce_end() noexcept;
  static void announce_end_at_exit();
  /// Waits until all other ranks have announced their end, because mpirun crashes if a rank fails while another waits in
  /// MPI_Finalize.
  void await_other_ends() noexcept;

  const std::size_t rank_;
  const std::chrono::milliseconds limit_;
  const TimeLimits limits_;
  const long process_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<std::size_t> rank_of_;  // rank of each member
  mutable std::mutex mutex_;
  std::condition_variable condition_;
  std::atomic<bool> failed_{false}, stopping_{false};
  std::exception_ptr error_;
  std::unique_ptr<Link> link_;
  std::atomic<u64> sent_{0};
  std::mutex host_mutex_;
  u64 host_number_ = 0;
};

}  // namespace heliograph::mesh
