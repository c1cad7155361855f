#include "backend/null/null.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "backend/inline_queue.h"
#include "device/kernels.h"

namespace heliograph::backend::null {

namespace {

using device::Buffer;
using device::Queue;
using math::u64;

/// Counts, and bytes of live memory. Allocations share this object, because they may outlive the device.
class Ledger {
 public:
  void add(const char* kernel, const Count& count) {
    const std::lock_guard lock(mutex_);
    counts_[kernel] += count;
  }

  std::map<std::string, Count> counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

  void reset() {
    const std::lock_guard lock(mutex_);
    counts_.clear();
    peak_ = live_;
  }

  /// Returns a new address. Addresses are never reused, so an address identifies its allocation.
  std::byte* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t step = bytes / 64 * 64 + 64;
    if (bytes > kSpace || next_ + step > kFirst + kSpace)
      throw OutOfMemoryError("the null device's address space is exhausted; start a new process");
    const std::size_t address = next_;
    next_ += step;
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    return reinterpret_cast<std::byte*>(address);
  }

  void release(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    live_ -= bytes;
  }

  std::size_t live() const { return locked(live_); }
  std::size_t peak() const { return locked(peak_); }

  static constexpr std::size_t kFirst = std::size_t{1} << 40, kSpace = std::size_t{1} << 62;

 private:
  std::size_t locked(const std::size_t& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }

  mutable std::mutex mutex_;
  std::map<std::string, Count> counts_;
  std::size_t next_ = kFirst, live_ = 0, peak_ = 0;
};

class NullMemory final : public device::Memory {
 public:
  NullMemory(std::shared_ptr<Ledger> ledger, std::size_t bytes)
      : Memory(ledger->allocate(bytes), bytes), ledger_(std::move(ledger)) {}
  ~NullMemory() override { ledger_->release(bytes_); }

 private:
  std::shared_ptr<Ledger> ledger_;
};

class NullKernels final : public device::Kernels {
 public:
  NullKernels(const device::Slot& slot, std::size_t items) : Kernels(slot), items_(items) {}
  std::size_t preferred_items(std::size_t) const override { return items_; }

 private:
  std::size_t items_;
};

class NullTfheKernels final : public device::TfheKernels {
 public:
  NullTfheKernels(const device::Slot& slot, std::size_t items) : TfheKernels(slot), items_(items) {}
  std::size_t parallel_bootstraps(const device::BootstrapShape&) const override { return items_; }

 private:
  std::size_t items_;
};

/// Queue that counts calls; a composite is counted as the calls that it consists of.
class NullQueue final : public Queue {
 public:
  explicit NullQueue(std::shared_ptr<Ledger> ledger) : ledger_(std::move(ledger)) {}
  bool supports(const device::Call& call) const override {
    return std::visit([]<class C>(const C&) { return !device::CountedInParts<C>; }, call);
  }
  std::shared_ptr<device::Event> record() override { return std::make_shared<DoneEvent>(); }
  void after(const device::Event&) override {}
  void uses(const Buffer&) override {}
  void wait() override {}

 protected:
  void perform(const device::Call& call) override {
    std::visit(
        [&]<class C>(const C& c) {
          if constexpr (device::CountedInParts<C>)
            expand(c);
          else
            ledger_->add(C::name, device::work(c));
        },
        call);
  }

 private:
  std::shared_ptr<Ledger> ledger_;
};

class Implementation final : public NullDevice, private device::Peers {
 public:
  explicit Implementation(std::size_t items)
      : ledger_(std::make_shared<Ledger>()), kernels_(slot_, items), tfhe_(slot_, items) {}

  std::string name() const override { return "null"; }
  std::string description() const override { return "computes nothing, counts bytes and products"; }
  device::MemoryState memory() const override {
    return {.total = Ledger::kSpace, .available = Ledger::kSpace - ledger_->live()};
  }
  Buffer allocate(std::size_t bytes, Queue&) override { return std::make_shared<NullMemory>(ledger_, bytes); }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<NullQueue>(ledger_); }
  void upload(Queue&, std::span<const std::byte> from, std::byte*) override {
    ledger_->add("upload", {.calls = 1, .bytes_written = from.size()});
  }
  void download(Queue&, const std::byte*, std::span<std::byte> to) override {
    ledger_->add("download", {.calls = 1, .bytes_read = to.size()});
    if (!to.empty()) std::memset(to.data(), 0, to.size());
  }
  device::Kernels& kernels() override { return kernels_; }
  device::Capabilities capabilities() override { return {.counter = this, .peers = this, .tfhe = &tfhe_}; }
  bool reaches(const device::Device& other) const override { return dynamic_cast<const NullDevice*>(&other) != nullptr; }

  std::map<std::string, Count> counts() const override { return ledger_->counts(); }
  Count total() const override {
    Count sum;
    for (const auto& [kernel, count] : ledger_->counts()) sum += count;
    return sum;
  }
  void reset() override { ledger_->reset(); }
  std::size_t live_bytes() const override { return ledger_->live(); }
  std::size_t peak_bytes() const override { return ledger_->peak(); }

 private:
  const device::Slot slot_;
  std::shared_ptr<Ledger> ledger_;
  NullKernels kernels_;
  NullTfheKernels tfhe_;
};

}  // namespace

std::unique_ptr<NullDevice> make_device(std::size_t preferred_items) {
  return std::make_unique<Implementation>(preferred_items);
}

}  // namespace heliograph::backend::null
