// Rows of the composites that keep polynomials in the NTT domain: the sums of a key switch, and the end of a division. Only
// limbs that are divided out are transformed inversely. The structure is that of rows.cuh; operands in the NTT domain are
// words.
#pragma once

#include "backend/cuda/ring/rows.cuh"

namespace heliograph::backend::cuda {

inline constexpr unsigned char kNoDigit = 255;

template <class F>
struct SwitchArguments {
  KeyArguments<F> key;       // rows.polynomials: Values of the limbs that are divided out
  Strided own, added, kept;  // words: the decomposed polynomial; the addend; sums of the remaining limbs
  const u32* turn;           // table of the automorphism of the digits, `own` and `added` (CudaPermutation)
  u32 stay, chain, added_components;
  typename F::Word weight[device::kMaxLimbs];  // weight of the addend
  unsigned char digit[device::kMaxLimbs];      // digit whose own limbs include this one; kNoDigit: none
};

/// Computes sums over digits of digit times key, plus weight times the addend. A digit's own limb is the polynomial's limb,
/// which is in the NTT domain. The digit's other limbs are Values whose rows this kernel transforms. TRANSFORMED: all limbs
/// of the digits are already transformed, in `key.digits`. TURNED: all operands are permuted as they are read; an
/// automorphism maps rows to rows.
template <class F, bool TRANSFORMED, bool TURNED>
__global__ void __launch_bounds__(kKeyGroups* kGroupThreads, 3)
    switch_rows_kernel(const __grid_constant__ SwitchArguments<F> s) {
  take_turn();
  using Word = typename F::Word;
  using Value = typename F::Value;
  static_assert(kKeyGroups * kGroupThreads == kRow, "thread i takes position i of each row");
  extern __shared__ __align__(16) unsigned char raw[];
  auto* const shared = reinterpret_cast<Value*>(raw);
  const KeyArguments<F>& a = s.key;
  const At at = locate(a.rows.grid, blockIdx.x);
  const u32 group = threadIdx.x / kGroupThreads, r = threadIdx.x / kRowThreads % kBlockRows, t = threadIdx.x % kRowThreads;
  const u32 first = at.part * kBlockRows, row = first + r, root = a.rows.n / kRow + row;
  const u32 row_from = TURNED ? __ldg(s.turn + row * kRow) / (2 * kRow) : row;
  const u32 position = first * kRow + threadIdx.x;  // position in the first row; kRow more in each further row
  const u32 prime = a.rows.primes.index[at.limb], key_limb = a.key_limbs.index[at.limb];
  const typename F::Prime p = a.rows.table[prime];
  Value* const mine = shared + group * kGroupWords + r * RowShape::kWords;
  const u32 in_row = static_cast<u32>(RowShape::at(static_cast<int>(threadIdx.x)));
  KeySum<F> sums[kBlockRows][2];
#pragma unroll
  for (u32 k = 0; k < kBlockRows; ++k) sums[k][0].start(), sums[k][1].start();
  u32 from[kBlockRows];  // source positions of the automorphism
#pragma unroll
  for (u32 k = 0; k < kBlockRows; ++k) from[k] = TURNED ? __ldg(s.turn + position + k * kRow) >> 1 : position + k * kRow;
  // value(k): the digit's value at this thread's position in row k.
  const auto multiply = [&](u32 digit, auto value) {
    const Word* const k0 = limb_of<Word>(a.key, 0, 2 * digit, key_limb) + position;
    const Word* const k1 = k0 + a.key.component;
#pragma unroll
    for (u32 k = 0; k < kBlockRows; ++k) {
      const Value x = value(k);
      sums[k][0].add(x, F::load(__ldg(k0 + k * kRow)), p);
      sums[k][1].add(x, F::load(__ldg(k1 + k * kRow)), p);
    }
  };
  // Phase 1: products of the digits and the key, kKeyGroups digits at a time. Each group of threads transforms the rows of
  // one digit.
  const u32 own = TRANSFORMED ? u32{kNoDigit} : u32{s.digit[at.limb]};
  const u32 count = own == kNoDigit ? a.count : a.count - 1;  // number of digits, without the digit `own`
  for (u32 done = 0; done < count; done += kKeyGroups) {
    const u32 here = least(kKeyGroups, count - done);
    if constexpr (TRANSFORMED) {
      for (u32 d = 0; d < here; ++d) {
        const Word* const digit = limb_of<Word>(a.digits, at.item, done + d, at.limb);
        multiply(done + d, [&](u32 k) { return F::load(digit[from[k]]); });
      }
    } else {
      const auto digit_of = [&](u32 d) { return done + d < own ? done + d : done + d + 1; };
      if (done > 0) __syncthreads();
      if (group < here) {
        row_forward<F>(limb_of<Value>(a.digits, at.item, digit_of(group), at.limb) + row_from * kRow, mine, t,
                       a.rows.n / kRow + row_from, a.rows.forward + u64{prime} * a.rows.n, p);
      }
      __syncthreads();
      for (u32 d = 0; d < here; ++d) {
        const Value* const digit = shared + d * kGroupWords;
        multiply(digit_of(d), [&](u32 k) {
          const u32 at_row = TURNED ? static_cast<u32>(RowShape::at(static_cast<int>(from[k] % kRow))) : in_row;
          return F::reduce(digit[k * RowShape::kWords + at_row], p);
        });
      }
    }
#pragma unroll
    for (u32 k = 0; k < kBlockRows; ++k) sums[k][0].fold(p), sums[k][1].fold(p);
  }
  // Phase 2: the digit whose own limb is this limb, and the added ciphertext.
  if (own != kNoDigit) {
    const Word* const x = limb_of<Word>(s.own, at.item, 0, at.limb);
    multiply(own, [&](u32 k) { return F::load(x[from[k]]); });
  }
  if (at.limb < s.chain) {
    const Value weight = F::load(s.weight[at.limb]);
#pragma unroll
    for (u32 c = 0; c < 2; ++c) {
      if (c >= s.added_components) break;
      const Word* const x = limb_of<Word>(s.added, at.item, c, at.limb);
#pragma unroll
      for (u32 k = 0; k < kBlockRows; ++k) sums[k][c].add(F::load(x[from[k]]), weight, p);
    }
  }
#pragma unroll
  for (u32 k = 0; k < kBlockRows; ++k) sums[k][0].fold(p), sums[k][1].fold(p);

  // Phase 3: sums of remaining limbs are stored; the rows of limbs that are divided out are transformed inversely.
  if (at.limb < s.stay) {
#pragma unroll
    for (u32 c = 0; c < 2; ++c) {
      Word* const out = limb_of<Word>(s.kept, at.item, c, at.limb) + position;
#pragma unroll
      for (u32 k = 0; k < kBlockRows; ++k) out[k * kRow] = F::canonical(sums[k][c].finish(p), p);
    }
    return;  // all threads of the block return here
  }
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < kBlockRows; ++k) {
    const u32 word = k * RowShape::kWords + in_row;
    shared[word] = sums[k][0].finish(p);
    shared[kGroupWords + word] = sums[k][1].finish(p);
  }
  __syncthreads();
  if (group < 2) {
    row_inverse<F>(limb_of<Value>(a.rows.polynomials, at.item, group, at.limb - s.stay) + row * kRow, mine, t, root,
                   a.rows.inverse + u64{prime} * a.rows.n, p);
  }
}

template <class F>
struct DivideArguments {
  NttArguments<F> rows;  // in: Values of the remainders; the grid's components are groups of P polynomials
  Strided beside;        // operand in words
  typename F::Word own[device::kMaxLimbs];
};

/// Returns the canonical sum of a product and a value of a transform.
template <class F>
__device__ __forceinline__ typename F::Word sum_word(typename F::Value product, typename F::Value value,
                                                     const typename F::Prime& p) {
  if constexpr (std::is_same_v<F, Field50>) {
    return F::canonical(__dadd_rn(product, value), p);  // the sum is below 5q in magnitude and exact
  } else {
    return F::add_reduced(product, F::canonical(value, p), p);
  }
}

/// Computes out = own * beside + the remainders, whose rows this kernel transforms. `out` may be `beside`, or the memory of
/// the remainders.
template <class F, int P>
__global__ void __launch_bounds__(RowBlocks<F, kRowBits, false>::kMostThreads, RowBlocks<F, kRowBits, false>::kResident)
    divide_rows_kernel(const __grid_constant__ DivideArguments<F> d) {
  take_turn();
  using T = Transform<F, kRowBits, P>;
  using Word = typename F::Word;
  extern __shared__ __align__(16) unsigned char raw[];
  const NttArguments<F>& a = d.rows;
  const auto [at, t, row, shared, prime, p] = row_thread<T, RowShape>(a, raw);
  const typename F::Value factor = F::load(d.own[at.limb]);
  const RowShape layout;
  typename T::Values v;
  const Word* beside[P];
  Word* out[P];
#pragma unroll
  for (int k = 0; k < P; ++k) {  // beyond the end, compute the last polynomial again and do not store it
    u32 component = least(at.component * P + k, a.polynomials - 1);
    const u32 item = a.components.divide(component);
    const auto* const in = limb_of<typename F::Value>(a.in.a, item, component, at.limb) + row * kRow;
    beside[k] = limb_of<Word>(d.beside, item, component, at.limb) + row * kRow;
    out[k] = limb_of<Word>(a.out, item, component, at.limb) + row * kRow;
    T::each_first(static_cast<int>(t), [&](int r, int point) { v[k][r] = in[point]; });
  }
  T::forward(v, static_cast<int>(t), a.n / kRow + row, a.twiddles + u64{prime} * a.n, p, shared, layout);
#pragma unroll
  for (int k = 0; k < P; ++k) {
    RowShape::sync();
    T::each_last(static_cast<int>(t), [&](int r, int point) { shared[layout.at(point)] = v[k][r]; });
    Word x[T::kEach];  // all loads precede the first store, because the operands may be the same memory
    T::each_first(static_cast<int>(t), [&](int r, int point) { x[r] = beside[k][point]; });
    RowShape::sync();
    if (P > 1 && at.component * P + k >= a.polynomials) continue;
    T::each_first(static_cast<int>(t), [&](int r, int point) {
      out[k][point] = sum_word<F>(F::mul_reduced(F::load(x[r]), factor, p), shared[layout.at(point)], p);
    });
  }
}

}  // namespace heliograph::backend::cuda
