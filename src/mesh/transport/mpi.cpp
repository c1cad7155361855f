// The module that mpi_loader.cpp loads. One thread of the process makes all MPI calls, so MPI_THREAD_FUNNELED is enough and
// other threads can wait with a time limit.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include "mesh/transport/mpi_module.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <list>
#include <mutex>
#include <thread>

#include <unistd.h>

#include "base/threads.h"

namespace heliograph::mesh::mpi {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Bytes = Link::Bytes;

constexpr std::size_t kEager = std::size_t{1} << 16;  // bytes of a body that are sent with its envelope
constexpr std::size_t kPiece = std::size_t{1} << 28;  // bytes per piece of a longer message, because MPI counts in int
constexpr int kHead = 1, kBody = 2;                   // MPI tags of messages
constexpr std::size_t kText = 4096;
constexpr milliseconds kCloseLimit{10000};  // time limit for other ranks at the end of a mesh
constexpr milliseconds kPollInterval{5};    // interval of polls if no thread waits

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int size = 0;
  MPI_Error_string(code, text, &size);
  throw DeviceError(std::string("MPI, ") + what + ": " + text);
}

class MpiLink;

/// The thread that makes all MPI calls.
class Engine {
 public:
  static Engine& one() {
    static Engine* const engine = new Engine;  // outlives every static object
    return *engine;
  }

  /// Runs `work` on the MPI thread and returns its result. Throws DeviceError after `limit`. `work` may still run after
  /// the time limit, so it must own its data.
  template <class Work>
  auto call(Work work, milliseconds limit, const char* what) -> decltype(work()) {
    using Result = decltype(work());
    const auto task = std::make_shared<std::packaged_task<Result()>>(std::move(work));
    std::future<Result> result = task->get_future();
    post([task] { (*task)(); });
    if (result.wait_for(limit) != std::future_status::ready)
      throw DeviceError(std::string("MPI, ") + what + ": not all ranks did so within " +
                        std::to_string((limit.count() + 999) / 1000) + " s");
    return result.get();
  }
  void post(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    condition_.notify_one();
  }
  /// Runs on the MPI thread: calls `step` until it returns true.
  void until(const std::function<bool()>& step, Clock::time_point end, const char* what) {
    while (!step()) {
      if (Clock::now() > end) throw DeviceError(std::string("MPI, ") + what + ": timed out");
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  /// Runs on the MPI thread: completes an operation.
  void until_done(MPI_Request& request, milliseconds limit, const char* what) {
    const auto step = [&] {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
      return done != 0;
    };
    until(step, Clock::now() + limit, what);
  }

  void start(const LaunchInfo& launch, milliseconds limit) {
    const std::lock_guard lock(start_mutex_);
    if (started_) return;
    call([this, launch] { begin(launch); }, limit, "joining the other ranks");
    started_ = true;
    std::atexit([] { one().finish(); });
  }

  std::list<MpiLink*>& links() { return links_; }  // only the MPI thread uses the members below
  void set_waiting(bool waiting) {
    waiting ? ++waiters_ : --waiters_;
    if (waiting) condition_.notify_one();
  }
  MPI_Comm world() const { return world_; }
  void give_up() { given_up_ = true; }
  bool has_given_up() const { return given_up_; }
  bool progress(bool& urgent);  // runs on the MPI thread

 private:
  Engine() : process_(getpid()), thread_(start_thread([this] { run(); })) { thread_.detach(); }

  void begin(const LaunchInfo& launch) {
    int had = 0, provided = MPI_THREAD_SINGLE;
    check(MPI_Initialized(&had), "looking");
    if (had) {  // the program itself initialized MPI, on another thread
      check(MPI_Query_thread(&provided), "looking");
      if (provided < MPI_THREAD_SERIALIZED)
        throw DeviceError(
            "the program initialized MPI for a single thread; initialize it with MPI_THREAD_SERIALIZED or more, as mpi4py "
            "does");
    } else {
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "starting");
      own_ = true;
    }
    check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "joining");
    MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN);
    int rank = 0, ranks = 0;
    MPI_Comm_rank(world_, &rank);
    MPI_Comm_size(world_, &ranks);
    if (static_cast<std::size_t>(rank) != launch.rank || static_cast<std::size_t>(ranks) != launch.ranks) {
      throw DeviceError("mpirun belongs to another MPI than the build: mpirun started rank " + std::to_string(launch.rank) +
                        " of " + std::to_string(launch.ranks) + ", the MPI of this build has rank " + std::to_string(rank) +
                        " of " + std::to_string(ranks) + "; use the mpirun of that MPI");
    }
  }
  void finish() noexcept;
  void run();

  const long process_;
  std::mutex start_mutex_, mutex_;
  std::condition_variable condition_;
  std::deque<std::function<void()>> work_;
  std::atomic<int> waiters_{0};
  std::atomic<bool> given_up_{false};
  std::list<MpiLink*> links_;
  MPI_Comm world_ = MPI_COMM_NULL;
  bool started_ = false, own_ = false;
  std::thread thread_;
};

/// Messages of one mesh. A message is an envelope with a short body, or an envelope that is followed by a long body in
/// pieces. Each rank sends one message at a time.
class MpiLink final : public Link {
 public:
  MpiLink(std::size_t rank, std::size_t ranks, Handlers handlers, milliseconds limit)
      : rank_(rank), handlers_(std::move(handlers)), from_(ranks) {
    Engine::one().call([this, limit] { open(limit); }, 2 * limit, "opening a mesh");
  }
  ~MpiLink() override {
    try {
      Engine::one().call([this] { close(); }, 2 * kCloseLimit, "closing a mesh");
    } catch (...) {  // the MPI thread has ended, because the process exits
    }
  }

  void send(std::size_t rank, const Envelope& envelope, Bytes bytes) override {
    auto out = std::make_shared<Outgoing>();
    const std::size_t first = bytes.size() <= kEager ? bytes.size() : 0;
    out->head.resize(sizeof envelope + first);
    std::memcpy(out->head.data(), &envelope, sizeof envelope);
    std::copy_n(bytes.begin(), first, out->head.begin() + sizeof envelope);
    if (first == 0) out->body = std::move(bytes);
    Engine::one().post([this, rank, out] { begin(rank, *out), sending_.push_back(out); });
  }
  void set_waiting(bool waiting) override { Engine::one().set_waiting(waiting); }

  /// Runs on the MPI thread: advances transfers. Returns whether a message was sent or received. Sets `urgent` if a
  /// transfer is in progress.
  bool progress(bool& urgent) {
    if (broken_) return false;
    bool any = false;
    try {
      std::erase_if(sending_, [&](const std::shared_ptr<Outgoing>& out) {
        const bool done = all_done(out->requests);
        any = any || done;
        return done;
      });
      for (std::size_t r = 0; r < from_.size(); ++r) {
        if (r != rank_) any = take(r) || any;
      }
      urgent = urgent || !sending_.empty() ||
               std::any_of(from_.begin(), from_.end(), [](const Incoming& in) { return in.in_body; });
    } catch (...) {
      broken_ = true;
      handlers_.on_failure(std::current_exception());
    }
    return any;
  }
  bool has_sent() const { return sending_.empty() || broken_; }

 private:
  struct Outgoing {
    Bytes head, body;
    std::vector<MPI_Request> requests;
  };
  struct Incoming {
    Bytes head, body;
    Envelope envelope;
    std::vector<MPI_Request> requests;
    bool in_body = false;
  };

  static bool all_done(std::vector<MPI_Request>& requests) {
    int done = 0;
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE), "exchanging");
    return done != 0;
  }

  void open(milliseconds limit) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Comm_idup(Engine::one().world(), &comm_, &request), "opening a mesh");
    Engine::one().until_done(request, limit, "opening a mesh");
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    for (std::size_t r = 0; r < from_.size(); ++r) {
      if (r != rank_) from_[r].head.resize(sizeof(Envelope) + kEager), listen(r);
    }
    Engine::one().links().push_back(this);
  }
  void close() {
    Engine& engine = Engine::one();
    const Clock::time_point end = Clock::now() + kCloseLimit;
    for (bool urgent = false; !has_sent() && !engine.has_given_up() && Clock::now() < end;) engine.progress(urgent);
    engine.links().remove(this);
    // MPI may still read messages that were not sent, so their buffers exist until the process ends.
    if (!sending_.empty()) new std::list<std::shared_ptr<Outgoing>>(std::move(sending_));
    for (Incoming& in : from_) {
      for (MPI_Request& request : in.requests) {
        if (request == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&request);
        MPI_Request_free(&request);
      }
    }
    // The communicator is not freed, because that is a collective operation and other ranks may have exited.
  }

  void listen(std::size_t r) {
    Incoming& in = from_[r];
    in.requests.assign(1, MPI_REQUEST_NULL);
    check(MPI_Irecv(in.head.data(), static_cast<int>(in.head.size()), MPI_BYTE, static_cast<int>(r), kHead, comm_,
                    in.requests.data()),
          "listening");
  }

  template <class Start>
  void in_pieces(Bytes& body, std::vector<MPI_Request>& requests, Start start) {
    for (std::size_t at = 0; at < body.size(); at += kPiece) {
      requests.push_back(MPI_REQUEST_NULL);
      start(body.data() + at, static_cast<int>(std::min(kPiece, body.size() - at)), &requests.back());
    }
  }

  void begin(std::size_t rank, Outgoing& out) {
    if (broken_) return;
    try {
      const int to = static_cast<int>(rank);
      out.requests.push_back(MPI_REQUEST_NULL);
      check(MPI_Isend(out.head.data(), static_cast<int>(out.head.size()), MPI_BYTE, to, kHead, comm_, out.requests.data()),
            "sending");
      in_pieces(out.body, out.requests, [&](std::byte* data, int size, MPI_Request* request) {
        check(MPI_Isend(data, size, MPI_BYTE, to, kBody, comm_, request), "sending");
      });
    } catch (...) {
      broken_ = true;
      handlers_.on_failure(std::current_exception());
    }
  }

  bool take(std::size_t r) {
    Incoming& in = from_[r];
    if (!all_done(in.requests)) return false;
    if (!in.in_body) {
      std::memcpy(&in.envelope, in.head.data(), sizeof in.envelope);
      if (in.envelope.magic != Envelope::kMagic) throw DeviceError("MPI: a rank sent an invalid message");
      in.body.resize(in.envelope.bytes);
      if (in.envelope.bytes > kEager) {
        in.requests.clear();
        in.in_body = true;
        in_pieces(in.body, in.requests, [&](std::byte* data, int size, MPI_Request* request) {
          check(MPI_Irecv(data, size, MPI_BYTE, static_cast<int>(r), kBody, comm_, request), "receiving");
        });
        return true;
      }
      std::copy_n(in.head.begin() + sizeof in.envelope, in.body.size(), in.body.begin());
    }
    in.in_body = false;
    Bytes body;
    std::swap(body, in.body);
    const Envelope envelope = in.envelope;
    listen(r);
    handlers_.on_message(r, envelope, std::move(body));
    return true;
  }

  const std::size_t rank_;
  const Handlers handlers_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<Incoming> from_;
  std::list<std::shared_ptr<Outgoing>> sending_;
  bool broken_ = false;
};

bool Engine::progress(bool& urgent) {
  bool any = false;
  for (MpiLink* link : links_) any = link->progress(urgent) || any;
  return any;
}

void Engine::run() {
  std::size_t idle = 0;  // number of consecutive polls without an event
  for (;;) {
    std::deque<std::function<void()>> work;
    {
      const std::lock_guard lock(mutex_);
      work.swap(work_);
    }
    for (auto& task : work) task();
    bool urgent = false;
    if (progress(urgent) || !work.empty()) {
      idle = 0;
      continue;
    }
    urgent = urgent || waiters_ > 0;
    if (urgent && ++idle < 200) {
      std::this_thread::yield();
      continue;
    }
    std::unique_lock lock(mutex_);
    if (!work_.empty()) continue;
    if (urgent) {  // yields the core to other threads after many polls
      condition_.wait_for(lock, std::chrono::microseconds(std::min<std::size_t>(idle / 4, 250)));
    } else if (links_.empty()) {
      condition_.wait(lock, [&] { return !work_.empty(); });
    } else {
      idle = 0;
      condition_.wait_for(lock, kPollInterval, [&] { return !work_.empty() || waiters_ > 0; });
    }
  }
}

void Engine::finish() noexcept {
  if (getpid() != process_ || given_up_) return;
  try {
    call(
        [this] {
          const Clock::time_point end = Clock::now() + kCloseLimit;
          until(
              [this] {
                bool urgent = false;
                progress(urgent);
                return std::all_of(links_.begin(), links_.end(), [](const MpiLink* link) { return link->has_sent(); });
              },
              end, "the last messages");
          links_.clear();
          if (own_) MPI_Finalize();
        },
        2 * kCloseLimit, "leaving");
  } catch (...) {  // a launcher detects a rank that exits without MPI_Finalize
  }
}

void start_ranks(const LaunchInfo& launch, milliseconds limit) { Engine::one().start(launch, limit); }

std::string broadcast_text(std::string text, milliseconds limit) {
  if (text.size() >= kText) throw InternalError("a text for all ranks is too long");
  text.resize(kText, '\0');
  const auto shared = std::make_shared<std::string>(std::move(text));
  return Engine::one().call(
      [shared, limit] {
        MPI_Request request = MPI_REQUEST_NULL;
        check(MPI_Ibcast(shared->data(), static_cast<int>(kText), MPI_BYTE, 0, Engine::one().world(), &request), "meeting");
        Engine::one().until_done(request, limit, "meeting");
        return std::string(shared->c_str());
      },
      2 * limit, "meeting");
}

std::unique_ptr<Link> link_ranks(std::size_t rank, std::size_t ranks, Link::Handlers handlers, milliseconds limit) {
  return std::make_unique<MpiLink>(rank, ranks, std::move(handlers), limit);
}

void give_ranks_up() { Engine::one().give_up(); }

}  // namespace

extern "C" __attribute__((visibility("default")))
const Calls heliograph_mpi_calls{start_ranks, broadcast_text, link_ranks, give_ranks_up};

}  // namespace heliograph::mesh::mpi
