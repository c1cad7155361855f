// TFHE's keys in the form the loops read.
#pragma once

#include "backend/cpu/pool.h"
#include "backend/cpu/tfhe_ops.h"
#include "backend/cpu/threads.h"
#include "device/tfhe.h"

namespace heliograph::backend::cpu {

/// The transformed key and the tables of its transform.
class CpuBootstrap final : public device::FormOf<device::BootstrapKey> {
 public:
  CpuBootstrap(const device::BootstrapKey& constant, std::span<const u64> key, const TfheOps& ops, MemoryPool& pool,
               ThreadPool& threads);
  const device::BootstrapShape& shape() const { return of().shape(); }
  const TfheOps& ops() const { return ops_; }
  const FourierPlan& plan() const { return plan_; }
  const double* key() const { return reinterpret_cast<const double*>(key_->address()); }
  /// Doubles that the rotation of one sample has as its state.
  std::size_t state() const { return shape().rows() * plan_.polynomial; }
  /// Place of coefficient j of a polynomial.
  std::size_t place(std::size_t j) const {
    const std::size_t m = plan_.n / 2, i = j % m;
    return i / ops_.lanes * 2 * ops_.lanes + i % ops_.lanes + (j < m ? 0 : ops_.lanes);
  }
  /// What one of a rotation's numbers stands for.
  double unit() const;
  /// X^exponent * table as the loops take it.
  void rotate_table(const u64* table, u32 exponent, double* out) const;
  /// The words of a result.
  void words(const double* in, u64* out) const;

 private:
  void make_plan(MemoryPool& pool);
  void transform(std::span<const u64> key, std::size_t group, double* scratch) const;

  const TfheOps& ops_;
  FourierPlan plan_;
  device::Buffer tables_, key_;
};

/// The key in chunks of rows, in each of them the tiles of columns, in each of these the rows [digit][i], so that it is read
/// as it lies.
class CpuKeySwitch final : public device::FormOf<device::LweSwitchKey> {
 public:
  CpuKeySwitch(const device::LweSwitchKey& constant, std::span<const u32> key, MemoryPool& pool, ThreadPool& threads);
  const device::KeySwitchShape& shape() const { return of().shape(); }
  std::size_t tiles() const { return shape().to / kSwitchTile + 1; }
  /// Coefficients of the input that a chunk has; the last may have fewer.
  std::size_t chunk() const { return chunk_; }
  /// `count` coefficients from `first` on (a multiple of chunk()), tile `tile`.
  const u32* tile(std::size_t first, std::size_t count, std::size_t tile) const {
    return reinterpret_cast<const u32*>(key_->address()) +
           (first * tiles() + count * tile) * shape().gadget.length * kSwitchTile;
  }

 private:
  std::size_t chunk_;
  device::Buffer key_;
};

}  // namespace heliograph::backend::cpu
