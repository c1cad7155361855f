// AVX-512 with IFMA and VNNI.
#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/ifma.h"
#include "backend/cpu/loops/ntt_network.h"
#include "backend/cpu/loops/scalar_loops.h"
#include "backend/cpu/loops/word_loops.h"

namespace heliograph::backend::cpu {

namespace {

template <class A>
constexpr LimbOps ifma_ops() {
  using L = WordLoops<A>;
  return {.name = "AVX-512 IFMA",
          .least_degree = Network<A>::kBlock,
          .table_bytes = Network<A>::table_bytes,
          .fill_forward = Network<A>::fill,
          .fill_inverse = Network<A>::fill,
          .forward = network_forward<A>,
          .inverse = network_inverse<A>,
          .add = L::add,
          .sub = L::sub,
          .neg = L::neg,
          .mul = L::mul,
          .mul_constant = L::mul_constant,
          .add_constant = L::add_constant,
          .dot = L::dot,
          .permute = L::permute,
          .uniform = scalar_uniform<u64>,
          .spread = scalar_spread<u64>};
}

}  // namespace

const Level& avx512_level() {
  static constexpr LimbOps below50 = ifma_ops<Ifma>();
  static const Level level = [] {
    Level l = scalar_level();
    l.name = "avx512";
    l.description = "AVX-512 IFMA";
    l.limb[1][0] = l.limb[1][1] = &below50;
    return l;
  }();
  return level;
}

}  // namespace heliograph::backend::cpu
