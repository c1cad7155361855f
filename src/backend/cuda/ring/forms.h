// Device constants in the form that the GPU's kernels read, in GPU memory.
#pragma once

#include "backend/cuda/runtime/device.h"
#include "device/constants.h"

namespace heliograph::backend::cuda {

using math::u32;
using math::u64;

/// The arithmetic of a ring or a conversion: see field.cuh.
enum class FieldKind { field32, field50, field60 };

class CudaRing final : public device::FormOf<device::RingConstant> {
 public:
  CudaRing(const std::shared_ptr<State>& state, const device::RingConstant& constant);
  const math::Ring& ring() const { return of().ring(); }
  const device::Slot& slot() const { return slot_; }
  FieldKind kind() const { return kind_; }
  /// Table of F::Prime, one for each prime.
  const Table& primes() const { return *primes_; }
  /// Table of Field60::Prime, one for each prime, for kernels with one variant for all fields.
  const Table& any_primes() const { return *any_primes_; }
  /// Tables of F::Constant: n twiddles for each prime, ordered as in math/ring.h.
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
  /// Tables of ConversionSource<F> for each source and ConversionTarget<F> for each target, and the matrix: see
  /// conversion.cuh.
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
  /// For each position: source << 1 | negate.
  const Table& table() const { return *table_; }

 private:
  std::unique_ptr<Table> table_;
};

class CudaLimbSums final : public device::Form {
 public:
  struct Term {
    u64 weight;
    u32 a, a_component, a_limb, b, b_component, b_limb;  // indices; ~0 stands for none
    u32 turn, once;                                      // bit 0 of `once`: a is not read again; bit 1: b is not
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
