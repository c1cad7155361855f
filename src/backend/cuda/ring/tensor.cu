// The product of two ciphertexts in the NTT domain in one launch; each operand is read once.
#include "backend/cuda/ring/elements.cuh"
#include "backend/cuda/ring/kernels.h"
#include "backend/cuda/ring/passes.h"

namespace heliograph::backend::cuda {

namespace {

constexpr u32 kThreads = 256;
constexpr u32 kUnroll = 2;  // packs of each component that a thread loads at once

template <class F>
struct Arguments {
  Strided a, b, out;
  Grid grid;  // a part of the grid has kThreads * kUnroll packs
  Primes primes;
  const typename F::Prime* table;
  u32 packs;  // number of packs of words of a limb
};

/// Computes the product's components a0 b0, a0 b1 + a1 b0, a1 b1.
template <class F, bool SQUARE, u32 COUNT>
__global__ void __launch_bounds__(kThreads) tensor_kernel(const __grid_constant__ Arguments<F> g) {
  take_turn();
  using Pack = Packed<typename F::Word, COUNT>;
  const auto [at, p] = place_of(g);
  const auto row = [&at](const Strided& v, u32 component) {
    return reinterpret_cast<Pack*>(limb_of<typename F::Word>(v, at.item, component, at.limb));
  };
  const Pack *const a0 = row(g.a, 0), *const a1 = row(g.a, 1);
  const Pack *const b0 = SQUARE ? a0 : row(g.b, 0), *const b1 = SQUARE ? a1 : row(g.b, 1);
  Pack *const out0 = row(g.out, 0), *const out1 = row(g.out, 1), *const out2 = row(g.out, 2);
  Pack x0[kUnroll], x1[kUnroll], y0[kUnroll], y1[kUnroll];
  each_position<kUnroll, kThreads>(at.part, g.packs, [&](u32 k, u32 i) {
    x0[k] = a0[i], x1[k] = a1[i];
    if (!SQUARE) y0[k] = b0[i], y1[k] = b1[i];
  });
  each_position<kUnroll, kThreads>(at.part, g.packs, [&](u32 k, u32 i) {
    Pack r0, r1, r2;
#pragma unroll
    for (u32 w = 0; w < COUNT; ++w) {
      const auto u0 = F::load(x0[k].at[w]), u1 = F::load(x1[k].at[w]);
      if constexpr (SQUARE) {
        const auto cross = F::mul_reduced(u0, u1, p);
        r0.at[w] = F::canonical(F::mul_reduced(u0, u0, p), p);
        r1.at[w] = F::canonical(F::add_reduced(cross, cross, p), p);
        r2.at[w] = F::canonical(F::mul_reduced(u1, u1, p), p);
      } else {
        const auto v0 = F::load(y0[k].at[w]), v1 = F::load(y1[k].at[w]);
        r0.at[w] = F::canonical(F::mul_reduced(u0, v0, p), p);
        r1.at[w] = F::canonical(F::add_reduced(F::mul_reduced(u0, v1, p), F::mul_reduced(u1, v0, p), p), p);
        r2.at[w] = F::canonical(F::mul_reduced(u1, v1, p), p);
      }
    }
    out0[i] = r0, out1[i] = r1, out2[i] = r2;
  });
}

}  // namespace

void CudaKernels::run(Queue& q, const Tensor& c) {
  if (c.out.items() == 0) return;
  if (c.a.components != 2 || c.b.components != 2) return q.expand(c);
  const CudaRing& ring = own_ring(q, *c.ring);
  const bool square = same_operand(c.a, c.b);
  with_field(ring.kind(), [&](auto f) {
    using F = decltype(f);
    constexpr u32 kPack = 16 / sizeof(typename F::Word);
    const bool packed = c.out.n % kPack == 0;
    const u32 packs = static_cast<u32>(c.out.n / (packed ? kPack : 1)), each = kThreads * kUnroll;
    Arguments<F> g{.a = strided(c.a),
                   .b = strided(c.b),
                   .out = strided(c.out),
                   .grid = Grid((packs + each - 1) / each, c.out),
                   .primes = primes_of(c.primes),
                   .table = ring.primes().as<typename F::Prime>(),
                   .packs = packs};
    g.grid.components = Divisor(1);  // a thread computes all three components
    const auto kernel = square ? (packed ? &tensor_kernel<F, true, kPack> : &tensor_kernel<F, true, 1>)
                               : (packed ? &tensor_kernel<F, false, kPack> : &tensor_kernel<F, false, 1>);
    launch(q, "tensor", kernel, g.grid.blocks(), kThreads, 0, g);
  });
}

}  // namespace heliograph::backend::cuda
