// Blind rotation for few samples, which cannot fill the GPU. A block has one sample. During the transforms of the
// accumulator, the block copies the key's next values to shared memory. For very few samples, the whole GPU first computes
// the sums over a group's values, so that each step only multiplies.
#pragma once

#include "backend/cuda/lwe/blind.cuh"

namespace heliograph::backend::cuda {

/// A barrier in shared memory between a producer and its consumers.
namespace pipe {

__device__ __forceinline__ u32 address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ __forceinline__ void start(u64* barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(address(barrier)) : "memory");
}
__device__ __forceinline__ void expect(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(address(barrier)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait(u64* barrier, u32 phase) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@done bra.uni over;\n"
      "bra.uni again;\n"
      "over:\n"
      "}\n" ::"r"(address(barrier)),
      "r"(phase)
      : "memory");
}
__device__ __forceinline__ void copy(void* to, const void* from, u32 bytes, u64* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(address(to)),
               "l"(from), "r"(bytes), "r"(address(barrier))
               : "memory");
}
/// Makes initialized barriers visible to the copies.
__device__ __forceinline__ void publish() { asm volatile("fence.proxy.async;" ::: "memory"); }
#else
__device__ __forceinline__ void publish() {}
__device__ __forceinline__ void start(u64*, u32) {}
__device__ __forceinline__ void arrive(u64*) {}
__device__ __forceinline__ void expect(u64*, u32) {}
__device__ __forceinline__ void wait(u64*, u32) {}
__device__ __forceinline__ void copy(void*, const void*, u32, u64*) {}
#endif

}  // namespace pipe

/// VALUES: number of values of a group in the key; 1 means precomputed sums, [sample][group][component][16][row][thread].
template <u32 LOG_N, u32 K, u32 GROUP, u32 VALUES>
struct Quick {
  using T = BlindTransform<LOG_N>;
  // Threads are rounded up to whole warps; the extra threads repeat the work of other threads.
  static constexpr u32 kSet = (T::kThreads * (K + 1) + 31) / 32 * 32;
  static constexpr u32 kThreads = kSet + 32;                            // the last warp copies the key
  static constexpr u32 kEach = VALUES == 1 ? 16 : VALUES <= 4 ? 2 : 1;  // values of each thread in one tile of the key
  static constexpr u32 kRun = (K + 1) * VALUES * T::kThreads;           // complex numbers for one value and component
  static constexpr u32 kTile = (K + 1) * kEach * kRun;
  static constexpr std::size_t kTileBytes = kTile * sizeof(double2);

  static std::size_t fixed_bytes(u32 n) {
    return sizeof(double2) * ((K + 1) * T::kArea + 136) + 2 * ((n + 8) / 8 * 8) + 512;
  }
  /// Returns the number of tiles that are copied or in use at one time, at least two.
  static u32 depth(const State& state, u32 n) {
    return static_cast<u32>(
        std::min<std::size_t>(16, (state.properties().shared_bytes_a_block - fixed_bytes(n)) / kTileBytes));
  }
};

template <u32 LOG_N, u32 K, u32 GROUP, u32 VALUES>
__global__ void __launch_bounds__((Quick<LOG_N, K, GROUP, VALUES>::kThreads))
    quick_rotation(const __grid_constant__ BlindArguments a, const u32 depth) {
  take_turn();
  using Q = Quick<LOG_N, K, GROUP, VALUES>;
  using T = typename Q::T;
  constexpr u32 kN = T::kDegree, kHalf = kN / 2, kMask = 2 * kN - 1;
  extern __shared__ __align__(128) unsigned char raw[];
  auto* const tiles = reinterpret_cast<double2*>(raw);
  auto* const areas = tiles + depth * Q::kTile;
  auto* const split_twiddles = areas + (K + 1) * T::kArea;
  auto* const full = reinterpret_cast<u64*>(split_twiddles + 136);
  auto* const empty = full + 16;
  auto* const errors = reinterpret_cast<unsigned long long*>(empty + 16);
  auto* const exponents = reinterpret_cast<unsigned short*>(errors + 2);
  const u32 sample = blockIdx.x, row_of_sample = sample % a.rows;
  const u32* const in = a.narrow + sample / a.rows * a.narrow_item + row_of_sample * a.narrow_row;
  const u32 groups = a.n / GROUP;

  // Phase 1, modulus switch: exponents modulo 2N; the body is corrected by half the sum of the rounding errors.
  for (u32 i = threadIdx.x; i < 136; i += Q::kThreads) split_twiddles[i] = reinterpret_cast<const double2*>(a.twiddles)[i];
  if (threadIdx.x == 0) {
    *errors = 0;
    for (u32 d = 0; d < depth; ++d) pipe::start(full + d, 1), pipe::start(empty + d, Q::kSet / 32);
    pipe::publish();
  }
  __syncthreads();
  constexpr u32 kShift = 32 - (LOG_N + 1), kRound = 1u << (kShift - 1);
  long long error = 0;
  for (u32 i = threadIdx.x; i < a.n; i += Q::kThreads) {
    const u32 word = in[i], switched = (word + kRound) >> kShift;
    error += static_cast<int>(word - (switched << kShift));
    exponents[i] = static_cast<unsigned short>(switched & kMask);
  }
  atomicAdd(errors, static_cast<unsigned long long>(error));
  __syncthreads();
  const u32 body = in[a.n] - static_cast<u32>(static_cast<long long>(*errors) >> 1);
  const u32 turn = ((body + kRound) >> kShift) & kMask;

  // One thread of the last warp copies the key's tiles into shared memory, `depth` tiles ahead; the other threads of this
  // warp end here.
  if (threadIdx.x >= Q::kSet) {
    if (threadIdx.x != Q::kSet) return;
    const auto* key = reinterpret_cast<const double2*>(a.key);
    constexpr u32 kTiles = 16 / Q::kEach, kPart = Q::kEach * Q::kRun;
    if (VALUES == 1) key += static_cast<u64>(sample) * groups * kTiles * Q::kTile;
    u32 slot = 0, phase = 1;
    for (u32 g = 0; g < groups; ++g, key += kTiles * Q::kTile) {
      for (u32 i = 0; i < kTiles; ++i) {
        pipe::wait(empty + slot, phase);
        pipe::expect(full + slot, Q::kTileBytes);
        for (u32 c = 0; c <= K; ++c)
          pipe::copy(tiles + slot * Q::kTile + c * kPart, key + (c * kTiles + i) * kPart, kPart * sizeof(double2),
                     full + slot);
        if (++slot == depth) slot = 0, phase ^= 1;
      }
    }
    return;
  }

  const u32 c = min(threadIdx.x / T::kThreads, K), t = threadIdx.x % T::kThreads;
  const auto poly_sync = [&] {
    if constexpr (T::kThreads <= 32) {
      __syncwarp();
    } else {
      barrier(2 + c, T::kThreads);
    }
  };
  // Phase 2, the accumulator X^(-body) * table, where 1.0 stands for 2^64.
  double2* const mine = areas + c * T::kArea;
  double2 x[16];
  {
    const u64* const table = a.tables + static_cast<u64>(a.lut[row_of_sample]) * kN;
    const auto at = [&](u32 j) {
      const u32 index = (j + turn) & kMask;
      const double v = static_cast<double>(static_cast<long long>(table[index & (kN - 1)])) * 0x1p-64;
      return index & kN ? -v : v;
    };
#pragma unroll
    for (u32 i = 0; i < 16; ++i)
      x[i] = c == K ? double2{at(t + T::kThreads * i), at(t + T::kThreads * i + kHalf)} : double2{0, 0};
  }
  const u32 q = t / T::kLast, u = t % T::kLast, base_angle = 1 + 4 * reversed4(q) + 64 * reversed4(u * T::kNodes);
  const double base = static_cast<double>(u64{1} << a.log_base);
  const auto* const last_twiddles = reinterpret_cast<const double2*>(a.twiddles);
  const auto* const roots = reinterpret_cast<const double2*>(a.roots);
  u32 slot = 0, phase = 0;
  const Split16 first = T::first(split_twiddles), second = T::second(split_twiddles, q);
  double2 last[8];
#pragma unroll
  for (u32 i = 0; i < 8; ++i) last[i] = __ldg(last_twiddles + 136 + i * T::kThreads + t);

    // Phase 3, blind rotation: one step for each group of key bits.
#pragma unroll 1
  for (u32 g = 0; g < groups; ++g) {
    // Monomials of this group's key bits at this thread's value 0, and the ratio of each monomial between consecutive
    // values.
    [[maybe_unused]] double2 monomial[VALUES > 1 ? VALUES - 1 : 1], step_turn[VALUES > 1 ? VALUES - 1 : 1];
#pragma unroll
    for (u32 v = 1; v < VALUES; ++v) {
      u32 sum = 0;
#pragma unroll
      for (u32 bit = 0; bit < GROUP; ++bit) sum += v >> bit & 1 ? exponents[g * GROUP + bit] : 0;
      monomial[v - 1] = __ldg(roots + (sum * base_angle & kMask));
      step_turn[v - 1] = __ldg(roots + (sum & 15) * (kN / 8));
    }
#pragma unroll
    for (u32 i = 0; i < 16; ++i) {
      const auto digit = [&](double v) { return rounded((v - rounded(v)) * base); };
      x[i] = {digit(x[i].x), digit(x[i].y)};
    }
    split16(x, VALUES == 1 ? first : T::first(split_twiddles));
    T::put_first(x, mine, t);
    poly_sync();
    T::get_second(x, mine, t);
    split16(x, second);
    poly_sync();
    T::exchange_lanes(x, t);
    T::template last<false>(x, last);
#pragma unroll
    for (u32 i = 0; i < 16; ++i) mine[i * T::kThreads + t] = x[i];
    barrier(1, Q::kSet);

    // Multiply: result[c][i] = sum over r of value[r][i] * (sum over v of monomial[v][i] * key[v][r][c][i]).
#pragma unroll
    for (u32 step = 0; step < 16; ++step) {
      const u32 i = T::at_angle(step);
      if (step != 0) {
#pragma unroll
        for (u32 v = 1; v < VALUES; ++v) monomial[v - 1] = product(monomial[v - 1], step_turn[v - 1]);
      }
      if (step % Q::kEach == 0) pipe::wait(full + slot, phase);
      const double2* const k = tiles + slot * Q::kTile + (c * Q::kEach + step % Q::kEach) * Q::kRun + t;
      double2 sum = {0, 0};
#pragma unroll
      for (u32 row = 0; row <= K; ++row) {
        double2 w = k[row * VALUES * T::kThreads];
#pragma unroll
        for (u32 v = 1; v < VALUES; ++v) add_product(w, monomial[v - 1], k[(row * VALUES + v) * T::kThreads]);
        const double2 f = row == c ? x[i] : areas[row * T::kArea + i * T::kThreads + t];
        add_product(sum, f, w);
      }
      x[i] = sum;
      if ((step + 1) % Q::kEach != 0) continue;
      __syncwarp();
      if (threadIdx.x % 32 == 0) pipe::arrive(empty + slot);
      if (++slot == depth) slot = 0, phase ^= 1;
    }
    barrier(1, Q::kSet);

    T::template last<true>(x, last);
    T::exchange_lanes(x, t);
    join16(x, second);
    T::put_second(x, mine, t);
    poly_sync();
    T::get_first(x, mine, t);
    join16(x, VALUES == 1 ? first : T::first(split_twiddles));
    poly_sync();
  }

  // Phase 4, sample extraction: coefficient p of the accumulator.
  u64* const item = a.wires + sample / a.rows * a.wire_item;
#pragma unroll 1
  for (u32 o = 0; o < a.outputs; ++o) {
    const u32 p = o * (kN / a.outputs);
    u64* const out = item + a.target[row_of_sample * a.outputs + o] * a.wire;
#pragma unroll
    for (u32 i = 0; i < 32; ++i) {
      const u32 j = t + T::kThreads * (i % 16) + i / 16 * kHalf;
      const double v = i / 16 ? x[i % 16].y : x[i % 16].x;
      const u64 word = static_cast<u64>(__double2ll_rn((v - rounded(v)) * 0x1p64));
      if (c == K) {
        if (j == p) out[K * kN] = word;
      } else {
        out[c * kN + ((p - j) & (kN - 1))] = j <= p ? word : 0 - word;
      }
    }
  }
}

/// Computes the sums over a group's values; a block computes one component of one group for one sample.
template <u32 LOG_N, u32 K, u32 GROUP>
__global__ void __launch_bounds__(BlindTransform<LOG_N>::kThreads)
    bundle(const __grid_constant__ BlindArguments a, double2* out) {
  take_turn();
  using T = BlindTransform<LOG_N>;
  constexpr u32 kMask = 2 * T::kDegree - 1, kValues = 1u << GROUP, kRows = K + 1;
  const u32 t = threadIdx.x, groups = a.n / GROUP;
  u32 index = blockIdx.x;
  const u32 step = index % 16;
  index /= 16;
  const u32 c = index % (K + 1);
  index /= K + 1;
  const u32 g = index % groups, sample = index / groups;
  const u32* const in = a.narrow + sample / a.rows * a.narrow_item + sample % a.rows * a.narrow_row + g * GROUP;
  constexpr u32 kShift = 32 - (LOG_N + 1), kRound = 1u << (kShift - 1);
  u32 e[GROUP];
#pragma unroll
  for (u32 bit = 0; bit < GROUP; ++bit) e[bit] = (in[bit] + kRound) >> kShift;
  const u32 angle = 1 + 4 * reversed4(t / T::kLast) + 64 * reversed4(t % T::kLast * T::kNodes) + T::kDegree / 8 * step;
  const u64 run = ((static_cast<u64>(g) * (K + 1) + c) * 16 + step) * kRows;
  const auto* const key = reinterpret_cast<const double2*>(a.key) + run * kValues * T::kThreads + t;
  double2 sum[kRows];
#pragma unroll
  for (u32 row = 0; row < kRows; ++row) sum[row] = __ldcs(key + row * kValues * T::kThreads);
#pragma unroll
  for (u32 v = 1; v < kValues; ++v) {
    u32 power = 0;
#pragma unroll
    for (u32 bit = 0; bit < GROUP; ++bit) power += v >> bit & 1 ? e[bit] : 0;
    const double2 o = __ldg(reinterpret_cast<const double2*>(a.roots) + (power * angle & kMask));
#pragma unroll
    for (u32 row = 0; row < kRows; ++row) {
      add_product(sum[row], o, __ldcs(key + (row * kValues + v) * T::kThreads));
    }
  }
#pragma unroll
  for (u32 row = 0; row < kRows; ++row)
    out[(static_cast<u64>(sample) * groups * (K + 1) * 16 * kRows + run + row) * T::kThreads + t] = sum[row];
}

}  // namespace heliograph::backend::cuda
