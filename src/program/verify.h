// Verification of a program from a file before it is prepared, allocated or run (docs/adr/0032).
#pragma once

#include <span>

#include "program/program.h"

namespace heliograph::program {

struct InputForm {
  std::string form;         // text of the view's form (device::form_of)
  std::vector<u64> moduli;  // indexed by limb; empty: LWE ciphertexts, whose words can have any value
};

struct ParameterSet {
  const Session* session = nullptr;
  std::vector<device::RingHandle> rings;
  std::shared_ptr<const device::BootstrapKey> bootstrap_key;  // the key of a TFHE set, with its shape only
  std::shared_ptr<const device::LweSwitchKey> switch_key;
};

/// Data of the program outside its calls.
struct Surroundings {
  std::vector<ParameterSet> sets;
  std::vector<InputForm> inputs;
  std::size_t sources = 0;  // number of sets of evaluation keys
  const ParameterSet& of(const Session* session) const;
};

struct Limits {
  u64 bytes = ~u64{0}, products = ~u64{0};
};

/// Throws unless every replay is valid for all words of the inputs and keys:
/// - Each call passes device::check on its shapes, and writes only places of kind `made`.
/// - A view is inside its place, and no result of a call overlaps another operand of the call.
/// - The program writes words before it reads them; places for which the check does not prove this begin with zeros.
/// - Words that are read as residues are residues: this function checks constants, and each replay checks keys
///   (Place::below).
/// - Memory and products of a replay are within the limits.
///
/// `words`: the words of each constant place. Sets `result`, `reach` and `below` of each place, and the work of each step.
/// Returns the exclusive bounds on the words of each limb of each result. Throws ShapeError, MismatchError, ParameterError,
/// DamagedFileError, LimitError.
std::vector<std::vector<u64>> verify(Program::Parts& parts, const std::vector<std::span<const std::byte>>& words,
                                     const Surroundings& around, const Limits& limits);

}  // namespace heliograph::program
