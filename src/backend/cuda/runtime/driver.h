// Interface to the CUDA runtime, with counts of its calls. Tests replace the driver by a fake and need no GPU.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "device/device.h"

namespace heliograph::backend::cuda {

using StreamHandle = void*;
using EventHandle = void*;

using Status = int;

struct Launch {
  const char* kernel;  // name of the call in device/call.h, for errors
  const void* function;
  unsigned blocks, threads;
  std::size_t shared_bytes;
  void** arguments;
};

struct Properties {
  std::string name;
  std::string identity;  // UUID of the GPU
  int major = 0, minor = 0, processors = 0;
  std::size_t memory = 0, shared_bytes_a_block = 0, l2_bytes = 0;
};

class Driver {
 public:
  virtual ~Driver() = default;
  virtual Properties properties() = 0;
  /// Returns the ordinal of this GPU in the CUDA runtime; -1 without a GPU.
  virtual int ordinal() const { return -1; }
  virtual Status memory(std::size_t* available, std::size_t* total, std::size_t* pooled) = 0;
  virtual Status make_stream(StreamHandle*) = 0;
  virtual Status destroy_stream(StreamHandle) = 0;
  virtual Status make_event(EventHandle*) = 0;
  virtual Status destroy_event(EventHandle) = 0;
  virtual Status record(EventHandle, StreamHandle) = 0;
  virtual Status wait_event(StreamHandle, EventHandle) = 0;
  virtual Status synchronize_event(EventHandle) = 0;
  virtual Status synchronize(StreamHandle) = 0;
  virtual Status allocate(void**, std::size_t bytes, StreamHandle) = 0;
  virtual Status free(void*, StreamHandle) = 0;
  /// Returns at least `bytes` of the pool's unused memory to the system, or all unused memory if there is less.
  virtual Status trim(std::size_t bytes) = 0;
  /// Locks whole pages of host memory, so that copies need no intermediate buffer.
  virtual Status pin(void* pages, std::size_t bytes) = 0;
  virtual Status unpin(void* pages) = 0;
  /// Copies. If the host memory is not locked, `from` may be reused when upload returns, and `to` is filled when download
  /// returns.
  virtual Status upload(void* to, const void* from, std::size_t bytes, StreamHandle) = 0;
  virtual Status download(void* to, const void* from, std::size_t bytes, StreamHandle) = 0;
  virtual Status launch(const Launch&, StreamHandle) = 0;
  /// Returns whether kernels of this GPU may read the memory of `other`; the first call grants access.
  virtual bool reach(Driver& other) = 0;
  /// Returns a number that two drivers of one GPU share.
  virtual int number() const = 0;
  /// CUDA graphs. Work enqueued between begin_capture and end_capture is recorded instead of run; end_capture returns the
  /// graph.
  virtual Status begin_capture(StreamHandle) = 0;
  virtual Status end_capture(StreamHandle, void** graph) = 0;
  virtual Status replay(void* graph, StreamHandle) = 0;
  virtual Status destroy_graph(void* graph) = 0;
  virtual std::string describe(Status) = 0;
  virtual bool is_out_of_memory(Status) = 0;
  /// Returns whether a status ends the use of the GPU in this process, such as an illegal access of a kernel or a lost GPU.
  virtual bool is_fault(Status) = 0;
};

/// Opens the CUDA runtime on the GPU `ordinal`. Throws DeviceError if there is none, or if this build has no code for it.
std::shared_ptr<Driver> make_driver(int ordinal);
/// Returns the number of GPUs that the CUDA runtime finds, 0 without a driver. If there is no GPU, `reason` states why.
int count_gpus(std::string* reason = nullptr);
/// Returns why the GPU `ordinal` cannot be used; empty if it can. Requires ordinal < count_gpus().
std::string trouble_with_gpu(int ordinal);
/// Returns an empty kernel. If a build has no code of this kernel for a GPU, the build has no code of the other kernels for
/// the GPU.
const void* probe_kernel();

}  // namespace heliograph::backend::cuda
