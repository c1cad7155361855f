#include "backend/rtl/driver.h"

#include <sys/mman.h>
#include <algorithm>
#include <cstring>

#include "backend/rtl/models.h"
#include "backend/rtl/scheduler.h"

namespace heliograph::backend::rtl {

namespace card = heliograph::rtl;
namespace reg = heliograph::rtl::reg;
using device::ConversionConstant;
using device::PermutationConstant;
using device::RingConstant;

namespace {

constexpr u64 kMemory = u64{4} << 30;  // size of the card's memory in bytes
constexpr unsigned kLogRing = 12;      // log2 of the number of descriptors in the ring
constexpr u64 kRingBytes = u64{64} << kLogRing;
constexpr u64 kAlign = 64;
constexpr std::size_t kLongList = 1 << 15;  // number of steps after which the list is run

/// Twiddles of a ring in the card's memory, computed for each prime at first use.
class CardRing final : public device::FormOf<RingConstant> {
 public:
  explicit CardRing(const RingConstant& ring) : FormOf(ring), tables(ring.ring().primes().size()) {}
  mutable std::vector<device::Buffer> tables;
};

class CardConversion final : public device::FormOf<ConversionConstant> {
 public:
  using FormOf::FormOf;
  std::vector<device::Buffer> groups;  // constants for each group of targets
  std::vector<u32> beats;
};

class CardPermutation final : public device::FormOf<PermutationConstant> {
 public:
  CardPermutation(const PermutationConstant& p, u64 exponent, bool order) : FormOf(p), galois(exponent), ntt_order(order) {}
  u64 galois;
  bool ntt_order;
};

}  // namespace

/// Memory of the card. The memory is freed when the last reference ends, which may be after the device's end.
class Driver::Block final : public device::Memory {
 public:
  Block(std::shared_ptr<Driver> driver, u64 address, std::size_t bytes)
      : device::Memory(driver->memory_.data() + address, bytes), driver_(std::move(driver)) {}
  ~Block() override {
    const std::lock_guard lock(driver_->mutex_);
    driver_->release(driver_->address(address_), bytes_);
  }

 private:
  std::shared_ptr<Driver> driver_;
};

Driver::Driver(const Options& options) : options_(options) {
  void* const at = mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw OutOfMemoryError("cannot allocate 4 GiB for a simulated card's memory");
  memory_ = {static_cast<std::byte*>(at), kMemory};
  card_ = make_card(options.butterflies, memory_, options.seed, options.stalls);
  shape_ = card_->shape();
  free_.emplace(kRingBytes, kMemory - kRingBytes);
  card_->write(reg::kBase, 0);
  card_->write(reg::kBaseHigh, 0);
  card_->write(reg::kLogSize, kLogRing);
  card_->write(reg::kControl, 1);
  cycles_.clock = options.clock * 1e6;
}

Driver::~Driver() {
  card_ = nullptr;
  munmap(memory_.data(), memory_.size());
}

u64 Driver::take(u64 bytes) {
  const u64 size = std::max<u64>(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    if (at->second < size) continue;
    const u64 address = at->first, left = at->second - size;
    free_.erase(at);
    if (left > 0) free_.emplace(address + size, left);
    used_ += size;
    return address;
  }
  throw OutOfMemoryError("cannot allocate " + readable_bytes(bytes) + " in the card's memory of " + readable_bytes(kMemory) +
                         "; use smaller batches, or the device cpu");
}

void Driver::give(u64 address, u64 bytes) {
  u64 size = std::max<u64>(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
  used_ -= size;
  auto next = free_.lower_bound(address);
  if (next != free_.end() && address + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == address)
    std::prev(next)->second += size;
  else
    free_.emplace(address, size);
}

void Driver::release(u64 address, u64 bytes) {
  std::erase_if(wide_,
                [&](const Wide& w) { return this->address(w.to) >= address && this->address(w.to) < address + bytes; });
  if (!list_.touches(address, bytes)) return give(address, bytes);
  list_.release(address, bytes);
  waiting_.emplace_back(address, bytes);
}

device::Buffer Driver::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  u64 at = 0;
  try {
    at = take(bytes);
  } catch (const OutOfMemoryError&) {
    if (waiting_.empty()) throw;
    flush();
    at = take(bytes);
  }
  return std::make_shared<Block>(shared_from_this(), at, bytes);
}

device::MemoryState Driver::memory() const {
  const std::lock_guard lock(mutex_);
  return {.total = kMemory - kRingBytes, .available = kMemory - kRingBytes - used_};
}

void Driver::put_words(u64 address, const std::vector<u32>& words) {
  std::memcpy(memory_.data() + address, words.data(), 4 * words.size());
}

void Driver::check_status() {
  const u32 status = card_->read(reg::kStatus);
  if ((status & 15) == 1) return;
  fault_ = (status & 2) != 0   ? "a bus error"
           : (status & 4) != 0 ? "two units used one bank"
           : (status & 8) != 0 ? "an unknown instruction"
                               : "no progress";
  throw DeviceError("the card failed: " + fault_);
}

void Driver::run(const std::vector<Descriptor>& descriptors) {
  constexpr u32 kSize = 1u << kLogRing;
  constexpr u64 kPatience = u64{1} << 26;  // cycles without progress before an error
  for (std::size_t next = 0; next < descriptors.size();) {
    const u32 room = kSize - (tail_ - card_->read(reg::kHead));
    for (u32 i = 0; i < room && next < descriptors.size(); ++i, ++next, ++tail_)
      std::memcpy(memory_.data() + u64{64} * (tail_ % kSize), descriptors[next].data(), 64);
    card_->write(reg::kTail, tail_);
    if (next < descriptors.size()) card_->run(4096);
  }
  if (!card_->run(kPatience)) check_status();
  card_->write(reg::kInterrupt, 1);
}

void Driver::flush() {
  const std::lock_guard lock(mutex_);
  if (!fault_.empty()) throw DeviceError("the card failed: " + fault_);
  const List list = std::exchange(list_, {});
  const auto wide = std::exchange(wide_, {});
  const auto back = std::exchange(waiting_, {});
  if (!list.empty()) {
    std::vector<Descriptor> descriptors = schedule(shape_, list, [&](u64 bytes) { return lend(bytes); });
    Descriptor last = card::instruction(card::Op::fence, 9);
    last[0] |= 1u << 23;
    descriptors.push_back(last);
    card_->write(reg::kControl, 3);  // resets the counters
    run(descriptors);
    check_status();
    const auto of = [&](card::Counter c) { return card_->counter(c); };
    Forecast model = forecast(shape_, descriptors);
    spans_ = std::move(model.spans);
    cycles_.lists += 1, cycles_.descriptors += descriptors.size();
    cycles_.cycles += of(card::Counter::cycles), cycles_.predicted += model.cycles;
    cycles_.waited += of(card::Counter::waited);
    const u64 beat = static_cast<u64>(shape_.beat_bytes());
    cycles_.bytes_read += beat * of(card::Counter::beats_read),
        cycles_.bytes_written += beat * of(card::Counter::beats_written);
    for (int u = 0; u < kUnits; ++u)  // the units' counters follow in the order of the units
      cycles_.busy[kUnitNames[static_cast<std::size_t>(u)]] +=
          of(static_cast<card::Counter>(static_cast<int>(card::Counter::ntt) + u));
  }
  for (const Wide& w : wide) {
    for (std::size_t i = 0; i < w.n; ++i) {
      u32 word = 0;
      std::memcpy(&word, memory_.data() + w.from + 4 * i, 4);
      const u64 value = word;
      std::memcpy(w.to + 8 * i, &value, 8);
    }
  }
  for (const auto& [address, bytes] : back) give(address, bytes);
  for (const auto& [address, bytes] : lent_) give(address, bytes);
  lent_.clear();
}

void Driver::flush_over(const std::byte* data, std::size_t bytes) {
  const auto overlaps = [&](const Wide& w) { return data < w.to + 8 * w.n && w.to < data + bytes; };
  if (list_.touches(address(data), bytes) || std::any_of(wide_.begin(), wide_.end(), overlaps)) flush();
}

void Driver::flush_if_long() {
  if (list_.steps().size() > kLongList) flush();
}

std::unique_ptr<const device::Form> Driver::form(const RingConstant& ring) {
  check_ring(ring.ring(), shape_);
  return std::make_unique<CardRing>(ring);
}

Resource Driver::twiddles(const RingConstant& ring, math::PrimeIndex prime) {
  const CardRing& own = device::form_on<CardRing>(ring, slot_);
  device::Buffer& table = own.tables[prime];
  const math::Ring& r = ring.ring();
  if (!table) {
    const u64 q = r.prime(prime);
    std::vector<u32> words;
    for (const u64 w : math::forward_twiddles(r.n(), r.root(prime), q))
      words.push_back(static_cast<u32>(math::mul_mod(w, card::kWordEnd % q, q)));
    table = allocate(4 * r.n());
    put_words(address(table->address()), words);
  }
  return {.address = address(table->address()), .beats = 0, .log_n = r.log_n(), .words = table};
}

std::unique_ptr<const device::Form> Driver::form(const ConversionConstant& constant) {
  const math::Conversion& c = constant.conversion();
  check_conversion(c, shape_);
  auto made = std::make_unique<CardConversion>(constant);
  const auto most = static_cast<std::size_t>(shape_.targets);
  for (std::size_t first = 0; first < c.targets(); first += most) {
    const std::size_t count = std::min(most, c.targets() - first);
    std::vector<u32> words = card::constant_records(c, first, count, static_cast<std::size_t>(shape_.beat_words()));
    made->beats.push_back(static_cast<u32>(words.size() / static_cast<std::size_t>(shape_.beat_words())));
    made->groups.push_back(allocate(4 * words.size()));
    put_words(address(made->groups.back()->address()), words);
  }
  return made;
}

Resource Driver::constants(const ConversionConstant& conversion, std::size_t first) {
  const CardConversion& own = device::form_on<CardConversion>(conversion, slot_);
  const std::size_t group = first / static_cast<std::size_t>(shape_.targets);
  return {
      .address = address(own.groups[group]->address()), .beats = own.beats[group], .log_n = 9, .words = own.groups[group]};
}

std::unique_ptr<const device::Form> Driver::form(const PermutationConstant& constant) {
  const device::Permutation& p = constant.permutation();
  u64 g = p.galois_of_values();
  const bool ntt_order = g != 0;
  if (!ntt_order) g = p.galois_of_coefficients();
  return std::make_unique<CardPermutation>(constant, g, ntt_order);
}

u64 Driver::galois(const PermutationConstant& permutation, bool& ntt_order) {
  const CardPermutation& own = device::form_on<CardPermutation>(permutation, slot_);
  ntt_order = own.ntt_order;
  return own.galois;
}

u64 Driver::lend(u64 bytes) {
  lent_.emplace_back(take(bytes), bytes);
  return lent_.back().first;
}

u64 Driver::narrowed(const std::byte* words, std::size_t n) {
  std::vector<u32> limb(n);
  for (std::size_t i = 0; i < n; ++i) {
    u64 value = 0;
    std::memcpy(&value, words + 8 * i, 8);
    limb[i] = static_cast<u32>(value);
  }
  const u64 at = lend(4 * n);
  put_words(at, limb);
  moved += n;
  return at;
}

u64 Driver::repeated(const std::byte* words, std::size_t n, int log_run) {
  std::vector<u32> limb(n);
  for (std::size_t i = 0; i < n; ++i) std::memcpy(&limb[i], words + 4 * (i >> log_run), 4);
  const u64 at = lend(4 * n);
  put_words(at, limb);
  moved += n;
  return at;
}

u64 Driver::widened(std::byte* words, std::size_t n) {
  const u64 at = lend(4 * n);
  wide_.push_back({words, at, n});
  moved += n;
  return at;
}

}  // namespace heliograph::backend::rtl
