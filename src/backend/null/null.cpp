#include "backend/null/null.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "backend/inline_queue.h"
#include "backend/null/tfhe.h"
#include "device/kernels.h"

namespace heliograph::backend::null {

namespace {

using device::Buffer;
using device::Draw;
using device::LimbConstants;
using device::PreparedConversion;
using device::PreparedPermutation;
using device::PreparedProduct;
using device::PreparedRing;
using device::PrimeList;
using device::Queue;
using device::View;
using math::u64;

/// Counts and live memory. Held by every allocation too: these may outlive the device.
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

  /// A fresh address: never reused, so an operand is known by where it lies.
  std::byte* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t step = bytes / 64 * 64 + 64;
    if (bytes > kSpace || next_ + step > kFirst + kSpace)
      throw OutOfMemoryError("the null device's address space is used up");
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

/// The bytes a view covers, repeated ones once.
u64 bytes(const View& v) {
  u64 words = v.limbs * v.n * (v.component_stride == 0 ? 1 : v.components);
  for (int i = 0; i < v.axes; ++i) words *= v.stride[i] == 0 && v.shape[i] > 0 ? 1 : v.shape[i];
  return words * v.word_size();
}

bool same(const View& a, const View& b) {
  return a.data == b.data && a.axes == b.axes && a.shape == b.shape && a.stride == b.stride &&
         a.components == b.components && a.limbs == b.limbs;
}

u64 bytes(const View& a, const View& b) { return same(a, b) ? bytes(a) : bytes(a) + bytes(b); }

/// The pairs of a weight and an input, padding left out, in one component of one limb.
class NullProduct final : public PreparedProduct {
 public:
  explicit NullProduct(device::GatheredProduct p) : PreparedProduct(std::move(p)) {
    for (math::u32 i : product().index) gathered_ += i != device::GatheredProduct::kNone;
  }
  u64 pairs() const { return gathered_ * product().outputs; }

 private:
  u64 gathered_ = 0;
};

class NullKernels final : public device::Kernels {
 public:
  NullKernels(std::shared_ptr<Ledger> ledger, std::size_t items) : ledger_(std::move(ledger)), items_(items) {}

  std::shared_ptr<const PreparedRing> prepare(std::shared_ptr<const math::Ring> ring) override {
    return std::make_shared<PreparedRing>(std::move(ring));
  }
  std::shared_ptr<const PreparedConversion> prepare(math::Conversion conversion) override {
    return std::make_shared<PreparedConversion>(std::move(conversion));
  }
  std::shared_ptr<const PreparedPermutation> prepare(device::Permutation permutation) override {
    return std::make_shared<PreparedPermutation>(std::move(permutation));
  }
  std::shared_ptr<const PreparedProduct> prepare(device::GatheredProduct product) override {
    return std::make_shared<NullProduct>(std::move(product));
  }
  std::size_t preferred_items(std::size_t) const override { return items_; }

 protected:
  void do_add(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& b, const View& out) override {
    count("add", bytes(a, b), out, 0);
  }
  void do_sub(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& b, const View& out) override {
    count("sub", bytes(a, b), out, 0);
  }
  void do_neg(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& out) override {
    count("neg", bytes(a), out, 0);
  }
  void do_mul(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& b, const View& out) override {
    count("mul", bytes(a, b), out, out.words());
  }
  void do_mul_accumulate(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& b,
                         const View& out) override {
    count("mul_accumulate", bytes(a, b) + bytes(out), out, out.words());
  }
  void do_mul_constants(Queue&, const PreparedRing&, const PrimeList&, const View& a, const LimbConstants&,
                        const View& out) override {
    count("mul_constants", bytes(a), out, out.words());
  }
  void do_add_constants(Queue&, const PreparedRing&, const PrimeList&, const View& a, const LimbConstants&, math::Domain,
                        const View& out) override {
    count("add_constants", bytes(a), out, 0);
  }
  void do_forward_ntt(Queue&, const PreparedRing& ring, const PrimeList&, const View& a, const View& out) override {
    count("forward_ntt", bytes(a), out, out.words() / 2 * static_cast<u64>(ring.ring().log_n()));
  }
  void do_inverse_ntt(Queue&, const PreparedRing& ring, const PrimeList&, const View& a, const View& out) override {
    count("inverse_ntt", bytes(a), out, out.words() / 2 * static_cast<u64>(ring.ring().log_n()));
  }
  void do_permute(Queue&, const PreparedRing&, const PrimeList&, const PreparedPermutation&, const View& a,
                  const View& out) override {
    count("permute", bytes(a), out, 0);
  }

  void do_convert(Queue&, const PreparedConversion& c, const View& x, const View* own, const View& out,
                  const PrimeList*) override {
    const u64 sources = c.conversion().sources(), targets = c.conversion().targets();
    const u64 coefficients = out.items() * out.components * out.n;
    // Only the targets' limbs of `own` and `out` are touched.
    const u64 owned = own ? bytes(own->with_limbs(0, targets)) : 0;
    count("convert", bytes(x) + owned, out.with_limbs(0, targets),
          coefficients * (sources + sources * targets + (own ? targets : 0)));
  }

  void do_inner_product(Queue&, const PreparedRing&, const PrimeList& primes, const View& digits, const View& key,
                        const PrimeList&, const View& out) override {
    const u64 read = bytes(key.with_components(0, digits.components * out.components).with_limbs(0, primes.size()));
    count("inner_product", bytes(digits) + read, out, digits.components * out.words());
  }
  void do_tensor(Queue&, const PreparedRing&, const PrimeList& primes, const View& a, const View& b,
                 const View& out) override {
    count("tensor", bytes(a, b), out, a.components * b.components * out.items() * primes.size() * out.n);
  }
  void do_product(Queue&, const PreparedRing&, const PrimeList&, const PreparedProduct& p, const View& in,
                  const View& out) override {
    const auto* own = dynamic_cast<const NullProduct*>(&p);
    require<MismatchError>(own != nullptr, "a matrix product prepared for another device");
    count("product", bytes(in), out, own->pairs() * out.components * out.limbs * out.n);
  }
  void do_sample(Queue&, const PreparedRing&, const PrimeList&, const Draw&, const View& out) override {
    count("sample", 0, out, 0);
  }
  void do_copy(Queue&, const View& a, const View& out) override { count("copy", bytes(a), out, 0); }
  void do_gather(Queue&, std::span<const device::Piece> pieces) override {
    Count sum{.calls = 1};
    for (const device::Piece& p : pieces) sum.bytes_read += bytes(p.from), sum.bytes_written += bytes(p.to);
    ledger_->add("gather", sum);
  }
  void do_zero(Queue&, const View& out) override { count("zero", 0, out, 0); }

 private:
  void count(const char* kernel, u64 read, const View& out, u64 products) {
    ledger_->add(kernel, {.calls = 1, .bytes_read = read, .bytes_written = bytes(out), .products = products});
  }

  std::shared_ptr<Ledger> ledger_;
  std::size_t items_;
};

class Implementation final : public NullDevice {
 public:
  explicit Implementation(std::size_t items)
      : ledger_(std::make_shared<Ledger>()),
        kernels_(ledger_, items),
        tfhe_([ledger = ledger_](const char* kernel, const Count& count) { ledger->add(kernel, count); }, items) {}

  std::string name() const override { return "null"; }
  std::string description() const override { return "computes nothing, counts bytes and products"; }
  device::MemoryState memory() const override {
    return {.total = Ledger::kSpace, .available = Ledger::kSpace - ledger_->live()};
  }
  Buffer allocate(std::size_t bytes, Queue&) override { return std::make_shared<NullMemory>(ledger_, bytes); }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<InlineQueue>(); }
  void upload(Queue&, std::span<const std::byte> from, std::byte*) override {
    ledger_->add("upload", {.calls = 1, .bytes_written = from.size()});
  }
  void download(Queue&, const std::byte*, std::span<std::byte> to) override {
    ledger_->add("download", {.calls = 1, .bytes_read = to.size()});
    if (!to.empty()) std::memset(to.data(), 0, to.size());
  }
  device::Kernels& kernels() override { return kernels_; }
  device::TfheKernels& tfhe() override { return tfhe_; }
  bool reaches(const device::Device& other) const override { return dynamic_cast<const NullDevice*>(&other) != nullptr; }
  device::Counter* counter() override { return this; }

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
  std::shared_ptr<Ledger> ledger_;
  NullKernels kernels_;
  NullTfheKernels tfhe_;
};

}  // namespace

std::unique_ptr<NullDevice> make_device(std::size_t preferred_items) {
  return std::make_unique<Implementation>(preferred_items);
}

}  // namespace heliograph::backend::null
