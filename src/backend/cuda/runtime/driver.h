// The calls this backend makes of the CUDA runtime, counted; a test puts its own in place (no GPU is needed for that).
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "device/device.h"

namespace heliograph::backend::cuda {

using StreamHandle = void*;
using EventHandle = void*;

/// A CUDA status; 0 is success.
using Status = int;

struct Launch {
  const char* kernel;  // the contract's name for it: what an error names
  const void* function;
  unsigned blocks, threads;
  std::size_t shared_bytes;
  void** arguments;
};

struct Properties {
  std::string name;
  std::string identity;  // of this very GPU among all: its UUID
  int major = 0, minor = 0, processors = 0;
  std::size_t memory = 0, shared_bytes_a_block = 0, l2_bytes = 0;
};

class Driver {
 public:
  virtual ~Driver() = default;
  virtual Properties properties() = 0;
  /// The CUDA runtime's number of this GPU; -1 where there is none behind it.
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
  /// Gives at least so many bytes that the pool holds and nobody uses back to the system, or all of them.
  virtual Status trim(std::size_t bytes) = 0;
  /// Locks whole pages of the host, so that copies from and to them need no other memory in between.
  virtual Status pin(void* pages, std::size_t bytes) = 0;
  virtual Status unpin(void* pages) = 0;
  /// Of memory that is not locked, `from` may be reused at return, and `to` is filled.
  virtual Status upload(void* to, const void* from, std::size_t bytes, StreamHandle) = 0;
  virtual Status download(void* to, const void* from, std::size_t bytes, StreamHandle) = 0;
  virtual Status launch(const Launch&, StreamHandle) = 0;
  /// Whether kernels of this GPU may read the memory of `other`; the first call sees to it that they may.
  virtual bool reach(Driver& other) = 0;
  /// Which GPU it is: equal where two drivers are of one.
  virtual int number() const = 0;
  /// Graphs: work enqueued between the two is recorded instead of run; end gives something to replay.
  virtual Status begin_capture(StreamHandle) = 0;
  virtual Status end_capture(StreamHandle, void** graph) = 0;
  virtual Status replay(void* graph, StreamHandle) = 0;
  virtual Status destroy_graph(void* graph) = 0;
  virtual std::string describe(Status) = 0;
  /// Whether a status means that memory ran out, and nothing worse.
  virtual bool is_out_of_memory(Status) = 0;
  /// Whether a status ends the use of the GPU in this process: a kernel's bad access, a lost GPU.
  virtual bool is_fault(Status) = 0;
};

/// The CUDA runtime on the GPU of that number. Throws DeviceError where there is none, or none that this build has code for.
std::shared_ptr<Driver> make_driver(int ordinal);
/// How many GPUs the CUDA runtime finds; 0 where it finds no driver. `reason` says why there are none.
int count_gpus(std::string* reason = nullptr);
/// Why the GPU of that number, one of count_gpus(), cannot be used; empty where it can.
std::string trouble_with_gpu(int ordinal);
/// A kernel that does nothing: where the GPU has no code for it, it has none for the others.
const void* probe_kernel();

}  // namespace heliograph::backend::cuda
