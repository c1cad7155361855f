// The products of a linear sum (device/call.h). Baby steps: a thread computes u_b at its position for one baby step after
// another. The thread adds u_b times a plaintext to the sums of several giant steps, all in registers. Keys and plaintexts
// are read once, and u_b is never stored. Giant steps: the sum over all steps of the rows of digits times their keys.
#pragma once

#include "backend/cuda/ring/key_sums.cuh"

namespace heliograph::backend::cuda {

inline constexpr u32 kMostBabies = 32;  // maximum baby steps of one launch
inline constexpr u32 kMostGiants = 8;
inline constexpr u32 kBabyThreads = 128;

/// Minimum blocks that a multiprocessor holds at once; this limits registers.
template <class F, u32 G>
inline constexpr int kBabyResident = std::is_same_v<F, Field60> ? (G > 4 ? 3 : 4) : (G > 4 ? 5 : 6);
template <class F>
inline constexpr int kGiantResident = std::is_same_v<F, Field60> ? 2 : 3;

template <class F>
struct BabyArguments {
  Strided digits, x, plaintexts, sums;  // words; the item index in `sums` is giant * items + item
  Grid grid;                            // the grid's parts are the positions of a block
  Primes primes, key_limbs;
  const typename F::Prime* table;
  u64 key_component, key_limb;                // strides of every key, in words
  const typename F::Word* keys[kMostBabies];  // a null key stands for the identity step
  const u32* turns[kMostBabies];              // tables of CudaPermutation
  // bits of the baby steps that have a plaintext, and the number of the first such plaintext
  u32 mask[kMostGiants], first[kMostGiants];
  u32 babies, giants, items, count, chain, more;  // count: number of digits; more: whether to add to existing sums
  u32 shift;                                      // one word of a plaintext serves 2^shift positions
  typename F::Word weight[device::kMaxLimbs];
};

/// A thread has one position. The thread loads all operands of a baby step before the first product. G: maximum number of
/// giant steps.
template <class F, u32 G>
__global__ void __launch_bounds__(kBabyThreads, kBabyResident<F, G>)
    linear_babies_kernel(const __grid_constant__ BabyArguments<F> a) {
  take_turn();
  using Word = typename F::Word;
  using Value = typename F::Value;
  const At at = locate(a.grid, blockIdx.x);
  const u32 position = at.part * kBabyThreads + threadIdx.x;
  const typename F::Prime p = a.table[a.primes.index[at.limb]];
  const u64 key_at = a.key_limbs.index[at.limb] * a.key_limb + position;
  const bool kept = at.limb < a.chain;  // modulo a special prime the addend's weight, a multiple of P, is 0
  const Value weight = F::load(kept ? a.weight[at.limb] : Word{0});
  const Word* const digits = limb_of<Word>(a.digits, at.item, 0, at.limb);
  const Word* const plain = limb_of<Word>(a.plaintexts, 0, 0, at.limb) + (position >> a.shift);
  const Word* const x = limb_of<Word>(a.x, at.item, 0, kept ? at.limb : 0);
  KeySum<F> sums[G][2];
#pragma unroll
  for (u32 g = 0; g < G; ++g) sums[g][0].start(), sums[g][1].start();
  const auto source = [&](u32 b) { return a.turns[b] ? __ldg(a.turns[b] + position) >> 1 : position; };
  u32 pending = 0, next = source(0);
  for (u32 b = 0; b < a.babies; ++b) {
    const u32 from = next;
    const bool turns = a.turns[b] != nullptr;
    if (b + 1 < a.babies) next = source(b + 1);
    if (!turns && !kept) continue;
    Word factor[G];
#pragma unroll
    for (u32 g = 0; g < G; ++g) {
      if (g >= a.giants || (a.mask[g] >> b & 1) == 0) continue;
      const u32 term = a.first[g] + static_cast<u32>(__popc(a.mask[g] & ((u32{1} << b) - 1)));
      factor[g] = __ldg(plain + term * a.plaintexts.component);
    }
    const Word body = kept ? __ldg(x + from) : Word{0};
    KeySum<F> u[2];
    u[0].start(), u[1].start();
    u[0].add(F::load(body), weight, p);
    if (!turns) u[1].add(F::load(__ldg(x + a.x.component + position)), weight, p);
    const Word* const key = a.keys[b] + key_at;
    for (u32 done = 0; turns && done < a.count; done += kFoldEvery) {
      Word k0[kFoldEvery], k1[kFoldEvery], d[kFoldEvery];
#pragma unroll
      for (u32 j = 0; j < kFoldEvery; ++j) {
        if (done + j >= a.count) break;
        const Word* const pair = key + 2 * (done + j) * a.key_component;
        k0[j] = __ldg(pair), k1[j] = __ldg(pair + a.key_component);
        d[j] = __ldg(digits + (done + j) * a.digits.component + from);
      }
      u[0].fold(p), u[1].fold(p);
#pragma unroll
      for (u32 j = 0; j < kFoldEvery; ++j) {
        if (done + j >= a.count) break;
        u[0].add(F::load(d[j]), F::load(k0[j]), p);
        u[1].add(F::load(d[j]), F::load(k1[j]), p);
      }
    }
    u[0].fold(p), u[1].fold(p);
    const Value v[2] = {u[0].finish(p), u[1].finish(p)};
#pragma unroll
    for (u32 g = 0; g < G; ++g) {
      if (g >= a.giants || (a.mask[g] >> b & 1) == 0) continue;
      sums[g][0].add(v[0], F::load(factor[g]), p);
      sums[g][1].add(v[1], F::load(factor[g]), p);
    }
    if (++pending < kFoldEvery) continue;
    pending = 0;
#pragma unroll
    for (u32 g = 0; g < G; ++g) sums[g][0].fold(p), sums[g][1].fold(p);
  }
#pragma unroll
  for (u32 g = 0; g < G; ++g) {
    if (g >= a.giants) break;
#pragma unroll
    for (u32 c = 0; c < 2; ++c) {
      Word* const out = limb_of<Word>(a.sums, g * a.items + at.item, c, at.limb) + position;
      sums[g][c].fold(p);
      const Value value = sums[g][c].finish(p);
      *out = a.more ? sum_word<F>(F::load(*out), value, p) : F::canonical(value, p);
    }
  }
}

template <class F>
struct TurnedArguments {
  Strided digits, sums, total;  // words; item index of a giant step: giant * items + item
  Grid grid;                    // the grid's parts are the positions of a block
  Primes primes, key_limbs;
  const typename F::Prime* table;
  u64 key_component, key_limb;
  const typename F::Word* keys[kMostGiants];
  const u32* turns[kMostGiants];
  u32 giants, items, count;
};

/// total += sum over giant steps of the permuted digits times the key, plus the permuted first component. A thread has one
/// position.
template <class F>
__global__ void __launch_bounds__(kBabyThreads) linear_turned_kernel(const __grid_constant__ TurnedArguments<F> a) {
  take_turn();
  using Word = typename F::Word;
  using Value = typename F::Value;
  const At at = locate(a.grid, blockIdx.x);
  const u32 position = at.part * kBabyThreads + threadIdx.x;
  const typename F::Prime p = a.table[a.primes.index[at.limb]];
  const u64 key_at = a.key_limbs.index[at.limb] * a.key_limb + position;
  const Value one = F::load(Word{1});
  Word* const out[2] = {limb_of<Word>(a.total, at.item, 0, at.limb) + position,
                        limb_of<Word>(a.total, at.item, 1, at.limb) + position};
  KeySum<F> sums[2];
#pragma unroll
  for (u32 c = 0; c < 2; ++c) sums[c].start(), sums[c].add(F::load(*out[c]), one, p);
  for (u32 g = 0; g < a.giants; ++g) {
    const u32 item = g * a.items + at.item, from = __ldg(a.turns[g] + position) >> 1;
    const Word* const digits = limb_of<Word>(a.digits, item, 0, at.limb) + from;
    const Word* const key = a.keys[g] + key_at;
    sums[0].add(F::load(__ldg(limb_of<Word>(a.sums, item, 0, at.limb) + from)), one, p);
    for (u32 done = 0; done < a.count; done += kFoldEvery) {
      Word k0[kFoldEvery], k1[kFoldEvery], d[kFoldEvery];
#pragma unroll
      for (u32 j = 0; j < kFoldEvery; ++j) {
        if (done + j >= a.count) break;
        const Word* const pair = key + 2 * (done + j) * a.key_component;
        k0[j] = __ldg(pair), k1[j] = __ldg(pair + a.key_component);
        d[j] = __ldg(digits + (done + j) * a.digits.component);
      }
      sums[0].fold(p), sums[1].fold(p);
#pragma unroll
      for (u32 j = 0; j < kFoldEvery; ++j) {
        if (done + j >= a.count) break;
        sums[0].add(F::load(d[j]), F::load(k0[j]), p);
        sums[1].add(F::load(d[j]), F::load(k1[j]), p);
      }
    }
    sums[0].fold(p), sums[1].fold(p);
  }
#pragma unroll
  for (u32 c = 0; c < 2; ++c) *out[c] = F::canonical(sums[c].finish(p), p);
}

template <class F>
struct GiantArguments {
  Strided digits, sums, total;  // digits: Values after the column pass; others: words. Item index: giant * items + item
  Strided added;                // words of two components
  Grid grid;
  Primes primes, key_limbs;
  const typename F::Prime* table;
  const typename F::Constant* forward;
  u64 key_component, key_limb;
  const typename F::Word* keys[kMostGiants];
  const u32* turns[kMostGiants];
  u32 giants, items, count, adds, n;
};

/// total = added + sum over giant steps of the permuted digits times the key, plus the permuted first component. `total` may
/// be `added`. The structure is that of switch_rows_kernel.
template <class F>
__global__ void __launch_bounds__(kKeyGroups* kGroupThreads, kGiantResident<F>)
    linear_giants_kernel(const __grid_constant__ GiantArguments<F> a) {
  take_turn();
  using Word = typename F::Word;
  using Value = typename F::Value;
  extern __shared__ __align__(16) unsigned char raw[];
  auto* const shared = reinterpret_cast<Value*>(raw);
  const At at = locate(a.grid, blockIdx.x);
  const u32 group = threadIdx.x / kGroupThreads, r = threadIdx.x / kRowThreads % kBlockRows, t = threadIdx.x % kRowThreads;
  const u32 first = at.part * kBlockRows, row = first + r;
  const u32 position = first * kRow + threadIdx.x;  // position in the first row; kRow more in each further row
  const u32 prime = a.primes.index[at.limb];
  const typename F::Prime p = a.table[prime];
  const typename F::Constant* const twiddles = a.forward + u64{prime} * a.n;
  const u64 key_at = a.key_limbs.index[at.limb] * a.key_limb + position;
  const Value one = F::load(Word{1});
  Value* const mine = shared + group * kGroupWords + r * RowShape::kWords;
  KeySum<F> sums[kBlockRows][2];
#pragma unroll
  for (u32 k = 0; k < kBlockRows; ++k) sums[k][0].start(), sums[k][1].start();
  if (a.adds) {
#pragma unroll
    for (u32 c = 0; c < 2; ++c) {
      const Word* const x = limb_of<Word>(a.added, at.item, c, at.limb) + position;
#pragma unroll
      for (u32 k = 0; k < kBlockRows; ++k) sums[k][c].add(F::load(x[k * kRow]), one, p);
    }
  }
  for (u32 g = 0; g < a.giants; ++g) {
    const u32* const turn = a.turns[g];
    const u32 item = g * a.items + at.item, row_from = __ldg(turn + row * kRow) / (2 * kRow);
    u32 from[kBlockRows];  // source positions of the automorphism
#pragma unroll
    for (u32 k = 0; k < kBlockRows; ++k) from[k] = __ldg(turn + position + k * kRow) >> 1;
    const Word* const body = limb_of<Word>(a.sums, item, 0, at.limb);
#pragma unroll
    for (u32 k = 0; k < kBlockRows; ++k) {
      sums[k][0].add(F::load(body[from[k]]), one, p);
      sums[k][0].fold(p), sums[k][1].fold(p);
    }
    for (u32 done = 0; done < a.count; done += kKeyGroups) {
      const u32 here = least(kKeyGroups, a.count - done);
      if (g + done > 0) __syncthreads();
      if (group < here) {
        row_forward<F>(limb_of<Value>(a.digits, item, done + group, at.limb) + row_from * kRow, mine, t,
                       a.n / kRow + row_from, twiddles, p);
      }
      __syncthreads();
      for (u32 d = 0; d < here; ++d) {
        const Value* const digit = shared + d * kGroupWords;
        const Word* const k0 = a.keys[g] + 2 * (done + d) * a.key_component + key_at;
        const Word* const k1 = k0 + a.key_component;
#pragma unroll
        for (u32 k = 0; k < kBlockRows; ++k) {
          const Value x =
              F::reduce(digit[k * RowShape::kWords + static_cast<u32>(RowShape::at(static_cast<int>(from[k] % kRow)))], p);
          sums[k][0].add(x, F::load(__ldg(k0 + k * kRow)), p);
          sums[k][1].add(x, F::load(__ldg(k1 + k * kRow)), p);
        }
      }
#pragma unroll
      for (u32 k = 0; k < kBlockRows; ++k) sums[k][0].fold(p), sums[k][1].fold(p);
    }
  }
#pragma unroll
  for (u32 c = 0; c < 2; ++c) {
    Word* const out = limb_of<Word>(a.total, at.item, c, at.limb) + position;
#pragma unroll
    for (u32 k = 0; k < kBlockRows; ++k) out[k * kRow] = F::canonical(sums[k][c].finish(p), p);
  }
}

}  // namespace heliograph::backend::cuda
