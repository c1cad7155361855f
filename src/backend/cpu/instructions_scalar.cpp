// Scalar loops: any 64-bit processor, any modulus below 2^60.
#include "backend/cpu/loops/any_product.h"
#include "backend/cpu/loops/byte_product.h"
#include "backend/cpu/loops/ceiling.h"
#include "backend/cpu/loops/limb_loops.h"
#include "backend/cpu/loops/scalar_loops.h"

namespace heliograph::backend::cpu {

namespace {

/// Arithmetic on blocks of two words, for rings of any degree.
template <class Word>
struct Tiny : Scalar<Word> {
  using Scalar<Word>::Scalar;
  static constexpr int kVertical = 1;
};

template <class Word, class A>
constexpr LimbOps limb_ops() {
  LimbOps ops = limb_loops<A, A>("scalar");
  ops.uniform = scalar_uniform<Word>;
  ops.spread = scalar_spread<Word>;
  return ops;
}

}  // namespace

const LimbOps& tiny_ops(bool wide) {
  static constexpr LimbOps ops[2] = {limb_ops<u32, Tiny<u32>>(), limb_ops<u64, Tiny<u64>>()};
  return ops[wide];
}

const InstructionSet& scalar_instructions() {
  static constexpr LimbOps limb[2] = {limb_ops<u32, Scalar<u32>>(), limb_ops<u64, Scalar<u64>>()};
  static constexpr ProductOps product[2] = {any_product<Scalar<u32>>("scalar"), any_product<Scalar<u64>>("scalar")};
  static constexpr ByteOps bytes = plain_bytes("scalar");
  static constexpr InstructionSet set = {
      .name = "scalar",
      .description = "64-bit scalar",
      .limb = {{&limb[0], &limb[0], &limb[0]}, {&limb[1], &limb[1], &limb[1]}},
      .lift = {{scalar_lift<u32>, scalar_lift<u32>, scalar_lift<u32>},
               {scalar_lift<u64>, scalar_lift<u64>, scalar_lift<u64>}},
      .combine = {{scalar_combine<u32>, scalar_combine<u32>, scalar_combine<u32>},
                  {scalar_combine<u64>, scalar_combine<u64>, scalar_combine<u64>}},
      .narrow_product = {{&product[0], &product[0], &product[0]}, {&product[1], &product[1], &product[1]}},
      .any_product = {{&product[0], &product[0], &product[0]}, {&product[1], &product[1], &product[1]}},
      .bytes = &bytes,
      .chacha = scalar_chacha,
      .ternary = scalar_ternary,
      .gaussian = scalar_gaussian,
      .product_ceiling = product_ceiling<Scalar<u64>>,
      .sum_ceiling = sum_ceiling<Scalar<u64>>};
  return set;
}

}  // namespace heliograph::backend::cpu
