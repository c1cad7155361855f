// Middle parts of composites: one launch does all work on a row between the column passes. Sixteen threads per row transform
// the row of one polynomial; shared memory passes rows of several polynomials between these groups of threads.
#pragma once

#include "backend/cuda/ring/conversion.cuh"
#include "backend/cuda/ring/ntt.cuh"

namespace heliograph::backend::cuda {

inline constexpr u32 kRowThreads = kRow / 16;
inline constexpr u32 kBlockRows = 4;
using RowShape = RowLayout<kRowBits, true>;
inline constexpr u32 kGroupWords = kBlockRows * RowShape::kWords;
inline constexpr u32 kGroupThreads = kBlockRows * kRowThreads;

template <class F>
struct RowArguments {
  Strided polynomials;  // array of Values; the results overwrite its first components
  Grid grid;            // a part of the grid has kBlockRows rows
  Primes primes;
  const typename F::Prime* table;
  const typename F::Constant *forward, *inverse;
  u32 n;
};

/// Transforms a row of Values from global memory to shared memory.
template <class F>
__device__ __forceinline__ void row_forward(const typename F::Value* from, typename F::Value* shared, u32 t, u32 root,
                                            const typename F::Constant* tw, const typename F::Prime& p) {
  using T = Transform<F, kRowBits>;
  const RowShape layout;
  typename T::Values v;
  T::each_first(static_cast<int>(t), [&](int r, int point) { v[0][r] = from[point]; });
  T::forward(v, static_cast<int>(t), root, tw, p, shared, layout);
  RowShape::sync();
  T::each_last(static_cast<int>(t), [&](int r, int point) { shared[layout.at(point)] = v[0][r]; });
}

/// Transforms a row inversely from shared memory to global memory.
template <class F>
__device__ __forceinline__ void row_inverse(typename F::Value* to, typename F::Value* shared, u32 t, u32 root,
                                            const typename F::Constant* tw, const typename F::Prime& p) {
  using T = Transform<F, kRowBits>;
  const RowShape layout;
  typename T::Values v;
  T::each_last(static_cast<int>(t), [&](int r, int point) { v[0][r] = shared[layout.at(point)]; });
  RowShape::sync();
  T::template inverse<false>(v, static_cast<int>(t), root, tw, p, shared, layout);
  T::each_first(static_cast<int>(t), [&](int r, int point) { to[point] = v[0][r]; });
}

/// Computes the product's components a0 b0, a0 b1 + a1 b0, a1 b1.
template <class F, bool SQUARE>
__global__ void __launch_bounds__((SQUARE ? 3 : 4) * kGroupThreads, 4)
    tensor_rows_kernel(const __grid_constant__ RowArguments<F> a) {
  take_turn();
  constexpr u32 kInputs = SQUARE ? 2 : 4, kBlock = (SQUARE ? 3 : 4) * kGroupThreads;
  extern __shared__ __align__(16) unsigned char raw[];
  auto* const shared = reinterpret_cast<typename F::Value*>(raw);
  const At at = locate(a.grid, blockIdx.x);
  const u32 group = threadIdx.x / kGroupThreads, r = threadIdx.x / kRowThreads % kBlockRows, t = threadIdx.x % kRowThreads;
  const u32 row = at.part * kBlockRows + r, root = a.n / kRow + row;
  const u32 prime = a.primes.index[at.limb];
  const typename F::Prime p = a.table[prime];
  typename F::Value* const own = shared + group * kGroupWords + r * RowShape::kWords;
  auto* const global = limb_of<typename F::Value>(a.polynomials, at.item, group, at.limb) + row * kRow;
  if (group < kInputs) row_forward<F>(global, own, t, root, a.forward + u64{prime} * a.n, p);
  __syncthreads();
  for (u32 i = threadIdx.x; i < kBlockRows * kRow; i += kBlock) {
    typename F::Value* const x = shared + i / kRow * RowShape::kWords + RowShape::at(static_cast<int>(i % kRow));
    const auto a0 = F::reduce(x[0], p), a1 = F::reduce(x[kGroupWords], p);
    if constexpr (SQUARE) {
      const auto cross = F::mul_reduced(a0, a1, p);
      x[kGroupWords] = F::add_reduced(cross, cross, p);
      x[0] = F::mul_reduced(a0, a0, p);
      x[2 * kGroupWords] = F::mul_reduced(a1, a1, p);
    } else {
      const auto b0 = F::reduce(x[2 * kGroupWords], p), b1 = F::reduce(x[3 * kGroupWords], p);
      x[0] = F::mul_reduced(a0, b0, p);
      x[kGroupWords] = F::add_reduced(F::mul_reduced(a0, b1, p), F::mul_reduced(a1, b0, p), p);
      x[2 * kGroupWords] = F::mul_reduced(a1, b1, p);
    }
  }
  __syncthreads();
  if (group < 3) row_inverse<F>(global, own, t, root, a.inverse + u64{prime} * a.n, p);
}

/// The sum over the digits of each digit times its key.
template <class F>
struct KeySum {
  Sum<F> sum;
  __device__ __forceinline__ void start() { sum.start(); }
  __device__ __forceinline__ void add(typename F::Value x, typename F::Value k, const typename F::Prime&) { sum.add(x, k); }
  __device__ __forceinline__ void fold(const typename F::Prime& p) { sum.fold(p); }
  __device__ __forceinline__ typename F::Value finish(const typename F::Prime& p) { return sum.finish(p); }
};
template <>
struct KeySum<Field50> {
  double sum;  // at most q/2 after a fold; each product adds at most 3q/4
  __device__ __forceinline__ void start() { sum = 0; }
  __device__ __forceinline__ void add(double x, double k, const Field50::Prime& p) {
    sum = __dadd_rn(sum, Field50::mul_reduced(x, k, p));
  }
  __device__ __forceinline__ void fold(const Field50::Prime& p) { sum = Field50::reduce(sum, p); }
  __device__ __forceinline__ double finish(const Field50::Prime&) { return sum; }
};

template <class F>
struct KeyArguments {
  RowArguments<F> rows;  // arguments for the rows of the key switch's sums
  Strided digits, key;
  Primes key_limbs;
  u32 count;  // number of digits
};

inline constexpr u32 kKeyGroups = 4;  // digits that a block processes at a time

/// Multiplies rows of digits by rows of a key. TRANSFORMED: the digits are canonical words in the NTT domain; otherwise they
/// are Values whose rows this kernel transforms.
template <class F, bool TRANSFORMED>
__global__ void __launch_bounds__(kKeyGroups* kGroupThreads, 3) key_rows_kernel(const __grid_constant__ KeyArguments<F> a) {
  take_turn();
  constexpr u32 kBlock = kKeyGroups * kGroupThreads;
  static_assert(kBlock == kRow, "thread i takes position i of each row");
  extern __shared__ __align__(16) unsigned char raw[];
  auto* const shared = reinterpret_cast<typename F::Value*>(raw);
  const At at = locate(a.rows.grid, blockIdx.x);
  const u32 group = threadIdx.x / kGroupThreads, r = threadIdx.x / kRowThreads % kBlockRows, t = threadIdx.x % kRowThreads;
  const u32 first = at.part * kBlockRows, row = first + r, root = a.rows.n / kRow + row;
  const u32 prime = a.rows.primes.index[at.limb], key_limb = a.key_limbs.index[at.limb];
  const typename F::Prime p = a.rows.table[prime];
  typename F::Value* const own = shared + group * kGroupWords + r * RowShape::kWords;
  KeySum<F> sums[kBlockRows][2];
#pragma unroll
  for (u32 k = 0; k < kBlockRows; ++k) sums[k][0].start(), sums[k][1].start();
  for (u32 done = 0; done < a.count; done += kKeyGroups) {
    const u32 here = least(kKeyGroups, a.count - done);
    if (!TRANSFORMED && done > 0) __syncthreads();
    if (!TRANSFORMED && group < here) {
      row_forward<F>(limb_of<typename F::Value>(a.digits, at.item, done + group, at.limb) + row * kRow, own, t, root,
                     a.rows.forward + u64{prime} * a.rows.n, p);
    }
    if (!TRANSFORMED) __syncthreads();
    for (u32 d = 0; d < here; ++d) {
      const auto* const k0 = limb_of<typename F::Word>(a.key, 0, 2 * (done + d), key_limb) + first * kRow + threadIdx.x;
      const auto* const k1 = k0 + a.key.component;
#pragma unroll
      for (u32 k = 0; k < kBlockRows; ++k) {
        typename F::Value x;
        if constexpr (TRANSFORMED) {
          const auto* const digit = limb_of<typename F::Word>(a.digits, at.item, done + d, at.limb);
          x = F::load(digit[(first + k) * kRow + threadIdx.x]);
        } else {
          const int word = RowShape::at(static_cast<int>(threadIdx.x));
          x = F::reduce(shared[d * kGroupWords + k * RowShape::kWords + static_cast<u32>(word)], p);
        }
        sums[k][0].add(x, F::load(__ldg(k0 + k * kRow)), p);
        sums[k][1].add(x, F::load(__ldg(k1 + k * kRow)), p);
      }
    }
#pragma unroll
    for (u32 k = 0; k < kBlockRows; ++k) sums[k][0].fold(p), sums[k][1].fold(p);
  }
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < kBlockRows; ++k) {
    const u32 word = k * RowShape::kWords + static_cast<u32>(RowShape::at(static_cast<int>(threadIdx.x)));
    shared[word] = sums[k][0].finish(p);
    shared[kGroupWords + word] = sums[k][1].finish(p);
  }
  __syncthreads();
  if (group < 2) {
    row_inverse<F>(limb_of<typename F::Value>(a.rows.polynomials, at.item, group, at.limb) + row * kRow, own, t, root,
                   a.rows.inverse + u64{prime} * a.rows.n, p);
  }
}

}  // namespace heliograph::backend::cuda
