// Sums of products of several key switches (device/call.h, ApplyKeys). Each key is read once. Digits that several keys use
// come from the L2 cache. The sums stay on chip for the row passes of the division.
#pragma once

#include "backend/cuda/ring/transformed.cuh"

namespace heliograph::backend::cuda {

inline constexpr u32 kMostKeys = 8;   // maximum keys of one launch
inline constexpr u32 kFoldEvery = 4;  // products between two folds of a KeySum

template <class F>
struct KeySumArguments {
  Strided digits, added, out;  // item index: key * items + item; `out` has Values for limbs that are divided out, and words
                               // otherwise
  Grid grid;                   // the grid's components are keys, its parts groups of rows
  Primes primes, key_limbs;
  const typename F::Prime* table;
  u64 key_component, key_limb;
  const typename F::Word* keys[kMostKeys];
  const u32* turns[kMostKeys];
  u32 items, count, chain, limb, added_components;  // limb: first limb of the grid
  u32 n;
  const typename F::Constant* twiddles;
  typename F::Word weight[device::kMaxLimbs];
};

template <class Word>
struct alignas(2 * sizeof(Word)) Two {
  Word at[2];
};
template <class Word>
__device__ __forceinline__ Two<Word> load_two(const Word* from) {
  using Raw = std::conditional_t<sizeof(Word) == 8, uint4, uint2>;
  union {
    Raw raw;
    Two<Word> two;
  } u;
  u.raw = __ldg(reinterpret_cast<const Raw*>(from));
  return u.two;
}

/// Addresses of the operands of one key's sums, for one item and limb.
template <class F>
struct KeySumPlace {
  const typename F::Word *key, *digits, *added[2];
  const u32* turn;
  typename F::Value weight;

  __device__ __forceinline__ KeySumPlace(const KeySumArguments<F>& a, u32 number, u32 item, u32 limb)
      : key(a.keys[number] + a.key_limbs.index[limb] * a.key_limb),
        digits(limb_of<typename F::Word>(a.digits, item, 0, limb)),
        added{},
        turn(a.turns[number]),
        weight(F::load(a.weight[limb])) {
    if (limb >= a.chain) return;
#pragma unroll
    for (u32 c = 0; c < 2; ++c)
      if (c < a.added_components) added[c] = limb_of<typename F::Word>(a.added, item, c, limb);
  }
};

/// Computes the sums at `position` and the next: digits times a key, plus the weight times the addend, as canonical words.
template <class F>
__device__ __forceinline__ void sums_at(const KeySumArguments<F>& a, const KeySumPlace<F>& at, const typename F::Prime& p,
                                        u32 position, Two<typename F::Word> (&out)[2]) {
  using Word = typename F::Word;
  u32 from[2] = {position, position + 1};
  if (at.turn) {
    const Two<u32> turned = load_two(at.turn + position);
    from[0] = turned.at[0] >> 1, from[1] = turned.at[1] >> 1;
  }
  KeySum<F> u[2][2];
#pragma unroll
  for (u32 c = 0; c < 2; ++c) {
#pragma unroll
    for (u32 k = 0; k < 2; ++k) {
      u[c][k].start();
      if (at.added[c]) u[c][k].add(F::load(__ldg(at.added[c] + from[k])), at.weight, p);
    }
  }
  const Word *key = at.key + position, *digits = at.digits;
  for (u32 done = 0; done < a.count; done += kFoldEvery) {
    Two<Word> k0[kFoldEvery], k1[kFoldEvery];
    Word d[kFoldEvery][2];
#pragma unroll
    for (u32 j = 0; j < kFoldEvery; ++j) {  // all loads precede the first product
      if (done + j >= a.count) break;
      k0[j] = load_two(key), k1[j] = load_two(key + a.key_component);
      d[j][0] = __ldg(digits + from[0]), d[j][1] = __ldg(digits + from[1]);
      key += 2 * a.key_component, digits += a.digits.component;
    }
#pragma unroll
    for (u32 c = 0; c < 2; ++c) u[c][0].fold(p), u[c][1].fold(p);
#pragma unroll
    for (u32 j = 0; j < kFoldEvery; ++j) {
      if (done + j >= a.count) break;
#pragma unroll
      for (u32 k = 0; k < 2; ++k) {
        u[0][k].add(F::load(d[j][k]), F::load(k0[j].at[k]), p);
        u[1][k].add(F::load(d[j][k]), F::load(k1[j].at[k]), p);
      }
    }
  }
#pragma unroll
  for (u32 c = 0; c < 2; ++c) {
#pragma unroll
    for (u32 k = 0; k < 2; ++k) u[c][k].fold(p), out[c].at[k] = F::canonical(u[c][k].finish(p), p);
  }
}

inline constexpr u32 kSumRows = 8;  // maximum rows of a block
/// Minimum blocks that a multiprocessor holds at once; this limits registers.
template <class F>
inline constexpr int kSumResident = sizeof(typename F::Word) == 4 ? 4 : 3;

/// Computes the sums of the limbs that are divided out, from `limb` on, and the inverse transforms of their rows.
template <class F>
__global__ void __launch_bounds__(2 * kSumRows * kRowThreads, kSumResident<F>)
    divisor_sums_kernel(const __grid_constant__ KeySumArguments<F> a) {
  take_turn();
  using Value = typename F::Value;
  extern __shared__ __align__(16) unsigned char raw[];
  auto* const shared = reinterpret_cast<Value*>(raw);  // rows of component 0, then of component 1
  const At at = locate(a.grid, blockIdx.x);
  const u32 limb = a.limb + at.limb, prime = a.primes.index[limb], item = at.component * a.items + at.item;
  const u32 rows = blockDim.x / (2 * kRowThreads), first = at.part * rows;
  const typename F::Prime p = a.table[prime];
  const KeySumPlace<F> place(a, at.component, item, limb);
#pragma unroll 1
  for (u32 i = 2 * threadIdx.x; i < rows * kRow; i += 2 * blockDim.x) {
    Two<typename F::Word> sums[2];
    sums_at<F>(a, place, p, first * kRow + i, sums);
#pragma unroll
    for (u32 c = 0; c < 2; ++c) {
      Value* const row = shared + (c * rows + i / kRow) * RowShape::kWords;
#pragma unroll
      for (u32 k = 0; k < 2; ++k) row[RowShape::at(static_cast<int>(i % kRow + k))] = F::load(sums[c].at[k]);
    }
  }
  __syncthreads();
  const u32 t = threadIdx.x % kRowThreads, mine = threadIdx.x / kRowThreads, row = first + mine % rows;
  row_inverse<F>(limb_of<Value>(a.out, item, mine / rows, at.limb) + row * kRow, shared + mine * RowShape::kWords, t,
                 a.n / kRow + row, a.twiddles + u64{prime} * a.n, p);
}

template <class F>
struct DividedSumArguments {
  KeySumArguments<F> sums;
  Strided rest;  // Values after the column pass, of both components
  typename F::Word own[device::kMaxLimbs];
};

/// Computes own * (sums of digits times keys) + the remainders, whose rows are transformed here. The sums of the remaining
/// limbs stay in registers.
template <class F>
__global__ void __launch_bounds__(2 * kSumRows * kRowThreads, kSumResident<F>)
    divided_sums_kernel(const __grid_constant__ DividedSumArguments<F> d) {
  take_turn();
  using Word = typename F::Word;
  using Value = typename F::Value;
  extern __shared__ __align__(16) unsigned char raw[];
  auto* const shared = reinterpret_cast<Value*>(raw);  // rows of component 0, then of component 1
  const KeySumArguments<F>& a = d.sums;
  const At at = locate(a.grid, blockIdx.x);
  const u32 rows = blockDim.x / (2 * kRowThreads), first = at.part * rows, item = at.component * a.items + at.item;
  const u32 prime = a.primes.index[at.limb];
  const typename F::Prime p = a.table[prime];
  {
    const u32 t = threadIdx.x % kRowThreads, mine = threadIdx.x / kRowThreads, row = first + mine % rows;
    const Value* const in = limb_of<Value>(d.rest, item, mine / rows, at.limb) + row * kRow;
    row_forward<F>(in, shared + mine * RowShape::kWords, t, a.n / kRow + row, a.twiddles + u64{prime} * a.n, p);
  }
  __syncthreads();
  const Value factor = F::load(d.own[at.limb]);
  const KeySumPlace<F> place(a, at.component, item, at.limb);
  Word* const out[2] = {limb_of<Word>(a.out, item, 0, at.limb), limb_of<Word>(a.out, item, 1, at.limb)};
#pragma unroll 1
  for (u32 i = 2 * threadIdx.x; i < rows * kRow; i += 2 * blockDim.x) {
    const u32 position = first * kRow + i;
    Two<Word> sums[2];
    sums_at<F>(a, place, p, position, sums);
#pragma unroll
    for (u32 c = 0; c < 2; ++c) {
      const Value* const rest = shared + (c * rows + i / kRow) * RowShape::kWords;
#pragma unroll
      for (u32 k = 0; k < 2; ++k) {
        const Value product = F::mul_reduced(F::load(sums[c].at[k]), factor, p);
        sums[c].at[k] = sum_word<F>(product, rest[RowShape::at(static_cast<int>(i % kRow + k))], p);
      }
      *reinterpret_cast<Two<Word>*>(out[c] + position) = sums[c];
    }
  }
}

}  // namespace heliograph::backend::cuda
