// How kernels cut their work.
#pragma once

#include <algorithm>
#include <vector>

#include "backend/cpu/kernels.h"

namespace heliograph::backend::cpu {

/// Below so many words a loop is not worth waking threads for.
inline constexpr std::size_t kWorthSharing = 16384;

/// Vector loops take at least so many words.
inline constexpr std::size_t kLeastVector = 64;

inline std::byte* address(const device::View& v, std::size_t item, std::size_t component, std::size_t limb) {
  return v.address(item, component, limb);
}

inline const CpuRing& own(const device::PreparedRing& ring) {
  const auto* mine = dynamic_cast<const CpuRing*>(&ring);
  require<MismatchError>(mine != nullptr, "a ring prepared for another device");
  return *mine;
}

inline const CpuConversion& own(const device::PreparedConversion& conversion) {
  const auto* mine = dynamic_cast<const CpuConversion*>(&conversion);
  require<MismatchError>(mine != nullptr, "a conversion prepared for another device");
  return *mine;
}

inline const CpuPermutation& own(const device::PreparedPermutation& permutation) {
  const auto* mine = dynamic_cast<const CpuPermutation*>(&permutation);
  require<MismatchError>(mine != nullptr, "a permutation prepared for another device");
  return *mine;
}

/// Address of a stretch; a view with one component serves every component of a result.
inline std::byte* stretch(const device::View& v, std::size_t item, std::size_t component, std::size_t limb,
                          std::size_t first) {
  return address(v, item, v.components == 1 ? 0 : component, limb) + first * v.word_size();
}

/// A conversion has fewer sources.
inline constexpr std::size_t kMaxSources = 64;

template <class F>
void CpuKernels::each_limb(const View& out, F&& f) {
  const std::size_t units = out.items() * out.components * out.limbs;
  const std::size_t grain = units * out.n < kWorthSharing ? units : std::max<std::size_t>(1, 8192 / out.n);
  threads_.parallel_for(units, std::max<std::size_t>(grain, 1), [&](std::size_t unit, std::size_t) {
    f(Place{unit / out.limbs / out.components, unit / out.limbs % out.components, unit % out.limbs});
  });
}

template <class F>
void CpuKernels::each_stretch(const View& out, F&& f) {
  if (out.n == 0) return;
  const std::size_t units = out.items() * out.components * out.limbs;
  const std::size_t wanted =
      threads_.usable() > 1 && units < 4 * static_cast<std::size_t>(threads_.threads()) ? 4096 : out.n;
  const std::size_t count = std::min(out.n, wanted), parts = (out.n + count - 1) / count;
  const std::size_t grain = units * out.n < kWorthSharing ? units * parts : std::max<std::size_t>(1, 8192 / count);
  threads_.parallel_for(units * parts, std::max<std::size_t>(grain, 1), [&](std::size_t i, std::size_t) {
    const std::size_t unit = i / parts, first = i % parts * count;
    f(Place{unit / out.limbs / out.components, unit / out.limbs % out.components, unit % out.limbs}, first,
      std::min(count, out.n - first));
  });
}

template <class F>
void CpuKernels::each_item(std::size_t items, std::size_t bytes, Workspace w, F&& f) {
  const std::size_t threads = static_cast<std::size_t>(threads_.usable()), whole = items / threads * threads;
  std::vector<Workspace> slots(threads, w);
  if (whole > 0) {
    for (Workspace& slot : slots) slot = w.split(bytes);
  }
  threads_.parallel_for(whole, 1, [&](std::size_t item, std::size_t worker) { f(item, slots[worker]); });
  for (std::size_t item = whole; item < items; ++item) f(item, slots[0]);
}

}  // namespace heliograph::backend::cpu
