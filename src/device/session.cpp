#include "device/session.h"

#include <algorithm>

#include "base/host_memory.h"
#include "base/process.h"
#include "base/progress.h"
#include "base/secret.h"
#include "device/chunks.h"
#include "device/expand.h"

namespace heliograph::device {

namespace {

/// Host memory for secrets, in pages that hold no other data.
class SecretPages final : public Memory {
 public:
  explicit SecretPages(std::size_t bytes) : Memory(static_cast<std::byte*>(allocate_secret(bytes)), bytes) {}
  ~SecretPages() override { free_secret(address_, bytes_); }
};

/// Device memory that is wiped before it returns to its pool.
class Wiped final : public Memory {
 public:
  Wiped(Buffer inner, View whole, Device& device, std::shared_ptr<Queue> queue)
      : Memory(inner->address(), inner->bytes()),
        inner_(std::move(inner)),
        whole_(std::move(whole)),
        device_(device),
        queue_(std::move(queue)),
        in_host_memory_(device.in_host_memory()) {
    whole_ = whole_.lent();
    whole_.data = address_;
  }
  ~Wiped() override {
    if (in_host_memory_) {  // kernels on the host have finished when their calls return
      wipe(address_, bytes_);
    } else if (process_.is_here()) {  // a forked child has no device to wipe
      try {
        queue_->enqueue(Zero{whole_});
      } catch (...) {  // a failed device executes no calls; the device's other users report the fault
      }
    }
  }

 private:
  Buffer inner_;
  View whole_;
  Device& device_;
  std::shared_ptr<Queue> queue_;
  bool in_host_memory_;
  ProcessMark process_;
};

}  // namespace

void require_words(const View& view) {
  require<RecordingError>(
      view.memory == nullptr || !view.memory->blank(),
      "this tensor was created during a dry recording (a program records its function again for operands of other noise, "
      "sizes or scales) and holds no data; use the program's return value");
}

Session::Session(Device& device) : Session(device, device.make_queue()) {}
Session::Session(Device& device, std::shared_ptr<Queue> queue) : device_(device), queue_(std::move(queue)) {}

Queue& Session::queue() const {
  if (!process_.is_here())
    throw ForkError("cannot use Heliograph in a child process after a fork; start the child with 'spawn'");
  return *queue_;
}

Scratch::Scratch(const Session& session, const Call& like, std::size_t items) {
  const std::size_t bytes = session.cuts_batches() ? scratch_bytes(like, items) : 0;
  if (bytes > 0) buffer_ = session.allocate(bytes);
}

std::size_t Session::items_at_once(const Call& call) const {
  const std::size_t each = cuts_batches() ? scratch_bytes(call, 1) : 0;
  return each > 0 ? stretch_of(call, kernels().preferred_items(each)) : 0;
}

std::size_t Session::items_at_once(std::size_t bytes, std::size_t items) const {
  return cuts_batches() ? std::min(kernels().preferred_items(bytes), items) : items;
}

std::size_t Session::scratch_wanted(const Call& call) const {
  const std::size_t at_once = items_at_once(call);
  return at_once > 0 ? scratch_bytes(call, at_once) : 0;
}

void Session::enqueue_observed(Call& call, bool reports) const {
  bool performs = true;
  notify_observers([&](Observer& o) { performs = o.enqueues(*this, call) && performs; });
  if (!performs) check(call);
  each_view(call, [&](View& v, Access access) {
    if (performs && access != Access::write) require_words(v);
    if (!performs && access != Access::read && v.memory) v.memory->leave_blank();
    v.memory = nullptr;  // the caller keeps the memory alive, so copies of the call need no reference to it
  });
  if (!performs) return;
  const std::size_t at_once = scratch_of(call).empty() ? items_at_once(call) : 0;
  const std::size_t bytes = at_once > 0 ? scratch_bytes(call, at_once) : 0;
  const Buffer scratch = bytes > 0 ? allocate(bytes) : nullptr;
  enqueue_cut(std::move(call), scratch ? Workspace(scratch->address(), bytes) : Workspace(), at_once, reports);
}

void Session::enqueue_in(Call call, const Workspace& scratch) const {
  const std::size_t at_once = scratch.empty() ? 0 : items_at_once(call);
  enqueue_cut(std::move(call), scratch, at_once, false);
}

void Session::enqueue_cut(Call call, const Workspace& scratch, std::size_t at_once, bool reports) const {
  const std::size_t items = scratch.empty() && !reports ? 0 : items_of(call);
  std::optional<ProgressSteps> steps;
  if (reports) steps.emplace(items);
  if (scratch.empty() || at_once == 0 || at_once >= items) {  // enqueue the whole batch at once
    if (!scratch.empty()) give_scratch(call, scratch);
    if (scratch.empty() || items > 0) queue().enqueue(call);
    if (steps) steps->add(items);
    return;
  }
  for_stretches(call, at_once, [&](Call& part) {
    give_scratch(part, scratch);
    queue().enqueue(part);
    if (steps) steps->add(items_of(part));
  });
}

bool Session::make_room(std::size_t bytes, std::size_t missing, u64 seen) const {
  Residents& residents = device_.residents();
  const MemoryState m = device_.memory();
  // Do not evict if eviction cannot satisfy the request.
  const std::size_t have = m.available + m.pooled;
  if (bytes > have + residents.evictable_bytes()) return residents.evicted_bytes() != seen;
  // Evict only the shortfall; reloading a key is slow.
  return residents.make_room(bytes > have ? std::min(missing, bytes - have) : missing, seen);
}

Buffer Session::allocate(std::size_t bytes) const {
  return with_room(bytes, [&] { return device_.allocate(bytes, queue()); });
}

Buffer Session::allocate(const View& shape, const PrimeList& primes, Secrecy secrecy) const {
  const std::size_t bytes = shape.bytes();
  Buffer buffer;
  if (secrecy == Secrecy::lasting && device_.in_host_memory()) {
    buffer = std::make_shared<SecretPages>(bytes);
  } else {
    buffer = with_room(bytes, [&] { return device_.allocate(shape, primes, queue()); });
    // A counting device (backend/null) has no words to wipe.
    if (secrecy != Secrecy::open && bytes > 0 && device_.counter() == nullptr)
      buffer = std::make_shared<Wiped>(std::move(buffer), shape, device_, queue_);
  }
  buffer->is_for({.word = shape.word, .components = shape.components, .limbs = shape.limbs, .n = shape.n});
  notify_observers([&](Observer& o) { o.allocated(buffer, shape, primes, secrecy); });
  return buffer;
}

void Session::upload(std::span<const std::byte> from, const View& to) const {
  notify_observers([&](Observer& o) { o.uploads(to, from); });
  device_.upload(queue(), from, to.data);
}

void Session::download(const View& from, std::span<std::byte> to) const {
  notify_observers([&](Observer& o) { o.downloads(from); });
  require_words(from);
  device_.download(queue(), from.data, to);
}

void Session::scatter(std::span<const std::byte> from, const View& to) const {
  notify_observers([&](Observer& o) { o.uploads(to, std::nullopt); });
  device_.scatter(queue(), from, to.bytes(), to.data);
}

void Session::gather(const View& from, std::span<std::byte> to) const {
  notify_observers([&](Observer& o) { o.downloads(from); });
  require_words(from);
  device_.gather(queue(), from.data, from.bytes(), to);
}

std::size_t Session::free_memory() const {
  queue();  // a forked child must not query its parent's device
  const MemoryState m = device_.memory();
  return m.available + m.pooled + device_.residents().evictable_bytes();
}

void Session::require_memory(std::size_t bytes, const char* purpose) const {
  queue();  // a forked child must not query its parent's device
  for (;;) {
    const u64 seen = device_.residents().evicted_bytes();
    const MemoryState m = device_.memory();
    const std::size_t have = m.available + m.pooled;
    if (bytes <= have) return;
    if (!make_room(bytes, bytes - have, seen)) {
      throw OutOfMemoryError(std::string(purpose) + " needs " + readable_bytes(bytes) + ", you have " +
                             readable_bytes(have + device_.residents().evictable_bytes()));
    }
  }
}

void Session::require_host_memory(std::size_t bytes, const char* purpose) const {
  constexpr std::size_t kLittle = std::size_t{1} << 26;
  if (bytes <= kLittle) return;
  if (device_.in_host_memory()) return require_memory(bytes, purpose);
  if (const std::size_t have = available_host_memory(); bytes > have) {
    throw OutOfMemoryError(std::string(purpose) + " needs " + readable_bytes(bytes) + " on the host, you have " +
                           readable_bytes(have));
  }
}

}  // namespace heliograph::device
