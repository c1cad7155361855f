// A GPU as a device: queues and memory of the runtime, kernels of rings and of LWE ciphertexts.
#include "backend/cuda/cuda.h"

#include "backend/cuda/lwe/tfhe.h"
#include "backend/cuda/ring/kernels.h"
#include "backend/cuda/runtime/device.h"
#include "backend/cuda/runtime/meeting.h"
#include "backend/cuda/runtime/nccl.h"
#include "device/perform.h"

namespace heliograph::backend::cuda {

// ---- dispatch of calls to kernels

CudaQueue::CudaQueue(std::shared_ptr<State> state)
    : state_(std::move(state)),
      stream_(std::make_shared<Stream>(state_)),
      ring_(std::make_unique<CudaKernels>(state_)),
      lwe_(std::make_unique<CudaTfhe>(state_)) {}

CudaQueue::~CudaQueue() = default;

bool CudaQueue::supports(const device::Call& call) const { return device::performs<CudaKernels, CudaTfhe>(call); }
void CudaQueue::perform(const device::Call& call) { device::perform(*this, call, *ring_, *lwe_); }

namespace {

class CudaDevice final : public device::Device,
                         private device::Endpoint,
                         private device::Measurement,
                         private device::TransferCounter,
                         private device::Peers {
 public:
  explicit CudaDevice(std::shared_ptr<Driver> driver)
      : state_(std::make_shared<State>(std::move(driver))), kernels_(state_), tfhe_(state_) {}

  std::string name() const override { return "cuda"; }
  std::string description() const override {
    const Properties& p = state_->properties();
    char memory[32];
    std::snprintf(memory, sizeof memory, "%.0f GiB", static_cast<double>(p.memory) / (1 << 30));
    return p.name + ", " + memory + ", " + std::to_string(p.processors) + " multiprocessors";
  }

  device::MemoryState memory() const override {
    device::MemoryState m;
    state_->require_sound();
    state_->check(state_->driver().memory(&m.available, &m.total, &m.pooled), "cannot query the GPU's free memory");
    m.pooled += state_->pool().kept();
    return m;
  }

  device::Buffer allocate(std::size_t bytes, device::Queue& queue) override {
    state_->require_sound();
    CudaQueue& q = own(queue);
    const std::size_t size = Pool::size_class(bytes);
    const StreamHandle stream = q.stream()->handle();
    void* address = size < bytes ? nullptr : state_->pool().take(stream, size);
    if (address == nullptr) address = allocate_new(size, bytes, q);
    return std::make_shared<CudaMemory>(state_, q.stream(), address, bytes, size);
  }

  std::unique_ptr<device::Queue> make_queue() override {
    state_->require_sound();
    return std::make_unique<CudaQueue>(state_);
  }

  void upload(device::Queue& queue, std::span<const std::byte> from, std::byte* to) override {
    if (from.empty()) return;
    state_->require_sound();
    ++state_->counts.uploads, state_->counts.upload_bytes += from.size();
    CudaQueue& q = own(queue);
    q.require_no_capture();
    state_->staging().upload(q, from, to);
  }

  void download(device::Queue& queue, const std::byte* from, std::span<std::byte> to) override {
    CudaQueue& q = own(queue);
    q.require_no_capture();
    if (to.empty()) return q.wait();
    state_->require_sound();
    ++state_->counts.downloads, state_->counts.download_bytes += to.size();
    state_->staging().download(q, from, to);
  }

  device::Kernels& kernels() override { return kernels_; }
  device::Capabilities capabilities() override {
    return {.endpoint = this, .measurement = this, .transfers = this, .peers = this, .tfhe = &tfhe_};
  }
  std::shared_ptr<device::Meeting> make_meeting(std::span<device::Device* const> members,
                                                std::span<device::Queue* const> queues) override {
    if (members.size() > CudaMeeting::kMost) return nullptr;
    for (device::Device* a : members) {
      for (device::Device* b : members) {
        if (a == b) continue;
        const auto* const x = dynamic_cast<const CudaDevice*>(a);
        const auto* const y = dynamic_cast<const CudaDevice*>(b);
        // The hardware executes the queues of one GPU in order, so two queues could wait for each other forever.
        if (!x || !y || !a->reaches(*b) || x->state_->driver().number() == y->state_->driver().number()) return nullptr;
      }
    }
    return std::make_shared<CudaMeeting>(members, queues);
  }
  bool reaches(const device::Device& other) const override {
    const auto* const theirs = dynamic_cast<const CudaDevice*>(&other);
    return theirs != nullptr && state_->reaches(*theirs->state_);
  }
  std::string identity() const override {
    return nccl_is_usable() && state_->driver().ordinal() >= 0 ? state_->properties().identity : std::string();
  }
  std::vector<std::byte> invite() override { return nccl_invitation(); }
  std::unique_ptr<device::Channel> connect(std::span<const std::byte> invitation, std::size_t place, std::size_t places,
                                           const device::WaitLimit& wait_limit) override {
    state_->require_sound();
    return nccl_connect(state_, invitation, place, places, wait_limit);
  }
  device::Traffic traffic() const override { return state_->traffic(); }
  double product_ceiling() override { return kernels_.product_ceiling(); }
  double sum_ceiling() override { return kernels_.product_ceiling(); }
  device::Rates measure_rates() override { return device::measured_rates(*this, 1); }

 private:
  void* allocate_new(std::size_t size, std::size_t bytes, CudaQueue& q) {
    void* address = nullptr;
    const bool possible = bytes <= state_->properties().memory;  // for larger sizes, the computation of the size class may
                                                                 // overflow
    const Status status = possible ? state_->allocate(size, q.stream()->handle(), &address) : 0;
    if (!possible || (status != 0 && state_->driver().is_out_of_memory(status)))
      throw OutOfMemoryError("out of GPU memory: cannot allocate " + readable_bytes(bytes));
    q.check(status, "cannot allocate GPU memory");
    return address;
  }

  std::shared_ptr<State> state_;
  CudaKernels kernels_;
  CudaTfhe tfhe_;
};

}  // namespace

bool is_built() { return true; }

int count(std::string* reason) { return count_gpus(reason); }
bool is_usable(int ordinal) { return trouble_with_gpu(ordinal).empty(); }

std::unique_ptr<device::Device> make_device(int ordinal) { return make_device(make_driver(ordinal)); }

std::unique_ptr<device::Device> make_device(std::shared_ptr<Driver> driver) {
  return std::make_unique<CudaDevice>(std::move(driver));
}

}  // namespace heliograph::backend::cuda
