// TFHE's keys in the layout that the loops read.
#pragma once

#include "backend/cpu/pool.h"
#include "backend/cpu/tfhe_ops.h"
#include "backend/cpu/threads.h"
#include "device/tfhe.h"

namespace heliograph::backend::cpu {

/// The bootstrapping key in the Fourier domain, and the tables of the transform.
class CpuBootstrap final : public device::FormOf<device::BootstrapKey> {
 public:
  CpuBootstrap(const device::BootstrapKey& constant, std::span<const u64> key, const TfheOps& ops, MemoryPool& pool,
               ThreadPool& threads);
  const device::BootstrapShape& shape() const { return of().shape(); }
  const TfheOps& ops() const { return ops_; }
  const FourierPlan& plan() const { return plan_; }
  const double* key() const { return reinterpret_cast<const double*>(key_->address()); }
  /// Returns the number of doubles of a sample's accumulator.
  std::size_t state() const { return shape().rows() * plan_.polynomial; }
  /// Returns the index of a polynomial's coefficient j in the loops' layout.
  std::size_t place(std::size_t j) const {
    const std::size_t m = plan_.n / 2, i = j % m;
    return i / ops_.lanes * 2 * ops_.lanes + i % ops_.lanes + (j < m ? 0 : ops_.lanes);
  }
  /// Returns the number modulo 2^64 that 1.0 represents in an accumulator.
  double unit() const;
  /// Computes X^exponent * table in the loops' layout.
  void rotate_table(const u64* table, u32 exponent, double* out) const;
  void words(const double* in, u64* out) const;

 private:
  void make_plan(MemoryPool& pool);
  void transform(std::span<const u64> key, std::size_t group, double* scratch) const;

  const TfheOps& ops_;
  FourierPlan plan_;
  device::Buffer tables_, key_;
};

/// The key-switching key in the order of reading: chunks of rows, tiles of columns in each chunk, and rows [digit][i] in
/// each tile.
class CpuKeySwitch final : public device::FormOf<device::LweSwitchKey> {
 public:
  CpuKeySwitch(const device::LweSwitchKey& constant, std::span<const u32> key, MemoryPool& pool, ThreadPool& threads);
  const device::KeySwitchShape& shape() const { return of().shape(); }
  std::size_t tiles() const { return shape().to / kSwitchTile + 1; }
  /// Input coefficients per chunk; the last chunk may have fewer.
  std::size_t chunk() const { return chunk_; }
  /// Address of tile `tile` for `count` coefficients from `first` on (a multiple of chunk()).
  const u32* tile(std::size_t first, std::size_t count, std::size_t tile) const {
    return reinterpret_cast<const u32*>(key_->address()) +
           (first * tiles() + count * tile) * shape().gadget.length * kSwitchTile;
  }

 private:
  std::size_t chunk_;
  device::Buffer key_;
};

}  // namespace heliograph::backend::cpu
