#include "backend/ref/ref.h"

#include <cstring>
#include <new>

#include "backend/inline_queue.h"
#include "backend/ref/kernels.h"
#include "backend/ref/tfhe.h"
#include "base/host_memory.h"

namespace heliograph::backend::ref {

namespace {

using device::Buffer;
using device::Memory;
using device::MemoryState;
using device::Queue;

constexpr std::align_val_t kAlignment{64};

class HostMemory final : public Memory {
 public:
  HostMemory(std::byte* address, std::size_t bytes) : Memory(address, bytes) {}
  ~HostMemory() override { ::operator delete(address_, kAlignment); }
};

class RefDevice final : public device::Device {
 public:
  std::string name() const override { return "ref"; }
  std::string description() const override { return "reference code, one thread"; }

  MemoryState memory() const override { return {.total = host_memory(), .available = available_host_memory()}; }

  Buffer allocate(std::size_t bytes, Queue&) override {
    void* address = nullptr;
    if (bytes <= memory().total) address = ::operator new(bytes > 0 ? bytes : 1, kAlignment, std::nothrow);
    if (address == nullptr) throw OutOfMemoryError("cannot allocate " + readable_bytes(bytes));
    return std::make_shared<HostMemory>(static_cast<std::byte*>(address), bytes);
  }

  std::unique_ptr<Queue> make_queue() override {
    return std::make_unique<InlineQueue<RefKernels, RefTfheKernels>>(kernels_, tfhe_);
  }

  void upload(Queue&, std::span<const std::byte> from, std::byte* to) override {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }

  void download(Queue&, const std::byte* from, std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
  }

  device::Kernels& kernels() override { return kernels_; }
  bool in_host_memory() const override { return true; }
  device::Capabilities capabilities() override { return {.tfhe = &tfhe_}; }

 private:
  const device::Slot slot_;
  RefKernels kernels_{slot_};
  RefTfheKernels tfhe_{slot_};
};

}  // namespace

std::unique_ptr<device::Device> make_device() { return std::make_unique<RefDevice>(); }

}  // namespace heliograph::backend::ref
