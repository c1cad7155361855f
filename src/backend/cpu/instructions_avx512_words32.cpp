// AVX-512: residues in 32-bit words.
#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/any_product.h"
#include "backend/cpu/loops/avx512_draws.h"
#include "backend/cpu/loops/ifma_loops.h"
#include "backend/cpu/loops/limb_loops.h"
#include "backend/cpu/loops/mul32.h"

namespace heliograph::backend::cpu {

const LimbOps& avx512_below30() {
  static constexpr LimbOps ops = with_avx512_draws<u32>(limb_loops<Mul32<Lanes32x16>, Mul32<Lanes32x16>>("AVX-512"));
  return ops;
}

const ProductOps& avx512_any_product30() {
  static constexpr ProductOps ops = any_product<Mul32<Lanes32x16>>("AVX-512");
  return ops;
}

}  // namespace heliograph::backend::cpu
