// AVX-512 with VNNI: matrix products with short weights.
#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/avx512_digits.h"
#include "backend/cpu/loops/digit_product.h"

namespace heliograph::backend::cpu {

const ProductOps& avx512_products(bool wide) {
  static constexpr ProductOps ops[2] = {digit_ops<Avx512Digits, u32>("AVX-512 VNNI"),
                                        digit_ops<Avx512Digits, u64>("AVX-512 VNNI")};
  return ops[wide];
}

}  // namespace heliograph::backend::cpu
