// AVX-512 with IFMA and VNNI: residues in 64-bit words.
#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/any_product.h"
#include "backend/cpu/loops/avx512_bytes.h"
#include "backend/cpu/loops/avx512_draws.h"
#include "backend/cpu/loops/ceiling.h"
#include "backend/cpu/loops/ifma.h"
#include "backend/cpu/loops/ifma_loops.h"
#include "backend/cpu/loops/limb_loops.h"
#include "backend/cpu/loops/scalar_loops.h"

namespace heliograph::backend::cpu {

namespace {

/// The vectors hold sums and differences up to 60 bits; products are scalar.
constexpr LimbOps below60_ops(LimbOps ops) {
  using L = WordLoops<Ifma>;
  ops.name = "AVX-512, scalar products";
  ops.add = L::add, ops.sub = L::sub, ops.neg = L::neg, ops.add_constant = L::add_constant;
  ops.permute_eights = permute_eights64;
  return ops;
}

}  // namespace

const InstructionSet& avx512_instructions() {
  static constexpr LimbOps below50 = with_avx512_draws<u64>(limb_loops<Ifma, Ifma>("AVX-512 IFMA"));
  static constexpr ProductOps any50 = any_product<Ifma>("AVX-512 IFMA");
  static constexpr ByteOps bytes = {.name = "AVX-512 VNNI", .pack = VnniBytes::pack, .run = VnniBytes::run};
  static const LimbOps below60 = below60_ops(*scalar_instructions().limb[1][2]);
  static const InstructionSet set = [] {
    InstructionSet l = scalar_instructions();
    l.name = "avx512";
    l.description = "AVX-512 IFMA";
    l.limb[0][0] = &avx512_below30();
    l.limb[1][0] = l.limb[1][1] = &below50;
    l.limb[1][2] = &below60;
    l.lift[0][0] = ifma_lift<u32, 0>, l.lift[0][1] = ifma_lift<u32, 52>;
    l.lift[1][0] = ifma_lift<u64, 0>, l.lift[1][1] = ifma_lift<u64, 52>;
    l.combine[0][0] = l.combine[0][1] = ifma_combine<u32>;
    l.combine[1][0] = l.combine[1][1] = ifma_combine<u64>;
    l.any_product[0][0] = &avx512_any_product30();
    l.any_product[1][0] = l.any_product[1][1] = &any50;
    set_narrow_products(l, avx512_products);
    l.bytes = &bytes;
    l.chacha = avx512_chacha;
    l.ternary = avx512_ternary;
    l.gaussian = avx512_gaussian;
    l.product_ceiling = product_ceiling<Ifma>;
    l.sum_ceiling = sum_ceiling<Ifma>;
    return l;
  }();
  return set;
}

}  // namespace heliograph::backend::cpu
