#include "backend/cuda/runtime/nccl.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>

namespace heliograph::backend::cuda {

namespace {

using Clock = std::chrono::steady_clock;
using device::WaitLimit;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr milliseconds kCloseLimit{10000};  // time limit for the other processes to close
constexpr milliseconds kSetup{60000};       // minimum time limit for setup, which takes seconds

/// Disables NVLink multicast, because a program that exits during the setup of multicast can put a host's GPUs out of
/// service. NCCL reads this variable once, at its first call.
void forbid_multicast() {
  static const int done = setenv("NCCL_NVLS_ENABLE", "0", 1);
  (void)done;
}

std::string text_of(ncclResult_t r, ncclComm_t comm) {
  std::string text = std::string("NCCL: ") + ncclGetErrorString(r);
  if (const char* const more = ncclGetLastError(comm); more != nullptr && *more != '\0')
    text += std::string(" (") + more + ")";
  return text;
}

void check(ncclResult_t r, ncclComm_t comm, const char* what) {
  if (r != ncclSuccess && r != ncclInProgress) throw DeviceError(std::string(what) + ": " + text_of(r, comm));
}

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw DeviceError(std::string(what) + ": " + cudaGetErrorString(status));
}

/// A point of a stream whose completion the host can poll.
class Milestone {
 public:
  explicit Milestone(cudaStream_t stream) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cannot create a CUDA event");
    const cudaError_t status = cudaEventRecord(event_, stream);
    if (status != cudaSuccess) cudaEventDestroy(event_);
    check(status, "cannot record a CUDA event");
  }
  ~Milestone() {
    if (event_) cudaEventDestroy(event_);
  }
  Milestone(Milestone&& o) noexcept : event_(std::exchange(o.event_, nullptr)) {}
  bool reached() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    check(status, "an exchange with other processes");
    return true;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class NcclChannel final : public device::Channel {
 public:
  NcclChannel(std::shared_ptr<State> state, const ncclUniqueId& id, std::size_t place, std::size_t places,
              const WaitLimit& wait_limit)
      : state_(std::move(state)), ordinal_(state_->driver().ordinal()), limit_(wait_limit.limit) {
    bind();
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // non-blocking calls, so that every wait has a time limit
    std::unique_lock lock(mutex_);
    try {
      check(ncclCommInitRankConfig(&comm_, static_cast<int>(places), id, static_cast<int>(place), &config), nullptr,
            "connecting the GPUs of the processes");
      wait_until_started(lock, {.limit = std::max(kSetup, limit_), .check = wait_limit.check},
                         "connecting the GPUs of the processes");
    } catch (...) {
      if (comm_) ncclCommAbort(comm_);
      throw;
    }
  }

  ~NcclChannel() override {
    std::unique_lock lock(mutex_);
    if (comm_ == nullptr) return;
    bind();
    pending_.clear();
    try {
      check(ncclCommFinalize(comm_), comm_, "closing");
      wait_until_started(lock, {.limit = kCloseLimit, .check = {}}, "closing");
      ncclCommDestroy(comm_);
    } catch (const Error&) {  // the other processes have ended, or do not close their communicators in time
      if (comm_ != nullptr) ncclCommAbort(comm_);
    }
  }

  void exchange(device::Queue& queue, std::span<const Part> sends, std::span<const Part> receives) override {
    CudaQueue& q = own(queue);
    require<MismatchError>(&q.state() == state_.get(), "cannot use a queue of another GPU");
    auto* const stream = static_cast<cudaStream_t>(q.stream()->handle());
    constexpr const char* kWhat = "an exchange with other processes";
    std::unique_lock lock(mutex_);
    require_open();
    bind();
    Milestone before(stream);
    check(ncclGroupStart(), comm_, kWhat);
    ncclResult_t worst = ncclSuccess;
    const auto note = [&](ncclResult_t r) {
      if (r != ncclSuccess && r != ncclInProgress && worst == ncclSuccess) worst = r;
    };
    for (const Part& p : sends) note(ncclSend(p.address, p.bytes, ncclUint8, static_cast<int>(p.place), comm_, stream));
    for (const Part& p : receives) note(ncclRecv(p.address, p.bytes, ncclUint8, static_cast<int>(p.place), comm_, stream));
    note(ncclGroupEnd());  // ends the group also after an error, because the group belongs to this thread
    check(worst, comm_, kWhat);
    wait_until_started(lock, {.limit = limit_, .check = {}}, kWhat);
    pending_.push_back({std::move(before), Milestone(stream), {}});
  }

  void check() override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;  // another thread holds the lock and checks this exchange
    require_open();
    bind();
    ncclResult_t state = ncclSuccess;
    cuda::check(ncclCommGetAsyncError(comm_, &state), comm_, "cannot query NCCL");
    cuda::check(state, comm_, "an exchange with other processes");
    while (!pending_.empty() && pending_.front().after.reached()) pending_.pop_front();
    if (pending_.empty() || !pending_.front().before.reached()) return;
    // This GPU's stream has reached the exchange, so only other ranks can still delay it.
    Pending& p = pending_.front();
    if (p.begun == Clock::time_point{}) p.begun = Clock::now();
    if (Clock::now() - p.begun > limit_)
      throw DeviceError("an exchange with other processes has not ended for " + std::to_string(limit_.count() / 1000) +
                        " s");
  }

  void abort() noexcept override {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) return;
    bind();
    ncclCommAbort(std::exchange(comm_, nullptr));
  }

 private:
  struct Pending {
    Milestone before, after;
    Clock::time_point begun;
  };

  void check(ncclResult_t r, ncclComm_t comm, const char* what) { cuda::check(r, comm, what); }
  void bind() const { cudaSetDevice(ordinal_); }
  void require_open() const {
    if (comm_ == nullptr) throw DeviceError("cannot exchange with other processes: the channel was aborted");
  }

  /// Waits until NCCL has started the request. Unlocks the mutex while waiting, so that another thread may abort the
  /// request.
  void wait_until_started(std::unique_lock<std::mutex>& lock, const WaitLimit& wait_limit, const char* what) {
    const Clock::time_point until = Clock::now() + wait_limit.limit;
    for (int round = 0;; ++round) {
      ncclResult_t state = ncclSuccess;
      check(ncclCommGetAsyncError(comm_, &state), comm_, what);
      check(state, comm_, what);
      if (state != ncclInProgress) return;
      if (Clock::now() > until)
        throw DeviceError(std::string(what) + " has not ended within " + std::to_string(wait_limit.limit.count() / 1000) +
                          " s");
      lock.unlock();
      if (wait_limit.check) {
        try {
          wait_limit.check();
        } catch (...) {
          lock.lock();
          throw;
        }
      }
      if (round > 100) std::this_thread::sleep_for(microseconds(20));
      lock.lock();
      require_open();
    }
  }

  std::shared_ptr<State> state_;
  const int ordinal_;
  const milliseconds limit_;
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;  // null after abort()
  std::deque<Pending> pending_;
};

}  // namespace

bool nccl_is_usable() {
  forbid_multicast();
  int version = 0;  // an older NCCL does not know this build's structures
  return ncclGetVersion(&version) == ncclSuccess && version >= NCCL_VERSION_CODE;
}

std::vector<std::byte> nccl_invitation() {
  forbid_multicast();
  ncclUniqueId id;
  check(ncclGetUniqueId(&id), nullptr, "cannot create an NCCL id");
  std::vector<std::byte> bytes(sizeof id);
  std::memcpy(bytes.data(), &id, sizeof id);
  return bytes;
}

std::unique_ptr<device::Channel> nccl_connect(std::shared_ptr<State> state, std::span<const std::byte> invitation,
                                              std::size_t place, std::size_t places, const WaitLimit& wait_limit) {
  forbid_multicast();
  ncclUniqueId id;
  require<DeviceError>(invitation.size() == sizeof id, "cannot use an invitation of another kind of device");
  std::memcpy(&id, invitation.data(), sizeof id);
  return std::make_unique<NcclChannel>(std::move(state), id, place, places, wait_limit);
}

}  // namespace heliograph::backend::cuda
