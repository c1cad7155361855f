// Which residues a call reads and writes: what a program from a file is verified by (program/verify.h).
#pragma once

#include "device/call.h"

namespace heliograph::device {

/// The words of one operand of a call, limb by limb.
struct Residues {
  static constexpr u64 kAny = ~u64{0};  // every word is right
  /// Of each limb of the view: the call reads words that are less, or writes such; 0: it does neither with this limb.
  std::vector<u64> below;
  /// The call writes every word of these limbs, in all components of all items.
  bool covers = true;
  /// A copy: what it writes is what the operand before holds. `below` is empty.
  bool copied = false;
};

/// One for each view of a call, in the order of each_view. The call's constants are there and checked (device/plans.h); its
/// TFHE keys may be absent.
std::vector<Residues> residues_of(const Call& call);

/// Whether `out` may be the very view that another operand is: in element-wise kernels and transforms.
bool works_in_place(const Call& call);

}  // namespace heliograph::device
