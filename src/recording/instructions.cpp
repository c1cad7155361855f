// Recorded programs written as instructions (schemes/cinnamon).
#include "schemes/cinnamon/cinnamon.h"

#include "recording/state.h"

namespace heliograph::cinnamon {

Written write(const RecordedProgram& program, const Writing& how) {
  const RecordedProgram::State& state = program.state();
  require<ParameterError>(!state.loaded, "a program from a file is not written as instructions: record it here");
  return write(state.program->parts(), program.taken(), program.given(), how);
}

}  // namespace heliograph::cinnamon
