// Residues that a call reads and writes, for the verification of programs from files (program/verify.h).
#pragma once

#include "device/call.h"

namespace heliograph::device {

/// Bounds of the words of one operand of a call, for each limb.
struct Residues {
  static constexpr u64 kAny = ~u64{0};  // bound for limbs that may have any word
  /// Exclusive bound of each limb: the call requires, or writes, words below it. A bound of 0 means that the call does not
  /// access the limb.
  std::vector<u64> below;
  /// Whether the call writes every word of the limbs that it accesses, in all components of all items.
  bool covers = true;
  /// Whether the operand is the output of a copy: its bounds are those of the operand before it, and `below` is empty.
  bool copied = false;
};

/// Returns the residues of each view of a call, in the order of each_view. The call's constants must be present and checked
/// (device/plans.h); its TFHE keys may be absent.
std::vector<Residues> residues_of(const Call& call);

/// Returns whether `out` may be the same view as another operand: true for element-wise kernels and transforms.
bool works_in_place(const Call& call);

}  // namespace heliograph::device
