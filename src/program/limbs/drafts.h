// Streams of instructions in the making: registers and units are numbered as they come, and put into few at the end.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "program/limbs/instructions.h"

namespace heliograph::program::limbs {

/// An operand on its chip: the value's own register, or its unit and which of its results.
struct Operand {
  Register::Kind kind = Register::Kind::none;
  u32 number = 0, unit = 0;
};

class Drafts {
 public:
  explicit Drafts(std::size_t chips) : chips_(chips) {}
  std::size_t chips() const { return chips_.size(); }

  Operand unary(std::size_t chip, Op op, std::uint16_t prime, const Operand& a, std::int32_t steps = 0);
  Operand binary(std::size_t chip, Op op, std::uint16_t prime, const Operand& a, const Operand& b);
  /// A limb of what the program takes: "x:c0" of kind 'i'.
  Operand load(std::size_t chip, char kind, const std::string& symbol, std::uint16_t limb);
  void store(std::size_t chip, const Operand& a, const std::string& symbol, std::uint16_t limb);
  /// The results' operands, in the order of `to`.
  std::vector<Operand> convert(std::size_t chip, const std::vector<std::uint16_t>& from, const std::vector<Operand>& x,
                               const std::vector<std::uint16_t>& to);
  /// What each of the receivers has.
  std::vector<Operand> send(std::size_t chip, const Operand& a, const std::vector<std::size_t>& receivers);
  /// The sum of what chips bring, on `chip`.
  Operand join(std::size_t chip, std::uint16_t prime, const std::vector<std::pair<std::size_t, Operand>>& parts);

  /// Throws ParameterError where a chip needs more registers than there are.
  Text finish();

 private:
  struct Draft {
    Op op = Op::nop_;
    std::uint16_t prime = Instruction::kNoPrime;
    Operand to, a, b;
    Term term;
    std::int32_t steps = 0;
    u32 unit = 0, size = 0;
    u64 meeting = 0;
    std::vector<std::uint16_t> primes, more;
  };
  struct Chip {
    std::vector<Draft> drafts;
    u32 vectors = 0, scalars = 0, units = 0;
    std::map<std::string, std::set<std::uint16_t>> takes, gives;  // limbs of each symbol
  };
  Term term(char kind, const std::string& symbol, std::uint16_t limb);
  Operand fresh(std::size_t chip) { return {.kind = Register::Kind::vector, .number = chips_[chip].vectors++}; }
  Stream allocated(const Chip& chip) const;
  std::vector<Entry> entries(const std::map<std::string, std::set<std::uint16_t>>& symbols, const std::string& kinds) const;

  std::vector<Chip> chips_;
  std::map<std::string, std::pair<char, u32>> terms_;  // of each symbol
  std::map<std::string, std::pair<char, u32>> outputs_;
  u64 meetings_ = 0;
};

}  // namespace heliograph::program::limbs
