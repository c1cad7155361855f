// AVX2 with FMA.
#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/avx2_digits.h"
#include "backend/cpu/loops/avx2_draws.h"
#include "backend/cpu/loops/digit_product.h"
#include "backend/cpu/loops/fp64.h"
#include "backend/cpu/loops/ntt_network.h"
#include "backend/cpu/loops/scalar_loops.h"
#include "backend/cpu/loops/word_loops.h"

namespace heliograph::backend::cpu {

namespace {

constexpr LimbOps fp64_ops() {
  using N = Network<Fp64>;
  using L = WordLoops<Fp64Words>;
  return {.name = "AVX2 FP64",
          .least_degree = 64,
          .table_bytes = N::table_bytes,
          .fill_forward = N::fill,
          .fill_inverse = N::fill,
          .forward = network_forward<Fp64>,
          .inverse = network_inverse<Fp64>,
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

const Level& avx2_level() {
  static constexpr LimbOps below50 = fp64_ops();
  static constexpr ProductOps narrow[2] = {digit_ops<Avx2Digits, u32>("AVX2"), digit_ops<Avx2Digits, u64>("AVX2")};
  static const Level level = [] {
    Level l = scalar_level();
    l.name = "avx2";
    l.description = "AVX2";
    l.limb[1][0] = l.limb[1][1] = &below50;
    l.combine[0][0] = l.combine[0][1] = fp64_combine<u32>;
    l.combine[1][0] = l.combine[1][1] = fp64_combine<u64>;
    for (int word = 0; word < 2; ++word) {
      for (int size = 0; size < 3; ++size) l.narrow_product[word][size] = &narrow[word];
    }
    l.chacha = avx2_chacha;
    return l;
  }();
  return level;
}

}  // namespace heliograph::backend::cpu
