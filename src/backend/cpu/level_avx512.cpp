// AVX-512 with IFMA and VNNI.
#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/avx512_digits.h"
#include "backend/cpu/loops/avx512_draws.h"
#include "backend/cpu/loops/digit_product.h"
#include "backend/cpu/loops/ifma.h"
#include "backend/cpu/loops/ifma_loops.h"
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
          .uniform = ifma_uniform<u64>,
          .spread = avx512_spread64};
}

}  // namespace

const Level& avx512_level() {
  static constexpr LimbOps below50 = ifma_ops<Ifma>();
  static constexpr ProductOps narrow[2] = {digit_ops<Avx512Digits, u32>("AVX-512 VNNI"), digit_ops<Avx512Digits, u64>("AVX-512 VNNI")};
  static const Level level = [] {
    Level l = scalar_level();
    l.name = "avx512";
    l.description = "AVX-512 IFMA";
    l.limb[1][0] = l.limb[1][1] = &below50;
    l.lift[0][0] = ifma_lift<u32, 0>, l.lift[0][1] = ifma_lift<u32, 52>;
    l.lift[1][0] = ifma_lift<u64, 0>, l.lift[1][1] = ifma_lift<u64, 52>;
    l.combine[0][0] = l.combine[0][1] = ifma_combine<u32>;
    l.combine[1][0] = l.combine[1][1] = ifma_combine<u64>;
    for (int word = 0; word < 2; ++word) {
      for (int size = 0; size < 3; ++size) l.narrow_product[word][size] = &narrow[word];
    }
    l.chacha = avx512_chacha;
    l.ternary = avx512_ternary;
    l.gaussian = avx512_gaussian;
    return l;
  }();
  return level;
}

}  // namespace heliograph::backend::cpu
