// Constants of kernel calls: immutable data that name no device. A device has its forms of them made before calls name them
// (device/kernels.h).
#pragma once

#include <memory>
#include <vector>

#include "device/forms.h"
#include "math/conversion.h"
#include "math/ring.h"

namespace heliograph::device {

/// A ring's primes and twiddles.
class RingConstant : public Constant {
 public:
  explicit RingConstant(std::shared_ptr<const math::Ring> ring) : ring_(std::move(ring)) {}
  const math::Ring& ring() const { return *ring_; }

 private:
  std::shared_ptr<const math::Ring> ring_;
};

class ConversionConstant : public ConstantOf<math::Conversion> {
 public:
  using ConstantOf::ConstantOf;
  const math::Conversion& conversion() const { return value(); }
};

/// out[i] = +-in[source[i]]; `negate` is empty (never) or has one flag for each i.
struct Permutation {
  std::vector<math::u32> source;
  std::vector<bool> negate;

  /// Throws ShapeError unless sizes and sources fit.
  void check() const;
  /// The g of the automorphism X -> X^g that it is, of values in the NTT's order or of coefficients; 0 where it is none.
  math::u64 galois_of_values() const;
  math::u64 galois_of_coefficients() const;
};

class PermutationConstant : public ConstantOf<Permutation> {
 public:
  using ConstantOf::ConstantOf;
  const Permutation& permutation() const { return value(); }
};

/// A modular matrix product that gathers its inputs: matmul, convolution, grouped convolution and sums are all of it.
///   out[(g * outputs + m) * positions + p] = sum_k weights[g][m][k] * in[index[g][p][k]]
/// over flat batch indices; an index of kNone contributes nothing (padding). Weights are signed integers.
struct GatheredProduct {
  static constexpr math::u32 kNone = ~math::u32{0};
  std::size_t groups = 1, outputs = 0, positions = 0, terms = 0, inputs = 0;  // inputs: flat batch size of `in`
  std::vector<math::i64> weights;
  std::vector<math::u32> index;

  /// Largest |weight|'s bit length.
  int weight_bits() const;
  /// Throws ShapeError unless sizes and indices fit.
  void check() const;
  bool operator==(const GatheredProduct&) const = default;
};

/// What sums of single limbs add up (device/call.h: LimbSums).
struct LimbSumList {
  static constexpr math::u32 kNone = ~math::u32{0};
  /// A limb of an operand of the call.
  struct At {
    math::u32 operand = kNone, component = 0, limb = 0;
    bool once = false;  // not read again soon: a device may keep it out of its caches
    bool operator==(const At&) const = default;
  };
  /// weight * turn(a) * b; without b, weight * turn(a).
  struct Term {
    At a, b;
    math::u64 weight = 1;
    math::u32 turn = kNone;
    bool operator==(const Term&) const = default;
  };
  /// The terms from `first` on and, at every position, `constant`.
  struct Result {
    At to;
    math::PrimeIndex prime = 0;
    math::u32 first = 0, count = 0;
    math::u64 constant = 0;
    bool operator==(const Result&) const = default;
  };
  std::vector<Term> terms;
  std::vector<Result> results;

  /// Throws ShapeError unless results have terms that are there.
  void check() const;
};

class LimbSumConstant : public ConstantOf<LimbSumList> {
 public:
  using ConstantOf::ConstantOf;
  const LimbSumList& list() const { return value(); }
};

class ProductConstant : public Constant {
 public:
  explicit ProductConstant(GatheredProduct p);
  const GatheredProduct& product() const { return product_; }
  /// Pairs of a weight and an input, padding left out, in one component of one limb.
  math::u64 pairs() const { return gathered_ * product_.outputs; }

 private:
  GatheredProduct product_;
  math::u64 gathered_ = 0;
};

}  // namespace heliograph::device
