// The inner part of the negacyclic transform, for all kernels: transforms 2^L points along one axis, 16 (or all 2^L) of them
// in each thread's registers. A round runs up to four butterfly stages; between rounds the threads exchange points in shared
// memory.
//
// N = N1 * N2. The first stages combine points at distance N2 (columns of N1 points). After these stages each contiguous row
// r is independent, with `root` N1 + r: stage s of the row uses the twiddles (root << s) + i. The inverse transform runs the
// stages in reverse order.
#pragma once

#include "backend/cuda/ring/field.cuh"

namespace heliograph::backend::cuda {

template <class F, int COUNT>
__device__ __forceinline__ void load_constants(const typename F::Constant* from, typename F::Constant (&to)[COUNT]) {
  constexpr int kBytes = COUNT * static_cast<int>(sizeof(typename F::Constant));
  if constexpr (kBytes % 16 == 0) {
    union {
      uint4 raw[kBytes / 16];
      typename F::Constant typed[COUNT];
    } u;
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) u.raw[i] = __ldg(reinterpret_cast<const uint4*>(from) + i);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) to[i] = u.typed[i];
  } else {
    static_assert(COUNT == 1 && kBytes == 8);
    union {
      uint2 raw;
      typename F::Constant typed[COUNT];
    } u;
    u.raw = __ldg(reinterpret_cast<const uint2*>(from));
    to[0] = u.typed[0];
  }
}

/// One round: runs K of the L stages, after the first S0, on P polynomials with the same twiddles.
template <class F, int L, int S0, int K, int E, int P>
struct Round {
  static constexpr int kGroups = E >> K, kThreads = (1 << L) / E, kLow = L - S0 - K;

  /// Returns the point in register g * 2^K + e of thread t.
  static __device__ __forceinline__ int point(int t, int g, int e) {
    const int other = t + g * kThreads;
    return (other >> kLow) << (kLow + K) | e << kLow | (other & ((1 << kLow) - 1));
  }
  static __device__ __forceinline__ u32 node(int t, int g, u32 root) {
    return root << S0 | static_cast<u32>((t + g * kThreads) >> kLow);
  }

  /// Calls butterfly(x, y, twiddle) for each pair of stage S in one group.
  template <int S, class Butterfly>
  static __device__ __forceinline__ void each_pair(typename F::Value (&v)[P][E], int g, u32 node,
                                                   const typename F::Constant* tw, Butterfly butterfly) {
    typename F::Constant w[1 << S];
    load_constants<F, 1 << S>(tw + (node << S), w);
    constexpr int half = 1 << (K - 1 - S);
#pragma unroll
    for (int j = 0; j < (1 << S); ++j) {
#pragma unroll
      for (int i = 0; i < half; ++i) {
        const int at = g * (1 << K) + j * 2 * half + i;
#pragma unroll
        for (int k = 0; k < P; ++k) butterfly(v[k][at], v[k][at + half], w[j]);
      }
    }
  }

  template <int S>
  static __device__ __forceinline__ void forward_stage(typename F::Value (&v)[P][E], int g, u32 node,
                                                       const typename F::Constant* tw, const typename F::Prime& p) {
    using Value = typename F::Value;
    each_pair<S>(v, g, node, tw, [&](Value& x, Value& y, const typename F::Constant& w) { F::forward(x, y, w, p, S == 0); });
    if constexpr (S + 1 < K) forward_stage<S + 1>(v, g, node, tw, p);
  }
  static __device__ __forceinline__ void forward(typename F::Value (&v)[P][E], int t, u32 root,
                                                 const typename F::Constant* tw, const typename F::Prime& p) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) forward_stage<0>(v, g, node(t, g, root), tw, p);
  }

  template <int S, bool LAST>
  static __device__ __forceinline__ void inverse_stage(typename F::Value (&v)[P][E], int g, u32 node,
                                                       const typename F::Constant* tw, const typename F::Prime& p) {
    constexpr int half = 1 << (K - 1 - S);
    if constexpr (LAST && S == 0 && S0 == 0) {
#pragma unroll
      for (int i = 0; i < half; ++i) {
#pragma unroll
        for (int k = 0; k < P; ++k) F::inverse_last(v[k][g * (1 << K) + i], v[k][g * (1 << K) + i + half], p);
      }
    } else {
      using Value = typename F::Value;
      constexpr bool reduce = S == 0 || (K - 1 - S) % 2 == 1;
      each_pair<S>(v, g, node, tw,
                   [&](Value& x, Value& y, const typename F::Constant& w) { F::inverse(x, y, w, p, reduce); });
    }
    if constexpr (S > 0) inverse_stage<S - 1, LAST>(v, g, node, tw, p);
  }
  template <bool LAST>
  static __device__ __forceinline__ void inverse(typename F::Value (&v)[P][E], int t, u32 root,
                                                 const typename F::Constant* tw, const typename F::Prime& p) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) inverse_stage<K - 1, LAST>(v, g, node(t, g, root), tw, p);
  }
};

/// A transform of 2^L points. `Layout::at(point)` is the position of a point in shared memory, for the thread's row or
/// column. `Layout::sync()` synchronizes the threads of this row or column.
template <class F, int L, int P = 1>
struct Transform {
  static constexpr int kEach = L < 4 ? 1 << L : 16;
  static constexpr int kThreads = (1 << L) / kEach;
  static constexpr int kRounds = (L + 3) / 4;
  using Values = typename F::Value[P][kEach];

  template <int I>
  using At = Round<F, L, 4 * I, (I + 1 < kRounds ? 4 : L - 4 * I), kEach, P>;
  using First = At<0>;
  using Last = At<kRounds - 1>;
  static constexpr int kFirstBits = kRounds > 1 ? 4 : L, kLastBits = L - 4 * (kRounds - 1);

  template <int BITS, class RoundT, class Body>
  static __device__ __forceinline__ void each(int t, Body body) {
#pragma unroll
    for (int g = 0; g < (kEach >> BITS); ++g) {
#pragma unroll
      for (int e = 0; e < (1 << BITS); ++e) body(g * (1 << BITS) + e, RoundT::point(t, g, e));
    }
  }
  /// Calls body(register, point) for the points of a thread at the start of a forward transform, or at the end of an inverse
  /// one.
  template <class Body>
  static __device__ __forceinline__ void each_first(int t, Body body) {
    each<kFirstBits, First>(t, body);
  }
  /// Calls body(register, point) for the points of a thread at the end of a forward transform, or at the start of an inverse
  /// one.
  template <class Body>
  static __device__ __forceinline__ void each_last(int t, Body body) {
    each<kLastBits, Last>(t, body);
  }

  /// Moves points from the threads of one round to the threads of the next round. `again`: other threads may still read the
  /// shared memory.
  template <int FROM_BITS, class From, int TO_BITS, class To, class Layout>
  static __device__ __forceinline__ void exchange(Values& v, int t, typename F::Value* shared, const Layout& layout,
                                                  bool again) {
    if constexpr (Layout::kTogether == P) {  // a point's values of all polynomials are adjacent
      struct alignas(P * sizeof(typename F::Value)) Pack {
        typename F::Value at[P];
      };
      auto* const packs = reinterpret_cast<Pack*>(shared);
      if (again) layout.sync();
      each<FROM_BITS, From>(t, [&](int r, int point) {
        Pack s;
#pragma unroll
        for (int k = 0; k < P; ++k) s.at[k] = v[k][r];
        packs[layout.at(point)] = s;
      });
      layout.sync();
      each<TO_BITS, To>(t, [&](int r, int point) {
        const Pack s = packs[layout.at(point)];
#pragma unroll
        for (int k = 0; k < P; ++k) v[k][r] = s.at[k];
      });
    } else {
#pragma unroll
      for (int k = 0; k < P; ++k) {
        if (again || k > 0) layout.sync();
        each<FROM_BITS, From>(t, [&](int r, int point) { shared[layout.at(point)] = v[k][r]; });
        layout.sync();
        each<TO_BITS, To>(t, [&](int r, int point) { v[k][r] = shared[layout.at(point)]; });
      }
    }
  }

  template <int I, class Layout>
  static __device__ __forceinline__ void forward_from(Values& v, int t, u32 root, const typename F::Constant* tw,
                                                      const typename F::Prime& p, typename F::Value* shared,
                                                      const Layout& layout) {
    At<I>::forward(v, t, root, tw, p);
    if constexpr (I + 1 < kRounds) {
      constexpr int next = I + 2 < kRounds ? 4 : L - 4 * (I + 1);
      exchange<4, At<I>, next, At<I + 1>>(v, t, shared, layout, I > 0);
      forward_from<I + 1>(v, t, root, tw, p, shared, layout);
    }
  }
  template <class Layout>
  static __device__ __forceinline__ void forward(Values& v, int t, u32 root, const typename F::Constant* tw,
                                                 const typename F::Prime& p, typename F::Value* shared,
                                                 const Layout& layout) {
    forward_from<0>(v, t, root, tw, p, shared, layout);
  }

  template <int I, bool LAST, class Layout>
  static __device__ __forceinline__ void inverse_from(Values& v, int t, u32 root, const typename F::Constant* tw,
                                                      const typename F::Prime& p, typename F::Value* shared,
                                                      const Layout& layout) {
    At<I>::template inverse<LAST>(v, t, root, tw, p);
    if constexpr (I > 0) {
      constexpr int here = I + 1 < kRounds ? 4 : L - 4 * I;
      exchange<here, At<I>, 4, At<I - 1>>(v, t, shared, layout, I + 1 < kRounds);
      inverse_from<I - 1, LAST>(v, t, root, tw, p, shared, layout);
    }
  }
  /// LAST: this is the whole inverse transform, so it also multiplies by 1/n.
  template <bool LAST, class Layout>
  static __device__ __forceinline__ void inverse(Values& v, int t, u32 root, const typename F::Constant* tw,
                                                 const typename F::Prime& p, typename F::Value* shared,
                                                 const Layout& layout) {
    inverse_from<kRounds - 1, LAST>(v, t, root, tw, p, shared, layout);
  }
};

/// A contiguous row in shared memory with a word of padding after each 16, so that strides of 16 use every bank.
template <int L, bool WARP>
struct RowLayout {
  static constexpr int kTogether = 1;  // number of polynomials of a thread that are exchanged at once
  static constexpr int kWords = (1 << L) + (1 << L) / 16;
  static __device__ __forceinline__ int at(int point) { return point + (point >> 4); }
  static __device__ __forceinline__ void sync() {
    if constexpr (WARP) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
};

/// COLUMNS groups of adjacent columns in shared memory; each group has TOGETHER columns.
template <int COLUMNS, int TOGETHER>
struct ColumnLayout {
  static constexpr int kTogether = TOGETHER;
  int column;
  __device__ __forceinline__ int at(int point) const { return point * COLUMNS + column; }
  static __device__ __forceinline__ void sync() { __syncthreads(); }
};

}  // namespace heliograph::backend::cuda
