#include <sched.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/tfhe.h"
#include "backend/inline_queue.h"

namespace heliograph::backend::cpu {

namespace {

constexpr math::u64 kCeilingPrime = 1125899904679937;  // a prime just below 2^50

const TfheOps& tfhe_of(const InstructionSet& set) {
#if defined(__x86_64__)
  // Compare the name instead of calling the set's functions: a processor without these instructions must not run any of the
  // set's code, including its constructors.
  const std::string_view name = set.name;
  if (name == "avx2") return avx2_tfhe();
  if (name == "avx512") return avx512_tfhe();
#endif
  return scalar_tfhe();
}

class CpuDevice final : public device::Device, private device::Measurement {
 public:
  CpuDevice(const InstructionSet& set, int threads)
      : pool_(std::make_shared<MemoryPool>()),
        kernels_(slot_, set, threads, *pool_),
        tfhe_(slot_, tfhe_of(set), kernels_.thread_pool(), *pool_) {}

  std::string name() const override { return "cpu"; }
  std::string description() const override {
    const int n = kernels_.threads();
    return std::to_string(n) + (n == 1 ? " thread, " : " threads, ") + kernels_.instructions().description;
  }
  device::MemoryState memory() const override { return pool_->state(); }
  device::Buffer allocate(std::size_t bytes, device::Queue&) override { return pool_->allocate(bytes); }
  std::unique_ptr<device::Queue> make_queue() override {
    return std::make_unique<InlineQueue<CpuKernels, CpuTfheKernels>>(kernels_, tfhe_);
  }
  void upload(device::Queue&, std::span<const std::byte> from, std::byte* to) override {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }
  void download(device::Queue&, const std::byte* from, std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
  }
  device::Kernels& kernels() override { return kernels_; }
  bool in_host_memory() const override { return true; }
  device::Capabilities capabilities() override { return {.measurement = this, .tfhe = &tfhe_}; }
  double product_ceiling() override { return kernels_.instructions().product_ceiling(make_modulus(kCeilingPrime)); }
  double sum_ceiling() override { return kernels_.instructions().sum_ceiling(make_modulus(kCeilingPrime)); }
  device::Rates measure_rates() override { return device::measured_rates(*this, kernels_.threads()); }
  MemoryPool& pool() { return *pool_; }

 private:
  const device::Slot slot_;
  std::shared_ptr<MemoryPool> pool_;
  CpuKernels kernels_;
  CpuTfheKernels tfhe_;
};

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

bool has_avx512() {
#if defined(__x86_64__)
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512ifma") &&
         __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

const InstructionSet& choose_instructions(std::string wanted) {
  if (wanted.empty()) {
    const char* const forced = std::getenv("HELIOGRAPH_CPU");
    if (forced) wanted = forced;
  }
  const std::string best = has_avx512() ? "avx512" : has_avx2() ? "avx2" : "scalar";
  if (wanted.empty()) wanted = best;
  if (wanted == "scalar") return scalar_instructions();
#if defined(__x86_64__)
  if (wanted == "avx2" && has_avx2()) return avx2_instructions();
  if (wanted == "avx512" && has_avx512()) return avx512_instructions();
#endif
  throw ParameterError("this processor does not support the instruction set \"" + wanted + "\"; it supports scalar" +
                       (has_avx2() ? ", avx2" : "") + (has_avx512() ? ", avx512" : ""));
}

int choose_threads(int wanted) {
  if (wanted == 0) {
    if (const char* const given = std::getenv("HELIOGRAPH_THREADS"); given && *given) {
      char* end = nullptr;
      const long value = std::strtol(given, &end, 10);
      if (*end != '\0' || value < 1 || value > 512) {
        throw ParameterError("HELIOGRAPH_THREADS must be a number of threads from 1 to 512, not \"" + std::string(given) +
                             "\"");
      }
      wanted = static_cast<int>(value);
    } else {
      cpu_set_t set;
      wanted = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                           : static_cast<int>(std::thread::hardware_concurrency());
      wanted = std::min(std::max(wanted, 1), 512);
    }
  }
  if (wanted < 1 || wanted > 512)
    throw ParameterError("the number of threads must be 1 to 512, not " + std::to_string(wanted));
  return wanted;
}

}  // namespace

std::unique_ptr<device::Device> make_device(const std::string& set, int threads) {
  return std::make_unique<CpuDevice>(choose_instructions(set), choose_threads(threads));
}

void fail_allocation(device::Device& device, std::size_t k) {
  auto* const mine = dynamic_cast<CpuDevice*>(&device);
  require<ParameterError>(mine != nullptr, "fail_allocation needs a cpu device");
  mine->pool().fail_at(k);
}

}  // namespace heliograph::backend::cpu
