// Recorded programs written as instructions (schemes/cinnamon).
#include "schemes/cinnamon/cinnamon.h"

#include "recording/state.h"

namespace heliograph::cinnamon {

Written write(const RecordedProgram& program, const Writing& how) {
  const RecordedProgram::State& state = program.state();
  require<ParameterError>(!state.loaded, "cannot write a program from a file as instructions; record it in this process");
  return write(state.program->parts(), program.operands(), program.results(), how);
}

}  // namespace heliograph::cinnamon
