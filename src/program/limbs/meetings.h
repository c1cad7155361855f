// Exchanges between the chips of a program, called meetings: one chip sends a limb to others, or several chips sum their
// limbs.
#pragma once

#include <unordered_map>
#include <vector>

#include "program/limbs/instructions.h"

namespace heliograph::program::limbs {

/// An exchange of limbs between chips. Either one chip sends and the others receive, or all chips contribute to a sum or
/// receive it.
struct Meeting {
  Op op = Op::nop_;
  u32 size = 0, came = 0, senders = 0;
  std::uint16_t prime = Instruction::kNoPrime;
  std::vector<u32> chips;
  const Stream* stream = nullptr;
  u32 line = 0;
  // State of the linker.
  u32 arrived = 0;
  std::vector<u32> brought;
};

/// Returns the exchanges by number. Throws InstructionError if chips disagree on an exchange: on its purpose, size,
/// prime, participants or sender.
std::unordered_map<u64, Meeting> meetings_of(const Text& text);

}  // namespace heliograph::program::limbs
