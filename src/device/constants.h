// Constants of kernel calls: immutable data that belongs to no device. Each device makes its own form of a constant before
// calls refer to the constant (device/kernels.h).
#pragma once

#include <memory>
#include <vector>

#include "device/forms.h"
#include "math/conversion.h"
#include "math/ring.h"

namespace heliograph::device {

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

/// out[i] = +-in[source[i]]. `negate` is empty if no sign changes; otherwise it has one flag for each i.
struct Permutation {
  std::vector<math::u32> source;
  std::vector<bool> negate;

  /// Throws ShapeError if the sizes differ or a source is out of range.
  void check() const;
  /// Return g if the permutation is the automorphism X -> X^g, applied to values in the NTT's order or to coefficients;
  /// otherwise return 0.
  math::u64 galois_of_values() const;
  math::u64 galois_of_coefficients() const;
};

class PermutationConstant : public ConstantOf<Permutation> {
 public:
  using ConstantOf::ConstantOf;
  const Permutation& permutation() const { return value(); }
};

/// A modular matrix product with gathered inputs. A gathered product computes matrix products, convolutions, grouped
/// convolutions and sums:
///   out[(g * outputs + m) * positions + p] = sum_k weights[g][m][k] * in[index[g][p][k]]
/// Indices are flat batch indices; the index kNone contributes nothing (padding). Weights are signed integers.
struct GatheredProduct {
  static constexpr math::u32 kNone = ~math::u32{0};
  std::size_t groups = 1, outputs = 0, positions = 0, terms = 0, inputs = 0;  // `inputs`: number of items of `in`
  std::vector<math::i64> weights;
  std::vector<math::u32> index;

  int weight_bits() const;
  /// Throws ShapeError if the sizes differ or an index is out of range.
  void check() const;
  bool operator==(const GatheredProduct&) const = default;
};

/// The terms and results of a LimbSums call (device/call.h).
struct LimbSumList {
  static constexpr math::u32 kNone = ~math::u32{0};
  struct At {
    math::u32 operand = kNone, component = 0, limb = 0;
    bool once = false;  // set if the limb is not read again soon: a device may bypass its caches
    bool operator==(const At&) const = default;
  };
  /// The product weight * turn(a) * b, or weight * turn(a) if b is absent.
  struct Term {
    At a, b;
    math::u64 weight = 1;
    math::u32 turn = kNone;
    bool operator==(const Term&) const = default;
  };
  /// A result: the sum of `count` terms from `first` on, plus `constant` at every position.
  struct Result {
    At to;
    math::PrimeIndex prime = 0;
    math::u32 first = 0, count = 0;
    math::u64 constant = 0;
    bool operator==(const Result&) const = default;
  };
  std::vector<Term> terms;
  std::vector<Result> results;

  /// Throws ShapeError if a result refers to missing terms.
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
  /// Returns the number of products of a weight and an input, without padding, in one limb of one component.
  math::u64 pairs() const { return gathered_ * product_.outputs; }

 private:
  GatheredProduct product_;
  math::u64 gathered_ = 0;
};

}  // namespace heliograph::device
