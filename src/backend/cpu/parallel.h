// How kernels split their work among threads.
#pragma once

#include <algorithm>
#include <vector>

#include "backend/cpu/kernels.h"
#include "device/chunks.h"
#include "device/expand.h"

namespace heliograph::backend::cpu {

/// Loops with fewer words run on one thread: waking others costs more.
inline constexpr std::size_t kWorthSharing = 16384;

/// Vector loops process at least this many words.
inline constexpr std::size_t kLeastVector = 64;

inline std::byte* address(const device::View& v, std::size_t item, std::size_t component, std::size_t limb) {
  return v.address(item, component, limb);
}

/// Returns the address of word `first` of a limb; a view with one component serves every component of the result.
inline std::byte* stretch(const device::View& v, std::size_t item, std::size_t component, std::size_t limb,
                          std::size_t first) {
  return address(v, item, v.components == 1 ? 0 : component, limb) + first * v.word_size();
}

/// Returns the number of adjacent words of the result that use one word of the operand.
inline std::size_t run_of(const device::View& v, const device::View& out) { return out.n / v.n; }
/// Writes words [first, first + count) of a limb in which each word of `from` repeats `run` times.
void repeat(const std::byte* from, std::size_t word, std::size_t run, std::size_t first, std::size_t count, std::byte* to);

/// Results of more bytes leave the caches before a later kernel reads them.
inline constexpr std::size_t kCached = std::size_t{32} << 20;

/// Block size in words of sums of products: the terms of a block fit the first-level cache.
inline constexpr std::size_t kBlock = 512;

/// `count` blocks in a thread's scratch, each aligned to cache lines.
class Blocks {
 public:
  Blocks(std::size_t count, std::size_t block, std::size_t word)
      : stride_((block * word + 63) / 64 * 64), memory_(static_cast<std::byte*>(thread_scratch(count * stride_))) {}
  std::byte* operator[](std::size_t i) const { return memory_ + i * stride_; }

 private:
  std::size_t stride_;
  std::byte* memory_;
};

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

/// Runs `f` on each item's call, with separate scratch; an operand that serves all items is passed to each call.
template <class C, class F>
void CpuKernels::each_item(const C& c, F&& f) {
  const std::size_t items = device::items_of(c), threads = static_cast<std::size_t>(threads_.usable());
  const std::size_t whole = items / threads * threads, bytes = device::scratch_bytes(c, 1);
  Workspace all = device::scratch_of(c);
  std::vector<Workspace> slots(threads, all);
  if (whole > 0) {
    for (Workspace& slot : slots) slot = all.split(bytes);
  }
  const auto run_one = [&](std::size_t item, std::size_t worker) {
    C one = c;
    device::each_view(one, [&](View& v, device::Access) { v = v.item(v.items() == 1 ? 0 : item); });
    if constexpr (requires { one.scratch; }) one.scratch = slots[worker];
    f(one);
  };
  threads_.parallel_for(whole, 1, run_one);
  for (std::size_t item = whole; item < items; ++item) run_one(item, 0);
}

}  // namespace heliograph::backend::cpu
