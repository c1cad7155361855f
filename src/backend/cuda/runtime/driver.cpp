#include "backend/cuda/runtime/driver.h"

#include <cuda_runtime_api.h>
#include <mutex>
#include <unordered_map>

namespace heliograph::backend::cuda {

namespace {

constexpr std::size_t kDefaultShared = 48 << 10;  // bytes; kernels with more shared memory need an attribute

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw DeviceError(std::string(what) + ": " + cudaGetErrorString(status));
}

class Runtime final : public Driver {
 public:
  explicit Runtime(int ordinal) : ordinal_(ordinal) {
    check(cudaDeviceGetDefaultMemPool(&pool_, ordinal), "cannot open the GPU's memory pool");
    int major = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal), "cannot read the GPU's properties");
    overlaps_ = major >= 9;
    std::uint64_t keep = ~std::uint64_t{0};
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep), "cannot set up the GPU's memory pool");
  }

  int ordinal() const override { return ordinal_; }

  Properties properties() override {
    cudaDeviceProp p{};
    check(cudaGetDeviceProperties(&p, ordinal_), "cannot read the GPU's properties");
    std::string identity = "GPU-";
    for (const char byte : p.uuid.bytes) {
      const auto value = static_cast<unsigned char>(byte);
      identity += "0123456789abcdef"[value >> 4], identity += "0123456789abcdef"[value & 15];
    }
    return {.name = p.name,
            .identity = identity,
            .major = p.major,
            .minor = p.minor,
            .processors = p.multiProcessorCount,
            .memory = p.totalGlobalMem,
            .shared_bytes_a_block = p.sharedMemPerBlockOptin,
            .l2_bytes = static_cast<std::size_t>(p.l2CacheSize)};
  }

  Status memory(std::size_t* available, std::size_t* total, std::size_t* pooled) override {
    bind();
    std::uint64_t reserved = 0, used = 0;
    cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved);
    cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &used);
    *pooled = reserved - used;
    return cudaMemGetInfo(available, total);
  }

  Status make_stream(StreamHandle* s) override {
    bind();
    return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(s), cudaStreamNonBlocking);
  }
  Status destroy_stream(StreamHandle s) override { return bind(), cudaStreamDestroy(stream(s)); }
  Status make_event(EventHandle* e) override {
    bind();
    return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(e), cudaEventDisableTiming);
  }
  Status destroy_event(EventHandle e) override { return bind(), cudaEventDestroy(static_cast<cudaEvent_t>(e)); }
  Status record(EventHandle e, StreamHandle s) override {
    return bind(), cudaEventRecord(static_cast<cudaEvent_t>(e), stream(s));
  }
  Status wait_event(StreamHandle s, EventHandle e) override {
    return bind(), cudaStreamWaitEvent(stream(s), static_cast<cudaEvent_t>(e), 0);
  }
  Status synchronize_event(EventHandle e) override { return bind(), cudaEventSynchronize(static_cast<cudaEvent_t>(e)); }
  Status synchronize(StreamHandle s) override { return bind(), cudaStreamSynchronize(stream(s)); }
  Status allocate(void** p, std::size_t bytes, StreamHandle s) override {
    bind();
    const cudaError_t status = cudaMallocAsync(p, bytes, stream(s));
    // clears the error, so that the next launch does not report it
    if (status == cudaErrorMemoryAllocation) cudaGetLastError();
    return status;
  }
  Status free(void* p, StreamHandle s) override { return bind(), cudaFreeAsync(p, stream(s)); }
  Status trim(std::size_t bytes) override {
    bind();
    std::uint64_t reserved = 0;
    cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved);
    return cudaMemPoolTrimTo(pool_, reserved > bytes ? reserved - bytes : 0);
  }
  Status pin(void* pages, std::size_t bytes) override {
    bind();
    const cudaError_t status = cudaHostRegister(pages, bytes, cudaHostRegisterPortable);
    if (status != cudaSuccess) cudaGetLastError();  // clears the error, so that the next launch does not report it
    return status;
  }
  Status unpin(void* pages) override { return bind(), cudaHostUnregister(pages); }
  Status upload(void* to, const void* from, std::size_t bytes, StreamHandle s) override {
    return bind(), cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream(s));
  }
  Status download(void* to, const void* from, std::size_t bytes, StreamHandle s) override {
    return bind(), cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream(s));
  }
  Status launch(const Launch& l, StreamHandle s) override {
    bind();
    if (l.shared_bytes > kDefaultShared) {
      const std::lock_guard lock(mutex_);
      std::size_t& allowed = shared_[l.function];
      if (allowed < l.shared_bytes) {
        const cudaError_t status =
            cudaFuncSetAttribute(l.function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(l.shared_bytes));
        if (status != cudaSuccess) return status;
        allowed = l.shared_bytes;
      }
    }
    cudaLaunchAttribute overlap{};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(l.blocks), config.blockDim = dim3(l.threads);
    config.dynamicSmemBytes = l.shared_bytes;
    config.stream = stream(s);
    config.attrs = &overlap;
    config.numAttrs = overlaps_ ? 1 : 0;
    return cudaLaunchKernelExC(&config, l.function, l.arguments);
  }
  int number() const override { return ordinal_; }
  bool reach(Driver& other) override {
    const auto* const theirs = dynamic_cast<const Runtime*>(&other);
    if (theirs == nullptr) return false;
    if (theirs->ordinal_ == ordinal_) return true;
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] = reached_.try_emplace(theirs->ordinal_, false);
    if (is_new) known->second = map_memory_of(*theirs);
    return known->second;
  }
  Status begin_capture(StreamHandle s) override {
    return bind(), cudaStreamBeginCapture(stream(s), cudaStreamCaptureModeThreadLocal);
  }
  Status end_capture(StreamHandle s, void** executable) override {
    bind();
    cudaGraph_t graph = nullptr;
    cudaError_t status = cudaStreamEndCapture(stream(s), &graph);
    if (status == cudaSuccess) status = cudaGraphInstantiate(reinterpret_cast<cudaGraphExec_t*>(executable), graph, 0);
    if (graph) cudaGraphDestroy(graph);
    return status;
  }
  Status replay(void* graph, StreamHandle s) override {
    return bind(), cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream(s));
  }
  Status destroy_graph(void* graph) override { return bind(), cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }
  std::string describe(Status s) override { return cudaGetErrorString(static_cast<cudaError_t>(s)); }
  bool is_out_of_memory(Status s) override { return s == cudaErrorMemoryAllocation; }
  bool is_fault(Status s) override {
    switch (s) {
      case cudaErrorIllegalAddress:
      case cudaErrorLaunchFailure:
      case cudaErrorLaunchTimeout:
      case cudaErrorAssert:
      case cudaErrorHardwareStackError:
      case cudaErrorIllegalInstruction:
      case cudaErrorMisalignedAddress:
      case cudaErrorInvalidAddressSpace:
      case cudaErrorInvalidPc:
      case cudaErrorECCUncorrectable:
      case cudaErrorDevicesUnavailable:
      case cudaErrorUnknown:
        return true;
      default:
        return false;
    }
  }

 private:
  static cudaStream_t stream(StreamHandle s) { return static_cast<cudaStream_t>(s); }

  /// Makes this GPU the thread's current device, because other code of the thread may have changed it.
  void bind() const {
    int current = -1;
    if (cudaGetDevice(&current) != cudaSuccess || current != ordinal_) cudaSetDevice(ordinal_);
  }

  /// Grants another GPU access to this GPU's memory pool, which has all memory; cudaDeviceEnablePeerAccess is not needed.
  bool map_memory_of(const Runtime& other) const {
    bind();
    int can = 0;
    cudaError_t status = cudaDeviceCanAccessPeer(&can, ordinal_, other.ordinal_);
    if (status == cudaSuccess && can) {
      cudaMemAccessDesc access{};
      access.location.type = cudaMemLocationTypeDevice;
      access.location.id = ordinal_;
      access.flags = cudaMemAccessFlagsProtReadWrite;
      status = cudaMemPoolSetAccess(other.pool_, &access, 1);
    }
    if (status != cudaSuccess) cudaGetLastError();  // clears the error, so that the next launch does not report it
    return status == cudaSuccess && can;
  }

  int ordinal_;
  cudaMemPool_t pool_ = nullptr;
  bool overlaps_ = false;  // whether a kernel may start while the previous one runs: see take_turn
  std::mutex mutex_;
  std::unordered_map<const void*, std::size_t> shared_;
  std::unordered_map<int, bool> reached_;  // whether this GPU reaches another, by the other's ordinal
};

}  // namespace

std::shared_ptr<Driver> make_driver(int ordinal) {
  std::string reason;
  const int count = count_gpus(&reason);
  if (ordinal >= count) {
    throw DeviceError(count == 0 ? "cannot open a GPU: " + reason
                                 : "cannot open GPU " + std::to_string(ordinal) + ": this machine has " +
                                       std::to_string(count) + " GPUs");
  }
  if (const std::string trouble = trouble_with_gpu(ordinal); !trouble.empty()) throw DeviceError(trouble);
  return std::make_shared<Runtime>(ordinal);
}

int count_gpus(std::string* reason) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  if (reason) *reason = status == cudaSuccess ? "the driver lists no GPU" : cudaGetErrorString(status);
  return 0;
}

std::string trouble_with_gpu(int ordinal) {
  cudaError_t status = cudaSetDevice(ordinal);
  cudaFuncAttributes ignored{};
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&ignored, probe_kernel());
  cudaDeviceProp p{};
  if (status != cudaSuccess) cudaGetLastError(), cudaGetDeviceProperties(&p, ordinal);
  switch (status) {
    case cudaSuccess:
      return "";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorInvalidKernelImage:
    case cudaErrorInvalidPtx:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorJitCompilationDisabled:
      return std::string("this build has no code for ") + p.name + " (compute capability " + std::to_string(p.major) + "." +
             std::to_string(p.minor) + "); build for it as in docs/gpu.md";
    default:
      return "GPU " + std::to_string(ordinal) + " cannot be used: " + cudaGetErrorString(status);
  }
}

}  // namespace heliograph::backend::cuda
