// Constants in this backend's form, in the GPU's memory.
#pragma once

#include "backend/cuda/runtime/device.h"
#include "device/prepared.h"

namespace heliograph::backend::cuda {

using math::u32;
using math::u64;

/// Which arithmetic a ring or a conversion is computed with: see field.cuh.
enum class FieldKind { field32, field50, field60 };

class CudaRing final : public device::PreparedRing {
 public:
  CudaRing(const std::shared_ptr<State>& state, std::shared_ptr<const math::Ring> ring);
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

  FieldKind kind_;
  std::unique_ptr<Table> primes_, any_primes_, forward_, inverse_;
};

class CudaConversion final : public device::PreparedConversion {
 public:
  CudaConversion(const std::shared_ptr<State>& state, math::Conversion conversion);
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

class CudaPermutation final : public device::PreparedPermutation {
 public:
  CudaPermutation(const std::shared_ptr<State>& state, device::Permutation permutation);
  /// source << 1 | negate
  const Table& table() const { return *table_; }

 private:
  std::unique_ptr<Table> table_;
};

}  // namespace heliograph::backend::cuda
