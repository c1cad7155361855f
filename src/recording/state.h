// What a recorded program is made of.
#pragma once

#include "io/container.h"
#include "recording/values.h"

namespace heliograph {

class RecordedProgram::State {
 public:
  std::string signature;
  std::vector<recording::Form> results;
  std::vector<recording::Form>
      inputs;  // they hold the parameters' contexts, whose sessions the calls are for: gone after the program
  std::shared_ptr<const program::Program> program;
  recording::Takes takes;
  bool loaded = false;  // from a file: without a signature and forms of inputs

  /// Of a program from a file: whether what it says of its results holds for these operands. Throws MismatchError where it is not
  /// for them.
  bool require_fit(const std::vector<Operand>& operands) const;
  /// Of the same: whether the bounds on its results' integers hold for these operands.
  bool bounded(const std::vector<Operand>& operands) const;
  /// As to_bytes and from_bytes.
  io::Container describe(const std::string& note) const;
  static Noted read(io::Container file, const ProgramLimits& limits);
};

}  // namespace heliograph
