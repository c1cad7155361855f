// Instruction streams under construction. While instructions are added, each value gets a new register number; finish()
// maps them to few registers.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "program/limbs/instructions.h"

namespace heliograph::program::limbs {

/// An operand on its chip: a register, or a result of a conversion unit.
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
  /// Loads a limb of an input, for example of "x:c0" with kind 'i'.
  Operand load(std::size_t chip, char kind, const std::string& symbol, std::uint16_t limb);
  void store(std::size_t chip, const Operand& a, const std::string& symbol, std::uint16_t limb);
  /// Adds a base conversion. Returns the operands of its results, in the order of `to`.
  std::vector<Operand> convert(std::size_t chip, const std::vector<std::uint16_t>& from, const std::vector<Operand>& x,
                               const std::vector<std::uint16_t>& to);
  /// Sends a limb to other chips. Returns the operand that holds the limb on each receiver.
  std::vector<Operand> send(std::size_t chip, const Operand& a, const std::vector<std::size_t>& receivers);
  /// Returns the sum, on the chip `chip`, of partial sums of several chips.
  Operand join(std::size_t chip, std::uint16_t prime, const std::vector<std::pair<std::size_t, Operand>>& parts);

  /// Throws ParameterError if a chip needs more registers than exist.
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
  std::map<std::string, std::pair<char, u32>> terms_;  // indexed by symbol
  std::map<std::string, std::pair<char, u32>> outputs_;
  u64 meetings_ = 0;
};

}  // namespace heliograph::program::limbs
