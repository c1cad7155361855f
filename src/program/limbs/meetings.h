// Where the chips of a text of limbs meet: what one sends to others, and sums that all bring to.
#pragma once

#include <unordered_map>
#include <vector>

#include "program/limbs/instructions.h"

namespace heliograph::program::limbs {

/// Chips that meet: one sends and the others receive, or all bring or take of a sum.
struct Meeting {
  Op op = Op::nop_;
  u32 size = 0, came = 0, senders = 0;
  std::uint16_t prime = Instruction::kNoPrime;
  std::vector<u32> chips;
  const Stream* stream = nullptr;
  u32 line = 0;
  // While linking.
  u32 arrived = 0;
  std::vector<u32> brought;
};

/// By number. Throws InstructionError where chips do not agree on one: on its purpose, size or prime, or on who comes and sends.
std::unordered_map<u64, Meeting> meetings_of(const Text& text);

}  // namespace heliograph::program::limbs
