#include "ring/engine.h"

#include <algorithm>

namespace heliograph::ring {

Engine::Engine(device::Device& device, std::shared_ptr<const math::Ring> ring)
    : Session(device), prepared_(device.kernels().prepare(std::move(ring))) {}

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

device::PermutationHandle Engine::automorphism(u64 galois, Domain domain) {
  const std::lock_guard lock(mutex_);
  auto& slot = automorphisms_[{galois, domain}];
  if (!slot) {
    slot = with_room(8 * ring().n(), [&] { return kernels().prepare(automorphism_permutation(ring(), galois, domain)); });
  }
  return slot;
}

std::shared_ptr<const device::ProductConstant> Engine::product(device::GatheredProduct product) {
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
