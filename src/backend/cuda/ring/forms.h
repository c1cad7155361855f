// The forms of constants here, in the GPU's memory.
#pragma once

#include "backend/cuda/runtime/device.h"
#include "device/constants.h"

namespace heliograph::backend::cuda {

using math::u32;
using math::u64;

/// Which arithmetic a ring or a conversion is computed with: see field.cuh.
enum class FieldKind { field32, field50, field60 };

class CudaRing final : public device::FormOf<device::RingConstant> {
 public:
  CudaRing(const std::shared_ptr<State>& state, const device::RingConstant& constant);
  const math::Ring& ring() const { return of().ring(); }
  /// Whose form it is.
  const device::Slot& slot() const { return slot_; }
  FieldKind kind() const { return kind_; }
  /// F::Prime of each prime.
  const Table& primes() const { return *primes_; }
  /// Field60::Prime of each prime: for what is not worth a form of its own.
  const Table& any_primes() const { return *any_primes_; }
  /// F::Constant, n for each prime, as math/ring.h orders them.
  const Table& forward() const { return *forward_; }
  const Table& inverse() const { return *inverse_; }

 private:
  template <class F>
  void fill(const std::shared_ptr<State>& state);

  const device::Slot& slot_;
  FieldKind kind_;
  std::unique_ptr<Table> primes_, any_primes_, forward_, inverse_;
};

class CudaConversion final : public device::FormOf<device::ConversionConstant> {
 public:
  CudaConversion(const std::shared_ptr<State>& state, const device::ConversionConstant& constant);
  const math::Conversion& conversion() const { return of().conversion(); }
  FieldKind kind() const { return kind_; }
  /// ConversionSource<F> of each source, ConversionTarget<F> of each target, and the matrix: see conversion.cuh.
  const Table& sources() const { return *sources_; }
  const Table& targets() const { return *targets_; }
  const Table& matrix() const { return *matrix_; }

 private:
  template <class F>
  void fill(const std::shared_ptr<State>& state);

  FieldKind kind_;
  std::unique_ptr<Table> sources_, targets_, matrix_;
};

class CudaPermutation final : public device::Form {
 public:
  CudaPermutation(const std::shared_ptr<State>& state, const device::Permutation& permutation);
  /// source << 1 | negate
  const Table& table() const { return *table_; }

 private:
  std::unique_ptr<Table> table_;
};

/// A list of sums as a kernel reads it.
class CudaLimbSums final : public device::Form {
 public:
  struct Term {
    u64 weight;
    u32 a, a_component, a_limb, b, b_component, b_limb;  // an operand's number; ~0: none
    u32 turn, once;                                      // bits: of a, of b
  };
  struct Result {
    u64 constant;
    u32 to, component, limb, prime, first, count;
  };
  CudaLimbSums(const std::shared_ptr<State>& state, const device::LimbSumList& list);
  const Table& terms() const { return *terms_; }
  const Table& results() const { return *results_; }

 private:
  std::unique_ptr<Table> terms_, results_;
};

}  // namespace heliograph::backend::cuda
