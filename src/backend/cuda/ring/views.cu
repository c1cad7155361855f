#include <bit>

#include "backend/cuda/ring/passes.h"

namespace heliograph::backend::cuda {

Strided strided(const device::View& v) {
  Strided s{};
  s.data = v.data;
  s.word_bytes = static_cast<u32>(v.word_size());
  s.component = v.component_stride;
  s.limb = v.limb_stride;
  for (int i = 0; i < v.axes; ++i) {
    if (v.shape[i] == 1 && s.axes > 0) continue;
    const u32 extent = static_cast<u32>(v.shape[i]);
    if (s.axes > 0) {
      const u32 before = s.shape[s.axes - 1].value;
      // Merges this axis with the previous axis if their strides allow it, or if the previous axis has one entry.
      if (before == 1 || s.stride[s.axes - 1] == static_cast<math::i64>(v.shape[i]) * v.stride[i]) {
        s.shape[s.axes - 1] = Divisor(before * extent);
        s.stride[s.axes - 1] = v.stride[i];
        continue;
      }
    }
    s.shape[s.axes] = Divisor(extent);
    s.stride[s.axes] = v.stride[i];
    ++s.axes;
  }
  return s;
}

u32 run_shift(const device::View& v, std::size_t n) { return static_cast<u32>(std::countr_zero(n / v.n)); }

Primes primes_of(const device::PrimeList& list) {
  Primes p{};
  for (std::size_t i = 0; i < list.size(); ++i) p.index[i] = list[i];
  return p;
}

Source plain_source(const View& a) {
  Source s{};
  s.kind = Source::plain;
  s.a = strided(a);
  return s;
}

}  // namespace heliograph::backend::cuda
