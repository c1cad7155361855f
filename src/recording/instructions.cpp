// Recorded programs written as instructions (schemes/cinnamon).
#include "schemes/cinnamon/cinnamon.h"

#include "recording/state.h"

namespace heliograph::cinnamon {

Written write(const RecordedProgram& program, const Writing& how) {
  const RecordedProgram::State& state = program.state();
  require<ParameterError>(!state.loaded, "a program from a file is not written as instructions: record it here");
  const auto said = [](const std::vector<recording::Form>& forms) {
    std::vector<AnyCiphertext> all;
    for (const recording::Form& form : forms) all.push_back(form.said());
    return all;
  };
  return write(state.program->parts(), said(state.inputs), said(state.results), how);
}

}  // namespace heliograph::cinnamon
