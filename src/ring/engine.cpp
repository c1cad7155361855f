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
    const u64 target = i * galois % (2 * n);  // X^i maps to X^target; X^N = -1 gives the sign
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
  const std::lock_guard lock(mutex_);
  return products_.get(
      [&](const device::ProductConstant& kept) { return kept.product() == product; },
      [&] {
        const std::size_t bytes = product.weights.size() * sizeof(math::i64) + product.index.size() * sizeof(math::u32);
        return with_room(bytes, [&] { return kernels().prepare(product); });
      },
      [](const device::ProductConstant& kept) { return kept.product().weights.size() + kept.product().index.size(); });
}

}  // namespace heliograph::ring
