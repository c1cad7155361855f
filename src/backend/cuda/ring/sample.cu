// Random polynomials by the draws of math/sampler.h: a thread computes one ChaCha20 block (RFC 8439) and its coefficients.
#include <algorithm>
#include <cstring>

#include "backend/cuda/ring/kernels.h"
#include "backend/cuda/ring/launch.cuh"
#include "math/sampler.h"

namespace heliograph::backend::cuda {

namespace {

constexpr u32 kThreads = 128;

struct Arguments {
  Strided out;
  Grid grid;  // one limb for small polynomials, whose draws serve all limbs
  Primes primes;
  const Field60::Prime* table;
  u32 key[8];
  u32 purpose, object, first_item, n, limbs, gaussian;
};

__device__ __forceinline__ void quarter_round(u32& a, u32& b, u32& c, u32& d) {
  a += b, d = __funnelshift_l(d ^ a, d ^ a, 16);
  c += d, b = __funnelshift_l(b ^ c, b ^ c, 12);
  a += b, d = __funnelshift_l(d ^ a, d ^ a, 8);
  c += d, b = __funnelshift_l(b ^ c, b ^ c, 7);
}

__device__ __forceinline__ void block_of(const Arguments& a, u32 counter, u32 first, u32 item, u32 (&s)[16]) {
  const u32 start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, a.key[0], a.key[1], a.key[2], a.key[3],
                         a.key[4],   a.key[5],   a.key[6],   a.key[7],   counter,  first,    a.object, a.first_item + item};
#pragma unroll
  for (int i = 0; i < 16; ++i) s[i] = start[i];
#pragma unroll 2
  for (int i = 0; i < 10; ++i) {
    quarter_round(s[0], s[4], s[8], s[12]);
    quarter_round(s[1], s[5], s[9], s[13]);
    quarter_round(s[2], s[6], s[10], s[14]);
    quarter_round(s[3], s[7], s[11], s[15]);
    quarter_round(s[0], s[5], s[10], s[15]);
    quarter_round(s[1], s[6], s[11], s[12]);
    quarter_round(s[2], s[7], s[8], s[13]);
    quarter_round(s[3], s[4], s[9], s[14]);
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) s[i] += start[i];
}

__constant__ std::array<u64, math::kGaussianTable.size()> gaussian_table = math::kGaussianTable;

/// Writes the residues 4c to 4c + 3 modulo a prime, from ChaCha20 block c.
template <class Word>
__device__ __forceinline__ void write_uniform(const Arguments& a, const At& at, const Field60::Prime& p, u32 i,
                                              const u32 (&s)[16]) {
  Word* const out = limb_of<Word>(a.out, at.item, at.component, at.limb) + i;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (i + k >= a.n) break;
    const u64 low = u64{s[4 * k + 1]} << 32 | s[4 * k], high = u64{s[4 * k + 3]} << 32 | s[4 * k + 2];
    out[k] = static_cast<Word>(Field60::reduce128(high, low, p));
  }
}

/// Writes the coefficients 8c to 8c + 7 modulo every prime, from ChaCha20 block c.
template <class Word>
__device__ __forceinline__ void write_small(const Arguments& a, const At& at, u32 i, const u32 (&s)[16]) {
  int value[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const u64 draw = u64{s[2 * k + 1]} << 32 | s[2 * k];
    if (a.gaussian) {
      const u64 position = draw >> 1;
      int magnitude = 0;
#pragma unroll
      for (int e = 0; e < static_cast<int>(gaussian_table.size()); ++e) magnitude += position >= gaussian_table[e];
      value[k] = draw & 1 ? -magnitude : magnitude;
    } else {
      const u64 third = __umul64hi(draw, 3);
      value[k] = static_cast<int>(third) - 1;
    }
  }
  for (u32 l = 0; l < a.limbs; ++l) {
    const u64 q = a.table[a.primes.index[l]].q;
    Word* const out = limb_of<Word>(a.out, at.item, at.component, l) + i;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      if (i + k < a.n)
        out[k] = static_cast<Word>(value[k] < 0 ? q - static_cast<u64>(-value[k]) : static_cast<u64>(value[k]));
    }
  }
}

template <class Word, bool UNIFORM>
__global__ void __launch_bounds__(kThreads) sample_kernel(const __grid_constant__ Arguments a) {
  take_turn();
  const At at = locate_in_order(a.grid, blockIdx.x);
  const u32 counter = at.part * kThreads + threadIdx.x, i = (UNIFORM ? 4 : 8) * counter;
  if (i >= a.n) return;
  const u32 prime = UNIFORM ? u32{a.primes.index[at.limb]} : math::kSmallPolynomial;
  const Field60::Prime p = UNIFORM ? a.table[prime] : Field60::Prime{};
  u32 s[16];
  block_of(a, counter, a.purpose << 24 | (at.component & 0xff) << 16 | prime, at.item, s);
  if constexpr (UNIFORM) {
    write_uniform<Word>(a, at, p, i, s);
  } else {
    write_small<Word>(a, at, i, s);
  }
}

}  // namespace

void CudaKernels::run(Queue& q, const Sample& c) {
  const CudaRing& ring = own_ring(q, *c.ring);
  const device::Draw& draw = c.draw;
  const bool uniform = draw.distribution == device::Distribution::uniform;
  const u32 each = uniform ? 4 : 8, blocks = static_cast<u32>((c.out.n + each - 1) / each);
  Arguments a{.out = strided(c.out),
              .grid = Grid((blocks + kThreads - 1) / kThreads, c.out),
              .primes = primes_of(c.primes),
              .table = ring.any_primes().as<Field60::Prime>(),
              .purpose = draw.purpose,
              .object = draw.object,
              .first_item = draw.first_item,
              .n = static_cast<u32>(c.out.n),
              .limbs = static_cast<u32>(c.out.limbs),
              .gaussian = draw.distribution == device::Distribution::gaussian};
  static_assert(sizeof a.key == sizeof draw.key);
  std::memcpy(a.key, draw.key.data(), sizeof a.key);
  if (!uniform && c.out.limbs > 0) a.grid.limbs = Divisor(1);
  const bool wide = c.out.word == math::Word::w64;
  const auto kernel = uniform ? (wide ? &sample_kernel<u64, true> : &sample_kernel<u32, true>)
                              : (wide ? &sample_kernel<u64, false> : &sample_kernel<u32, false>);
  launch(q, "sample", kernel, a.grid.blocks(), kThreads, 0, a);
}

}  // namespace heliograph::backend::cuda
