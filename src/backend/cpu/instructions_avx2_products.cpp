// AVX2: matrix products with short weights.
#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/avx2_digits.h"
#include "backend/cpu/loops/digit_product.h"

namespace heliograph::backend::cpu {

const ProductOps& avx2_products(bool wide) {
  static constexpr ProductOps ops[2] = {digit_ops<Avx2Digits, u32>("AVX2"), digit_ops<Avx2Digits, u64>("AVX2")};
  return ops[wide];
}

}  // namespace heliograph::backend::cpu
