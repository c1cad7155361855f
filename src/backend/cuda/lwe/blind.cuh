// Blind rotation with each sample's whole accumulator on chip, in registers and shared memory. The negacyclic transform of N
// real coefficients is a transform of N/2 complex values modulo X^(N/2) - i. The transform's tree has nodes X^L - exp(i pi
// theta), which split into X^(L/2) -+ exp(i pi theta/2). The only twiddle of a node is the root of X^(L/2). So the twist
// costs nothing, and a butterfly is six fused multiply-adds. A polynomial has N/32 threads of 16 values each. A transform
// splits sixteen nodes in registers, exchanges values through shared memory, splits sixteen more, and splits the rest
// (N/512) between neighbouring lanes. Frequencies stay in the tree's order.
#pragma once

#include <cmath>
#include <numbers>

#include "backend/cuda/lwe/tfhe.h"
#include "backend/cuda/runtime/launch.cuh"

namespace heliograph::backend::cuda {

constexpr u32 reversed4(u32 x) { return (x & 1) << 3 | (x & 2) << 1 | (x & 4) >> 1 | (x & 8) >> 3; }

__device__ __forceinline__ void forward_butterfly(double2& a, double2& b, double2 w) {
  const double x = fma(-w.y, b.y, fma(w.x, b.x, a.x)), y = fma(w.y, b.x, fma(w.x, b.y, a.y));
  b = {fma(2.0, a.x, -x), fma(2.0, a.y, -y)};
  a = {x, y};
}
__device__ __forceinline__ void inverse_butterfly(double2& a, double2& b, double2 w) {
  const double2 d = {a.x - b.x, a.y - b.y};
  a = {a.x + b.x, a.y + b.y};
  b = {fma(d.y, w.y, d.x * w.x), fma(-d.x, w.y, d.y * w.x)};
}
__device__ __forceinline__ double2 product(double2 a, double2 b) {
  return {fma(-a.y, b.y, a.x * b.x), fma(a.x, b.y, a.y * b.x)};
}
__device__ __forceinline__ void add_product(double2& sum, double2 a, double2 b) {
  sum = {fma(-a.y, b.y, fma(a.x, b.x, sum.x)), fma(a.y, b.x, fma(a.x, b.y, sum.y))};
}
__device__ __forceinline__ double2 times_i(double2 w) { return {-w.y, w.x}; }

/// Twiddles of a node's split into sixteen. The twiddles of a second child are i times those of the first child, and are not
/// stored.
struct Split16 {
  double2 a, b, c[2], d[4];
  __device__ __forceinline__ double2 third(u32 node) const { return node & 1 ? times_i(c[node >> 1]) : c[node >> 1]; }
  __device__ __forceinline__ double2 fourth(u32 node) const { return node & 1 ? times_i(d[node >> 1]) : d[node >> 1]; }
};

__device__ __forceinline__ void split16(double2 (&x)[16], const Split16& w) {
#pragma unroll
  for (u32 i = 0; i < 8; ++i) forward_butterfly(x[i], x[i + 8], w.a);
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    forward_butterfly(x[i], x[i + 4], w.b);
    forward_butterfly(x[i + 8], x[i + 12], times_i(w.b));
  }
#pragma unroll
  for (u32 node = 0; node < 4; ++node) {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) forward_butterfly(x[4 * node + i], x[4 * node + i + 2], w.third(node));
  }
#pragma unroll
  for (u32 node = 0; node < 8; ++node) forward_butterfly(x[2 * node], x[2 * node + 1], w.fourth(node));
}
__device__ __forceinline__ void join16(double2 (&x)[16], const Split16& w) {
#pragma unroll
  for (u32 node = 0; node < 8; ++node) inverse_butterfly(x[2 * node], x[2 * node + 1], w.fourth(node));
#pragma unroll
  for (u32 node = 0; node < 4; ++node) {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) inverse_butterfly(x[4 * node + i], x[4 * node + i + 2], w.third(node));
  }
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    inverse_butterfly(x[i], x[i + 4], w.b);
    inverse_butterfly(x[i + 8], x[i + 12], times_i(w.b));
  }
#pragma unroll
  for (u32 i = 0; i < 8; ++i) inverse_butterfly(x[i], x[i + 8], w.a);
}

/// Layout of the twiddles: 8 of the first split, [8][16 nodes] of the second, [8][threads] of the last.
template <u32 LOG_N>
struct BlindTransform {
  static constexpr u32 kDegree = 1u << LOG_N, kThreads = kDegree / 32;
  static constexpr u32 kLast = kThreads / 16;    // values of a node in the last split: 1, 2, 4 or 8
  static constexpr u32 kNodes = 16 / kLast;      // nodes of the last split in a thread
  static constexpr u32 kRow = kThreads + kLast;  // padded length of a row in shared memory, which avoids bank conflicts
  static constexpr u32 kArea = 16 * kRow;        // complex numbers that a polynomial takes in shared memory
  static constexpr u32 kTwiddles = 8 + 128 + 8 * kThreads;

  static_assert(kLast >= 1 && kLast <= 8);

  /// Returns the index of a thread's value at an angle of `step` eighths of pi from value 0. Keys are stored in the order of
  /// the angles.
  static constexpr u32 at_angle(u32 step) {
    const u32 path = reversed4(step);  // four bits; the highest bit belongs to the first split
    return path % kLast * kNodes + path / kLast;
  }

  static std::vector<Complex> twiddles() {
    std::vector<Complex> r;
    const auto root = [](double theta) {
      return Complex{std::cos(std::numbers::pi * theta), std::sin(std::numbers::pi * theta)};
    };
    const auto split = [&](double theta, u32 k) {  // the k-th twiddle of Split16
      constexpr double kShare[8] = {0.5, 0.25, 0.125, 0.125, 0.0625, 0.0625, 0.0625, 0.0625};
      constexpr double kPlus[8] = {0, 0, 0, 0.25, 0, 0.25, 0.125, 0.375};
      return root(theta * kShare[k] + kPlus[k]);
    };
    const auto below = [](double theta, u32 node) { return theta / 16 + reversed4(node) / 8.0; };
    for (u32 k = 0; k < 8; ++k) r.push_back(split(0.5, k));
    for (u32 k = 0; k < 8; ++k) {
      for (u32 q = 0; q < 16; ++q) r.push_back(split(below(0.5, q), k));
    }
    for (u32 k = 0; k < 8; ++k) {
      for (u32 t = 0; t < kThreads; ++t) {
        // The last split of node (q, p) needs only the node's first twiddles; k counts nodes, then the twiddles of a node.
        if constexpr (kLast == 1) {
          r.push_back({1, 0});
        } else {
          constexpr u32 kEach = kLast / 2;  // twiddles stored for a node: 1, 2 or 4
          const u32 q = t / kLast, u = t % kLast, p = u * kNodes + k / kEach;
          r.push_back(split(below(below(0.5, q), p), k % kEach));
        }
      }
    }
    return r;
  }

  /// Returns the twiddles of the first split, which runs before values are exchanged in shared memory.
  static __device__ __forceinline__ Split16 first(const double2* tw) {
    return {tw[0], tw[1], {tw[2], tw[3]}, {tw[4], tw[5], tw[6], tw[7]}};
  }
  static __device__ __forceinline__ Split16 second(const double2* tw, u32 q) {
    const double2* const w = tw + 8 + q;
    return {w[0], w[16], {w[32], w[48]}, {w[64], w[80], w[96], w[112]}};
  }
  static __device__ __forceinline__ void put_first(const double2 (&x)[16], double2* area, u32 t) {
#pragma unroll
    for (u32 i = 0; i < 16; ++i) area[i * kRow + t] = x[i];
  }
  static __device__ __forceinline__ void get_first(double2 (&x)[16], const double2* area, u32 t) {
#pragma unroll
    for (u32 i = 0; i < 16; ++i) x[i] = area[i * kRow + t];
  }
  static __device__ __forceinline__ void put_second(const double2 (&x)[16], double2* area, u32 t) {
#pragma unroll
    for (u32 j = 0; j < 16; ++j) area[t / kLast * kRow + t % kLast + kLast * j] = x[j];
  }
  static __device__ __forceinline__ void get_second(double2 (&x)[16], const double2* area, u32 t) {
#pragma unroll
    for (u32 j = 0; j < 16; ++j) x[j] = area[t / kLast * kRow + t % kLast + kLast * j];
  }
  static __device__ __forceinline__ double2 from_lane(double2 v, u32 mask) {
    return {__shfl_xor_sync(~0u, v.x, mask), __shfl_xor_sync(~0u, v.y, mask)};
  }
  /// Transposes between kLast neighbouring lanes. Before, lane u has element u of all nodes; afterwards it has all elements
  /// of its own nodes. The function is its own inverse.
  static __device__ __forceinline__ void exchange_lanes(double2 (&x)[16], u32 t) {
#pragma unroll
    for (u32 bit = 1; bit < kLast; bit *= 2) {
      const bool high = (t & bit) != 0;
#pragma unroll
      for (u32 i = 0; i < 16; ++i) {
        if (i / kNodes & bit) continue;
        double2 &low = x[i], &up = x[i + bit * kNodes];
        const double2 given = high ? low : up, got = from_lane(given, bit);
        low = high ? got : low;
        up = high ? up : got;
      }
    }
  }
  template <bool INVERSE>
  static __device__ __forceinline__ void last(double2 (&x)[16], const double2* tw, u32 t) {
    double2 w[8];
#pragma unroll
    for (u32 i = 0; i < 8; ++i) w[i] = tw[136 + i * kThreads + t];
    last<INVERSE>(x, w);
  }
  template <bool INVERSE>
  static __device__ __forceinline__ void last(double2 (&x)[16], const double2 (&w)[8]) {
    const auto butterfly = [](double2& a, double2& b, double2 s) {
      INVERSE ? inverse_butterfly(a, b, s) : forward_butterfly(a, b, s);
    };
#pragma unroll
    for (u32 node = 0; node < kNodes; ++node) {
      const auto at = [&](u32 element) -> double2& { return x[element * kNodes + node]; };
      if constexpr (kLast == 2) {
        butterfly(at(0), at(1), w[node]);
      } else if constexpr (kLast == 4) {
        const double2 a = w[2 * node], b = w[2 * node + 1];
        if (INVERSE) butterfly(at(0), at(1), b), butterfly(at(2), at(3), times_i(b));
        butterfly(at(0), at(2), a), butterfly(at(1), at(3), a);
        if (!INVERSE) butterfly(at(0), at(1), b), butterfly(at(2), at(3), times_i(b));
      } else if constexpr (kLast == 8) {
        const double2 a = w[4 * node], b = w[4 * node + 1];
        const double2 c0 = w[4 * node + 2], c1 = w[4 * node + 3];
        const auto top = [&] {
#pragma unroll
          for (u32 i = 0; i < 4; ++i) butterfly(at(i), at(i + 4), a);
        };
        const auto middle = [&] {
#pragma unroll
          for (u32 i = 0; i < 2; ++i) butterfly(at(i), at(i + 2), b), butterfly(at(i + 4), at(i + 6), times_i(b));
        };
        const auto bottom = [&] {
          butterfly(at(0), at(1), c0), butterfly(at(2), at(3), times_i(c0));
          butterfly(at(4), at(5), c1), butterfly(at(6), at(7), times_i(c1));
        };
        if (INVERSE) bottom(), middle(), top();
        if (!INVERSE) top(), middle(), bottom();
      }
    }
  }
};

/// Waits at a named barrier of `count` threads, a multiple of 32.
__device__ __forceinline__ void barrier(u32 id, u32 count) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory");
}

constexpr double kRounder = 6755399441055744.0;  // 1.5 * 2^52: adding and subtracting it rounds to an integer
__device__ __forceinline__ double rounded(double x) { return __dsub_rn(__dadd_rn(x, kRounder), kRounder); }

/// Blind rotation with S samples per thread. A set is the threads that compute the same S samples; a block has `sets` sets.
template <u32 LOG_N, u32 K, u32 GADGET_LENGTH, u32 GROUP, u32 S>
struct Blind {
  using T = BlindTransform<LOG_N>;
  static constexpr u32 kN = T::kDegree, kHalf = kN / 2;
  static constexpr u32 kSet = T::kThreads * (K + 1);  // threads of a set
  static constexpr u32 kRoom = S == 1 ? 512 : 256;    // maximum threads whose registers fit a multiprocessor
  static constexpr u32 kMostSets = kSet >= kRoom ? 1 : kRoom / kSet;
  static constexpr u32 kMostThreads = kSet * kMostSets;
  static constexpr u32 kRows = (K + 1) * GADGET_LENGTH, kValues = 1u << GROUP;
  static constexpr bool kWhole = kSet % 32 != 0;  // a set ends within a warp, so a warp belongs to two sets

  static std::size_t shared_bytes(u32 sets, u32 n) {
    const std::size_t samples = std::size_t{S} * sets;
    return sizeof(double2) * (samples * kRows * T::kArea + 136) + 2 * ((n + 1 + 7) / 8 * 8) * samples + 8 * samples;
  }
};

/// Blind rotation of S samples per thread. Phases: modulus switch; first accumulator; for each group of key bits the digits,
/// their transform, the product with the key, and the inverse transform; sample extraction.
template <u32 LOG_N, u32 K, u32 GADGET_LENGTH, u32 GROUP, u32 S>
__global__ void __launch_bounds__((Blind<LOG_N, K, GADGET_LENGTH, GROUP, S>::kMostThreads))
    blind_rotation(const __grid_constant__ BlindArguments a) {
  take_turn();
  using B = Blind<LOG_N, K, GADGET_LENGTH, GROUP, S>;
  using T = typename B::T;
  constexpr u32 kMask = 2 * B::kN - 1;
  extern __shared__ __align__(128) unsigned char raw[];
  const u32 sets = blockDim.x / B::kSet, set = threadIdx.x / B::kSet, within = threadIdx.x % B::kSet;
  const u32 c = within / T::kThreads, t = within % T::kThreads;  // component, thread number within it
  const u32 samples = sets * S, first_sample = blockIdx.x * samples;
  auto* const areas = reinterpret_cast<double2*>(raw);
  auto* const split_twiddles = areas + samples * B::kRows * T::kArea;
  auto* const errors = reinterpret_cast<unsigned long long*>(split_twiddles + 136);
  auto* const exponents = reinterpret_cast<unsigned short*>(errors + samples);
  const u32 padded = (a.n + 1 + 7) / 8 * 8;

  const auto poly_sync = [&] {
    if constexpr (T::kThreads <= 32) {
      __syncwarp();
    } else {
      barrier(1 + sets + set * (K + 1) + c, T::kThreads);
    }
  };
  const auto set_sync = [&] {
    if constexpr (B::kWhole) {
      __syncthreads();
    } else {
      barrier(1 + set, B::kSet);
    }
  };

  // Phase 1, modulus switch of the block's samples: exponents modulo 2N; the body is corrected by half the sum of
  // the rounding errors.
  for (u32 i = threadIdx.x; i < 136; i += blockDim.x) split_twiddles[i] = reinterpret_cast<const double2*>(a.twiddles)[i];
  for (u32 i = threadIdx.x; i < samples; i += blockDim.x) errors[i] = 0;
  __syncthreads();
  constexpr u32 kShift = 32 - (LOG_N + 1), kRound = 1u << (kShift - 1);
  for (u32 s = 0; s < samples; ++s) {
    const u32 sample = min(first_sample + s, a.count - 1);
    const u32* const in = a.narrow + sample / a.rows * a.narrow_item + sample % a.rows * a.narrow_row;
    long long error = 0;
    for (u32 i = threadIdx.x; i < a.n; i += blockDim.x) {
      const u32 word = in[i], switched = (word + kRound) >> kShift;
      error += static_cast<int>(word - (switched << kShift));
      exponents[s * padded + i] = static_cast<unsigned short>(switched & kMask);
    }
    if (error != 0) atomicAdd(errors + s, static_cast<unsigned long long>(error));
  }
  __syncthreads();
  for (u32 s = threadIdx.x; s < samples; s += blockDim.x) {
    const u32 sample = min(first_sample + s, a.count - 1);
    const u32* const in = a.narrow + sample / a.rows * a.narrow_item + sample % a.rows * a.narrow_row;
    const u32 body = in[a.n] - static_cast<u32>(static_cast<long long>(errors[s]) >> 1);
    exponents[s * padded + a.n] = static_cast<unsigned short>(((body + kRound) >> kShift) & kMask);
  }
  __syncthreads();

  // Phase 2, the accumulator X^(-body) * table, where 1.0 stands for 2^64. Value i of a thread holds the coefficients t +
  // kThreads * i and t + kThreads * i + N/2.
  double2 x[S][16];
#pragma unroll
  for (u32 s = 0; s < S; ++s) {
    const u32 own = set * S + s, sample = min(first_sample + own, a.count - 1);
    const u64* const table = a.tables + static_cast<u64>(a.lut[sample % a.rows]) * B::kN;
    const u32 turn = exponents[own * padded + a.n];
    const auto at = [&](u32 j) {
      const u32 index = (j + turn) & kMask;
      const double v = static_cast<double>(static_cast<long long>(table[index & (B::kN - 1)])) * 0x1p-64;
      return index & B::kN ? -v : v;
    };
#pragma unroll
    for (u32 i = 0; i < 16; ++i) {
      x[s][i] = c == K ? double2{at(t + T::kThreads * i), at(t + T::kThreads * i + B::kHalf)} : double2{0, 0};
    }
  }

  const auto area = [&](u32 s, u32 row) { return areas + ((set * S + s) * B::kRows + row) * T::kArea; };
  const u32 q = t / T::kLast, u = t % T::kLast;
  const u32 base_angle = 1 + 4 * reversed4(q) + 64 * reversed4(u * T::kNodes);
  const double base = static_cast<double>(u64{1} << a.log_base), inverse_base = 1.0 / base;
  double whole = base;
#pragma unroll
  for (u32 l = 1; l < GADGET_LENGTH; ++l) whole *= base;
  const double2* const last_twiddles = reinterpret_cast<const double2*>(a.twiddles);
  const double2* const roots = reinterpret_cast<const double2*>(a.roots);
  const u32 groups = a.n / GROUP;
  const double2* key =
      reinterpret_cast<const double2*>(a.key) + static_cast<u64>(c) * 16 * B::kRows * B::kValues * T::kThreads + t;
  constexpr u64 kKeyGroup = u64{K + 1} * 16 * B::kRows * B::kValues * T::kThreads;

  // Phase 3, blind rotation: one step for each group of key bits.
#pragma unroll 1
  for (u32 g = 0; g < groups; ++g, key += kKeyGroup) {
    // Decomposes and transforms: row (c, digit) of each sample goes to its area of shared memory; the last row also stays in
    // x.
#pragma unroll
    for (u32 s = 0; s < S; ++s) {
#pragma unroll
      for (u32 i = 0; i < 16; ++i) {
        const auto digits = [&](double v) { return rounded(fma(v - rounded(v), whole, 0.0)); };
        x[s][i] = {digits(x[s][i].x), digits(x[s][i].y)};  // one integer that holds all gadget digits
      }
    }
    [[maybe_unused]] double2 kept[GADGET_LENGTH > 1 ? S : 1][16];
#pragma unroll
    for (u32 digit = GADGET_LENGTH; digit-- > 0;) {
      if constexpr (GADGET_LENGTH > 1) {
#pragma unroll
        for (u32 s = 0; s < S; ++s) {
#pragma unroll
          for (u32 i = 0; i < 16; ++i) {
            const double2 v = digit + 1 == GADGET_LENGTH ? x[s][i] : kept[s][i];
            const double2 high = {rounded(v.x * inverse_base), rounded(v.y * inverse_base)};
            x[s][i] = digit == 0 ? v : double2{fma(-base, high.x, v.x), fma(-base, high.y, v.y)};
            kept[s][i] = high;
          }
        }
      }
      const u32 row = c * GADGET_LENGTH + digit;
      {
        const Split16 w = T::first(split_twiddles);
#pragma unroll
        for (u32 s = 0; s < S; ++s) {
          split16(x[s], w);
          T::put_first(x[s], area(s, row), t);
        }
      }
      poly_sync();
      {
        const Split16 w = T::second(split_twiddles, q);
#pragma unroll
        for (u32 s = 0; s < S; ++s) {
          T::get_second(x[s], area(s, row), t);
          split16(x[s], w);
        }
      }
      poly_sync();
#pragma unroll
      for (u32 s = 0; s < S; ++s) {
        T::exchange_lanes(x[s], t);
        T::template last<false>(x[s], last_twiddles, t);
        double2* const mine = area(s, row);
#pragma unroll
        for (u32 i = 0; i < 16; ++i) mine[i * T::kThreads + t] = x[s][i];
      }
    }

    // Monomials of this group's key bits at this thread's value 0, and the ratio of each monomial between consecutive
    // values.
    double2 monomial[S][B::kValues - 1], turn[S][B::kValues - 1];
#pragma unroll
    for (u32 s = 0; s < S; ++s) {
      const unsigned short* const e = exponents + (set * S + s) * padded + g * GROUP;
#pragma unroll
      for (u32 v = 1; v < B::kValues; ++v) {
        u32 sum = 0;
#pragma unroll
        for (u32 bit = 0; bit < GROUP; ++bit) sum += v >> bit & 1 ? e[bit] : 0;
        monomial[s][v - 1] = __ldg(roots + (sum * base_angle & kMask));
        turn[s][v - 1] = __ldg(roots + (sum & 15) * (B::kN / 8));
      }
    }
    set_sync();

    // Multiplies: value i of component c is the sum over rows of the row's value i * sum over v of monomial_v * key_v.
#pragma unroll
    for (u32 step = 0; step < 16; ++step) {
      const u32 i = T::at_angle(step);
      if (step != 0) {
#pragma unroll
        for (u32 s = 0; s < S; ++s) {
#pragma unroll
          for (u32 v = 0; v + 1 < B::kValues; ++v) monomial[s][v] = product(monomial[s][v], turn[s][v]);
        }
      }
      double2 sum[S];
#pragma unroll
      for (u32 row = 0; row < B::kRows; ++row) {
        double2 k[B::kValues];
#pragma unroll
        for (u32 v = 0; v < B::kValues; ++v) k[v] = __ldg(key + ((step * B::kRows + row) * B::kValues + v) * T::kThreads);
#pragma unroll
        for (u32 s = 0; s < S; ++s) {
          double2 w = k[0];
#pragma unroll
          for (u32 v = 1; v < B::kValues; ++v) add_product(w, monomial[s][v - 1], k[v]);
          const double2 f = area(s, row)[i * T::kThreads + t];
          if (row == 0) {
            sum[s] = product(f, w);
          } else {
            add_product(sum[s], f, w);
          }
        }
      }
#pragma unroll
      for (u32 s = 0; s < S; ++s) x[s][i] = sum[s];
    }
    set_sync();

    {
      const Split16 w = T::second(split_twiddles, q);
#pragma unroll
      for (u32 s = 0; s < S; ++s) {
        T::template last<true>(x[s], last_twiddles, t);
        T::exchange_lanes(x[s], t);
        join16(x[s], w);
        T::put_second(x[s], area(s, c * GADGET_LENGTH), t);
      }
    }
    poly_sync();
    {
      const Split16 w = T::first(split_twiddles);
#pragma unroll
      for (u32 s = 0; s < S; ++s) {
        T::get_first(x[s], area(s, c * GADGET_LENGTH), t);
        join16(x[s], w);
      }
    }
    poly_sync();
  }

  // Phase 4, sample extraction: coefficient p of the accumulator.
#pragma unroll
  for (u32 s = 0; s < S; ++s) {
    const u32 sample = first_sample + set * S + s;
    if (sample >= a.count) continue;
    const u32 row = sample % a.rows;
    u64* const item = a.wires + sample / a.rows * a.wire_item;
#pragma unroll 1
    for (u32 o = 0; o < a.outputs; ++o) {
      const u32 p = o * (B::kN / a.outputs);
      u64* const out = item + a.target[row * a.outputs + o] * a.wire;
#pragma unroll
      for (u32 i = 0; i < 32; ++i) {
        const u32 j = t + T::kThreads * (i % 16) + i / 16 * B::kHalf;
        const double v = i / 16 ? x[s][i % 16].y : x[s][i % 16].x;
        const u64 word = static_cast<u64>(__double2ll_rn((v - rounded(v)) * 0x1p64));
        if (c == K) {
          if (j == p) out[K * B::kN] = word;
        } else {
          out[c * B::kN + ((p - j) & (B::kN - 1))] = j <= p ? word : 0 - word;
        }
      }
    }
  }
}

/// Transforms a key; each block has one polynomial [group][value][row][component].
template <u32 LOG_N, u32 K, u32 GADGET_LENGTH, u32 GROUP>
__global__ void __launch_bounds__(BlindTransform<LOG_N>::kThreads)
    transform_key(const u64* words, const double2* twiddles, double2* key) {
  take_turn();
  using T = BlindTransform<LOG_N>;
  constexpr u32 kRows = (K + 1) * GADGET_LENGTH, kValues = 1u << GROUP;
  __shared__ double2 area[T::kArea];
  const u32 t = threadIdx.x;
  u32 index = blockIdx.x;
  const u32 c = index % (K + 1);
  index /= K + 1;
  const u32 row = index % kRows;
  index /= kRows;
  const u32 v = index % kValues, g = index / kValues;
  const auto* const in = reinterpret_cast<const long long*>(words) + static_cast<u64>(blockIdx.x) * T::kDegree;
  constexpr double kScale = 0x1p-64 / (T::kDegree / 2);  // 1.0 stands for 2^64; times the inverse transform's factor
  double2 x[16];
#pragma unroll
  for (u32 i = 0; i < 16; ++i) {
    const u32 j = t + T::kThreads * i;
    x[i] = {static_cast<double>(in[j]) * kScale, static_cast<double>(in[j + T::kDegree / 2]) * kScale};
  }
  split16(x, T::first(twiddles));
  T::put_first(x, area, t);
  __syncthreads();
  T::get_second(x, area, t);
  split16(x, T::second(twiddles, t / T::kLast));
  T::exchange_lanes(x, t);
  T::template last<false>(x, twiddles, t);
#pragma unroll
  for (u32 step = 0; step < 16; ++step)
    key[((((static_cast<u64>(g) * (K + 1) + c) * 16 + step) * kRows + row) * kValues + v) * T::kThreads + t] =
        x[T::at_angle(step)];
}

}  // namespace heliograph::backend::cuda
