// Forward and inverse NTT: one pass over global memory for N <= 2^13, two passes above. Values between the passes overwrite
// the operand's memory.
#pragma once

#include "backend/cuda/ring/transform.cuh"
#include "backend/cuda/ring/views.cuh"

namespace heliograph::backend::cuda {

inline constexpr int kRowBits = 8;  // log2 of N2, the contiguous part of a two-pass transform
inline constexpr u32 kRow = 1 << kRowBits;
inline constexpr u32 kMaxDigits = 64;

/// Addresses of the words that a first pass reads.
struct Source {
  enum Kind : u32 {
    plain,    // all words are in `a`, by component and limb
    product,  // components of `a`, then of `b`: limbs from `chain` on are in `raised`
    digits,   // digit j's own limbs are in `a`, its other limbs in `raised`
    others,   // digit j's other limbs from `raised`; the digit's own limbs are skipped
  } kind;
  u32 split, chain;  // number of components of `a`; number of limbs of the chain
  Strided a, b, raised;
  unsigned char first[kMaxDigits], count[kMaxDigits];

  __device__ __forceinline__ bool is_own(const ::heliograph::backend::cuda::At& at) const {
    return at.limb - first[at.component] < count[at.component];
  }

  template <class Word>
  __device__ __forceinline__ const Word* limb(const ::heliograph::backend::cuda::At& at) const {
    if (kind == product && at.limb < chain) {
      return at.component < split ? limb_of<Word>(a, at.item, at.component, at.limb)
                                  : limb_of<Word>(b, at.item, at.component - split, at.limb);
    }
    if (kind == digits && is_own(at)) return limb_of<Word>(a, at.item, 0, at.limb);
    return limb_of<Word>(kind == plain ? a : raised, at.item, at.component, at.limb);
  }
};

template <class F>
struct NttArguments {
  Source in;
  Strided out;
  Grid grid;
  Primes primes;
  const typename F::Prime* table;
  const typename F::Constant* twiddles;
  u32 n;
  Divisor components;  // number of components of the call
  u32 polynomials;     // number of items times components
};

template <class F, int L>
struct ColumnShape {
  static constexpr int kTogether = sizeof(typename F::Value) == 4 ? 2 : 1;  // columns of a thread, loaded at once
  static constexpr int kThreads = Transform<F, L>::kThreads;
  static constexpr int kNeighbours = 128 / kThreads > 16 ? 128 / kThreads : 16;
  static constexpr int kColumns = kNeighbours * kTogether;
  static constexpr int kBlock = kThreads * kNeighbours;
  /// Minimum blocks that a multiprocessor holds at once; this limits registers.
  static constexpr int kResident = (sizeof(typename F::Word) == 8 ? 1024 : 768) / kBlock;
  static constexpr std::size_t kShared = Transform<F, L>::kRounds > 1 ? sizeof(typename F::Value) * kColumns << L : 0;
};

/// The column pass: transforms of 2^L points at distance N2. Forward: from Words to Values; inverse: from Values to
/// canonical Words.
template <class F, int L, bool INVERSE>
__global__ void __launch_bounds__(ColumnShape<F, L>::kBlock, ColumnShape<F, L>::kResident)
    ntt_columns(const __grid_constant__ NttArguments<F> a) {
  take_turn();
  using Shape = ColumnShape<F, L>;
  constexpr int P = Shape::kTogether;
  using T = Transform<F, L, P>;
  using Word = typename F::Word;
  using Value = typename F::Value;
  using Stored = typename F::Stored;
  struct alignas(P * sizeof(Word)) Words {
    Word at[P];
  };
  struct alignas(P * sizeof(Stored)) Pack {
    Stored at[P];
  };
  extern __shared__ __align__(16) unsigned char raw[];
  auto* const shared = reinterpret_cast<Value*>(raw);
  const At at = locate_in_order(a.grid, blockIdx.x);
  if (!INVERSE && a.in.kind == Source::others && a.in.is_own(at)) return;
  const ColumnLayout<Shape::kNeighbours, P> layout{static_cast<int>(threadIdx.x) % Shape::kNeighbours};
  const int t = static_cast<int>(threadIdx.x) / Shape::kNeighbours;
  const u32 column = at.part * Shape::kColumns + static_cast<u32>(layout.column) * P;
  const u32 prime = a.primes.index[at.limb];
  const typename F::Prime p = a.table[prime];
  const typename F::Constant* const tw = a.twiddles + u64{prime} * a.n;
  typename T::Values v;
  if constexpr (INVERSE) {
    const Stored* const in = limb_of<Stored>(a.in.a, at.item, at.component, at.limb) + column;
    T::each_last(t, [&](int r, int point) {
      const Pack s = *reinterpret_cast<const Pack*>(in + static_cast<u32>(point) * kRow);
#pragma unroll
      for (int k = 0; k < P; ++k) v[k][r] = F::restore(s.at[k]);
    });
    T::template inverse<true>(v, t, 1, tw, p, shared, layout);
    Word* const out = limb_of<Word>(a.out, at.item, at.component, at.limb) + column;
    T::each_first(t, [&](int r, int point) {
      Words w;
#pragma unroll
      for (int k = 0; k < P; ++k) w.at[k] = F::canonical(v[k][r], p);
      *reinterpret_cast<Words*>(out + static_cast<u32>(point) * kRow) = w;
    });
  } else {
    const Word* const in = a.in.template limb<Word>(at) + column;
    T::each_first(t, [&](int r, int point) {
      const Words w = *reinterpret_cast<const Words*>(in + static_cast<u32>(point) * kRow);
#pragma unroll
      for (int k = 0; k < P; ++k) v[k][r] = F::load(w.at[k]);
    });
    T::forward(v, t, 1, tw, p, shared, layout);
    Stored* const out = limb_of<Stored>(a.out, at.item, at.component, at.limb) + column;
    T::each_last(t, [&](int r, int point) {
      Pack s;
#pragma unroll
      for (int k = 0; k < P; ++k) s.at[k] = F::store(v[k][r], p);
      *reinterpret_cast<Pack*>(out + static_cast<u32>(point) * kRow) = s;
    });
  }
}

template <class F, int L, bool WHOLE>
struct RowBlocks {
  static constexpr int kMostThreads = WHOLE ? Transform<F, L>::kThreads : 128;
  // minimum blocks that a multiprocessor holds at once; this limits registers
  static constexpr int kResident = WHOLE ? 1 : sizeof(typename F::Value) == 4 ? 6 : 4;
};

/// A thread of a row pass: `at` is its block's position, `t` its number in the row, `shared` the row's shared memory.
template <class F>
struct RowThread {
  At at;
  u32 t, row;
  typename F::Value* shared;
  u32 prime;
  typename F::Prime p;
};
/// T: the transform of a row; `raw`: the block's shared memory.
template <class T, class Layout, class F>
__device__ __forceinline__ RowThread<F> row_thread(const NttArguments<F>& a, unsigned char* raw) {
  const At at = locate(a.grid, blockIdx.x);
  const u32 t = threadIdx.x % T::kThreads, inside = threadIdx.x / T::kThreads;
  const u32 row = at.part * (blockDim.x / T::kThreads) + inside;
  auto* const shared = reinterpret_cast<typename F::Value*>(raw) + inside * Layout::kWords;
  const u32 prime = a.primes.index[at.limb];
  return {at, t, row, shared, prime, a.table[prime]};
}

/// The row pass: 2^L contiguous points of P polynomials for each thread, which loads their twiddles once. WHOLE: a row is a
/// polynomial, and there is no column pass. The grid's components are groups of P of the call's items times components.
template <class F, int L, int P, bool INVERSE, bool WHOLE>
__global__ void __launch_bounds__(RowBlocks<F, L, WHOLE>::kMostThreads, RowBlocks<F, L, WHOLE>::kResident)
    ntt_rows(const __grid_constant__ NttArguments<F> a) {
  take_turn();
  using T = Transform<F, L, P>;
  using Layout = RowLayout<L, T::kThreads <= 16>;
  extern __shared__ __align__(16) unsigned char raw[];
  const auto [at, t, row, shared, prime, p] = row_thread<T, Layout>(a, raw);
  const typename F::Constant* const tw = a.twiddles + u64{prime} * a.n;
  const u32 root = WHOLE ? 1 : (a.n >> L) + row;
  const Layout layout;
  typename T::Values v;
  const typename F::Word* in[P];
  typename F::Word* out[P];
#pragma unroll
  for (int k = 0; k < P; ++k) {  // beyond the end, compute the last polynomial again and do not store it
    const u32 polynomial = least(at.component * P + k, a.polynomials - 1);
    u32 component = polynomial;
    const u32 item = a.components.divide(component);
    in[k] = limb_of<typename F::Word>(a.in.a, item, component, at.limb) + (row << L);
    out[k] = limb_of<typename F::Word>(a.out, item, component, at.limb) + (row << L);
  }
  const auto ours = [&](int k) { return P == 1 || at.component * P + k < a.polynomials; };
  if constexpr (INVERSE) {
    typename F::Word words[P][T::kEach];
#pragma unroll
    for (int k = 0; k < P; ++k) T::each_first(t, [&](int r, int point) { words[k][r] = in[k][point]; });
#pragma unroll
    for (int k = 0; k < P; ++k) {
      if (k > 0) Layout::sync();
      T::each_first(t, [&](int r, int point) { shared[layout.at(point)] = F::load(words[k][r]); });
      Layout::sync();
      T::each_last(t, [&](int r, int point) { v[k][r] = shared[layout.at(point)]; });
    }
    Layout::sync();
    T::template inverse<WHOLE>(v, t, root, tw, p, shared, layout);
#pragma unroll
    for (int k = 0; k < P; ++k) {
      if (!ours(k)) continue;
      T::each_first(t, [&](int r, int point) {
        if constexpr (WHOLE) {
          out[k][point] = F::canonical(v[k][r], p);
        } else {
          reinterpret_cast<typename F::Stored*>(out[k])[point] = F::store(v[k][r], p);
        }
      });
    }
  } else {
#pragma unroll
    for (int k = 0; k < P; ++k) {
      T::each_first(t, [&](int r, int point) {
        if constexpr (WHOLE) {
          v[k][r] = F::load(in[k][point]);
        } else {
          v[k][r] = F::restore(reinterpret_cast<const typename F::Stored*>(in[k])[point]);
        }
      });
    }
    T::forward(v, t, root, tw, p, shared, layout);
#pragma unroll
    for (int k = 0; k < P; ++k) {
      Layout::sync();
      T::each_last(t, [&](int r, int point) { shared[layout.at(point)] = v[k][r]; });
      Layout::sync();
      if (!ours(k)) continue;
      T::each_first(t, [&](int, int point) { out[k][point] = F::canonical(shared[layout.at(point)], p); });
    }
  }
}

/// Transforms of rings that are smaller than a row: radix 2 in shared memory, one block for each limb.
template <class F, bool INVERSE>
__global__ void ntt_small(const __grid_constant__ NttArguments<F> a) {
  take_turn();
  extern __shared__ __align__(16) unsigned char raw[];
  auto* const x = reinterpret_cast<typename F::Value*>(raw);
  const At at = locate(a.grid, blockIdx.x);
  const u32 prime = a.primes.index[at.limb], half = a.n / 2, i = threadIdx.x;
  const typename F::Prime p = a.table[prime];
  const typename F::Constant* const tw = a.twiddles + u64{prime} * a.n;
  const auto* const in = limb_of<typename F::Word>(a.in.a, at.item, at.component, at.limb);
  auto* const out = limb_of<typename F::Word>(a.out, at.item, at.component, at.limb);
  for (u32 k = i; k < a.n; k += half) x[k] = F::load(in[k]);
  for (u32 step = 1; step < a.n; step *= 2) {
    const u32 m = INVERSE ? half / step : step, t = INVERSE ? step : half / step;
    const u32 group = i / t, at_u = 2 * group * t + i % t;
    __syncthreads();
    typename F::Value u = x[at_u], v = x[at_u + t];
    if constexpr (INVERSE) {
      if (m == 1) {
        F::inverse_last(u, v, p);
      } else {
        F::inverse(u, v, tw[m + group], p, true);
      }
    } else {
      F::forward(u, v, tw[m + group], p, true);
    }
    x[at_u] = u, x[at_u + t] = v;
  }
  __syncthreads();
  for (u32 k = i; k < a.n; k += half) out[k] = F::canonical(x[k], p);
}

}  // namespace heliograph::backend::cuda
