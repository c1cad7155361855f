// Recorded programs of CKKS written as instructions (schemes/ckks/cinnamon.h).
#include "heliograph/cinnamon.h"
#include "recording/state.h"
#include "schemes/ckks/cinnamon.h"

namespace heliograph::cinnamon {

namespace {

std::vector<const ckks::CiphertextData*> all_of(const std::vector<recording::Form>& forms) {
  std::vector<const ckks::CiphertextData*> all;
  for (const recording::Form& form : forms) {
    const auto* const x = std::get_if<ckks::Ciphertext>(&form.said());
    require<ParameterError>(x != nullptr, "instructions are written of CKKS's programs");
    all.push_back(&x->data());
  }
  require<ParameterError>(!all.empty(), "a program that takes or gives nothing is not written as instructions");
  return all;
}

}  // namespace

Written write(const RecordedProgram& program, const Writing& how) {
  const RecordedProgram::State& state = program.state();
  require<ParameterError>(!state.loaded, "a program from a file is not written as instructions: record it here");
  return write(state.program->parts(), all_of(state.inputs), all_of(state.results), how);
}

}  // namespace heliograph::cinnamon
