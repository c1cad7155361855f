// AVX2 and FMA: residues.
#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/any_product.h"
#include "backend/cpu/loops/avx2_draws.h"
#include "backend/cpu/loops/byte_product.h"
#include "backend/cpu/loops/ceiling.h"
#include "backend/cpu/loops/fp64.h"
#include "backend/cpu/loops/limb_loops.h"
#include "backend/cpu/loops/mul32.h"
#include "backend/cpu/loops/scalar_loops.h"

namespace heliograph::backend::cpu {

namespace {

template <class Word>
constexpr LimbOps with_draws(LimbOps ops) {
  ops.uniform = scalar_uniform<Word>;
  ops.spread = scalar_spread<Word>;
  return ops;
}

/// The vectors hold sums and differences up to 60 bits; products are scalar.
constexpr LimbOps below60_ops(LimbOps ops) {
  using L = WordLoops<Fp64Words>;
  ops.name = "AVX2, scalar products";
  ops.add = L::add, ops.sub = L::sub, ops.neg = L::neg, ops.add_constant = L::add_constant;
  return ops;
}

}  // namespace

const InstructionSet& avx2_instructions() {
  static constexpr LimbOps below30 = with_draws<u32>(limb_loops<Mul32<Lanes32x8>, Mul32<Lanes32x8>>("AVX2"));
  static constexpr LimbOps below50 = with_draws<u64>(limb_loops<Fp64, Fp64Words>("AVX2 FP64"));
  static constexpr ProductOps any30 = any_product<Mul32<Lanes32x8>>("AVX2"), any50 = any_product<Fp64Words>("AVX2 FP64");
  static constexpr ByteOps bytes = plain_bytes("AVX2");
  static const LimbOps below60 = below60_ops(*scalar_instructions().limb[1][2]);
  static const InstructionSet set = [] {
    InstructionSet l = scalar_instructions();
    l.name = "avx2";
    l.description = "AVX2";
    l.limb[0][0] = &below30;
    l.limb[1][0] = l.limb[1][1] = &below50;
    l.limb[1][2] = &below60;
    l.combine[0][0] = l.combine[0][1] = fp64_combine<u32>;
    l.combine[1][0] = l.combine[1][1] = fp64_combine<u64>;
    l.any_product[0][0] = &any30;
    l.any_product[1][0] = l.any_product[1][1] = &any50;
    set_narrow_products(l, avx2_products);
    l.bytes = &bytes;
    l.chacha = avx2_chacha;
    l.product_ceiling = product_ceiling<Fp64>;
    l.sum_ceiling = sum_ceiling<Fp64Words>;
    return l;
  }();
  return set;
}

}  // namespace heliograph::backend::cpu
