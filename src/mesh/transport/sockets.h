// Ranks joined through the hosts' memory: by sockets, over which they also speak of failures, and by a link for the words
// where there is one (MPI).
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "mesh/transport/link.h"
#include "mesh/transport/meet.h"
#include "mesh/transport/transport.h"

namespace heliograph::mesh {

/// A thread for each other rank takes in what comes, whoever will want it: so no sender waits for a receiver's turn, and
/// nothing can wait in a circle. What has come and is not wanted yet is kept, without a bound. A rank that is waited for is
/// asked every second whether it is alive; one that does not answer is given up after some seconds, one that does may take
/// its time, up to the limit. Who waits for nobody sends nothing.
class SocketTransport final : public Transport {
 public:
  SocketTransport(const Rendezvous& meeting, std::vector<Guest> guests);
  /// Says goodbye: others may go on where they need this rank no more.
  ~SocketTransport() override;

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return peers_.size(); }
  std::string name() const override { return link_ ? "MPI" : "sockets"; }
  u64 sent_bytes() const override { return sent_; }
  void exchange(u64 number, std::size_t member, device::Device& device, device::Queue& queue, std::span<const Part> sends,
                std::span<const Part> receives) override;
  bool is_staged() const override { return true; }
  void agree(std::span<std::byte> bytes) override;
  std::vector<std::byte> scatter(std::vector<std::vector<std::byte>> each) override;
  std::vector<std::vector<std::byte>> collect(std::vector<std::byte> mine) override;
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> mine) override;
  void fail(std::exception_ptr error) noexcept override;
  void require_sound() const override;

  std::chrono::milliseconds limit() const { return limit_; }
  const Waits& waits() const { return waits_; }
  /// From now on words go by this link, which tells `ear()` what comes.
  void use(std::unique_ptr<Link> link) { link_ = std::move(link); }
  Link::Ear ear();
  /// Asks all ranks whether they are alive, for one who waits for them elsewhere: about every `waits().ask`. Throws DeviceError
  /// where one has not answered for some seconds.
  void look_for_the_silent();

 private:
  using Bytes = Link::Bytes;
  using Header = Envelope;
  struct Message {
    u64 number;
    Bytes bytes;
  };
  using Box = std::deque<Message>;
  struct Peer {
    std::string name;
    wire::Socket socket;
    std::mutex writing;
    std::thread reader;
    std::map<std::pair<std::size_t, std::size_t>, Box> parts;  // by members, from and to
    Box hosts;                                                 // of agree and gather
    bool left = false, hangs_up = false;                       // sends no more; lets go of the connection
    std::atomic<int> unanswered{0};                            // questions whether it is alive, since it was last heard
  };

  std::string called(std::size_t rank) const;
  void read_from(std::size_t rank);
  void join_readers();
  void take_in(std::size_t rank, const Header& header, Bytes bytes);
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
  /// Whether it may be taken for dead; else it is asked (again).
  bool is_silent(std::size_t rank);
  void say(std::size_t rank, std::uint32_t kind);
  /// The next message of a box of that rank.
  Bytes receive(std::size_t rank, Box& box, u64 number, std::size_t* expected);
  /// The first failure; told to all. Also what was `heard` of another: who hears of it from nobody else must not take this
  /// rank's leaving for the reason.
  void end(std::exception_ptr error, bool heard = false) noexcept;
  void say_goodbye() noexcept;
  static void say_goodbye_at_exit();

  const std::size_t rank_;
  const std::chrono::milliseconds limit_;
  const Waits waits_;
  const long process_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<std::size_t> rank_of_;  // each member's
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
