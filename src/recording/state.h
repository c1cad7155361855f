// The data of a recorded program.
#pragma once

#include "io/container.h"
#include "recording/values.h"

namespace heliograph {

class RecordedProgram::State {
 public:
  std::string signature;
  std::vector<recording::Form> results;
  std::vector<recording::Form>
      inputs;  // with the parameters' contexts, whose sessions the calls use; must outlive the program
  std::shared_ptr<const program::Program> program;
  recording::Takes takes;
  bool loaded = false;  // the program came from a file: it has no signature and no forms of inputs

  /// Returns, for a program from a file, whether its results' metadata hold for these operands. Throws MismatchError if the
  /// program does not accept the operands.
  bool require_fit(const std::vector<Operand>& operands) const;
  /// Returns, for a program from a file, whether the bounds on its results' integers hold for these operands.
  bool bounded(const std::vector<Operand>& operands) const;
  /// Implementations of to_bytes and from_bytes.
  io::Container describe(const std::string& note) const;
  static Noted read(io::Container file, const ProgramLimits& limits);
};

}  // namespace heliograph
