// Shared parts of the workbench's GPU programs: device memory, timing by events, device properties. Needs only the CUDA runtime.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "report.h"

namespace workbench {

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

/// An array in GPU memory.
template <class T>
class Array {
 public:
  explicit Array(std::size_t count) : count_(count) { check(cudaMalloc(&data_, count * sizeof(T)), "cudaMalloc"); }
  explicit Array(const std::vector<T>& from) : Array(from.size()) {
    check(cudaMemcpy(data_, from.data(), bytes(), cudaMemcpyHostToDevice), "upload");
  }
  ~Array() { cudaFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  std::vector<T> download(std::size_t first, std::size_t count) const {
    std::vector<T> to(count);
    check(cudaMemcpy(to.data(), data_ + first, count * sizeof(T), cudaMemcpyDeviceToHost), "download");
    return to;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

/// Returns the median GPU time of `body` over `repeats` runs in seconds, after two warm-up runs.
template <class Body>
double seconds(int repeats, Body body) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<double> taken;
  for (int i = -2; i < repeats; ++i) {
    check(cudaEventRecord(begin), "cudaEventRecord");
    body();
    check(cudaEventRecord(end), "cudaEventRecord");
    check(cudaEventSynchronize(end), "a kernel");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    if (i >= 0) taken.push_back(milliseconds * 1e-3);
  }
  cudaEventDestroy(begin), cudaEventDestroy(end);
  return median(taken);
}

/// Adds the device's properties to `report` and returns its number of multiprocessors.
inline int describe(Report& report) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  int driver = 0, runtime = 0, clock = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  check(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0), "cudaDeviceGetAttribute");
  report.settings.add("device", properties.name)
      .add("multiprocessors", properties.multiProcessorCount)
      .add("clock_mhz", clock / 1000)
      .add("l2_bytes", static_cast<std::size_t>(properties.l2CacheSize))
      .add("driver", driver)
      .add("runtime", runtime);
  std::printf("%s, %d multiprocessors, %d MHz\n", properties.name, properties.multiProcessorCount, clock / 1000);
  return properties.multiProcessorCount;
}

}  // namespace workbench
