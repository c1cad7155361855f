#include "ring/engine.h"

#include <unistd.h>
#include <algorithm>

namespace heliograph::ring {

Engine::Engine(device::Device& device, std::shared_ptr<const math::Ring> ring)
    : device_(device),
      prepared_(device.kernels().prepare(std::move(ring))),
      queue_(device.make_queue()),
      process_(getpid()) {}

device::Queue& Engine::queue() const {
  if (getpid() != process_)
    throw ForkError("Heliograph cannot be used in a child process after a fork; start the child with 'spawn'");
  return *queue_;
}

bool Engine::make_room(std::size_t bytes, std::size_t missing, u64 seen) const {
  device::Residents& residents = device_.residents();
  const device::MemoryState m = device_.memory();
  // A hopeless wish costs nobody their memory.
  if (bytes > m.available + m.pooled + residents.evictable_bytes()) return residents.evicted_bytes() != seen;
  return residents.make_room(missing, seen);
}

template <class Attempt>
auto Engine::with_room(std::size_t bytes, Attempt attempt) const {
  for (;;) {
    const u64 seen = device_.residents().evicted_bytes();
    try {
      return attempt();
    } catch (const OutOfMemoryError&) {
      if (!make_room(bytes, bytes, seen)) throw;
    }
  }
}

device::Buffer Engine::allocate(std::size_t bytes) const {
  return with_room(bytes, [&] { return device_.allocate(bytes, queue()); });
}

device::Buffer Engine::allocate(const View& shape, const PrimeList& primes) const {
  return with_room(shape.words() * shape.word_size(), [&] { return device_.allocate(shape, primes, queue()); });
}

std::size_t Engine::free_memory() const {
  queue();  // a child of a fork must not ask its parent's device
  const device::MemoryState m = device_.memory();
  return m.available + m.pooled + device_.residents().evictable_bytes();
}

void Engine::require_memory(std::size_t bytes, const char* purpose) const {
  queue();  // a child of a fork must not ask its parent's device
  for (;;) {
    const u64 seen = device_.residents().evicted_bytes();
    const device::MemoryState m = device_.memory();
    const std::size_t have = m.available + m.pooled;
    if (bytes <= have) return;
    if (!make_room(bytes, bytes - have, seen)) {
      throw OutOfMemoryError(std::string(purpose) + " needs " + readable_bytes(bytes) + ", you have " +
                             readable_bytes(have + device_.residents().evictable_bytes()));
    }
  }
}

namespace {

device::Permutation automorphism_permutation(const math::Ring& ring, u64 galois, Domain domain) {
  const std::size_t n = ring.n();
  if (domain == Domain::ntt) return {.source = math::automorphism_table(n, galois)};
  device::Permutation p{.source = std::vector<math::u32>(n), .negate = std::vector<bool>(n)};
  for (u64 i = 0; i < n; ++i) {
    const u64 target = i * galois % (2 * n);  // X^i goes to X^target, X^N = -1
    p.source[target % n] = static_cast<math::u32>(i);
    p.negate[target % n] = target >= n;
  }
  return p;
}

}  // namespace

const device::PreparedPermutation& Engine::automorphism(u64 galois, Domain domain) {
  const std::lock_guard lock(mutex_);
  auto& slot = automorphisms_[{galois, domain}];
  if (!slot) {
    slot = with_room(8 * ring().n(), [&] { return kernels().prepare(automorphism_permutation(ring(), galois, domain)); });
  }
  return *slot;
}

std::shared_ptr<const device::PreparedProduct> Engine::product(device::GatheredProduct product) {
  constexpr std::size_t kKept = 64, kKeptEntries = std::size_t{1} << 24;  // products, and their weights and indices in all
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(products_.begin(), products_.end(), [&](const auto& kept) { return kept->product() == product; });
  if (found != products_.end()) {
    products_.splice(products_.begin(), products_, found);
    return products_.front();
  }
  const std::size_t bytes = product.weights.size() * sizeof(math::i64) + product.index.size() * sizeof(math::u32);
  products_.push_front(with_room(bytes, [&] { return kernels().prepare(product); }));
  std::size_t count = 0, entries = 0;
  for (auto p = products_.begin(); p != products_.end();) {
    entries += (*p)->product().weights.size() + (*p)->product().index.size();
    p = ++count > 1 && (count > kKept || entries > kKeptEntries) ? products_.erase(p) : std::next(p);
  }
  return products_.front();
}

}  // namespace heliograph::ring
