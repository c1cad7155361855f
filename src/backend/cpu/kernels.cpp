#include "backend/cpu/kernels.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/parallel.h"

namespace heliograph::backend::cpu {

using device::LimbConstants;
using device::PrimeList;
using device::Queue;
using device::View;
using math::Word;

std::unique_ptr<const device::Form> CpuKernels::form(const device::RingConstant& c) {
  return std::make_unique<CpuRing>(c, instructions_, pool_, threads_);
}
std::unique_ptr<const device::Form> CpuKernels::form(const device::ConversionConstant& c) {
  return std::make_unique<CpuConversion>(c);
}
std::unique_ptr<const device::Form> CpuKernels::form(const device::PermutationConstant& c) {
  return std::make_unique<CpuPermutation>(c.permutation());
}
std::unique_ptr<const device::Form> CpuKernels::form(const device::ProductConstant& c) {
  return std::make_unique<CpuProduct>(c, instructions_);
}

// ---- element-wise

namespace {

template <std::size_t Run, class Word>
void repeat_short_runs(const Word* from, std::size_t words, Word* to) {
  for (std::size_t i = 0; i < words; ++i) {
    for (std::size_t k = 0; k < Run; ++k) to[i * Run + k] = from[i];
  }
}

template <class Word>
void repeat_words(const Word* from, std::size_t run, std::size_t first, std::size_t count, Word* to) {
  from += first / run;
  std::size_t left = run - first % run;
  if (left == run && count % run == 0) {  // short runs without a call for each
    if (run == 2) return repeat_short_runs<2>(from, count / 2, to);
    if (run == 4) return repeat_short_runs<4>(from, count / 4, to);
    if (run == 8) return repeat_short_runs<8>(from, count / 8, to);
  }
  for (std::size_t i = 0; i < count; ++from) {
    const std::size_t some = std::min(left, count - i);
    std::fill_n(to + i, some, *from);
    i += some;
    left = run;
  }
}

}  // namespace

void repeat(const std::byte* from, std::size_t word, std::size_t run, std::size_t first, std::size_t count, std::byte* to) {
  word == sizeof(u64) ? repeat_words(reinterpret_cast<const u64*>(from), run, first, count, reinterpret_cast<u64*>(to))
                      : repeat_words(reinterpret_cast<const u32*>(from), run, first, count, reinterpret_cast<u32*>(to));
}

/// Multiplies by an operand in which one word serves a run of the result's words. Works block by block and repeats each word
/// for its run.
template <class C>
void CpuKernels::multiply_runs(const C& c) {
  const CpuRing& r = own(*c.ring);
  each_stretch(c.out, [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(c.primes[p.limb]);
    const Blocks rooms(1, kBlock, limb.word_bytes);
    const std::byte* const words = stretch(c.b, p.item, p.component, p.limb, 0);
    for (std::size_t start = first; start < first + count; start += kBlock) {
      const std::size_t length = std::min(kBlock, first + count - start);
      const void *const a = stretch(c.a, p.item, p.component, p.limb, start), *const b = rooms[0];
      void* const out = stretch(c.out, p.item, p.component, p.limb, start);
      repeat(words, limb.word_bytes, run_of(c.b, c.out), start, length, rooms[0]);
      if constexpr (std::is_same_v<C, Mul>)
        limb.ops->mul(limb.modulus, a, b, out, length);
      else
        limb.ops->dot(limb.modulus, 1, &a, &b, out, out, length);
    }
  });
}

template <Elementwise C>
void CpuKernels::run(Queue&, const C& c) {
  if constexpr (std::is_same_v<C, Mul> || std::is_same_v<C, MulAccumulate>) {
    if (c.b.n < c.out.n) return multiply_runs(c);
  }
  const CpuRing& r = own(*c.ring);
  [[maybe_unused]] bool past = c.out.words() * c.out.word_size() > kCached;
  if constexpr (!std::is_same_v<C, Neg>) past = past && !same_operand(c.a, c.out) && !same_operand(c.b, c.out);
  each_stretch(c.out, [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(c.primes[p.limb]);
    const void* const a = stretch(c.a, p.item, p.component, p.limb, first);
    void* const out = stretch(c.out, p.item, p.component, p.limb, first);
    if constexpr (std::is_same_v<C, Neg>) {
      limb.ops->neg(limb.modulus, a, out, count);
    } else {
      const void* const b = stretch(c.b, p.item, p.component, p.limb, first);
      if constexpr (std::is_same_v<C, Add>) limb.ops->add(limb.modulus, a, b, out, count, past);
      if constexpr (std::is_same_v<C, Sub>) limb.ops->sub(limb.modulus, a, b, out, count, past);
      if constexpr (std::is_same_v<C, Mul>) limb.ops->mul(limb.modulus, a, b, out, count);
      if constexpr (std::is_same_v<C, MulAccumulate>) limb.ops->dot(limb.modulus, 1, &a, &b, out, out, count);
    }
  });
}
template void CpuKernels::run(Queue&, const Add&);
template void CpuKernels::run(Queue&, const Sub&);
template void CpuKernels::run(Queue&, const Neg&);
template void CpuKernels::run(Queue&, const Mul&);
template void CpuKernels::run(Queue&, const MulAccumulate&);

void CpuKernels::run(Queue&, const MulConstants& call) {
  const CpuRing& r = own(*call.ring);
  each_stretch(call.out, [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(call.primes[p.limb]);
    limb.ops->mul_constant(limb.modulus, stretch(call.a, p.item, p.component, p.limb, first), call.c[p.limb],
                           stretch(call.out, p.item, p.component, p.limb, first), count);
  });
}

void CpuKernels::run(Queue& q, const AddConstants& call) {
  const CpuRing& r = own(*call.ring);
  if (call.domain == math::Domain::coefficient) {
    run(q, device::Copy{call.a, call.out});
    each_limb(call.out, [&](Place p) {
      const u64 prime = r.limb(call.primes[p.limb]).modulus.q;
      std::byte* const at = address(call.out, p.item, p.component, p.limb);
      if (call.out.word == Word::w32) {
        u32& x = *reinterpret_cast<u32*>(at);
        x = static_cast<u32>(math::add_mod(x, call.c[p.limb], prime));
      } else {
        u64& x = *reinterpret_cast<u64*>(at);
        x = math::add_mod(x, call.c[p.limb], prime);
      }
    });
    return;
  }
  each_stretch(call.out, [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(call.primes[p.limb]);
    limb.ops->add_constant(limb.modulus, stretch(call.a, p.item, p.component, p.limb, first), call.c[p.limb],
                           stretch(call.out, p.item, p.component, p.limb, first), count);
  });
}

void CpuKernels::run(Queue&, const WeightedSum& call) {
  const CpuRing& r = own(*call.ring);
  const std::vector<LimbConstants>& weights = *call.weights;
  each_stretch(call.out, [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(call.primes[p.limb]);
    static_assert(WeightedSum::kMost == kMostWeighted);
    const void* x[kMostWeighted];
    u64 c[kMostWeighted];
    for (std::size_t k = 0; k < call.x.size(); ++k) {
      x[k] = stretch(call.x[k], p.item, p.component, p.limb, first);
      c[k] = weights[k][p.limb];
    }
    const u64 constant = call.constant && p.component == 0 ? (*call.constant)[p.limb] : 0;
    limb.ops->weighted_sum(limb.modulus, call.x.size(), x, c, constant,
                           stretch(call.out, p.item, p.component, p.limb, first), count);
  });
}

// ---- transforms

template <Transform C>
void CpuKernels::run(Queue&, const C& c) {
  const CpuRing& r = own(*c.ring);
  each_limb(c.out, [&](Place p) {
    const Limb& limb = r.limb(c.primes[p.limb]);
    const auto transform = std::is_same_v<C, ForwardNtt> ? limb.ops->forward : limb.ops->inverse;
    transform(limb, address(c.a, p.item, p.component, p.limb), address(c.out, p.item, p.component, p.limb));
  });
}
template void CpuKernels::run(Queue&, const ForwardNtt&);
template void CpuKernels::run(Queue&, const InverseNtt&);

void CpuKernels::run(Queue&, const Permute& c) {
  const CpuRing& r = own(*c.ring);
  const CpuPermutation& mine = own(*c.permutation);
  each_stretch(c.out, [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(c.primes[p.limb]);
    mine.gather(*limb.ops, limb.modulus, address(c.a, p.item, p.component, p.limb), first,
                stretch(c.out, p.item, p.component, p.limb, first), count);
  });
}

// ---- products

template <class C, class F>
void CpuKernels::each_block(const C& call, std::size_t block, F&& f) {
  const CpuRing& r = own(*call.ring);
  each_stretch(call.out.with_components(0, 1), [&](Place p, std::size_t first, std::size_t count) {
    const Limb& limb = r.limb(call.primes[p.limb]);
    for (std::size_t start = first; start < first + count; start += block)
      f(p, limb, start, std::min(block, first + count - start));
  });
}

/// Sums automorphisms of the digits, a few digits at a time. A block of permuted digits is used for all components while it
/// is cached. A key is used for several items at once; the number of items leaves each thread at least one group of items.
void CpuKernels::sum_turned(const InnerProduct& call) {
  constexpr std::size_t kDigits = 8;  // few digits at a time, because each digit needs a separate stream of keys from memory
  constexpr std::size_t kWords = 2 * kBlock;
  const CpuRing& ring = own(*call.ring);
  std::vector<const CpuPermutation*> turns;
  for (const auto& turn : call.turns) turns.push_back(turn ? &own(*turn) : nullptr);
  const std::size_t n = call.out.n, components = call.out.components, items = call.out.items();
  const std::size_t blocks = (n + kWords - 1) / kWords, places = call.out.limbs * blocks;
  const std::size_t threads = static_cast<std::size_t>(threads_.usable());
  const std::size_t together = std::max<std::size_t>(1, items / std::max<std::size_t>(1, (threads + places - 1) / places));
  const std::size_t groups = (items + together - 1) / together;
  const bool shared = items * call.out.limbs * n * turns.size() >= kWorthSharing;
  threads_.parallel_for(places * groups, shared ? 1 : places * groups, [&](std::size_t unit, std::size_t) {
    const std::size_t l = unit / groups / blocks, start = unit / groups % blocks * kWords;
    const std::size_t length = std::min(kWords, n - start), first = unit % groups * together;
    const Limb& limb = ring.limb(call.primes[l]);
    const Blocks turned(kDigits, length, limb.word_bytes);
    const auto key = [&](std::size_t component) { return stretch(call.key, 0, component, call.key_limbs[l], start); };
    for (std::size_t j = 0; j < turns.size(); j += kDigits) {
      const std::size_t terms = std::min(kDigits, turns.size() - j);
      for (std::size_t item = first; item < std::min(first + together, items); ++item) {
        const std::byte* const whole = address(call.digits, item, 0, l);
        const void *x[kDigits], *y[kDigits];
        for (std::size_t k = 0; k < terms; ++k) {
          x[k] = turns[j + k] ? turned[k] : whole + start * limb.word_bytes;
          if (turns[j + k]) turns[j + k]->gather(*limb.ops, limb.modulus, whole, start, turned[k], length);
        }
        for (std::size_t c = 0; c < components; ++c) {
          // Prefetches the keys of the next component, or of the next digits.
          const std::size_t next = j * components + c + (c + 1 < components ? 1 : kDigits * components - c);
          for (std::size_t k = 0; k < terms; ++k) {
            y[k] = key((j + k) * components + c);
            const std::size_t then = next + k * components;
            if (item != first || then >= turns.size() * components) continue;
            const std::byte* const ahead = key(then);
            for (std::size_t byte = 0; byte < length * limb.word_bytes; byte += 64) __builtin_prefetch(ahead + byte, 0, 2);
          }
          void* const sum = stretch(call.out, item, c, l, start);
          limb.ops->dot(limb.modulus, terms, x, y, j ? sum : nullptr, sum, length);
        }
      }
    }
  });
}

void CpuKernels::run(Queue&, const InnerProduct& call) {
  if (!call.turns.empty()) return sum_turned(call);
  constexpr std::size_t kDigits = 64;
  const std::size_t outputs = call.out.components;
  const auto sum_block = [&](Place p, const Limb& limb, std::size_t start, std::size_t length) {
    const auto key = [&](std::size_t j, std::size_t c) {
      return stretch(call.key, 0, j * outputs + c, call.key_limbs[p.limb], start);
    };
    for (std::size_t j = 0; j < call.digits.components; j += kDigits) {
      const std::size_t terms = std::min(kDigits, call.digits.components - j);
      const void* x[kDigits];
      const void* y[2 * kDigits];
      for (std::size_t k = 0; k < terms; ++k) x[k] = stretch(call.digits, p.item, j + k, p.limb, start);
      std::size_t c = 0;
      for (; c + 2 <= outputs; c += 2) {
        for (std::size_t k = 0; k < terms; ++k) y[2 * k] = key(j + k, c), y[2 * k + 1] = key(j + k, c + 1);
        void* const sums[] = {stretch(call.out, p.item, c, p.limb, start), stretch(call.out, p.item, c + 1, p.limb, start)};
        limb.ops->dot_pair(limb.modulus, terms, x, y, j > 0, sums, length);
      }
      for (; c < outputs; ++c) {
        for (std::size_t k = 0; k < terms; ++k) y[k] = key(j + k, c);
        void* const sum = stretch(call.out, p.item, c, p.limb, start);
        limb.ops->dot(limb.modulus, terms, x, y, j ? sum : nullptr, sum, length);
      }
    }
  };
  if (call.digits.components <= kDigits) return each_block(call, kBlock, sum_block);
  // With many digits, one unit is one item's block: the key is read again for each item, but from a cache.
  const CpuRing& r = own(*call.ring);
  const std::size_t items = call.out.items(), blocks = (call.out.n + kBlock - 1) / kBlock;
  threads_.parallel_for(call.out.limbs * blocks * items, 1, [&](std::size_t unit, std::size_t) {
    const std::size_t item = unit % items, start = unit / items % blocks * kBlock, l = unit / items / blocks;
    sum_block({item, 0, l}, r.limb(call.primes[l]), start, std::min(kBlock, call.out.n - start));
  });
}

/// Computes each sum block by block: first the products, then the weighted terms.
void CpuKernels::run(Queue&, const LimbSums& call) {
  constexpr std::size_t kTerms = 16;
  using List = device::LimbSumList;
  const CpuRing& ring = own(*call.ring);
  const List& list = call.sums->list();
  std::vector<const CpuPermutation*> turns;
  for (const auto& turn : call.turns) turns.push_back(&own(*turn));
  const std::size_t n = call.to[0].n, blocks = (n + kBlock - 1) / kBlock, items = call.to[0].items();
  threads_.parallel_for(list.results.size() * items * blocks, 1, [&](std::size_t unit, std::size_t) {
    const std::size_t start = unit % blocks * kBlock, item = unit / blocks % items, length = std::min(kBlock, n - start);
    const List::Result& r = list.results[unit / blocks / items];
    const Limb& limb = ring.limb(r.prime);
    const Blocks rooms(kTerms, length, limb.word_bytes);
    const auto words = [&](const auto& views, const List::At& at, std::size_t first) {
      return stretch(views[at.operand], item, at.component, at.limb, first);
    };
    std::byte* const sum = words(call.to, r.to, start);
    const void *x[kTerms], *y[kTerms];
    u64 weights[kMostWeighted];
    bool begun = false;
    // Returns a block of a term's first factor, permuted if the term has an automorphism.
    const auto first_factor = [&](const List::Term& t, std::byte* room) -> const void* {
      if (t.turn == List::kNone) return words(call.from, t.a, start);
      turns[t.turn]->gather(*limb.ops, limb.modulus, words(call.from, t.a, 0), start, room, length);
      return room;
    };
    std::size_t some = 0;
    const auto add_products = [&] {
      if (some > 0) limb.ops->dot(limb.modulus, some, x, y, begun ? sum : nullptr, sum, length);
      begun = begun || some > 0, some = 0;
    };
    for (u32 k = 0; k < r.count; ++k) {
      const List::Term& t = list.terms[r.first + k];
      if (t.b.operand == List::kNone) continue;
      x[some] = first_factor(t, rooms[some]), y[some] = words(call.from, t.b, start);
      if (t.weight != 1) {
        limb.ops->mul_constant(limb.modulus, x[some], t.weight, rooms[some], length);
        x[some] = rooms[some];
      }
      if (++some == kTerms) add_products();
    }
    add_products();
    u64 constant = r.constant;
    const auto add_weighted = [&] {
      if (some == 0 && constant == 0 && begun) return;
      if (begun) x[some] = sum, weights[some++] = 1;
      if (some > 0)
        limb.ops->weighted_sum(limb.modulus, some, x, weights, constant, sum, length);
      else
        std::memset(sum, 0, length * limb.word_bytes), limb.ops->add_constant(limb.modulus, sum, constant, sum, length);
      begun = true, some = 0, constant = 0;
    };
    for (u32 k = 0; k < r.count; ++k) {
      const List::Term& t = list.terms[r.first + k];
      if (t.b.operand != List::kNone) continue;
      x[some] = first_factor(t, rooms[some]), weights[some] = t.weight;
      if (++some == kMostWeighted - 1) add_weighted();
    }
    add_weighted();
  });
}

void CpuKernels::run(Queue& q, const Tensor& call) {
  constexpr std::size_t kTerms = 16;
  const std::size_t of_a = call.a.components, of_b = call.b.components;
  if (std::min(of_a, of_b) > kTerms) return q.expand(call);
  each_block(call, kBlock, [&](Place p, const Limb& limb, std::size_t start, std::size_t length) {
    for (std::size_t c = 0; c < call.out.components; ++c) {
      const void* x[kTerms];
      const void* y[kTerms];
      std::size_t terms = 0;
      for (std::size_t i = c < of_b ? 0 : c - of_b + 1; i < of_a && i <= c; ++i, ++terms) {
        x[terms] = stretch(call.a, p.item, i, p.limb, start);
        y[terms] = stretch(call.b, p.item, c - i, p.limb, start);
      }
      limb.ops->dot(limb.modulus, terms, x, y, nullptr, stretch(call.out, p.item, c, p.limb, start), length);
    }
  });
}

// ---- conversion

/// Returns the block size in words for which the block's y fits the first-level cache.
std::size_t CpuKernels::convert_block_words(std::size_t sources, std::size_t n) {
  std::size_t block = 1024;
  while (block > 128 && sources * block * sizeof(u64) > 25 * 1024) block /= 2;
  return std::min(block, n);
}

void CpuKernels::convert_block(const ConvertBlock& b) const {
  const math::Conversion& c = b.conversion.of().conversion();
  const InstructionSet& set = b.count < kLeastVector ? scalar_instructions() : instructions_;
  u64* const y = b.scratch;
  u64* const v = c.rounded ? y + c.sources() * b.count : nullptr;
  for (std::size_t i = 0; i < c.sources(); ++i) {
    const CpuConversion::Lift& lift = b.conversion.lifts()[i];
    set.lift[b.wide_in][static_cast<int>(lift.size)](lift.step, b.x[i], y + i * b.count, v, i == 0, b.count);
  }
  if (v) {
    const u64 half = u64{1} << (c.fixed.bits - 1);
    for (std::size_t k = 0; k < b.count; ++k) v[k] = (v[k] + half) >> c.fixed.bits;
  }
  for (std::size_t j = 0; j < c.targets(); ++j) {
    const CpuConversion::Combine& combine = b.conversion.combines()[j];
    set.combine[b.wide_out][static_cast<int>(combine.size)](combine.step, y, b.count, v, b.own ? b.own[j] : nullptr,
                                                            b.out[j], b.count);
  }
}

void CpuKernels::run(Queue&, const Convert& c) {
  const CpuConversion& mine = own(*c.conversion);
  const std::size_t sources = c.conversion->conversion().sources(), targets = c.conversion->conversion().targets();
  const std::size_t block = convert_block_words(sources, c.out.n);
  const std::size_t blocks = (c.out.n + block - 1) / block, units = c.out.items() * c.out.components * blocks;
  const std::size_t grain =
      units * block * (sources + targets) < kWorthSharing ? units : std::max<std::size_t>(1, 4096 / block);
  threads_.parallel_for(units, std::max<std::size_t>(grain, 1), [&](std::size_t unit, std::size_t) {
    const std::size_t first = unit % blocks * block, component = unit / blocks % c.out.components,
                      item = unit / blocks / c.out.components;
    const std::byte* from[kMaxSources];
    const std::byte* beside[device::kMaxLimbs];
    std::byte* to[device::kMaxLimbs];
    for (std::size_t i = 0; i < sources; ++i) from[i] = stretch(c.x, item, component, i, first);
    for (std::size_t j = 0; j < targets; ++j) {
      const std::size_t limb = c.place ? (*c.place)[j] : j;
      if (c.own) beside[j] = stretch(*c.own, item, component, limb, first);
      to[j] = stretch(c.out, item, component, limb, first);
    }
    convert_block({.conversion = mine,
                   .wide_in = c.x.word == Word::w64,
                   .wide_out = c.out.word == Word::w64,
                   .count = std::min(block, c.out.n - first),
                   .x = from,
                   .own = c.own ? beside : nullptr,
                   .out = to,
                   .scratch = static_cast<u64*>(thread_scratch((sources + 1) * block * sizeof(u64)))});
  });
}

// ---- memory

void CpuKernels::run(Queue&, const Copy& c) {
  if (device::same_operand(c.a, c.out)) return;
  each_stretch(c.out, [&](Place p, std::size_t first, std::size_t count) {
    std::memcpy(address(c.out, p.item, p.component, p.limb) + first * c.out.word_size(),
                address(c.a, p.item, p.component, p.limb) + first * c.out.word_size(), count * c.out.word_size());
  });
}

void CpuKernels::run(Queue&, const Zero& c) {
  each_stretch(c.out, [&](Place p, std::size_t first, std::size_t count) {
    std::memset(address(c.out, p.item, p.component, p.limb) + first * c.out.word_size(), 0, count * c.out.word_size());
  });
}

}  // namespace heliograph::backend::cpu
