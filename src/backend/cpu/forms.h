// Device constants in the form that the CPU's loops read.
#pragma once

#include <vector>

#include "backend/cpu/limb_ops.h"
#include "backend/cpu/pool.h"
#include "backend/cpu/threads.h"
#include "device/constants.h"

namespace heliograph::backend::cpu {

Modulus make_modulus(u64 q);
Size size_of(u64 q);

class CpuRing : public device::FormOf<device::RingConstant> {
 public:
  CpuRing(const device::RingConstant& constant, const InstructionSet& set, MemoryPool& pool, ThreadPool& threads);
  const Limb& limb(math::PrimeIndex i) const { return limbs_[i]; }

 private:
  std::vector<Limb> limbs_;
  device::Buffer tables_;
};

class CpuConversion : public device::FormOf<device::ConversionConstant> {
 public:
  explicit CpuConversion(const device::ConversionConstant& constant);
  struct Lift {
    LiftStep step;
    Size size;
  };
  struct Combine {
    CombineStep step;
    Size size;
  };
  const std::vector<Lift>& lifts() const { return lifts_; }
  const std::vector<Combine>& combines() const { return combines_; }

 private:
  std::vector<Lift> lifts_;
  std::vector<Combine> combines_;
  std::vector<u64> montgomery_;  // the conversion's matrix times 2^52
};

class CpuPermutation : public device::Form {
 public:
  explicit CpuPermutation(const device::Permutation& permutation);
  /// out[i] = a[s(first + i)] for i < count, negated if the permutation says so; s is the permutation's source index. `a`
  /// points to a whole limb.
  void gather(const LimbOps& ops, const Modulus& modulus, const void* a, std::size_t first, void* out,
              std::size_t count) const;

 private:
  std::vector<u32> source_;  // source index times two, plus one if the sign changes
  // The two vectors are filled if the permutation moves each aligned run of eight words as a whole without sign changes, as
  // automorphisms in the NTT domain do. block_ has the first source of each run of eight words; lanes_ has the eight offsets
  // within the run, one byte each.
  std::vector<u32> block_;
  std::vector<u64> lanes_;
};

class CpuProduct : public device::FormOf<device::ProductConstant> {
 public:
  CpuProduct(const device::ProductConstant& constant, const InstructionSet& set);
  const ProductOps& ops(math::Word word, Size size) const;
  const void* weights(const ProductOps& ops, std::size_t group) const;

 private:
  struct Packed {
    const ProductOps* ops;
    std::size_t group_bytes;
    std::vector<u64> bytes;
  };
  const InstructionSet& instructions_;
  bool narrow_;
  std::vector<Packed> packed_;
};

}  // namespace heliograph::backend::cpu
