#include "backend/cpu/kernels.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/parallel.h"

namespace heliograph::backend::cpu {

using device::LimbConstants;
using device::PreparedConversion;
using device::PreparedPermutation;
using device::PreparedProduct;
using device::PreparedRing;
using device::PrimeList;
using device::Queue;
using device::View;
using math::Word;

std::shared_ptr<const PreparedRing> CpuKernels::prepare(std::shared_ptr<const math::Ring> ring) {
  return std::make_shared<CpuRing>(std::move(ring), level_, pool_, threads_);
}

std::shared_ptr<const PreparedConversion> CpuKernels::prepare(math::Conversion conversion) {
  return std::make_shared<CpuConversion>(std::move(conversion));
}

std::shared_ptr<const PreparedPermutation> CpuKernels::prepare(device::Permutation permutation) {
  return std::make_shared<CpuPermutation>(std::move(permutation));
}

std::shared_ptr<const PreparedProduct> CpuKernels::prepare(device::GatheredProduct product) {
  return std::make_shared<CpuProduct>(std::move(product), level_);
}

// ---- element-wise

void CpuKernels::do_add(Queue&, const Ring& ring, const Primes& primes, const View& a, const View& b, const View& out) {
  const CpuRing& r = own(ring);
  each_stretch(out, [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(primes[p.limb]);
    limb.ops->add(limb.modulus, stretch(a, p.item, p.component, p.limb, first),
                  stretch(b, p.item, p.component, p.limb, first), stretch(out, p.item, p.component, p.limb, first), count);
  });
}

void CpuKernels::do_sub(Queue&, const Ring& ring, const Primes& primes, const View& a, const View& b, const View& out) {
  const CpuRing& r = own(ring);
  each_stretch(out, [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(primes[p.limb]);
    limb.ops->sub(limb.modulus, stretch(a, p.item, p.component, p.limb, first),
                  stretch(b, p.item, p.component, p.limb, first), stretch(out, p.item, p.component, p.limb, first), count);
  });
}

void CpuKernels::do_neg(Queue&, const Ring& ring, const Primes& primes, const View& a, const View& out) {
  const CpuRing& r = own(ring);
  each_stretch(out, [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(primes[p.limb]);
    limb.ops->neg(limb.modulus, stretch(a, p.item, p.component, p.limb, first),
                  stretch(out, p.item, p.component, p.limb, first), count);
  });
}

void CpuKernels::do_mul(Queue&, const Ring& ring, const Primes& primes, const View& a, const View& b, const View& out) {
  const CpuRing& r = own(ring);
  each_stretch(out, [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(primes[p.limb]);
    limb.ops->mul(limb.modulus, stretch(a, p.item, p.component, p.limb, first),
                  stretch(b, p.item, p.component, p.limb, first), stretch(out, p.item, p.component, p.limb, first), count);
  });
}

void CpuKernels::do_mul_accumulate(Queue&, const Ring& ring, const Primes& primes, const View& a, const View& b,
                                   const View& out) {
  const CpuRing& r = own(ring);
  each_stretch(out, [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(primes[p.limb]);
    const void* const x = stretch(a, p.item, p.component, p.limb, first);
    const void* const y = stretch(b, p.item, p.component, p.limb, first);
    void* const sum = stretch(out, p.item, p.component, p.limb, first);
    limb.ops->dot(limb.modulus, 1, &x, &y, sum, sum, count);
  });
}

void CpuKernels::do_mul_constants(Queue&, const Ring& ring, const Primes& primes, const View& a, const LimbConstants& c,
                                  const View& out) {
  const CpuRing& r = own(ring);
  each_stretch(out, [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(primes[p.limb]);
    limb.ops->mul_constant(limb.modulus, stretch(a, p.item, p.component, p.limb, first), c[p.limb],
                           stretch(out, p.item, p.component, p.limb, first), count);
  });
}

void CpuKernels::do_add_constants(Queue& q, const Ring& ring, const Primes& primes, const View& a, const LimbConstants& c,
                                  math::Domain domain, const View& out) {
  const CpuRing& r = own(ring);
  if (domain == math::Domain::coefficient) {
    do_copy(q, a, out);
    each_limb(out, [&](Place p) {
      const u64 prime = r.limb(primes[p.limb]).modulus.q;
      std::byte* const at = address(out, p.item, p.component, p.limb);
      if (out.word == Word::w32) {
        u32& x = *reinterpret_cast<u32*>(at);
        x = static_cast<u32>(math::add_mod(x, c[p.limb], prime));
      } else {
        u64& x = *reinterpret_cast<u64*>(at);
        x = math::add_mod(x, c[p.limb], prime);
      }
    });
    return;
  }
  each_stretch(out, [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(primes[p.limb]);
    limb.ops->add_constant(limb.modulus, stretch(a, p.item, p.component, p.limb, first), c[p.limb],
                           stretch(out, p.item, p.component, p.limb, first), count);
  });
}

// ---- transforms

void CpuKernels::do_forward_ntt(Queue&, const Ring& ring, const Primes& primes, const View& a, const View& out) {
  const CpuRing& r = own(ring);
  each_limb(out, [&](Place p) {
    const Limb& limb = r.limb(primes[p.limb]);
    limb.ops->forward(limb, address(a, p.item, p.component, p.limb), address(out, p.item, p.component, p.limb));
  });
}

void CpuKernels::do_inverse_ntt(Queue&, const Ring& ring, const Primes& primes, const View& a, const View& out) {
  const CpuRing& r = own(ring);
  each_limb(out, [&](Place p) {
    const Limb& limb = r.limb(primes[p.limb]);
    limb.ops->inverse(limb, address(a, p.item, p.component, p.limb), address(out, p.item, p.component, p.limb));
  });
}

void CpuKernels::do_permute(Queue&, const Ring& ring, const Primes& primes, const PreparedPermutation& permutation,
                            const View& a, const View& out) {
  const CpuRing& r = own(ring);
  const CpuPermutation& mine = own(permutation);
  each_stretch(out, [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(primes[p.limb]);
    mine.gather(*limb.ops, limb.modulus, address(a, p.item, p.component, p.limb), first,
                stretch(out, p.item, p.component, p.limb, first), count);
  });
}

// ---- products

void CpuKernels::do_inner_product(Queue&, const Ring& ring, const Primes& primes, const View& digits, const View& key,
                                  const Primes& key_limbs, const View& out) {
  constexpr std::size_t kBlock = 512, kDigits = 64;
  const CpuRing& r = own(ring);
  each_stretch(out.with_components(0, 1), [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(primes[p.limb]);
    const std::size_t word = out.word_size();
    for (std::size_t start = first; start < first + count; start += kBlock) {
      const std::size_t length = std::min(kBlock, first + count - start);
      for (std::size_t c = 0; c < out.components; ++c) {
        void* const sum = address(out, p.item, c, p.limb) + start * word;
        for (std::size_t j = 0; j < digits.components; j += kDigits) {
          const std::size_t terms = std::min(kDigits, digits.components - j);
          const void* x[kDigits];
          const void* y[kDigits];
          for (std::size_t k = 0; k < terms; ++k) {
            x[k] = address(digits, p.item, j + k, p.limb) + start * word;
            y[k] = address(key, 0, (j + k) * out.components + c, key_limbs[p.limb]) + start * word;
          }
          limb.ops->dot(limb.modulus, terms, x, y, j ? sum : nullptr, sum, length);
        }
      }
    }
  });
}

void CpuKernels::do_tensor(Queue& q, const Ring& ring, const Primes& primes, const View& a, const View& b, const View& out) {
  constexpr std::size_t kBlock = 512, kTerms = 16;
  if (std::min(a.components, b.components) > kTerms) return Kernels::do_tensor(q, ring, primes, a, b, out);
  const CpuRing& r = own(ring);
  each_stretch(out.with_components(0, 1), [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(primes[p.limb]);
    const std::size_t word = out.word_size();
    for (std::size_t start = first; start < first + count; start += kBlock) {
      const std::size_t length = std::min(kBlock, first + count - start);
      for (std::size_t c = 0; c < out.components; ++c) {
        const void* x[kTerms];
        const void* y[kTerms];
        std::size_t terms = 0;
        for (std::size_t i = c < b.components ? 0 : c - b.components + 1; i < a.components && i <= c; ++i, ++terms) {
          x[terms] = address(a, p.item, i, p.limb) + start * word;
          y[terms] = address(b, p.item, c - i, p.limb) + start * word;
        }
        limb.ops->dot(limb.modulus, terms, x, y, nullptr, address(out, p.item, c, p.limb) + start * word, length);
      }
    }
  });
}

// ---- conversion

/// y of a block stays in the first cache.
std::size_t CpuKernels::convert_block_words(std::size_t sources, std::size_t n) {
  std::size_t block = 1024;
  while (block > 128 && sources * block * sizeof(u64) > 25 * 1024) block /= 2;
  return std::min(block, n);
}

void CpuKernels::convert_block(const ConvertBlock& b) const {
  const math::Conversion& c = b.conversion.conversion();
  const Level& level = b.count < kLeastVector ? scalar_level() : level_;
  u64* const y = b.scratch;
  u64* const v = c.rounded ? y + c.sources() * b.count : nullptr;
  for (std::size_t i = 0; i < c.sources(); ++i) {
    const CpuConversion::Lift& lift = b.conversion.lifts()[i];
    level.lift[b.wide_in][static_cast<int>(lift.size)](lift.step, b.x[i], y + i * b.count, v, i == 0, b.count);
  }
  if (v) {
    const u64 half = u64{1} << (c.fixed.bits - 1);
    for (std::size_t k = 0; k < b.count; ++k) v[k] = (v[k] + half) >> c.fixed.bits;
  }
  for (std::size_t j = 0; j < c.targets(); ++j) {
    const CpuConversion::Combine& combine = b.conversion.combines()[j];
    level.combine[b.wide_out][static_cast<int>(combine.size)](combine.step, y, b.count, v, b.own ? b.own[j] : nullptr,
                                                              b.out[j], b.count);
  }
}

void CpuKernels::do_convert(Queue&, const PreparedConversion& conversion, const View& x, const View* own_words,
                            const View& out, const PrimeList* place) {
  const CpuConversion& mine = own(conversion);
  const std::size_t sources = conversion.conversion().sources(), targets = conversion.conversion().targets();
  const std::size_t block = convert_block_words(sources, out.n);
  const std::size_t blocks = (out.n + block - 1) / block, units = out.items() * out.components * blocks;
  const std::size_t grain =
      units * block * (sources + targets) < kWorthSharing ? units : std::max<std::size_t>(1, 4096 / block);
  threads_.parallel_for(units, std::max<std::size_t>(grain, 1), [&](std::size_t unit, std::size_t) {
    const std::size_t first = unit % blocks * block, component = unit / blocks % out.components,
                      item = unit / blocks / out.components;
    const std::byte* from[kMaxSources];
    const std::byte* beside[device::kMaxLimbs];
    std::byte* to[device::kMaxLimbs];
    for (std::size_t i = 0; i < sources; ++i) from[i] = stretch(x, item, component, i, first);
    for (std::size_t j = 0; j < targets; ++j) {
      const std::size_t limb = place ? (*place)[j] : j;
      if (own_words) beside[j] = stretch(*own_words, item, component, limb, first);
      to[j] = stretch(out, item, component, limb, first);
    }
    convert_block({.conversion = mine,
                   .wide_in = x.word == Word::w64,
                   .wide_out = out.word == Word::w64,
                   .count = std::min(block, out.n - first),
                   .x = from,
                   .own = own_words ? beside : nullptr,
                   .out = to,
                   .scratch = static_cast<u64*>(thread_scratch((sources + 1) * block * sizeof(u64)))});
  });
}

// ---- memory

void CpuKernels::do_copy(Queue&, const View& a, const View& out) {
  if (a.data == out.data && a.shape == out.shape && a.stride == out.stride && a.component_stride == out.component_stride &&
      a.limb_stride == out.limb_stride) {
    return;
  }
  each_stretch(out, [&](Place p, std::size_t first, std::size_t count) {
    std::memcpy(address(out, p.item, p.component, p.limb) + first * out.word_size(),
                address(a, p.item, p.component, p.limb) + first * out.word_size(), count * out.word_size());
  });
}

void CpuKernels::do_zero(Queue&, const View& out) {
  each_stretch(out, [&](Place p, std::size_t first, std::size_t count) {
    std::memset(address(out, p.item, p.component, p.limb) + first * out.word_size(), 0, count * out.word_size());
  });
}

}  // namespace heliograph::backend::cpu
